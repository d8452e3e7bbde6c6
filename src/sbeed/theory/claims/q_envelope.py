"""The gradient of the value that Q implies."""

import jax
import jax.numpy as jnp

from sbeed.agents.q_sbeed.equations import V_of, log_pi_of, soft_value
from sbeed.envs.tabular import FiniteMDP, two_state
from sbeed.theory.claim import Claim, Statement, central_differences, draw, equal, every
from sbeed.types import Array, Key, Scalar

PARAMETERS = 5  # of Q, fewer than the S A = 18 pairs


def action_values(phi: Array, w: Array) -> Array:
    """Some Q that is not linear in its parameters.   [S, A, D], [D] -> [S, A]"""
    return 3 * jnp.sin(phi @ w)


def envelope(log_pi: Array, dQ: Array) -> Array:
    """E_{a~pi}[grad Q(s, a)]   [S, A], [S, A, D] -> [S, D]"""
    return jnp.einsum("sa,sad->sd", jnp.exp(log_pi), dQ)


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """grad V_Q(s) = E_{a~pi_Q}[grad Q(s, a)] = autodiff = central differences; how pi_Q moves with Q does not count.

    Why not: E_pi[Q - lam log(pi / pi_b)] = V_Q - lam KL(pi || pi_Q) for every pi, and pi_Q maximises it. So a sampler
    pi gives V_Q and its gradient exactly where it has reached pi_Q, elsewhere a value that is too low.
    """
    k_draw, k_phi, k_w = jax.random.split(key, 3)
    point = draw(mdp, k_draw)
    lam, log_pi = point.lam, point.log_pi
    phi, w = jax.random.normal(k_phi, (*mdp.R.shape, PARAMETERS)), jax.random.normal(k_w, (PARAMETERS,))
    Q, dQ = action_values(phi, w), jax.jacobian(action_values, 1)(phi, w)

    def with_prior(prior: Array | None) -> list[Claim]:
        log_pi_Q = log_pi_of(Q, lam=lam, prior=prior)
        formula = envelope(log_pi_Q, dQ)

        def value(w: Array) -> Array:
            return V_of(action_values(phi, w), lam=lam, prior=prior)

        def sampled(w: Array, log_pi: Array) -> Array:
            of_each = soft_value(action_values(phi, w), log_pi, lam=lam, prior=prior)
            return jnp.sum(jnp.exp(log_pi) * of_each, axis=-1)

        kl = jnp.sum(jnp.exp(log_pi) * (log_pi - log_pi_Q), axis=-1)
        return [
            equal(jax.jacobian(value)(w), formula, 1e-12),
            equal(central_differences(value, w), formula, 1e-6),
            equal(value(w) - sampled(w, log_pi), lam * kl, 1e-12),
            equal(jax.jacobian(sampled)(w, log_pi_Q), formula, 1e-12),
        ]

    return every(*with_prior(None), *with_prior(jnp.log(mdp.pi_b)))


def under_greedy(mdp: FiniteMDP, Q: Array, lam: Scalar) -> Claim:
    """E[grad Q(s, a)] at the greedy action, for a table Q."""
    dQ = jnp.eye(Q.size).reshape(*Q.shape, -1)
    greedy = jax.nn.one_hot(Q.argmax(-1), mdp.actions)
    slope = jax.jacobian(lambda Q: V_of(Q, lam=lam))(Q).reshape(mdp.states, -1)
    return equal(envelope(jnp.log(greedy), dQ), slope)


def counterexample() -> Claim:
    """The greedy action's gradient is that of max_a Q, which V_Q is only at lam = 0."""
    return under_greedy(two_state(), jnp.array([[1.0, 0.0], [0.0, 0.5]]), 0.5)


STATEMENT = Statement(
    name="q_envelope",
    says="grad V_Q(s) = E_{a~pi_Q}[grad Q(s, a)]; the mean over another pi is below V_Q by lam KL(pi || pi_Q)",
    labels=("eq:smoothed_bellman_opt_dual", "eq:smoothed_bellman_opt_dual2"),
    check=check,
    without="the expectation over pi_Q: under the greedy policy it is another gradient",
    counterexample=counterexample,
)

"""The loss in Q-coordinates."""

import jax
import jax.numpy as jnp

from sbeed.agents.q_sbeed.equations import Q_of, V_of, log_pi_of
from sbeed.envs.tabular import FiniteMDP, two_state
from sbeed.theory import exact, q_form
from sbeed.theory.claim import Claim, Statement, draw, equal, every
from sbeed.types import Array, Key, Scalar


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """Q = V + lam log(pi / pi_b) is one-to-one: every pair comes back from its Q, every Q from its pair.

    And L_eta(V, pi; V + nu) = L_eta(Q; Q + nu) for any nu, so ell(V, pi) = ell(Q). It is nu that stays as it is: rho
    becomes rho + lam log(pi / pi_b), as V does. Both with the uniform measure in the place of pi_b, and with pi_b.
    """
    k_draw, k_Q, k_rho, k_eta = jax.random.split(key, 4)
    point, eta = draw(mdp, k_draw), jax.random.uniform(k_eta)
    V, log_pi, lam = point.V, point.log_pi, point.lam
    any_Q, rho = 3 * jax.random.normal(k_Q, mdp.R.shape), 3 * jax.random.normal(k_rho, mdp.R.shape)

    def with_prior(prior: Array | None) -> list[Claim]:
        relative = log_pi if prior is None else log_pi - prior
        Q = Q_of(V, log_pi, lam=lam, prior=prior)
        V_of_any, log_pi_of_any = V_of(any_Q, lam=lam, prior=prior), log_pi_of(any_Q, lam=lam, prior=prior)
        return [
            equal(V_of(Q, lam=lam, prior=prior), V, 1e-12),
            equal(log_pi_of(Q, lam=lam, prior=prior), log_pi, 1e-10),
            equal(jnp.exp(log_pi_of_any).sum(-1), 1.0, 1e-12),
            equal(Q_of(V_of_any, log_pi_of_any, lam=lam, prior=prior), any_Q, 1e-12),
            equal(q_form.ell(mdp, Q, lam, prior), exact.ell(mdp, V, relative, lam), 1e-10),
            equal(
                q_form.L_eta(mdp, Q, rho + lam * relative, lam, eta, prior=prior),
                exact.L_eta(mdp, V, relative, rho, lam, eta),
                1e-10,
            ),
        ]

    return every(*with_prior(None), *with_prior(jnp.log(mdp.pi_b)))


def returned(mdp: FiniteMDP, log_pi: Array, lam: Scalar) -> Claim:
    """V = 0 comes back from Q."""
    V = jnp.zeros(mdp.states)
    return equal(V_of(Q_of(V, log_pi, lam=lam), lam=lam), V)


def counterexample() -> Claim:
    """Probabilities that sum to 1.2 come back as a policy that is one, and V raised by lam log 1.2."""
    return returned(two_state(), jnp.log(jnp.full((2, 2), 0.6)), 0.5)


STATEMENT = Statement(
    name="q_coordinates",
    says="Q = V + lam log pi maps pairs (V, pi) one-to-one to functions of (s, a), and L_eta(V, pi; nu) = L_eta(Q; nu)",
    labels=("eq:simplified_smooth_bellman_loss", "eq:one_step_trade_off"),
    check=check,
    without="a policy that sums to one",
    counterexample=counterexample,
)

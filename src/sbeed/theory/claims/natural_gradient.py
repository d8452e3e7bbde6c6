"""The KL prox, the natural gradient and TRPO."""

import jax
import jax.numpy as jnp

from sbeed.agents.sbeed import equations
from sbeed.envs.tabular import FiniteMDP, two_state
from sbeed.ops import prox
from sbeed.theory import exact
from sbeed.theory.claim import Claim, Draw, Statement, at_most, draw, equal, every
from sbeed.theory.operators import backup, evaluate
from sbeed.types import Array, Key, Scalar

STEP = 0.3


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """The prox is the multiplicative update, that is the natural gradient's step, and its direction is TRPO's."""
    k_point, k_other = jax.random.split(key)
    point, other = draw(mdp, k_point), jax.random.normal(k_other, mdp.pi_b.shape)
    return every(
        *_prox_is_optimal(point.log_pi, 2 * other, jax.nn.log_softmax(2 * other[::-1])),
        # Half the logits: a policy that is nearly deterministic leaves F too few digits to invert.
        *_natural_gradient(mdp, point.logits / 2, other),
        *_score_weight(mdp, point, jax.nn.sigmoid(other[0, 0])),
    )


def _prox_is_optimal(log_z: Array, g: Array, log_q: Array) -> list[Claim]:
    """F(p) = <p, g> + KL(p || z): level slope at the prox p*, and F(q) - F(p*) = KL(q || p*) > 0 for any other q."""
    log_p = prox.kl_simplex(log_z, g)

    def objective(log_x: Array) -> Array:
        return jnp.sum(jnp.exp(log_x) * g, -1) + kl(log_x, log_z)

    slope = g + log_p - log_z  # dF/dp - 1
    return [
        equal(slope, slope[:, :1]),
        equal(jnp.exp(log_p).sum(-1), 1.0),
        equal(objective(log_q) - objective(log_p), kl(log_q, log_p)),
    ]


def kl(log_p: Array, log_q: Array) -> Array:
    """KL(p || q) in each state.   [S, A] -> [S]"""
    return jnp.sum(jnp.exp(log_p) * (log_p - log_q), -1)


def _natural_gradient(mdp: FiniteMDP, logits: Array, other: Array) -> list[Claim]:
    """F = d(s) (diag pi - pi pi^T) in each state, d the discounted visits of pi from mu: KL's Hessian at pi."""
    log_pi = jax.nn.log_softmax(logits)
    pi = jnp.exp(log_pi)
    eye = jnp.eye(mdp.states)
    visits = jnp.linalg.solve((eye - mdp.gamma * jnp.einsum("sa,sat->st", pi, mdp.P)).T, mdp.mu)
    fisher = visits[:, None, None] * (jax.vmap(jnp.diag)(pi) - pi[:, :, None] * pi[:, None])

    def cost(logits: Array) -> Array:
        return -mdp.mu @ evaluate(mdp, jax.nn.softmax(logits))

    # A shift of a state's logits changes nothing, so F is singular, and conjugate gradient drifts once converged: with
    # each state's last logit pinned to 0, F is invertible.
    def pinned(free: Array) -> Array:
        return jnp.pad(free.reshape(mdp.states, -1), ((0, 0), (0, 1)))

    def mean_kl(free: Array) -> Array:
        return visits @ kl(log_pi, jax.nn.log_softmax(pinned(free)))

    g = jax.grad(cost)(logits)
    direction = jnp.einsum("sab,sb->sa", jnp.linalg.pinv(fisher, hermitian=True), g)
    stepped = jax.nn.log_softmax(logits - STEP * direction)
    in_probabilities = -visits[:, None] * backup(mdp, evaluate(mdp, pi))  # dcost/dpi, by the policy-gradient theorem
    free = (logits - logits[:, -1:])[:, :-1].ravel()
    searched = pinned(prox.natural_gradient_by_products(mean_kl, free, g[:, :-1].ravel(), iterations=60).x)

    # TRPO: the steepest step among those of one quadratic KL; any other of that length gains less.
    radius = 0.01
    length = prox.capped_step_size(g, searched, step_size=jnp.inf, kl_radius=radius)

    def quadratic_kl(x: Array) -> Array:
        return jnp.einsum("sa,sab,sb", x, fisher, x) / 2

    rival = other * jnp.sqrt(radius / quadratic_kl(other))
    most = jnp.sqrt(2 * radius * jnp.vdot(g, direction))  # g^T F^+ g: positive if F is what it should be
    return [
        equal(stepped, prox.kl_simplex(log_pi, STEP * in_probabilities / visits[:, None])),
        equal(stepped, jax.nn.log_softmax(log_pi + STEP * advantage(mdp, log_pi))),
        equal(jax.nn.log_softmax(logits - STEP * searched), stepped),
        equal(quadratic_kl(length * searched), radius),
        equal(jnp.vdot(g, length * searched), most),
        at_most(jnp.abs(jnp.vdot(g, rival)), most),
    ]


def advantage(mdp: FiniteMDP, log_pi: Array) -> Array:
    """A^pi(s, a) = R + gamma E[V^pi(s')] - V^pi(s), without entropy."""
    V = evaluate(mdp, jnp.exp(log_pi))
    return backup(mdp, V) - V[:, None]


def mean_score_weight(mdp: FiniteMDP, V: Array, log_pi: Array, lam: Scalar, eta: Scalar) -> Array:
    """E[(1 - eta) delta + eta rho* - V | s, a]"""
    rho = exact.delta_bar(mdp, V, log_pi, lam)
    delta = exact.delta(mdp, V, log_pi, lam).reshape(mdp.P.shape)
    weight = equations.score_weight(delta, V[:, None, None], rho[..., None], eta=eta)
    return jnp.sum(mdp.P * weight, -1)


def _score_weight(mdp: FiniteMDP, point: Draw, eta: Array) -> list[Claim]:
    """At V = V^pi it is A^pi - lam log pi, so A^pi as lam -> 0."""
    log_pi, A = point.log_pi, advantage(mdp, point.log_pi)
    V = evaluate(mdp, jnp.exp(log_pi))
    lams = jnp.stack([point.lam, jnp.zeros_like(point.lam)])
    weights = jax.vmap(lambda lam: mean_score_weight(mdp, V, log_pi, lam, eta))(lams)
    return [equal(weights, A - lams[:, None, None] * log_pi)]


def counterexample() -> Claim:
    """At a V that is not the policy's own value, and lam > 0, the weight is not the advantage."""
    mdp, log_pi = two_state(), jnp.log(jnp.array([[0.5, 0.5], [0.2, 0.8]]))
    return equal(mean_score_weight(mdp, jnp.ones(2), log_pi, 0.1, 0.5), advantage(mdp, log_pi))


STATEMENT = Statement(
    name="natural_gradient",
    says="the KL prox is NPG's step and TRPO's direction F^+ g; the weight is A^pi only at V = V^pi, lam -> 0",
    labels=("sec:algorithm",),
    check=check,
    without="V = V^pi and lam -> 0: the weight of grad log pi claimed to be the advantage",
    counterexample=counterexample,
)

"""The learner's form of several steps, `pi_credit` first: the score goes to the first action of a target alone."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sbeed.agents.q_sbeed.equations import with_backward_share
from sbeed.agents.sbeed import equations
from sbeed.envs.tabular import FiniteMDP, equal_actions
from sbeed.theory import exact
from sbeed.theory.claim import ROUNDING, Claim, Statement, at_most, draw, equal, every
from sbeed.theory.claims.multi_step_consistency import telescope
from sbeed.theory.claims.q_path_consistency import behaving
from sbeed.theory.enumerate import Paths, given_actions, paths
from sbeed.theory.operators import soft_optimum
from sbeed.types import Array, Key, Scalar

K = 3


class Form(NamedTuple):
    """The learner's knobs."""

    trace: Scalar
    eta: Scalar
    kappa: Scalar  # share of the bootstrap that V's gradient sees


class Steps(NamedTuple):
    """What the learner steps along, down, with tables and exact expectations."""

    nu: Array  # rho - V at every (s_0, a_0): the mean error of the targets that start there   [S, A]
    V: Array  # [S]
    logits: Array  # [S, A], of the first action's score


def steps(mdp: FiniteMDP, p: Paths, V: Array, logits: Array, lam: Scalar, form: Form) -> Steps:
    """The dual exact, rho(s_0, a_0) = E[delta | s_0, a_0]; V along L_eta with nu held; pi along the weighted score.

    The data are `p`, whatever chose its actions.
    """
    k, log_pi = p.a.shape[-1], jax.nn.log_softmax(logits)
    s, a = p.s[:, 0], p.a[:, 0]

    def target(V: Array) -> Array:
        return exact.delta_trace(mdp, p, with_backward_share(V, form.kappa), log_pi, lam, form.trace)

    delta, v = target(V), V[s]
    nu = given_actions(mdp, k, 1, delta, p.weight) - v

    def loss(V: Array) -> Array:
        v = V[s]
        return equations.L_eta(target(V), v, equations.rho_from_nu(nu, v), eta=form.eta, weight=p.weight)

    dlog_pi = jax.jacobian(jax.nn.log_softmax)(logits)[s, a].reshape(len(s), -1)
    rho = equations.rho_from_nu(nu, v)
    g_pi = equations.pi_gradient(delta, v, rho, dlog_pi, lam=lam, eta=form.eta, weight=p.weight)
    of_pairs = nu.reshape(mdp.states, mdp.actions, -1)[..., 0]
    return Steps(of_pairs, jax.grad(loss)(V), g_pi.reshape(logits.shape))


def bootstraps(mdp: FiniteMDP, trace: Scalar) -> Array:
    """sum_j w_j gamma^j P(s_j = . | s_0, a_0) under pi_b, w_j the weight of the j-step target.   [S, A, S]"""
    chain = jnp.einsum("sa,sat->st", mdp.pi_b, mdp.P)
    arrives, found = mdp.gamma * mdp.P, jnp.zeros_like(mdp.P)
    for j in range(1, K + 1):
        found += trace ** (j - 1) * (1 - trace if j < K else 1.0) * arrives
        arrives = mdp.gamma * arrives @ chain
    return found


def reach(mdp: FiniteMDP, found: Steps, lam: Scalar, form: Form, least_weight: Array, carried: Array) -> Array:
    """How far from V*_lam slopes of this size allow V to be; `carried` is the largest weight of a bootstrap."""
    slope = jnp.abs(found.V).sum() + jnp.abs(found.logits).sum() / lam
    c = form.trace * mdp.gamma
    of_errors = (1 + c) / ((1 - c**K) * (1 - mdp.gamma))
    return of_errors * slope / (2 * (1 - form.kappa * carried) * least_weight)


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """The steps vanish at (V*_lam, pi*_lam) and nowhere else, for eta = 1 and any kappa, and for kappa = 0 and any eta:

    at every point their lengths bound E|nu| and the distance to V*_lam. The proof is in docs/proofs.md.
    """
    k_draw, k_form = jax.random.split(key)
    point = draw(mdp, k_draw)
    lam, p, weight = point.lam, paths(mdp, K), mdp.mu[:, None] * mdp.pi_b
    optimum = soft_optimum(mdp, lam)
    pi, one_step = jnp.exp(point.log_pi), exact.delta_bar(mdp, point.V, point.log_pi, lam) - point.V[:, None]

    def of_form(form: Form) -> Claim:
        there, at_best = (steps(mdp, p, V, logits, lam, form) for V, logits in ((point.V, point.logits), optimum))
        m, B = jnp.sum(weight * there.nu, -1), bootstraps(mdp, form.trace)
        slope = jnp.abs(there.V).sum() + jnp.abs(there.logits).sum() / lam
        largest = B.sum(-1).max()
        from_pi = jnp.einsum("sat,sa->t", B, there.logits)
        return every(
            equal(at_best.V, 0.0),
            equal(at_best.logits, 0.0),
            telescope(there.nu, one_step, K, behaving(mdp, form.trace)),
            equal(weight * there.nu, pi * m[:, None] - there.logits / (2 * lam)),
            equal(
                m - form.kappa * jnp.einsum("sa,sat,s->t", pi, B, m),
                -there.V / 2 - form.kappa / (2 * lam) * from_pi,
            ),
            at_most(jnp.sum(weight * jnp.abs(there.nu)), slope / (2 * (1 - form.kappa * largest))),
            at_most(jnp.abs(point.V - optimum.V).max(), reach(mdp, there, lam, form, weight.min(), largest)),
        )

    trace, eta, kappa = jax.random.uniform(k_form, (3,))
    forms = Form(jnp.stack([jnp.ones(()), trace, trace]), jnp.stack([1.0, 1.0, eta]), jnp.stack([1.0, kappa, 0.0]))
    claims = jax.vmap(of_form)(forms)
    return every(*(jax.tree.map(lambda x, i=i: x[i], claims) for i in range(3)))


def with_a_memory() -> tuple[FiniteMDP, Paths]:
    """One state, two equal actions, and data whose actions go 0 0 0 1 1 1 0 0 0 ..., looked at from anywhere.

    The action t steps on is the first one's equal with probability 1, 2/3, 1/3, 0, 1/3: an error e(a) = +-x has over
    five steps the mean (1 + gamma / 3 - gamma^2 / 3 - gamma^3 - gamma^4 / 3) (+-x), and that gamma makes it 0.
    """
    gamma = 0.9218229040097432
    mdp = equal_actions(gamma=gamma)
    p = paths(mdp, 5)
    cycle = np.array([0, 0, 0, 1, 1, 1])
    starts = np.stack([np.roll(cycle, -i)[:5] for i in range(6)])
    return mdp, p._replace(weight=jnp.asarray((p.a[:, None] == starts).all(-1).mean(-1)))


def counterexample() -> Claim:
    """pi_b has a memory: pi = (.9, .1) with errors +-x is as level as the optimum, and V is off."""
    (mdp, p), lam = with_a_memory(), 0.5
    logits = jnp.log(jnp.array([[0.9, 0.1]]))
    V = -lam * logits.sum(-1) / (2 * (1 - mdp.gamma))
    form = Form(1.0, 1.0, 1.0)
    found = steps(mdp, p, V, logits, lam, form)
    allowed = reach(mdp, found, lam, form, jnp.array(0.5), mdp.gamma)
    return at_most(jnp.abs(V - soft_optimum(mdp, lam).V).max(), ROUNDING + allowed)


STATEMENT = Statement(
    name="first_action_credit",
    says=(
        "with the score credited to the first action alone (V*_lam, pi*_lam) is the one point where V and pi stand, "
        "for eta = 1 and any kappa and for kappa = 0 and any eta, whatever the trace"
    ),
    labels=("appendix:multi_step", "eq:variance_reduction_kstep", "eq:dual_eligible_trace"),
    check=check,
    without="a behaviour without memory: on data whose actions follow a cycle another pair stands as well",
    counterexample=counterexample,
    states=3,
    actions=2,
)

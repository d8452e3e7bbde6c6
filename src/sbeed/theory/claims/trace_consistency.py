"""Consistency with eligibility traces."""

import jax
import jax.numpy as jnp

from sbeed.agents.sbeed import equations
from sbeed.envs.tabular import FiniteMDP, telling_actions
from sbeed.theory import exact
from sbeed.theory.claim import Claim, Statement, draw, equal, every
from sbeed.theory.claims.multi_step_consistency import repeated, repeating, telescope
from sbeed.theory.enumerate import given_actions, paths
from sbeed.theory.operators import Optimum, soft_optimum
from sbeed.types import Array, Key, Scalar

K = 3  # where enumerated paths are cut
FOREVER = 600  # steps after which (trace gamma)^t is below rounding


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """The trace form at the optimum and at an arbitrary pair: cut after K steps on every path, and never cut."""
    k_point, k_trace = jax.random.split(key)
    point, trace = draw(mdp, k_point), jax.random.uniform(k_trace)
    optimum = soft_optimum(mdp, point.lam)
    both = Optimum(*(jnp.stack(pair) for pair in zip(optimum, point.point)))
    return every(*_cut(mdp, both, point.lam, trace), *_endless(mdp, both, point.lam, trace))


def _cut(mdp: FiniteMDP, both: Optimum, lam: Array, trace: Array) -> list[Claim]:
    """both: the optimum and an arbitrary pair, stacked."""
    p = paths(mdp, K)

    def errors(at: Optimum) -> tuple[Array, Array, Array, Array]:
        v = at.V[p.s[:, 0]]
        traces = jnp.stack([jnp.zeros_like(trace), trace, jnp.ones_like(trace)])
        delta = jax.vmap(lambda c: exact.delta_trace(mdp, p, at.V, at.log_pi, lam, c))(traces)
        steps = jnp.stack([exact.delta_k_step(mdp, p, at.V, at.log_pi, lam, k) for k in range(1, K + 1)])
        rho = given_actions(mdp, K, 1, delta[1], p.weight)
        mixed = delta - jax.vmap(weights)(traces) @ steps
        open_loop = given_actions(mdp, K, K, delta[1], p.open_loop) - v
        return mixed, open_loop, rho - v, equations.L_eta(delta[1], v, rho, eta=1.0, weight=p.weight)

    mixed, open_loop, nu, L_1 = jax.vmap(errors)(both)
    one_step = exact.delta_bar(mdp, both.V[1], both.log_pi[1], lam) - both.V[1][:, None]
    return [
        equal(mixed, 0.0),
        equal(open_loop[0], 0.0),
        equal(nu[0], 0.0),
        equal(L_1, equations.mean((nu**2).T, p.weight)),
        telescope(repeated(p, open_loop[1], mdp), one_step, K, repeating(mdp, trace)),
    ]


def weights(trace: Scalar) -> Array:
    """(1 - trace) trace^(k-1) on the k-step targets, k < K, the rest on the longest; 0: one step, 1: K steps."""
    k = jnp.arange(1, K + 1)
    return trace ** (k - 1) * jnp.where(k < K, 1 - trace, 1)


def _endless(mdp: FiniteMDP, both: Optimum, lam: Array, trace: Array) -> list[Claim]:
    """E[trace target] - V = (I - trace gamma P)^-1 e, P and e of one action repeated forever or of pi_b, at each s_0.

    The target is linear in rewards and values, so along *expected* rewards and values it is the expected target.
    """
    chains = jnp.concatenate([jnp.moveaxis(mdp.P, 1, 0), jnp.einsum("sa,sat->st", mdp.pi_b, mdp.P)[None]])

    def under(table: Array) -> Array:
        """[S, A] -> [A + 1, S]: of each action, and in the mean of pi_b."""
        return jnp.concatenate([table.T, jnp.sum(mdp.pi_b * table, -1)[None]])

    def errors(at: Optimum) -> Array:
        def step(x: Array, _: None) -> tuple[Array, Array]:
            return jnp.einsum("cst,xct->xcs", chains, x), x

        v = jnp.broadcast_to(at.V, chains.shape[:2])
        start = jnp.stack([under(mdp.R), under(at.log_pi), jnp.einsum("cst,ct->cs", chains, v)])
        _, expected = jax.lax.scan(step, start, length=FOREVER)
        r, log_pi, v_next = jnp.moveaxis(expected, 0, -1)
        never = jnp.zeros(r.shape, bool)
        delta = equations.delta_trace(r, log_pi, v_next, never, never, gamma=mdp.gamma, lam=lam, trace=trace)
        return delta[..., 0] - v

    endless = jax.vmap(errors)(both)
    one_step = under(exact.delta_bar(mdp, both.V[1], both.log_pi[1], lam) - both.V[1][:, None])
    images = endless[1] - trace * mdp.gamma * jnp.einsum("cst,ct->cs", chains, endless[1])
    return [equal(endless[0], 0.0), equal(images, one_step)]


def counterexample() -> Claim:
    """Stop the sum over k at K and leave its weights summing to 1 - trace^K."""
    mdp, lam, trace = telling_actions(), 0.1, 0.8
    V, log_pi = soft_optimum(mdp, lam)
    p = paths(mdp, K)
    share = (1 - trace) * trace ** jnp.arange(K)
    delta = share @ jnp.stack([exact.delta_k_step(mdp, p, V, log_pi, lam, k) for k in range(1, K + 1)])
    return equal(given_actions(mdp, K, K, delta, p.open_loop), V[p.s[:, 0]])


STATEMENT = Statement(
    name="trace_consistency",
    says="for any trace, cut or endless, (V*_lam, pi*_lam) is the one consistent pair; 0 is one-step, 1 the whole path",
    labels=("eq:trace_smooth_bellman", "eq:dual_eligible_trace"),
    check=check,
    without="weights that sum to one: the weight left at the cut is dropped",
    counterexample=counterexample,
    states=3,
    actions=2,
)

"""Multi-step consistency."""

from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from sbeed.agents.sbeed import equations
from sbeed.envs.tabular import FiniteMDP, telling_actions
from sbeed.theory import exact
from sbeed.theory.claim import ROUNDING, Claim, Statement, at_most, draw, equal, every
from sbeed.theory.enumerate import Paths, given_actions, paths
from sbeed.theory.operators import Optimum, policy_value, soft_optimum
from sbeed.types import Array, Key, Scalar

STEPS = (1, 2, 3)  # the k for which paths are enumerated
LONGEST = STEPS[-1]


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """At the optimum every k-step path is consistent; elsewhere the errors of any one k imply those of one step.

    And so they bound the distance to V*_lam: no other pair is consistent. The proof is in docs/proofs.md.
    """
    point = draw(mdp, key)
    optimum = soft_optimum(mdp, point.lam)
    both = Optimum(*(jnp.stack(pair) for pair in zip(optimum, point.point)))
    p = paths(mdp, LONGEST)

    def errors(at: Optimum) -> tuple[Array, Array, Array]:
        """For each k: E[delta - V | s_0, a_0:k-1], the actions fixed; E[delta - V | s_0, a_0] under pi_b; and L_1."""
        v = at.V[p.s[:, 0]]
        delta = jnp.stack([exact.delta_k_step(mdp, p, at.V, at.log_pi, point.lam, k) for k in STEPS])
        rho = given_actions(mdp, LONGEST, 1, delta, p.weight)
        # A path goes on after its k-th step; that it does changes no mean.
        fixed = given_actions(mdp, LONGEST, LONGEST, delta, p.open_loop)
        L_1 = jax.vmap(lambda delta, rho: equations.L_eta(delta, v, rho, eta=1.0, weight=p.weight))(delta, rho)
        return fixed - v, rho - v, L_1

    fixed, nu, L_1 = jax.vmap(errors)(both)
    one_step = exact.delta_bar(mdp, point.V, point.log_pi, point.lam) - point.V[:, None]
    distance = jnp.abs(point.V - optimum.V).max()
    return every(
        equal(fixed[0], 0.0),
        equal(nu[0], 0.0),
        equal(L_1, nu**2 @ p.weight),  # so zero at the optimum, and free of variance anywhere
        *(telescope(repeated(p, x, mdp), one_step, k, repeating(mdp)) for x, k in zip(fixed[1], STEPS)),
        *(at_most(distance, reach(mdp, x, k)) for x, k in zip(fixed[1], STEPS)),
    )


def reach(mdp: FiniteMDP, errors: Array, k: int) -> Array:
    """(1 + gamma) ||E||_inf / ((1 - gamma) (1 - gamma^k)): how far from V*_lam k-step errors E allow V to be."""
    return (1 + mdp.gamma) * jnp.abs(errors).max() / ((1 - mdp.gamma) * (1 - mdp.gamma**k))


def repeated(p: Paths, x: Array, mdp: FiniteMDP) -> Array:
    """x of the paths that take one action throughout, where x is a function of s_0 and the actions.   [n] -> [S, A]"""
    same_action, one_of_each = (p.a == p.a[:, :1]).all(1), (p.s[:, 1:] == 0).all(1)
    return x[np.flatnonzero(same_action & one_of_each)].reshape(mdp.states, mdp.actions)


def repeating(mdp: FiniteMDP, decay: Scalar = 1.0) -> Callable[[Array], Array]:
    """C = decay gamma P_a for each action a, repeated.   [S, A] -> [S, A]"""
    return lambda x: decay * mdp.gamma * jnp.einsum("sat,ta->sa", mdp.P, x)


def telescope(errors: Array, one_step: Array, k: int, carried: Callable[[Array], Array]) -> Claim:
    """(I - C) E = (I - C^k) e: k-step errors E and one-step errors e, which C carries one step back.

    Both matrices are invertible, C's eigenvalues lying inside the unit circle, so E = 0 implies e = 0.
    """
    far = one_step
    for _ in range(k):
        far = carried(far)
    return equal(errors - carried(errors), one_step - far)


def counterexample() -> Claim:
    """In the mean over pi's own actions any pi and its own value solve the k-step equation: no error, but far off."""
    pi, lam = jnp.array([[0.9, 0.1]] * 3), 0.1
    mdp = replace(telling_actions(), pi_b=pi)
    V = policy_value(mdp, jnp.log(pi), lam)
    p = paths(mdp, LONGEST)
    delta = exact.delta_k_step(mdp, p, V, jnp.log(pi), lam, LONGEST)
    errors = given_actions(mdp, LONGEST, 0, delta, p.weight) - V[p.s[:, 0]]
    return at_most(jnp.abs(V - soft_optimum(mdp, lam).V).max(), ROUNDING + reach(mdp, errors, LONGEST))


STATEMENT = Statement(
    name="multi_step_consistency",
    says="for each k alone, (V*_lam, pi*_lam) is the one pair consistent on every k-step path; so L_1 is zero there",
    labels=("eq:multi_step_smooth_bellman", "eq:variance_reduction_kstep"),
    check=check,
    without="every action sequence: in the mean over pi's own actions any policy's own value is consistent",
    counterexample=counterexample,
    states=3,
    actions=2,
)

"""A dual with parameters, exact, too small or with a ridge: whose gradient the theorem's formula is.

The same in (V, pi) and in Q, so written once for both: a `Primal` has parameters w, and rho may follow its V(s), or its
Q(s, a), as V + nu.
"""

from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

from sbeed.envs.tabular import FiniteMDP
from sbeed.ops.linalg import ridge_solve
from sbeed.theory.claim import Claim, central_differences, equal, every
from sbeed.types import Array, Scalar


class Primal(Protocol):
    """Functions of the primal's parameters w [D]; tables are [S, A]."""

    @property
    def mdp(self) -> FiniteMDP: ...

    @property
    def eta(self) -> Scalar: ...

    def v(self, w: Array) -> Array:
        """What the error delta - v compares with: V(s) or Q(s, a).   [S, A]"""

    def delta_bar(self, w: Array) -> Array:
        """E[delta | s, a]   [S, A]"""

    def L_eta(self, w: Array, rho: Array) -> Array: ...

    def theorem(self, w: Array, nu: Array) -> Array:
        """The theorem's gradient at rho = v + nu, held.   [D]"""


class DualClass(NamedTuple):
    """psi^T u, for rho or for nu, with ridge |u|^2 taken off L_eta, eta times, so that the dual's loss has it once."""

    psi: Array  # [S, A, E]
    ridge: Scalar  # in units of the features' mean square

    def penalty(self, mdp: FiniteMDP) -> Array:
        return self.ridge * jnp.trace(self._gram(mdp)) / self.psi.shape[-1]

    def fitted(self, mdp: FiniteMDP, goal: Array) -> Array:
        """u of least E[(goal - psi^T u)^2] + penalty |u|^2.   goal: E[. | s, a] [S, A]"""
        weight = mdp.mu[:, None] * mdp.pi_b
        return ridge_solve(self._gram(mdp), jnp.einsum("sa,sae->e", weight * goal, self.psi), self.ridge)

    def missed(self, mdp: FiniteMDP, goal: Array) -> Array:
        """That least value."""
        u = self.fitted(mdp, goal)
        return jnp.sum(mdp.mu[:, None] * mdp.pi_b * (goal - self.psi @ u) ** 2) + self.penalty(mdp) * (u @ u)

    def _gram(self, mdp: FiniteMDP) -> Array:
        return jnp.einsum("sa,sae,saf->ef", mdp.mu[:, None] * mdp.pi_b, self.psi, self.psi)


def table(mdp: FiniteMDP) -> DualClass:
    """All functions of (s, a)."""
    return DualClass(jnp.eye(mdp.R.size).reshape(*mdp.R.shape, -1), 0.0)


def profile(primal: Primal, dual: DualClass, w: Array, base: Array, follows: Scalar) -> Array:
    """max over u of L_eta(w; base + follows v + psi^T u) - eta penalty |u|^2"""
    base = base + follows * primal.v(w)
    u = dual.fitted(primal.mdp, primal.delta_bar(w) - base)
    return primal.L_eta(w, base + dual.psi @ u) - primal.eta * dual.penalty(primal.mdp) * (u @ u)


def nu_moves_rho(primal: Primal, w: Array, nu: Array) -> Array:
    """2 eta E[(delta - v - nu) grad v(s, a)]: what is added where nu is held, and so rho = v + nu follows v.   [D]"""
    v, pull = jax.vjp(primal.v, w)
    (added,) = pull(primal.mdp.mu[:, None] * primal.mdp.pi_b * (primal.delta_bar(w) - v - nu))
    return 2 * primal.eta * added


def of_its_own(primal: Primal, dual: DualClass, w: Array) -> Claim:
    """rho = psi^T u: the theorem is autodiff with rho held, and the gradient of the maximum over u."""
    zero = jnp.zeros(primal.mdp.R.shape)
    rho = dual.psi @ dual.fitted(primal.mdp, primal.delta_bar(w))
    theorem = primal.theorem(w, rho - primal.v(w))
    return every(
        equal(jax.grad(primal.L_eta)(w, rho), theorem, 1e-10),
        equal(central_differences(lambda w: profile(primal, dual, w, zero, 0.0), w), theorem, 1e-6),
    )


class Followed(NamedTuple):
    """What is found of a class v + psi^T u."""

    claim: Claim
    u: Array
    nu: Array  # psi^T u
    added: Array  # `nu_moves_rho`


def following(primal: Primal, dual: DualClass, w: Array) -> Followed:
    """rho = v + psi^T u: the theorem is the gradient of the maximum over the class as it stands, v that of this moment.

    The class moves with w. Of the maximum over the moving one the gradient is that with nu held.
    """
    v = primal.v(w)
    u = dual.fitted(primal.mdp, primal.delta_bar(w) - v)
    nu = dual.psi @ u
    held, added = primal.theorem(w, nu), nu_moves_rho(primal, w, nu)

    def slopes(base: Array, follows: Array) -> Array:
        return central_differences(lambda w: profile(primal, dual, w, base, follows), w)

    claim = every(
        equal(jax.grad(primal.L_eta)(w, v + nu), held, 1e-10),
        equal(jax.grad(lambda w: primal.L_eta(w, primal.v(w) + nu))(w), held + added, 1e-10),
        equal(jax.vmap(slopes)(jnp.stack([v, 0 * v]), jnp.array([0.0, 1.0])), jnp.stack([held, held + added]), 1e-6),
    )
    return Followed(claim, u, nu, added)

"""The theorem's primal gradient with a dual that follows V."""

import jax
import jax.numpy as jnp

from sbeed.envs.tabular import FiniteMDP
from sbeed.theory import parametric
from sbeed.theory.claim import Claim, Statement, at_most, equal, every
from sbeed.theory.claims.parametric_dual import ONE_FEATURE, noisy_problem, random_problem
from sbeed.theory.parametric import DualClass
from sbeed.types import Array, Key


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """rho = V + psi^T u, what the learner has, u the best with a ridge b >= 0. Then the theorem's formula is the

    gradient of max (L_eta - eta b |u|^2) over the class as it stands, with the V of this moment. The class moves with
    V. The gradient of the maximum over the moving one, J, is autodiff with *nu* held, the learner's step: the theorem's
    + 2 eta E[(delta - V - nu) grad V(s)], nothing more where grad V(s) is among nu's features and b = 0.

    J = (1 - eta) E[(delta - V)^2] + eta (ell - min_u (E[(nu* - psi^T u)^2] + b |u|^2)), nu* = E[delta|s,a] - V: never
    negative, unlike the maximum over psi^T u. The proof is in docs/proofs.md.
    """
    problem, w, few = random_problem(mdp, key)
    V_too = jnp.broadcast_to(problem.phi[:, None], (*mdp.R.shape, problem.phi.shape[-1]))
    psi = jnp.concatenate([few.psi, jnp.broadcast_to(V_too, (2, *V_too.shape))], axis=-1)
    classes = [few, DualClass(psi, few.ridge)]

    def of_class(dual: DualClass) -> tuple[Claim, Array, Array, Array, Array]:
        found = parametric.following(problem, dual, w)
        value = parametric.profile(problem, dual, w, jnp.zeros(mdp.R.shape), 1.0)
        missed = dual.missed(mdp, problem.delta_bar(w) - problem.v(w))
        return found.claim, found.added, dual.penalty(mdp) * found.u, value, missed

    (few_claims, _, _, few_value, few_missed), (claims, added, shrunk, value, missed) = map(jax.vmap(of_class), classes)
    of_all = parametric.following(problem, parametric.table(mdp), w)
    ell, sampled = (problem._replace(eta=eta).maximised(w) for eta in (1.0, 0.0))  # inside the square, and outside
    of_V = shrunk[1, few.psi.shape[-1] :]
    values, misses = jnp.stack([few_value, value]), jnp.stack([few_missed, missed])
    return every(
        of_all.claim,
        equal(of_all.added, 0.0, 1e-10),
        *(jax.tree.map(lambda x, i=i: x[i], several) for several in (few_claims, claims) for i in range(2)),
        equal(added[0], 0.0, 1e-10),
        equal(added[1], 2 * problem.eta * jnp.pad(of_V, (0, w.size - of_V.size)), 1e-10),
        equal(values, (1 - problem.eta) * sampled + problem.eta * (ell - misses), 1e-10),
        at_most(misses.max(), ell),
    )


def counterexample() -> Claim:
    """rho held, the theorem's own formula, for the gradient over the moving class."""
    problem, w = noisy_problem()
    dual = DualClass(ONE_FEATURE, 0.0)
    theorem = problem.theorem(w, parametric.following(problem, dual, w).nu)
    moving = jax.grad(lambda w: parametric.profile(problem, dual, w, jnp.zeros(problem.mdp.R.shape), 1.0))(w)
    return equal(theorem, moving)


STATEMENT = Statement(
    name="following_dual",
    says=(
        "where rho = V + psi^T u follows V, the gradient of the maximum over u holds nu, not rho: the theorem "
        "+ 2 eta E[(delta - V - nu) grad V(s)]; that maximum is never negative"
    ),
    labels=("thm:gradient_estimator", "eq:variance_reduction"),
    check=check,
    without="nu held: in few features the theorem, which holds rho, is another direction",
    counterexample=counterexample,
)

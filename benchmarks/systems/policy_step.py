"""The policy's natural-gradient step: ours, and the same with XLA's own sine and conjugate gradients.

policy_step SETTING SOLVER: the solver is `cholesky`, ours, or `conjugate gradients`.
"""

import json
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.processes import Answer, serve
from benchmarks.systems import programs
from sbeed.models.features import FourierFeatures
from sbeed.models.policies import LinearGaussian
from sbeed.ops.linalg import conjugate_gradient
from sbeed.training.lapack_threads import lapack_on_one_thread
from sbeed.types import Array, Scalar

CG_STEPS = 10


class XLASine(FourierFeatures):
    def __call__(self, x: Array) -> Array:
        directions, phases, bandwidth = jax.lax.stop_gradient((self.directions, self.phases, self.bandwidth))
        waves = jnp.sin(x @ directions.T / bandwidth + phases)
        return jnp.concatenate([waves, jnp.ones_like(waves[..., :1])], axis=-1)


class ByConjugateGradients(LinearGaussian):
    def natural_gradient(self, obs: Array, g: LinearGaussian, ridge: Scalar) -> LinearGaussian:
        phi = self.features(obs).reshape(-1, self.features.size)
        damping = ridge * jnp.mean(phi**2)  # the mean diagonal of the Gram matrix, without making it

        def solve(column: Array) -> Array:
            return conjugate_gradient(
                lambda x: phi.T @ (phi @ x) / phi.shape[0], column, iterations=CG_STEPS, damping=damping
            ).x

        weights = jax.vmap(solve, in_axes=1, out_axes=1)(g.weights) * jnp.exp(2 * self.log_std)
        zero = jax.tree.map(jnp.zeros_like, self)
        return eqx.tree_at(lambda p: (p.weights, p.log_std), zero, (weights, g.log_std / 2))


def with_conjugate_gradients(pi: LinearGaussian) -> LinearGaussian:
    features = object.__new__(XLASine)
    for name in ("directions", "phases", "bandwidth"):
        object.__setattr__(features, name, getattr(pi.features, name))
    return ByConjugateGradients(features, pi.weights, pi.log_std)


def exact_direction(pi: LinearGaussian, obs: np.ndarray, g: np.ndarray, ridge: float) -> np.ndarray:
    """F^-1 g in float64, features and all; log_std is 0."""
    directions, phases, bandwidth = (
        np.asarray(x, np.float64) for x in (pi.features.directions, pi.features.phases, pi.features.bandwidth)
    )
    waves = np.sin(obs.astype(np.float64) @ directions.T / bandwidth + phases)
    phi = np.concatenate([waves, np.ones_like(waves[:, :1])], axis=1)
    gram = phi.T @ phi / len(phi)
    return np.linalg.solve(gram + ridge * np.mean(np.diag(gram)) * np.eye(len(gram)), g.astype(np.float64))


def main() -> None:
    setting, solver = json.loads(sys.argv[1]), sys.argv[2]
    config = programs.paper(
        features=setting["features"],
        batch_size=setting["batch"],
        segment_length=setting["segment"],
        k=setting["segment"],
        fisher_ridge=setting["ridge"],
    )
    replay = programs.walk(setting["replay"])
    state = programs.learner(config, replay)
    exact_pi = state.pi
    if solver == "conjugate gradients":
        other = with_conjugate_gradients(state.pi)
        state = state._replace(pi=other)
    program = programs.of_pi(setting["steps"])
    keys = iter(jax.random.split(jax.random.key(1), 1000))

    def steps() -> Answer:
        return {"seconds": programs.seconds(program, config, state, replay, next(keys)) / setting["steps"]}

    def error() -> Answer:
        """|x - x64| / |x64| of the direction for the mean's weights, the gradient a score's with random weights."""
        obs = replay.data.obs[: setting["batch"]]
        noise = jnp.asarray(
            np.random.default_rng(0).standard_normal((len(obs), programs.SPEC.action_size)), jnp.float32
        )
        g_weights = exact_pi.features(obs).T @ noise / len(obs)
        g = eqx.tree_at(lambda p: p.weights, jax.tree.map(jnp.zeros_like, state.pi), g_weights)
        found = eqx.filter_jit(type(state.pi).natural_gradient)(state.pi, obs, g, config.fisher_ridge).weights
        exact = exact_direction(exact_pi, np.asarray(obs), np.asarray(g_weights), setting["ridge"])
        return {"error": float(np.linalg.norm(found - exact) / np.linalg.norm(exact))}

    with lapack_on_one_thread():  # as a run does
        steps()
        serve({"steps": steps, "error": error}, device=programs.device())


if __name__ == "__main__":
    main()

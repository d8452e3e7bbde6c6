"""What every agent promises the trainer, checked on shapes alone: nothing is compiled."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from sbeed.agents.registry import AGENTS, find
from sbeed.data import replay as ring
from sbeed.types import EnvSpec

SPECS = [EnvSpec("box", 3, "box", 2, None), EnvSpec("discrete", 3, "discrete", 4, None)]
BOXES_ONLY = ("ddpg", "sac")
CASES = [
    (name, preset, spec)
    for name, agent in AGENTS.items()
    for preset in agent.presets
    for spec in SPECS
    if spec.action_kind == "box" or name not in BOXES_ONLY
]


def _shapes(tree):
    return jax.tree.map(lambda x: (x.shape, x.dtype), eqx.filter(tree, eqx.is_array_like))


@pytest.mark.parametrize(("name", "preset", "spec"), CASES, ids=lambda x: getattr(x, "action_kind", x))
def test_contract(name, preset, spec):
    agent, key = find(name), jax.random.key(0)
    config = agent.preset(preset, spec)
    agent.check(config, spec)
    for field in (
        "warmup",
        "steps_per_iteration",
        "trajectories_per_iteration",
        "replay_capacity",
        "on_policy",
        "overlap",
    ):
        assert hasattr(config, field)

    replay = jax.eval_shape(lambda: ring.empty(spec, config.replay_capacity))
    state = jax.eval_shape(partial(agent.init, config, spec), key)
    prepared = jax.eval_shape(partial(agent.prepare, config, spec), state, replay, key)
    learned, metrics = jax.eval_shape(partial(agent.iterate, config, spec), prepared, replay, key)
    # A scan over iterations, a checkpoint and a population all need a state that keeps its shape.
    assert _shapes(state) == _shapes(prepared) == _shapes(learned)
    assert {x.dtype for x in jax.tree.leaves(learned)} <= {jnp.dtype("float32"), jnp.dtype("int32")}
    assert metrics
    assert state.iteration.shape == ()
    assert all(x.shape == () and x.dtype == jnp.float32 for x in metrics.values()), metrics

    obs = jax.ShapeDtypeStruct((7, spec.observation_size), jnp.float32)
    for policy in (agent.actor, agent.deployed):
        action, log_pi = jax.eval_shape(lambda s, o, k, policy=policy: policy(config, s).sample(o, k), state, obs, key)
        assert action.shape == ((7, 2) if spec.action_kind == "box" else (7,))
        assert log_pi.shape == (7,)

    # Members of a population differ in float fields: those may be traced.
    traced = jax.eval_shape(lambda c: agent.init(c, spec, key), jax.tree.map(jnp.float32, config))
    assert _shapes(traced) == _shapes(state)

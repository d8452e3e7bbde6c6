"""The learner finds answers that are known: of probes, which name a broken part, of an LQR and of a garnet."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.agents.sbeed import agent
from sbeed.agents.sbeed.config import SBEEDConfig
from sbeed.envs import lqr, probe
from sbeed.envs.tabular import garnet
from sbeed.theory import operators
from sbeed.types import EnvSpec
from tests.agents.offline import coin, garnet_path, learner
from tests.agents.paths import path

# The paper's form: rho = V + nu, V by L_eta and pi by the score on replayed actions.
NET = SBEEDConfig(
    gamma=0.9,
    lam=0.01,
    eta=0.1,
    hidden=(32,),
    batch_size=64,
    slow_rate=0.05,
    pi_step_size=3e-3,
    V_step_size=3e-3,
    dual_step_size=3e-3,
    replay_capacity=1_000,
    updates_per_iteration=1_500,
)
# The squared error itself.
PCL = replace(NET, dual="none", eta=0.0)


# The score on replayed actions fits log pi to (r + gamma V(s') - V(s)) / lam where the data are. A tanh Gaussian cannot
# have that shape on a box, so the box of that form is the LQR, where a Gaussian can.
@pytest.mark.parametrize("kind", probe.PROBES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("config", [NET, PCL], ids=["net", "pcl"])
def test_probe(config, kind):
    env = kind(box=False)
    data = path(env, jax.random.key(0), config.replay_capacity, coin)
    spec = replace(env.spec, name="probe", time_limit=None)
    state, _ = learner(agent, config, spec)(data, jax.random.key(1))
    v, expected = agent.value(state.V, data.obs), env.value(data.obs, config.gamma)
    if kind is probe.TimeLimit:
        # No step starts where the limit ends, so V there is the network's guess, and V elsewhere is only as right as
        # that: what can be asked for is that it counts. A learner that takes the limit for an end has at most 4.1.
        assert v.min() > 5
        expected = 1 + config.gamma * agent.value(state.V, data.next_obs)
    # lam > 0 adds at most lam log 2 a step, .07 in all at gamma .9.
    np.testing.assert_allclose(v, expected, atol=0.15)
    if hasattr(env, "best_action"):
        action = state.pi.squash(state.pi.mode(data.obs))
        np.testing.assert_allclose(action, env.best_action(data.obs), atol=0.1)


@pytest.mark.parametrize(
    "fields",
    [{}, {"dual": "linear", "dual_l2": 1e-4, "eta": 1.0}],
    ids=["net", "exact dual"],
)
def test_the_lqr_s_soft_optimum_from_another_s_data(fields):
    sizes = dict(activation="tanh", batch_size=256, replay_capacity=5_000, updates_per_iteration=4_000)
    config = replace(NET, lam=0.1, squash=False, **sizes, **fields)
    env = lqr.LQR()
    optimum = lqr.soft_optimum(env, config.gamma, config.lam)

    def draw(obs, key):  # another policy, mean -(1, 1) s; the best is -(2.0, 1.8) s
        action = -obs.sum(keepdims=True) + jax.random.normal(key, (1,), jnp.float32)
        return action, action

    data = path(env, jax.random.key(0), config.replay_capacity, draw)
    state, _ = learner(agent, config, env.spec)(data, jax.random.key(1))
    s = np.asarray(data.obs[:500])
    v, mean = agent.value(state.V, s), state.pi.mode(s)
    assert np.abs(v - optimum.value(s)).mean() < 0.12 * optimum.value(s).std()
    assert np.abs(mean - s @ optimum.K.T).mean() < 0.3 * (s @ optimum.K.T).std()
    np.testing.assert_allclose(np.exp(state.pi.log_std), np.sqrt(optimum.Sigma)[0], rtol=0.1)


@pytest.mark.parametrize("kappa", [0.0, 1.0])
def test_a_garnet_s_soft_optimum_with_tables_and_the_exact_dual(kappa):
    mdp = garnet(jax.random.key(3), states=6, actions=3)
    lam, spec = 0.5, EnvSpec("garnet", 6, "discrete", 3, None)
    # Without hidden layers, one-hot states make tables of V, pi and, with an output per action, of rho.
    config = SBEEDConfig(
        gamma=float(mdp.gamma),
        lam=lam,
        eta=1.0,
        kappa=kappa,
        slow_rate=0.02,
        hidden=(),
        policy="table",
        dual="linear",
        dual_features="hidden",
        dual_l2=1e-6,
        V_step_size=0.02,
        pi_step_size=0.02,
        batch_size=1_000,
        replay_capacity=20_000,
        updates_per_iteration=4_000,
    )

    state, _ = learner(agent, config, spec)(garnet_path(mdp, config.replay_capacity), jax.random.key(1))
    optimum = operators.soft_optimum(mdp, lam)
    v, log_pi = agent.value(state.V, jnp.eye(6)), state.pi.distribution(jnp.eye(6)).log_probs
    # The path's own optimum differs from the MDP's by about its statistical error, 20 000^-1/2 of V / (1 - gamma).
    np.testing.assert_allclose(v, optimum.V, atol=0.2)
    np.testing.assert_allclose(jnp.exp(log_pi), jnp.exp(optimum.log_pi), atol=0.04)

"""The trainer: exactly the steps asked for, members that are their solo runs, every kind of environment."""

from dataclasses import replace
from functools import partial

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from sbeed.agents.sbeed.config import SBEEDConfig
from sbeed.envs.base import EnvironmentFault
from sbeed.envs.classic import CartPole, Pendulum
from sbeed.envs.gym import GymEnv
from sbeed.envs.probe import TimeLimit
from sbeed.training import population
from sbeed.training.members import Members
from sbeed.training.population import Diverged
from sbeed.training.trainer import Trainer, member_configs
from tests.training.counting import COUNTING, Clockwork, CountingConfig

CONFIG = CountingConfig()


def _trainer(env="Pendulum-v1", config=CONFIG, seeds=(0,), **fields):
    return Trainer(COUNTING, env, config, seeds=seeds, **fields)


def _advance(trainer, steps):
    taken = [trainer.advance(steps)]
    while sum(taken) < steps:
        taken.append(trainer.advance(steps - sum(taken)))
    return taken


def _replayed(trainer):
    """The first member's replay, the oldest transition first."""
    snapshot = trainer.snapshot()
    return jax.tree.map(lambda x: x[0], snapshot.newest(snapshot.held))


@pytest.mark.parametrize("env", ["Pendulum-v1", "jax:pendulum"])
def test_exactly_the_steps_asked_for_and_one_preparation(env):
    trainer = _trainer(env)
    assert _advance(trainer, 7) == [4, 3]
    assert not trainer.metrics  # the warm-up has 8 steps
    assert _advance(trainer, 11) == [4, 4, 3]
    state = trainer.member(0)
    assert trainer.step == 18
    assert trainer.metrics["size"] == [18]
    assert (state.prepared, state.iteration) == (11, 3)  # with the 11 transitions that were there, before 3 iterations
    assert all(isinstance(leaf, np.ndarray | np.generic) for leaf in jax.tree.leaves(state))


@pytest.mark.parametrize("env", ["Pendulum-v1", "jax:cartpole"])
@pytest.mark.parametrize("together", [False, True])
def test_a_member_is_the_run_it_would_be_alone(env, together, monkeypatch):
    alone = _trainer(env, replace(CONFIG, scale=0.5), seeds=[7])
    _advance(alone, 18)
    monkeypatch.setattr(population, "Members", partial(Members, together=together))
    both = _trainer(env, seeds=[3, 7], variants=[{}, {"scale": 0.5}])
    _advance(both, 18)
    compare = np.testing.assert_array_equal
    if together:  # sums inside batched products may round differently
        compare = partial(np.testing.assert_allclose, rtol=1e-5)
    jax.tree.map(compare, both.member(1), alone.member(0))
    compare(both.evaluate(2).returns[1], alone.evaluate(2).returns[0])
    assert both.recent[1] == alone.recent[0]
    assert both.member(0).seen != both.member(1).seen


def test_workers_change_nothing():
    here, there = _trainer(seeds=[0, 1]), _trainer(seeds=[0, 1], workers=2)
    for trainer in (here, there):
        _advance(trainer, 18)
    jax.tree.map(np.testing.assert_array_equal, here.member(1), there.member(1))
    there.close()


@pytest.mark.parametrize("env", ["CartPole-v1", "jax:cartpole"])
def test_episodes_are_counted_and_the_last_returns_kept(env):
    trainer = _trainer(env, replace(CONFIG, warmup=2000, steps_per_iteration=500, replay_capacity=2000))
    _advance(trainer, 1000)
    assert 30 < trainer.episodes[0] < 80  # a random episode has about 22 steps
    assert len(trainer.recent[0]) == 20
    assert 12 < np.mean(trainer.recent[0]) < 40
    assert trainer.seconds["update"] > 0


@pytest.mark.parametrize("env", ["CartPole-v1", "jax:cartpole"])
def test_what_is_deployed_is_evaluated_again_and_again(env):
    trainer = _trainer(env)
    first = trainer.evaluate(3)
    assert first.returns.shape == first.lengths.shape == (1, 3)
    np.testing.assert_array_equal(first.returns, first.lengths)  # a step pays 1
    np.testing.assert_array_equal(first.returns, trainer.evaluate(3).returns)
    policy, obs = trainer.policies()[0], np.ones(4, np.float32)
    np.testing.assert_allclose(policy.outputs(obs), COUNTING.deployed(CONFIG, trainer.member(0)).logits(obs), rtol=1e-5)


def test_loaded_states_act_at_once_and_are_not_prepared_again():
    old = _trainer(config=replace(CONFIG, warmup=4))
    _advance(old, 8)
    trainer = _trainer()
    trainer.load([old.member(0)])
    np.testing.assert_array_equal(trainer.evaluate(1).returns, old.evaluate(1).returns)
    _advance(trainer, 4)
    by_hand = _trainer(behaviour=COUNTING.actor(CONFIG, old.member(0)).on_host())
    _advance(by_hand, 4)
    jax.tree.map(np.testing.assert_array_equal, _replayed(trainer), _replayed(by_hand))
    _advance(trainer, 4)
    assert trainer.member(0).prepared == old.member(0).prepared
    with pytest.raises(ValueError, match="states: one for each of 1 members, got 2"):
        trainer.load([None, None])


# ------------------------------------------------------------------------------------------------- behaviours


@pytest.mark.parametrize("env", ["Pendulum-v1", "jax:pendulum"])
def test_a_rule_collects_from_the_first_step(env):
    trainer = _trainer(env, behaviour=lambda obs: [0.25])
    _advance(trainer, 10)
    data = _replayed(trainer)
    np.testing.assert_allclose(np.tanh(data.action[:10]), 0.25, rtol=1e-5)
    assert trainer.evaluate(1).lengths == [[200]]
    assert trainer.member(0).iteration == 2


def test_a_fixed_policy_collects_while_another_learns():
    fixed = COUNTING.actor(CONFIG, _trainer(seeds=[5]).member(0)).on_host()
    data = []
    for seed_of_learner in (1, 1):
        trainer = _trainer(behaviour=fixed, seeds=[seed_of_learner], config=replace(CONFIG, scale=float(len(data))))
        _advance(trainer, 16)
        data.append(_replayed(trainer))
    jax.tree.map(np.testing.assert_array_equal, *data)  # whatever is learned, the data are the fixed policy's


# ------------------------------------------------------------------------------------------------- environments


def test_environments_given_as_objects():
    env = gymnasium.make("Pendulum-v1", g=5.0)
    trainer = _trainer(env)
    _advance(trainer, 10)
    named = _trainer()
    _advance(named, 10)
    assert trainer.spec == named.spec
    assert trainer.evaluate(1).returns != named.evaluate(1).returns  # the other gravity, there too
    trainer.close()
    env.reset()  # still open: it is the user's
    pure = _trainer(Pendulum())
    _advance(pure, 10)
    by_name = _trainer("jax:pendulum")
    _advance(by_name, 10)
    np.testing.assert_array_equal(pure.member(0).seen, by_name.member(0).seen)


def test_a_vector_environment_is_one_member_s():
    envs = gymnasium.make_vec("Pendulum-v1", num_envs=3, vectorization_mode="sync", g=5.0)
    trainer = _trainer(envs)
    assert _advance(trainer, 10) == [4, 4, 2]
    assert trainer.evaluate(1).lengths == [[200]]
    # It is evaluated in an environment that has its arguments.
    alone = gymnasium.make("Pendulum-v1", g=5.0)
    found, same, other = (_trainer(env).evaluate(1).returns for env in (envs, alone, "Pendulum-v1"))
    assert found == same != other
    with pytest.raises(ValueError, match="an environment given as an object serves one seed, got 2"):
        _trainer(envs, seeds=[0, 1])
    assert _trainer(SyncVectorEnv([Clockwork])).spec.name == "SyncVectorEnv"  # which has no registration


def test_evaluation_needs_an_environment_that_can_be_made():
    trainer = _trainer(Clockwork())
    _advance(trainer, 10)
    with pytest.raises(ValueError, match=r"eval_env: .* has no registration to make another one from"):
        trainer.evaluate(1)
    given = _trainer(Clockwork(), eval_env=GymEnv(Clockwork()))
    np.testing.assert_array_equal(given.evaluate(2).returns, [[6, 15]])  # 1 + 2 + 3, 1 + ... + 5
    pure = _trainer(CartPole(), eval_env="jax:cartpole")
    assert pure.evaluate(1).lengths.shape == (1, 1)
    with pytest.raises(ValueError, match="eval_env: must be a JAX environment where env is one"):
        _trainer(CartPole(), eval_env="CartPole-v1")
    env = Clockwork()
    for same in (env, gymnasium.wrappers.TimeLimit(env, 10)):
        with pytest.raises(ValueError, match="eval_env: must be another environment than env"):
            _trainer(env, eval_env=same)


def test_only_what_was_made_here_is_closed():
    closed = []

    class Closing(Clockwork):
        name = "made here"

        def close(self):
            closed.append(self.name)

    def env(name):
        made = Closing()
        made.name = name
        return made

    trainer = _trainer(env("training"), eval_env=env("evaluation"))
    trainer.evaluate(1)
    trainer.close()
    _trainer(SyncVectorEnv([partial(env, "vector")]), eval_env=env("evaluation")).close()
    assert closed == []
    gymnasium.register("Closing-v0", Closing, disable_env_checker=True)
    registered = _trainer(gymnasium.make("Closing-v0"))
    registered.evaluate(1)
    registered.close()
    del gymnasium.registry["Closing-v0"]
    assert closed == ["made here"]


def test_a_field_that_may_be_unset_is_no_float_to_differ_in():
    config = replace(SBEEDConfig(), max_grad_norm=1.0)
    with pytest.raises(ValueError, match="max_grad_norm: members may differ only in the fields gamma"):
        member_configs(config, [{"max_grad_norm": 2.0}])


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"seeds": [-1]}, r"seed: must lie in \[0, 2\^32\), got -1"),
        ({"variants": [{"warmup": 3}]}, "warmup: members may differ only in the fields scale, explode_after"),
        ({"variants": [{"scale": -1}]}, "scale: must not be negative, got -1"),
        ({"variants": []}, "variants: one for each of 1 seeds, got 0"),
        ({"seeds": []}, "seeds: there must be at least one"),
        ({"workers": -1}, "workers: must not be negative, got -1"),
        ({"env": "Pendulums-v1"}, "did you mean Pendulum-v1"),
        ({"env": "jax:pendulum", "noise": 0.1}, "noise: only a Gymnasium environment"),
    ],
)
def test_wrong_input_is_one_line(fields, complaint):
    with pytest.raises(ValueError, match=complaint):
        _trainer(**fields)


# ------------------------------------------------------------------------------------------------- numbers that explode


@pytest.mark.parametrize("env", ["Pendulum-v1", "jax:pendulum"])
def test_a_run_that_diverges_stops_and_says_so(env):
    trainer = _trainer(env, replace(CONFIG, explode_after=1.0), seeds=[4])
    with pytest.raises(Diverged, match=r"size is not finite after 12 steps \(seed 4\): the run diverged"):
        _advance(trainer, 40)


def test_one_member_that_diverges_leaves_the_others_alone():
    trainer = _trainer(seeds=[0, 1, 2], variants=[{}, {"explode_after": 1.0}, {"explode_after": 2.0}])
    with pytest.warns(RuntimeWarning, match=r"\(seed 1\): the run diverged; the other members continue"):
        _advance(trainer, 12)
    assert list(trainer.diverged) == [1]
    with pytest.warns(RuntimeWarning, match="seed 2"):
        _advance(trainer, 4)
    _advance(trainer, 8)
    alone = _trainer(seeds=[0])
    _advance(alone, 24)
    np.testing.assert_array_equal(trainer.member(0).seen, alone.member(0).seen)
    # Never evaluated before: the lost ones have nothing finite to show but what last acted.
    np.testing.assert_array_equal(trainer.evaluate(1).returns[0], alone.evaluate(1).returns[0])


def test_a_pure_environment_that_breaks_is_a_fault():
    class Broken(TimeLimit):
        def step(self, state, action, key):
            step = super().step(state, action, key)
            return step._replace(reward=step.reward * np.nan)

    with pytest.raises(EnvironmentFault, match=r"reward is not finite at step 1 of the run \(seed 0\)"):
        _trainer(Broken()).advance(4)


@pytest.mark.parametrize(("t", "where"), [(0, "the reset before step 1 of the run"), (2, "step 2 of the run")])
def test_an_observation_of_a_pure_environment_that_is_not_finite_is_named(t, where):
    class Broken(TimeLimit):
        def observe(self, state):
            return jnp.where(state[1] == t, jnp.inf, super().observe(state))

        def step(self, state, action, key):
            step = super().step(state, action, key)
            return step._replace(obs=self.observe(step.state))

    with pytest.raises(EnvironmentFault, match=rf"observation is not finite at {where} \(seed 0\)"):
        _trainer(Broken()).advance(4)


def test_a_fault_in_an_evaluation_is_named():
    class Broken(TimeLimit):
        def step(self, state, action, key):
            step = super().step(state, action, key)
            return step._replace(reward=jnp.where(step.state[1] == 3, jnp.nan, step.reward))

    trainer = _trainer(TimeLimit(), eval_env=Broken())
    trainer.advance(4)
    with pytest.raises(EnvironmentFault, match=r"reward is not finite at step 3 of episode 1 of the evaluation"):
        trainer.evaluate(2)


@pytest.mark.parametrize("workers", [0, 2])
def test_with_overlap_updates_use_what_was_there_before(workers):
    trainer = _trainer(config=replace(CONFIG, overlap=True), seeds=[0, 1], workers=workers)
    sizes = []
    for _ in range(4):
        trainer.advance(4)
        sizes.append(trainer.metrics.get("size", [None])[0])
    assert sizes == [None, None, 8, 12]  # a warm-up of 8 steps
    assert len(_replayed(trainer).reward) == 16
    assert trainer.member(0).prepared == 8
    trainer.close()


@pytest.mark.parametrize(("overlap", "order"), [(True, ["learn", "act"]), (False, ["act", "learn"])])
def test_with_overlap_the_device_is_at_work_while_this_process_steps(overlap, order, monkeypatch):
    events = []
    trainer = _trainer(config=replace(CONFIG, overlap=overlap), behaviour=lambda obs: events.append("act") or [0.0])
    _advance(trainer, 8)
    learn = population.Population.begin_learning
    monkeypatch.setattr(population.Population, "begin_learning", lambda *asked: events.append("learn") or learn(*asked))
    events.clear()
    trainer.advance(1)
    assert events == order


@pytest.mark.parametrize("env", ["Pendulum-v1", "jax:pendulum"])
def test_on_policy_rounds_of_whole_trajectories(env):
    # Episodes have 200 steps, rounds 2 of them, chunks 64 steps: the second ends in chunk 7, and updates follow it. The
    # next two end with step 800, in chunk 13.
    fields = dict(steps_per_iteration=64, replay_capacity=1024, on_policy=True, trajectories_per_iteration=2)
    trainer, sizes = _trainer(env, replace(CONFIG, **fields)), []
    for _ in range(16):
        trainer.advance(64)
        if "size" in trainer.metrics:
            sizes.append(int(trainer.metrics["size"][0]))
    assert sizes == [7 * 64] * 6 + [6 * 64] * 4  # what was learned from is gone
    assert trainer.snapshot().held == 3 * 64

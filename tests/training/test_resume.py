"""A run that was stopped and goes on from its files is the run that was not, bit for bit."""

import json
from dataclasses import replace
from functools import partial

import gymnasium
import jax
import numpy as np
import pytest

from sbeed.agents.knobs import with_fields
from sbeed.agents.registry import find
from sbeed.collect.actor import Unrepeatable
from sbeed.envs.task import spec_of
from sbeed.storage.checkpoints import Checkpoint, Checkpoints, steps_of
from sbeed.storage.tensors import DamagedModel
from sbeed.training import population
from sbeed.training.members import Members
from sbeed.training.resume_state import check_same_run
from sbeed.training.trainer import Trainer
from tests.manifests import forge
from tests.training.counting import COUNTING, CountingConfig

CONFIG = CountingConfig(replay_capacity=40)


def _make(env="Pendulum-v1", config=CONFIG, agent=COUNTING, seeds=(3,), **fields):
    return Trainer(agent, env, config, seeds=seeds, **fields)


def _advance(trainer, until):
    while trainer.step < until:
        trainer.advance(until - trainer.step)


def _stop(trainer, run, asked=False):
    """Leaves a checkpoint; what the run is resumed from."""
    Checkpoints(run, resumed=max(steps_of(run), default=0)).save(trainer.snapshot(), asked)
    trainer.close()
    return Checkpoint(run, steps_of(run)[-1])


def _everything(trainer):
    """All that can be seen of a trainer, but for the clock."""
    snapshot = trainer.snapshot()
    del snapshot.about["standing"]["seconds"]
    return {
        "about": snapshot.about,
        "state": snapshot.state,
        "replay": snapshot.newest(snapshot.held) if snapshot.held else None,
        "rows": {name: values.tolist() for name, values in trainer.metrics.items()},
        "scores": trainer.evaluate(1),
    }


def _assert_same(one, other):
    def compare(x, y):
        if isinstance(x, np.ndarray | np.generic):
            assert (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes())
        else:
            assert x == y

    jax.tree.map(compare, one, other)


def _assert_goes_on_as_if_never_stopped(run, make, *stops, end):
    """Stopped at `stops`, each time by a trainer of its own, against one that never was."""
    never = make()
    _advance(never, end)
    there = make()
    for stop in stops:
        _advance(there, stop)
        checkpoint = _stop(there, run)
        there = make()
        there.restore(checkpoint)
    _advance(there, end)
    _assert_same(_everything(there), _everything(never))
    never.close()
    there.close()
    return there


ON_POLICY = dict(on_policy=True, trajectories_per_iteration=2, steps_per_iteration=16, replay_capacity=256)


@pytest.mark.parametrize(
    ("env", "fields"),
    [
        ("Pendulum-v1", {}),
        ("Pendulum-v1", {"overlap": True}),
        ("CartPole-v1", {"overlap": True}),
        ("CartPole-v1", ON_POLICY),
        ("jax:pendulum", {}),
        ("jax:cartpole", ON_POLICY),
    ],
    ids=lambda x: x if isinstance(x, str) else "-".join(x),
)
def test_stopped_and_not_stopped_are_the_same(tmp_path, env, fields):
    # In the warm-up, after the preparation, with the replay running over; with ON_POLICY around rounds of two episodes.
    config = replace(CONFIG, **fields)
    trainer = _assert_goes_on_as_if_never_stopped(tmp_path, partial(_make, env, config), 4, 16, 64, 80, 112, end=160)
    assert trainer.member(0).iteration > 2
    assert any(Checkpoint(tmp_path, step).parts for step in steps_of(tmp_path))


@pytest.mark.parametrize(("env", "together"), [("Pendulum-v1", True), ("jax:pendulum", True), ("Pendulum-v1", False)])
def test_populations(tmp_path, env, together, monkeypatch):
    monkeypatch.setattr(population, "Members", partial(Members, together=together))
    fields = {"seeds": [3, 7], "variants": [{}, {"scale": 0.5}]}
    _assert_goes_on_as_if_never_stopped(tmp_path, partial(_make, env, **fields), 16, 52, end=64)


def test_workers_stop_and_go_on(tmp_path):
    make = partial(_make, config=replace(CONFIG, overlap=True), seeds=[3, 7])
    never, there = make(), make(workers=2)
    _advance(never, 64)
    _advance(there, 20)
    checkpoint = _stop(there, tmp_path)
    there = make(workers=1)  # how many there are changes nothing
    there.restore(checkpoint)
    _advance(there, 64)
    _assert_same(_everything(there), _everything(never))
    there.close()


SMALL = dict(warmup=16, steps_per_iteration=8, updates_per_iteration=2, batch_size=4, hidden=(8,), replay_capacity=48)


@pytest.mark.parametrize(
    ("agent", "env", "fields"),
    [("sbeed", "Pendulum-v1", {}), ("sbeed", "jax:pendulum", {}), ("ddpg", "Pendulum-v1", {"noise_theta": 0.15})],
)
def test_agents(tmp_path, agent, env, fields):
    known = find(agent)
    config = with_fields(known.preset("default", spec_of(env)), {**SMALL, **fields})
    _assert_goes_on_as_if_never_stopped(tmp_path, partial(_make, env, config, known), 24, 56, end=80)


def test_a_noisy_environment_and_a_rule_that_collects(tmp_path):
    make = partial(_make, noise=0.1, behaviour=lambda obs: [np.tanh(obs[2])])
    _assert_goes_on_as_if_never_stopped(tmp_path, make, 16, end=40)
    _assert_goes_on_as_if_never_stopped(
        tmp_path / "pure", partial(_make, "jax:pendulum", behaviour=lambda obs: [0.5]), 16, end=24
    )


def test_who_was_lost_stays_lost_and_the_others_go_on(tmp_path):
    for env in ("Pendulum-v1", "jax:pendulum"):
        make = partial(_make, env, seeds=[0, 1], variants=[{"explode_after": 1.0}, {}])
        never, there = make(), make()
        with pytest.warns(RuntimeWarning, match="diverged"):
            _advance(never, 60)
        with pytest.warns(RuntimeWarning, match="diverged"):
            _advance(there, 24)
        checkpoint = _stop(there, tmp_path / env.replace(":", "_"))
        there = make()
        there.restore(checkpoint)
        _advance(there, 60)
        assert str(there.diverged[0]) == str(never.diverged[0])
        _assert_same(there.member(1), never.member(1))
        _assert_same(there.snapshot().newest(40)[0][1], never.snapshot().newest(40)[0][1])
        assert there.recent[1] == never.recent[1]
        there.snapshot()


def test_a_checkpoint_disturbs_nothing(tmp_path):
    watched, alone = _make(), _make()
    store = Checkpoints(tmp_path)
    for step in range(4, 40, 4):
        _advance(watched, step)
        store.save(watched.snapshot())
    for trainer in (watched, alone):
        _advance(trainer, 44)
    _assert_same(_everything(watched), _everything(alone))


# ------------------------------------------------------------------------------------------------- what cannot go on


def test_an_environment_that_is_not_deterministic_goes_on_with_new_episodes_only(tmp_path, clockwork):
    make = partial(_make, clockwork, seeds=[3, 7])
    trainer = make()
    _advance(trainer, 14)  # episodes of 3, 5 and 3 steps, and three steps of the fourth
    before = _everything(trainer)
    checkpoint = _stop(trainer, tmp_path)
    again = make()
    with pytest.raises(Unrepeatable, match=r"played again .* is another one: .* --restart-episodes") as error:
        again.restore(checkpoint)
    assert "\n" not in str(error.value)
    again.restore(checkpoint, restart_episodes=True)

    after = _everything(again)
    for name in ("standing", "run"):
        assert after["about"][name] == before["about"][name]
    _assert_same(after["state"]["states"], before["state"]["states"])
    assert not before["replay"].last[:, -1].any()
    before["replay"].last[:, -1] = True
    _assert_same(after["replay"], before["replay"])
    for then, now in zip(before["about"]["actors"], after["about"]["actors"]):
        begun = {"episodes": then["episodes"] + 1, "taken": 0, "total": 0.0}
        assert now == {**then, **begun}

    _advance(again, 40)
    replay = again.snapshot().newest(40)
    for member in range(2):
        path = jax.tree.map(lambda x, i=member: x[i], replay)
        assert _crossings(path) == []
        assert (path.last[13], path.terminated[13]) == (True, False)
        assert _crossings(path._replace(last=path.last & (np.arange(40) != 13))) == [13]


def _crossings(path):
    """Where a window would join what did not follow each other."""
    follows = (path.next_obs[:-1] == path.obs[1:]).all(1)
    return np.flatnonzero(~follows & ~path.last[:-1]).tolist()


def test_after_a_restart_a_run_is_exact_again(tmp_path):
    make = partial(_make, seeds=[3, 7])
    there = make()
    _advance(there, 16)
    checkpoint = _stop(there, tmp_path)
    never = make()
    never.restore(checkpoint, restart_episodes=True)
    _advance(never, 36)
    store = Checkpoints(tmp_path, resumed=16, changed=True)
    store.save(never.snapshot())
    again = make()
    again.restore(Checkpoint(tmp_path, 36))
    for trainer in (never, again):
        _advance(trainer, 64)
    _assert_same(_everything(again), _everything(never))


def test_a_pure_environment_has_nothing_to_give_up(tmp_path):
    trainer = _make("jax:pendulum")
    _advance(trainer, 4)
    with pytest.raises(ValueError, match="restart_episodes: jax:pendulum is saved whole in the checkpoint"):
        trainer.restore(_stop(trainer, tmp_path), restart_episodes=True)


@pytest.mark.parametrize("broken", ["raises", "ends"])
def test_an_episode_that_cannot_even_be_played_to_its_end_is_another_one(tmp_path, broken):
    """In an environment that is not deterministic it may be over, or the environment raise, before its last action."""

    class Moody(gymnasium.Wrapper):
        def step(self, action):
            if mood and broken == "raises":
                raise ZeroDivisionError
            obs, reward, _, truncated, info = super().step(action)
            return obs, reward, bool(mood), truncated, info

    mood = []
    trainer = _make(Moody(gymnasium.make("Pendulum-v1")))
    _advance(trainer, 8)
    checkpoint = _stop(trainer, tmp_path)
    mood.append("bad")
    with pytest.raises(Unrepeatable, match="is another one"):
        trainer.restore(checkpoint)


def test_a_vector_environment_cannot_be_brought_back():
    trainer = _make(gymnasium.make_vec("Pendulum-v1", num_envs=2, vectorization_mode="sync"))
    _advance(trainer, 8)
    with pytest.raises(ValueError, match="Pendulum-v1: a vector environment resets itself"):
        trainer.snapshot()


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"config": replace(CONFIG, warmup=9)}, "its warmup is 8, here it is 9"),
        ({"seeds": [4]}, r"its seeds is \[3\], here it is \[4\]"),
        ({"noise": 0.1}, r"its noise is 0\.0, here it is 0\.1"),
        ({"env": "CartPole-v1"}, "its env is"),
        ({"env": "jax:pendulum"}, "the checkpoint is of another run"),
    ],
)
def test_another_run_s_checkpoint(tmp_path, fields, complaint):
    trainer = _make()
    _advance(trainer, 4)
    checkpoint = _stop(trainer, tmp_path)
    with pytest.raises(ValueError, match=complaint):
        _make(**fields).restore(checkpoint)


def test_a_checkpoint_older_than_a_setting_did_what_its_default_does():
    found, defaults = {"agent": "sbeed", "config": {"k": 1}}, {"k": 3, "new": 2}
    check_same_run(found, {"agent": "sbeed", "config": {"k": 1, "new": 2}}, defaults)
    with pytest.raises(ValueError, match="its new is 2, here it is 5"):
        check_same_run(found, {"agent": "sbeed", "config": {"k": 1, "new": 5}}, defaults)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("standing", "step"), 5),
        (("standing", "written"), -1),
        (("standing", "written"), 10**30),
        (("standing", "episodes"), [0, 0]),
        (("standing", "recent"), [["__import__('os')"]]),
        (("standing", "metrics"), {"loss": 3}),
        (("standing", "lost"), {"7": [1, "x"]}),
        (("standing",), []),
        (("run",), None),
        (("run", "config"), 3),
        (("actors",), []),
        (("actors", 0, "taken"), 10**12),
        (("actors", 0, "type"), "object"),
        (("actors", 0, "random"), [1, 2]),
        (("actors", 0, "random"), [2**200, 1, 0, 0]),
        (("actors", 0, "episodes"), 0),
        (("actors", 0, "total"), "much"),
    ],
)
def test_forged_counters_are_one_line(stopped, place, value):
    path = stopped.path / "manifest.json"
    good = path.read_text()
    manifest = json.loads(good)
    inner = manifest["about"]
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    forge(path, **manifest)
    try:
        with pytest.raises(DamagedModel) as error:
            _make().restore(Checkpoint(stopped.run, stopped.step))
    finally:
        path.write_text(good)
    assert "\n" not in str(error.value)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    trainer = _make()
    _advance(trainer, 12)
    return _stop(trainer, tmp_path_factory.mktemp("run"))

"""Runs as data: rows that name seed and step, populations of every combination, wrong input before anything starts."""

from dataclasses import replace

import numpy as np
import pytest

from sbeed.training.loop import run_loop
from sbeed.training.run import RunSpec, make_trainer, train, train_population
from sbeed.training.trainer import Trainer
from tests.training.counting import COUNTING, CountingConfig

TINY = {
    "hidden": (8,),
    "batch_size": 8,
    "warmup": 32,
    "steps_per_iteration": 16,
    "updates_per_iteration": 2,
    "replay_capacity": 256,
}
SPEC = RunSpec("Pendulum-v1", steps=100, fields=TINY, evaluate_every=48, episodes=1, final_episodes=2)


def _counting(seeds=(0,), **fields):
    config = CountingConfig(warmup=4)
    return Trainer(COUNTING, "Pendulum-v1", config, seeds=seeds, **fields)


def test_rows_say_who_and_when():
    heard = []
    rows = train(SPEC, seeds=[0, 1], variants=[{"trace": 0.0}, {"trace": 0.5}], on_rows=heard.append)
    assert [(row["seed"], row["trace"], row["step"], row["final"]) for row in rows] == [
        (0, 0.0, 48, False),
        (1, 0.5, 48, False),
        (0, 0.0, 96, False),
        (1, 0.5, 96, False),
        (0, 0.0, 100, True),
        (1, 0.5, 100, True),
    ]
    assert [row for some in heard for row in some] == rows
    for row in rows:
        assert (row["env"], row["length"], row["train_return"]) == ("Pendulum-v1", 200, None)
        assert (row["return_std"] > 0) == row["final"]  # one episode has no spread
        assert np.isfinite([row["return"], row["V"], row["lam_now"], row["entropy"]]).all()
        assert row["collect_seconds"] + row["update_seconds"] < row["seconds"]


def test_a_population_is_every_combination_with_every_seed():
    rows = train_population(
        replace(SPEC, steps=33, evaluate_every=1000), seeds=2, gamma=[0.9, 0.99], lam=[0.1, 0.2, 0.3]
    )
    members = [(row["gamma"], row["lam"], row["seed"]) for row in rows]
    assert members == [(gamma, lam, seed) for gamma in (0.9, 0.99) for lam in (0.1, 0.2, 0.3) for seed in (0, 1)]
    assert {row["step"] for row in rows} == {33}


def test_a_trainer_is_followed_from_where_it_is():
    trainer = _counting()
    first = run_loop(trainer, 10, evaluate_every=6, episodes=1, final_episodes=1)
    second = run_loop(trainer, 5, evaluate_every=6, episodes=1, final_episodes=1)
    assert [row["step"] for row in first + second] == [8, 10, 14, 15]
    assert [row["final"] for row in first + second] == [False, True, False, True]
    assert [row["iteration"] for row in first + second] == [2, 3, 4, 5]  # the warm-up is over after the first 4 steps


def test_without_evaluations_there_are_no_rows():
    trainer = _counting()
    assert run_loop(trainer, 10, evaluate_every=None) == []
    assert trainer.step == 10


def test_whoever_hears_of_progress_may_end_the_run():
    steps = []
    rows = run_loop(_counting(), 100, final_episodes=1, on_progress=lambda t: steps.append(t.step) or t.step < 12)
    assert steps == [4, 8, 12]
    assert [(row["step"], row["final"]) for row in rows] == [(12, True)]


def test_members_that_diverged_give_no_more_rows():
    trainer = _counting(seeds=[0, 1], variants=[{}, {"explode_after": 2.0}])
    with pytest.warns(RuntimeWarning, match="seed 1"):
        rows = run_loop(trainer, 16, evaluate_every=4, episodes=1, final_episodes=1)
    assert [row["step"] for row in rows if row["seed"] == 1] == [4, 8]
    assert [row["step"] for row in rows if row["seed"] == 0] == [4, 8, 12, 16]


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"env": "Pendulums-v1"}, "'Pendulums-v1' is not a Gymnasium environment id"),
        ({"agent": "sarsa"}, "agent: must be one of sbeed, pcl, .*, got 'sarsa'"),
        ({"preset": "best"}, "preset: must be one of .*, got 'best'"),
        ({"steps": 0}, "steps: must be at least 1, got 0"),
        ({"fields": {"lam": -1.0}}, "lam: must lie in"),
        ({"fields": {"lamb": 1.0}}, "lamb: no such field; did you mean lam"),
        ({"noise": -1.0}, "scale: must be finite and not negative"),
    ],
)
def test_wrong_input_is_refused_before_anything_starts(fields, complaint):
    with pytest.raises(ValueError, match=complaint):
        make_trainer(replace(SPEC, **fields))

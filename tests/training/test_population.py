"""A population trains, reports and stops as asked."""

import numpy as np
import pytest

from sbeed.agents.sbeed.config import SBEEDConfig
from sbeed.envs.gym import GymEnv
from sbeed.training.population import host_maker, members, train

TINY = SBEEDConfig(
    width=8, batch_size=8, warmup=32, steps_per_iteration=16, updates_per_iteration=2, replay_capacity=256
)


def _train(**fields):
    make = host_maker("Pendulum-v1")
    return train(make, GymEnv("Pendulum-v1").spec, TINY, steps=96, episodes=1, final_episodes=2, **fields)


def test_rows_say_who_and_when():
    heard = []
    rows = _train(seeds=[0, 1], variants=[{"trace": 0.0}, {"trace": 0.5}], evaluate_every=48, on_rows=heard.append)
    assert [(row["seed"], row["trace"], row["step"]) for row in rows] == [
        (0, 0.0, 48),
        (1, 0.5, 48),
        (0, 0.0, 96),
        (1, 0.5, 96),
    ]
    assert [row for some in heard for row in some] == rows
    for row in rows:
        assert np.isfinite([row["return"], row["V"], row["lam"], row["entropy"]]).all()
        assert row["collect_seconds"] + row["update_seconds"] < row["seconds"]


def test_a_member_is_the_run_it_would_be_alone():
    both = _train(seeds=[0, 1], evaluate_every=96)
    alone = _train(seeds=[1], evaluate_every=96)
    # The same environment, noise and batches; sums inside batched matrix products may round differently.
    assert both[1]["return"] == pytest.approx(alone[0]["return"], rel=1e-3)
    assert both[1]["V"] == pytest.approx(alone[0]["V"], rel=1e-3, abs=1e-5)


def test_a_deadline_ends_the_run_with_a_row():
    rows = _train(seeds=[0], deadline=0.0)
    assert [row["step"] for row in rows] == [16]


def test_members_differ_in_floats_alone():
    with pytest.raises(ValueError, match="width: members may differ only in"):
        members(TINY, [{"width": 16}])

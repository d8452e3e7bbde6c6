"""The tables and the figure of results/learning, from made-up rows and from the committed ones."""

import json
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import yaml
from benchmarks import learning_page
from benchmarks.learning_page import Goal, LearningRun

ROOT = Path(__file__).parents[1] / "results" / "learning"
CONFIG = {
    "env": "a box",
    "steps": 400,
    "seed": 0,
    "seeds": 2,
    "final_episodes": 20,
    "gamma": 0.9,
    "lam": 0.5,
    "normalize_rewards": False,
}
RANDOM = {"return": -10.0, "largest_reward": 0.5}


def _rows(returns, *, seed=0, **more):
    """Evaluations every 100 steps, the last one final."""
    last = len(returns)
    return [
        {"seed": seed, "step": 100 * i, "final": i == last, "return": float(x), "length": 10.0, **more}
        for i, x in enumerate(returns, 1)
    ]


def _run(rows, **config):
    origin = {"command": "sbeed train", "commit": "abc", "machine": "two cores"}
    return LearningRun("default", "Pendulum-v1", CONFIG | config, rows, origin)


def test_stability_by_hand():
    # Smoothed best: mean(10, 20, 30, 30, 10) = 20, which the window before it, mean(0, 10, 20, 30, 30) = 18, is not.
    # Last quarter of 800 steps: those after 600, returns 10 and 0; 10th percentile 1. From -10: 11 / 30.
    rows = _rows([0, 0, 10, 20, 30, 30, 10, 0])
    assert learning_page.stability(rows, -10.0) == pytest.approx(11 / 30)
    assert learning_page.stability(rows, 20.0) is None


def test_a_short_run_is_smoothed_over_what_it_has():
    assert learning_page.stability(_rows([4, 8]), 0.0) == pytest.approx(8 / 6)


def test_the_bound_of_V_by_hand():
    rows = _rows([1, 1], V_largest=20.0, reward_largest=2.0, lam_now=0.5, entropy=-2.0, lam=99.0)
    rows[0] |= {"V_largest": 31.0, "lam_now": 1.0, "reward_largest": None}
    found = learning_page.bound(rows, CONFIG, 7.0)
    assert found.V == 31
    assert found.limit == pytest.approx((2 + 1 * 2) / 0.1)
    assert found.exact
    calm = [row | {"entropy": 0.1} for row in rows]
    assert learning_page.bound(calm, CONFIG | {"env": "Acrobot-v1"}, 7.0).limit == pytest.approx((2 + np.log(3)) / 0.1)


def test_rewards_that_were_not_logged_are_bounded_from_below():
    rows = _rows([-3, 8], V_largest=1.0)  # .8 a step
    assert learning_page.bound(rows, CONFIG, 0.5) == (1.0, pytest.approx(8), False)
    assert learning_page.bound(rows, CONFIG, 0.9) == (1.0, pytest.approx(9), False)
    # Normalised ones have another scale, and a run without updates no V.
    assert learning_page.bound(rows, CONFIG | {"normalize_rewards": True}, 0.5) is None
    assert learning_page.bound(_rows([1]), CONFIG, 0.5) is None


@pytest.mark.parametrize(
    ("finals", "asked", "goal", "expected"),
    [
        ((1, 3), 100, Goal(100, 2), "**met**"),
        ((1, 3), 100, Goal(100, 2.5), "missed"),
        ((1, 3), 100, Goal(50, 2), "missed"),
        ((1, 3), 200, Goal(200, 2), "unfinished (above the goal)"),
        ((1, 3), 200, Goal(200, 3), "unfinished (below the goal)"),
        ((9,), 100, Goal(100, 2), "missed: a seed has no final return"),
    ],
)
def test_verdicts(finals, asked, goal, expected):
    rows = [row for seed, final in enumerate(finals) for row in _rows([final], seed=seed)]
    assert learning_page.verdict(_run(rows, steps=asked), goal) == expected


def test_a_report():
    rows = _rows([-160, -155, -152, -150]) + _rows([-160, -200, -160, -154], seed=1)
    rows = [row | {"V_largest": 250.0} for row in rows]
    lines = learning_page.report(
        [_run(rows)], {"Pendulum-v1": {"return": -1200.0, "largest_reward": 16.0}}
    ).splitlines()
    # -152 +- t(1) s / sqrt(2) with t(1) at 97.5% = 12.71 and s / sqrt(2) = 2
    assert "| Pendulum-v1 | 400 / 400 | -170 (20,000) | -152.0 ± 25.4 | **met** | -150.0 -154.0 |" in lines
    # One evaluation is past step 300: (1200 - 150) / (1200 - 154.25), (1200 - 154) / (1200 - 168.5).
    # The bound is tightest for seed 0: no reward over 160 / 10 is known, 16 / .1.
    assert "| Pendulum-v1 | 1.00 1.01 | yes | 250.0 / ≥ 160.0 | unknown |" in lines
    assert "- Pendulum-v1: `sbeed train` at abc, two cores." in lines


def test_runs_come_in_the_order_of_their_goals_and_each_task_has_a_panel(tmp_path):
    for preset, task in (("paper", "Pendulum-v1"), ("default", "Ant-v5"), ("default", "Hopper-v5")):
        place = tmp_path / "learning" / preset / task
        place.mkdir(parents=True)
        (place / "config.yaml").write_text(yaml.safe_dump(CONFIG))
        (place / "origin.yaml").write_text("command: a\ncommit: b\nmachine: c\nnote: Seed 1 diverged.")
        (place / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in _rows([1, 2])))
    elsewhere = tmp_path / "runs" / "0123"  # of a figure
    elsewhere.mkdir(parents=True)
    for name in ("config.yaml", "metrics.jsonl"):
        (place / name).rename(elsewhere / name)
    with (place / "origin.yaml").open("a") as file:
        file.write("\nrows: ../../../runs/0123")
    runs = learning_page.read_runs(tmp_path / "learning")
    assert [(run.preset, run.task) for run in runs] == [
        ("default", "Hopper-v5"),
        ("paper", "Pendulum-v1"),
        ("default", "Ant-v5"),
    ]
    text = learning_page.report(runs, dict.fromkeys(("Hopper-v5", "Pendulum-v1", "Ant-v5"), RANDOM))
    assert "Stopped early, at 200 of 400 steps. Seed 1 diverged." in text
    assert "missed: a seed has no final return | 2.000 – |" in text
    assert "| Hopper-v5 | 1.04 | no | – | – |" in text  # (2 + 10) / (1.5 + 10): steady, but one seed is missing
    panels = [axes.get_title(loc="left") for axes in learning_page.draw(runs).axes]
    assert panels == ["Pendulum-v1", "Hopper-v5", "Ant-v5"]


def test_the_best_policy_of_frozen_lake():
    P = gymnasium.make("FrozenLake-v1").unwrapped.P
    v = np.zeros(len(P))
    for _ in range(100):
        v = np.array(
            [max(sum(p * (r + (not end) * v[to]) for p, to, r, end in P[s][a]) for a in P[s]) for s in range(len(P))]
        )
    assert v[0] == pytest.approx(learning_page.FROZEN_LAKE_OPTIMUM, abs=5e-6)


def test_random_actions_are_measured_the_same_way_twice():
    first, again = (learning_page.measure_random(["CartPole-v1"], episodes=3) for _ in range(2))
    assert first == again
    assert first["CartPole-v1"]["largest_reward"] == 1
    assert first["CartPole-v1"]["return"] >= 8


def test_the_committed_readme_is_what_the_committed_rows_say():
    text = learning_page.report(learning_page.read_runs(ROOT), learning_page.read_random(ROOT))
    assert (ROOT / "README.md").read_text() == text


def test_default_is_held_against_sac_where_both_have_ended():
    def run(preset, task, returns, steps=400):
        rows = [row for seed, last in enumerate(returns) for row in _rows([0, 0, 0, last], seed=seed)]
        return _run(rows, seeds=len(returns), steps=steps)._replace(preset=preset, task=task)

    ours, theirs = [5, 1, 2, 3, 100], [0, 0, 0, 2, 0]
    pairs = [("Pendulum-v1", 400), ("Hopper-v5", 800)]  # the second was broken off
    runs = [run(preset, task, x, steps) for task, steps in pairs for preset, x in (("default", ours), ("sac", theirs))]
    (line,) = learning_page.versus(runs)
    task, mine, yours, chance = line.split(" | ")
    assert (task, mine.split()[0], yours.split()[0]) == ("Pendulum-v1", "3.333", "0.000")
    assert chance.startswith("0.94 ")  # of 25 pairs one is a tie and one is lost

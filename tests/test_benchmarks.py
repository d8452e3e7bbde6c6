"""The benchmark's page is arithmetic on rows; and one benchmark, small, from its process to its line."""

import re
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from benchmarks import __main__ as command
from benchmarks import gpu, growth, page, paper_update, population, replay_memory, rows, time_to_return
from benchmarks.figure import growth_figure
from benchmarks.rows import OURS, Ratio, row

ORIGIN = {"commit": "abc1234", "machine": "a machine, 2 cores", "busy": 0.0, "quick": False, "settings": {"batch": 1}}


def made(name, system, unit, values, **more):
    return ORIGIN | row(name, system, unit, values, **more)


def test_a_ratio_is_that_of_medians_and_its_range_that_of_pairs():
    ours, other = made("x", OURS, "s", [1.0, 2.0, 4.0]), made("x", "peer", "s", [6.0, 2.0, 8.0])
    assert rows.ratio(ours, other) == Ratio(6 / 2, 1.0, 6.0)  # pairs: 6/1, 2/2, 8/4
    ours["unit"] = other["unit"] = "steps/s"  # of rates more is better
    assert rows.ratio(ours, other) == Ratio(2 / 6, 1 / 6, 1.0)


def test_verdicts_are_computed():
    ours, other = made("x", OURS, "s", [1.0]), made("x", "peer", "s", [2.0])
    assert rows.faster("", ours, other, 2.0).verdict == "**met**"
    assert rows.faster("", ours, other, 2.1).verdict == "missed"
    assert rows.faster("", ours, None, 2.0).verdict == "not measured"
    assert rows.faster("", ours | {"quick": True}, other, 2.0).verdict == "quick"
    assert rows.at_most("", ours, 1.0, "s").verdict == "**met**"
    assert rows.at_most("", ours, 0.9, "s").verdict == "missed"


@pytest.mark.parametrize(
    ("x", "unit", "text"),
    [
        (0.0123, "s", "12.3 ms"),
        (7.5e-6, "s", "7.5 us"),
        (166.0, "MB", "166 MB"),
        (12345.6, "steps/s", "12,346 steps/s"),
    ],
)
def test_quantities_have_three_digits(x, unit, text):
    assert rows.quantity(x, unit) == text


def test_a_goal_that_nobody_measured_is_on_the_page():
    verdicts = [line.verdict for module in page.BENCHMARKS.values() for line in module.lines([])]
    assert len(verdicts) > 20
    assert set(verdicts) == {"not measured"}


def test_multiply_adds_by_hand_are_the_compilers():
    from benchmarks.systems import programs

    from sbeed.agents.registry import SBEED
    from sbeed.agents.sbeed.agent import update
    from sbeed.data import replay as ring

    config = programs.paper(features=1, k=10, trace=1.0, kappa=0.5, segment_length=64, batch_size=1024)
    state = jax.eval_shape(lambda: SBEED.init(config, programs.SPEC, jax.random.key(0)))
    batch = jax.eval_shape(lambda: ring.sample(ring.empty(programs.SPEC, 64), jax.random.key(0), 16, 64))
    program = jax.jit(lambda c, s, b: update(c, programs.SPEC, s, b, jax.random.key(0), with_pi=False))
    counted = program.lower(config, state, batch).compile().cost_analysis()["flops"] / 2
    # The compiler also counts what is not a matrix product.
    assert 1.0 <= counted / paper_update.multiply_adds(1024) < 1.1


def run(system, seed, seconds, cap=600):
    return made("time_to_return", system, "s", [seconds], case="Pendulum-v1", seed=seed, cap=cap, goal=-200)


def test_a_run_that_its_cap_ended_bounds_the_ratio():
    found = [run(OURS, seed, 100.0) for seed in range(3)]
    found += [run("SB3 SAC", 0, 550.0), run("SB3 SAC", 1, None), run("SB3 SAC", 2, None)]
    line = time_to_return.lines(found)[0]
    assert (line.ours, line.other) == ("100 s", "> 600 s")
    assert line.measured == "≥ 6.00x (5.50–≥ 6.00)"
    assert line.verdict == "**met**"


def test_a_cap_below_the_median_makes_it_a_bound():
    found = [run(OURS, seed, 100.0) for seed in range(3)]
    found += [run("SB3 SAC", 0, 700.0), run("SB3 SAC", 1, None), run("SB3 SAC", 2, 650.0)]
    assert time_to_return.lines(found)[0].measured == "≥ 6.50x (≥ 6.00–7.00)"


def test_ours_not_arriving_is_a_miss_whatever_the_peer_does():
    found = [run(system, seed, None) for system in (OURS, "SB3 SAC") for seed in range(3)]
    line = time_to_return.lines(found)[0]
    assert (line.measured, line.verdict) == ("not reached", "missed")


def test_finished_runs_are_not_run_again():
    done = [run(system, 0, 30.0) | {"quick": True} for system in (OURS, *time_to_return.PEERS)]
    assert list(time_to_return.measure(True, done)) == []


def test_what_a_gpu_is_worth():
    sides = (OURS, 1200.0), (population.SOLO, 100.0)
    found = [made("gpu", side, "steps/s", [v], case="population", device="NVIDIA H200") for side, v in sides]
    found.append(made("gpu", OURS, "updates/s", [5e4, 7e4, 8e4], case="agents", device="NVIDIA H200"))
    raced, many = gpu.lines(found)
    assert (raced.goal, raced.verdict) == ("10x", "**met**")
    assert (many.measured, many.verdict) == ("70,000 updates/s (50,000 updates/s–80,000 updates/s)", "**met**")


def test_without_a_gpu_the_rows_of_one_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu, "backend", lambda: "cpu")
    there = [made("gpu", OURS, "updates/s", [7e4], case="agents", device="NVIDIA H200")]
    rows.write(tmp_path / "rows.jsonl", there)
    command.measure("gpu", False, tmp_path)
    assert rows.read(tmp_path / "rows.jsonl") == there


def grown(power):
    return [
        made("growth", OURS, "s", [0.001 * size**power] * 2, case=panel, size=size, device="cpu")
        for panel, about in growth.PANELS.items()
        for size in about.sizes
    ]


def test_exponents_and_the_price_of_k():
    assert growth.exponent(*growth.curve(grown(0.7), "agents")) == pytest.approx(0.7)
    assert growth.lines(grown(0.08))[-1].verdict == "**met**"  # 100^.08 = 1.45
    assert growth.lines(grown(0.1))[-1].verdict == "missed"  # 100^.1 = 1.58
    assert len(growth_figure(grown(1.0)).axes) == 4


def test_new_rows_replace_those_of_their_benchmark_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "busy", lambda: 0.5)
    for name, values in (("acting", [1e-6]), ("start", [2.0]), ("acting", [3e-6])):
        new = row(name, OURS, "s", values, settings={})
        fake = SimpleNamespace(ABOUT="", lines=lambda found: [], measure=lambda quick, new=new: [new])
        monkeypatch.setitem(page.BENCHMARKS, name, fake)
        command.measure(name, True, tmp_path)
    found = rows.read(tmp_path / "rows.jsonl")
    assert [(each["name"], each["values"]) for each in found] == [("acting", [3e-6]), ("start", [2.0])]
    text = (tmp_path / "README.md").read_text()
    assert "mean nothing: acting, start" in text
    assert "Something else was running on the machine during acting, start" in text


def test_a_small_benchmark_from_its_process_to_its_lines():
    found = [ORIGIN | each | {"quick": True} for each in replay_memory.measure(True)]
    assert [each["unit"] for each in found] == ["MB", "MB"]
    per_transition = 4 * (17 + 17 + 6 + 1) + 2  # floats, and two flags
    assert found[0]["values"][0] == pytest.approx(64_000 * per_transition / 1e6, rel=1e-5)
    assert found[1]["values"][0] >= 0.9 * found[0]["values"][0]
    assert [line.verdict for line in replay_memory.lines(found)] == ["quick", "quick"]
    assert "transitions 64000" in page.readme(found)


def test_the_peers_are_pinned_by_hash_and_name_no_host():
    text = (Path(page.__file__).parent / "requirements.txt").read_text()
    entries = [entry for entry in re.split(r"(?m)^(?=\S)", text)[1:] if not entry.startswith("#")]
    assert len(entries) > 20
    for entry in entries:
        assert re.match(r"[\w.-]+==\S+ \\\n( +--hash=sha256:[0-9a-f]{64}( \\)?\n*)+$", entry), entry[:80]
    assert not any(entry.startswith("torch==") for entry in entries)  # by the Makefile, without a hash


def test_curves_take_their_sizes_in_order():
    x, y = growth.curve(list(reversed(grown(1.0))), "k")
    assert np.array_equal(x, sorted(x))
    assert np.array_equal(y, sorted(y))


def test_baselines_are_compared_from_what_random_actions_earn():
    from benchmarks.baselines import __main__ as baselines
    from benchmarks.baselines import compared
    from benchmarks.baselines.page import line, readme

    peer, task = compared.AGENTS["ddpg"].peer, "Pendulum-v1"
    random = -1207.555222701356
    shared = {"agent": "ddpg", "task": task, "settings": {}, "versions": "", "commit": "abc", "machine": "m"}
    done = [
        {**shared, "system": system, "seed": seed, "return": random + gain}
        for system, gains in ((OURS, (90, 90, 93)), (peer, (100, 100, 100)))
        for seed, gain in enumerate(gains)
    ]
    assert line(done, "ddpg", task)[-2:] == ("91%", "**met**")
    assert line(done[:-1], "ddpg", task)[-1] == "not measured"
    assert readme(done).count("not measured") == 8
    # What is done is not done again.
    assert not list(baselines.jobs(done, ["ddpg"], [task]))
    assert list(baselines.jobs(done[1:-1], ["ddpg"], [task])) == [
        (OURS, "ddpg", task, (0,)),
        (peer, "ddpg", task, (2,)),
    ]

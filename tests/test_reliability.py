"""A small draw of what `make bench-reliability` does to runs; `kill -9` of whole runs is in test_session."""

import os

import pytest
from benchmarks.reliability import corruption, disk, golden, hostile, not_finite, page, starts, toggles, victim, writer
from benchmarks.reliability.__main__ import save, seeds_of, summary
from benchmarks.reliability.trial import Trial, attempt, require

ORIGIN = {"commit": "abc1234", "machine": "a machine, 2 cores", "versions": {"sbeed": "0.1.0"}}


# Gymnasium says in its own words what is not finite; a file on a full disk is closed when the process ends.
@pytest.mark.filterwarnings("ignore:.*observation space", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("threat", "seeds"),
    [
        (writer, range(700, 710)),
        (corruption, range(10_000, 10_100)),
        (hostile, range(3, len(hostile.KINDS), 5)),
        (not_finite, range(200, 208)),
        (disk, range(100, 106)),
        (toggles, range(0, toggles.COUNT, 4)),
        (golden, range(len(golden.CASES))),
    ],
    ids=lambda given: getattr(given, "NAME", ""),
)
def test_it_holds(threat, seeds):
    for trial in threat.trials(seeds):
        assert not trial.why, trial
        assert threat.LIMIT is None or trial.seconds <= threat.LIMIT, trial


def test_of_many_simultaneous_starts_one_wins():
    for trial in starts.trials(range(2), starts=6):
        assert not trial.why, trial
        assert trial.seconds <= starts.LIMIT, trial


@pytest.mark.parametrize(
    ("event", "details", "harmful"),
    [
        ("open", ("x", "wb", os.O_WRONLY), True),
        ("open", ("x", None, os.O_RDWR | os.O_CREAT), True),
        ("open", ("x", "r", os.O_RDONLY), False),
        ("open", ("run/lock", None, os.O_RDWR | os.O_CREAT), False),
        ("pickle.find_class", ("os", "system"), True),
        ("subprocess.Popen", (), True),
        ("import", ("antigravity",), True),
        ("os.listdir", (".",), False),
    ],
)
def test_what_is_heard(event, details, harmful):
    assert victim.harmful(event, details) is harmful


# ------------------------------------------------------------------------------------------------- the page


def _row(found, seeds=None):
    seeds = seeds or range(len(found))
    return summary(starts, seeds, found) | ORIGIN


def test_what_does_not_hold_is_a_failure_with_its_seed():
    trial = attempt("a thing, done so", 7, lambda: require(False, "it fell\nover"))
    assert trial[:2] == ("a thing, done so", 7)
    assert trial.why == "it fell over"
    assert attempt("a thing", 7, lambda: 1 / 0).why.startswith("ZeroDivisionError: ")
    assert attempt("a thing", 7, lambda: 0.25) == Trial("a thing", 7, 0.25)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ([Trial("train", i, 0.1) for i in range(10)], "holds "),
        ([Trial("train", 0, 0.1)], "holds so far"),
        ([Trial("train", i, 1.1) for i in range(10)], "**broken**"),  # too late
        ([Trial("train", i, 0.1, "two won" if i == 3 else "") for i in range(10)], "**broken**"),
    ],
)
def test_verdicts_are_computed(found, verdict):
    line = next(line for line in page.table([_row(found)]).splitlines() if starts.NAME in line)
    assert f"| {verdict}" in line


def test_the_page_is_a_function_of_rows_and_rows_of_others_stay(tmp_path):
    save(tmp_path, _row([Trial("train, again", 4, 0.1, "two won")], range(4, 5)))
    save(tmp_path, {**_row([Trial("x", 0, 0.1)]), "name": writer.NAME})
    text = (tmp_path / "README.md").read_text()
    assert "- seed 4, train, again: two won\n" in text
    assert "Tried at abc1234 with seeds from 4, on a machine, 2 cores; sbeed 0.1.0." in text
    assert text.count("\n## ") == 2
    assert text.count("not tried") == len(page.THREATS) - 2


def test_a_share_of_the_trials_is_at_least_one():
    assert seeds_of(starts, 5, 0) == range(5, 6)
    assert seeds_of(starts, 5, 0.5) == range(5, 10)
    assert seeds_of(starts, 0, 1) == range(starts.COUNT)

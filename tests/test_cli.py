"""The command line: quick help, tables for people, JSON for machines, and one clear line for wrong input."""

import json
import os
import resource
import subprocess
import sys

import pytest

from sbeed import cli
from tests.commands import SBEED_COMMAND, run_command


def _children_seconds():
    """Processor time, which does not depend on other processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_help_names_the_commands(capsys):
    code, out, _ = run_command(capsys, "--help")
    assert code == 0
    for command in cli.COMMANDS:
        assert command in out


def test_help_is_quick_and_free_of_jax():
    probe = "import sys, sbeed.cli\ntry: sbeed.cli.main(['--help'])\nfinally: assert 'jax' not in sys.modules"
    untraced = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    seconds = []
    for _ in range(5):
        before = _children_seconds()
        subprocess.run([sys.executable, "-c", probe], env=untraced, check=True, capture_output=True)
        seconds.append(_children_seconds() - before)
    assert min(seconds) < 0.3


def test_version(capsys):
    cli.main(["--version"])
    assert capsys.readouterr().out.startswith("sbeed 0.")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["theory", "--mdps", "0"], ["--mdps", "1..100000", "0"]),
        (["theory", "--mdps", "99999999999999999999999"], ["--mdps", "1..100000"]),
        (["theory", "--mdps", "many"], ["--mdps", "whole number", "many"]),
        (["theory", "--only"], ["--only", "at least one", "contraction"]),
        (["theory", "--seed", "-1"], ["--seed", "-1"]),
        (["theory", "--only", "nonsense"], ["--only", "nonsense", "contraction"]),
        (["theory", "--mdsp", "3"], ["--mdsp", "--mdps"]),
        (["thoery"], ["thoery", "theory"]),
        ([], ["train", "theory", "figure"]),
        (["figure"], ["theory"]),
        (["figure", "nonsense"], ["nonsense", "theory"]),
        (["figure", "theory", "--out", "/dev/null/x"], ["--out", "/dev/null/x"]),
    ],
)
def test_wrong_input_gets_one_line(capsys, args, words):
    code, out, err = run_command(capsys, *args)
    assert code == 2
    assert out == ""
    assert err.startswith("sbeed: ")
    assert err.count("\n") == 1
    for word in words:
        assert word in err


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])  # of which the parser's frames depend
def test_nothing_of_a_frame_is_left(encoding):
    args = [SBEED_COMMAND, "theory", "--mdps", "x", "--seed"]
    for wrong, line in (
        (args[:-1], "Error parsing --mdps: expected a whole number, got 'x'; --mdps INT Random MDPs"),
        ([SBEED_COMMAND, "thoery"], "Unrecognized options: thoery; Available subcommands: train, "),
        ([SBEED_COMMAND, "train"], "Missing from sbeed train: --out PATH Directory"),
        (args[:2] + args[-1:], "Missing value for argument '--seed'. Expected 1 values\n"),
    ):
        env = {**os.environ, "PYTHONIOENCODING": encoding}
        done = subprocess.run(wrong, capture_output=True, text=True, check=False, env=env)
        assert done.stderr.startswith(f"sbeed: {line}")
        assert "helptext" not in done.stderr


def test_figure_without_matplotlib_names_the_extra(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("sbeed.cli.figure.find_spec", lambda name: None)
    code, _, err = run_command(capsys, "figure", "theory", "--out", str(tmp_path / "out"))
    assert code == 2
    assert err == "sbeed: figure: needs matplotlib: pip install 'sbeed[plot]'\n"
    assert not (tmp_path / "out").exists()


def test_a_reader_that_leaves_early_is_no_error_of_ours():
    piped = f"{SBEED_COMMAND} --help | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", piped], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.strip() in {"0", "141"}  # it may have finished first


def test_a_full_disk_gets_one_line():
    done = subprocess.run(
        ["bash", "-c", f"{SBEED_COMMAND} --help > /dev/full"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("sbeed: cannot write")
    assert done.stderr.count("\n") == 1


def test_theory_json(capsys):
    code, out, _ = run_command(capsys, "theory", "--mdps", "5", "--only", "rho_substitution", "contraction", "--json")
    rows = json.loads(out)
    assert code == 0
    assert [row["name"] for row in rows] == ["contraction", "rho_substitution"]
    for row in rows:
        assert row["holds"] is True
        assert row["mdps"] == 5
        assert 0 <= row["margin"] <= 1
        assert row["seconds"] > 0


def test_theory_table(capsys):
    code, out, _ = run_command(capsys, "theory", "--mdps", "3", "--only", "contraction")
    assert code == 0
    assert "3/3" in out
    assert "1 of 1 statements hold" in out


def test_a_failing_statement_ends_with_one(capsys, monkeypatch):
    from sbeed.theory import report

    row = report.Row("contraction", False, 2, 3, -0.5, True, 0.1)
    monkeypatch.setattr(report, "run", lambda *args, **kwargs: [row])
    code, out, _ = run_command(capsys, "theory", "--only", "contraction")
    assert code == 1
    assert "2/3" in out


def test_the_command_is_installed():
    done = subprocess.run([SBEED_COMMAND, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("sbeed ")

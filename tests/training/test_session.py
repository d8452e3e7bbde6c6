"""Runs that were killed, stopped or broken off go on, and are the runs that were not."""

import json
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from benchmarks.reliability.disk import limited

from sbeed import SBEED, cli
from sbeed.envs.base import EnvironmentFault
from sbeed.storage import checkpoints, run_dir, tensors
from sbeed.storage.checkpoints import Checkpoint, steps_of
from sbeed.training.population import Diverged, Population
from sbeed.training.session import resume
from sbeed.training.trainer import Trainer
from tests.commands import SBEED_COMMAND, run_command
from tests.manifests import forge
from tests.tiny import TINY
from tests.training.counting import Clockwork

SIZES = "--hidden 4 --batch-size 4 --replay-capacity 100 --warmup 16 --steps-per-iteration 8 --updates-per-iteration 1"
LOOKS = "--episodes 1 --evaluate-every 24 --final-episodes 2 --checkpoint-every 16"
STEPS = 100  # not a multiple of an iteration


class Killed(BaseException):
    """The end of a process, for a test that cannot afford one."""


def _command(out, *args, env="Pendulum-v1", steps=STEPS):
    return ["train", "--env", env, "--steps", str(steps), *SIZES.split(), *LOOKS.split(), "--out", str(out), *args]


def _break_off(monkeypatch, out, step, *args, **asked):
    """A run that is no more after that step."""
    advance = Trainer.advance

    def until(self, most):
        if self.step >= step:
            raise Killed
        return advance(self, most)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", until)
        with pytest.raises(Killed):
            cli.main(_command(out, *args, **asked))


def _everything(run):
    """Rows without their clocks; the hashes of all tensors of models and of the last checkpoint with its replay."""
    last = Checkpoint(run, steps_of(run)[-1])
    hashes = {path.parent.name: json.loads(path.read_text())["tensors"] for path in run.glob("*/manifest.json")}
    standing = {name: value for name, value in last.about["standing"].items() if name != "seconds"}
    rows = [{name: x for name, x in row.items() if not name.endswith("seconds")} for row in run_dir.read_rows(run)]
    assert hashes
    return {
        "rows": rows,
        "models": hashes,
        "state": last.file["tensors"],
        "standing": standing,
        "actors": last.about.get("actors"),
        "replay": {name: _replay(run, last, name) for part in last.parts[:1] for name in part.file["tensors"]},
    }


def _replay(run, checkpoint, name):
    """One tensor of the replay. A stopped run has other parts, which together must hold the same."""
    from safetensors.numpy import load_file

    parts = [load_file(run / "replay" / part.name)[name] for part in checkpoint.parts]
    return [part[:, i].tolist() for part in parts for i in range(part.shape[1])][-checkpoint.held :]


@pytest.fixture(scope="module")
def never_stopped(tmp_path_factory):
    out = tmp_path_factory.mktemp("never") / "run"
    with pytest.raises(SystemExit) as stop:
        cli.main(_command(out))
    assert stop.value.code == 0
    return out


@pytest.fixture(scope="module")
def broken_off(tmp_path_factory):
    """Killed at step 72, with checkpoints of 48 and 64, and rows of 24, 48 and 72."""
    out = tmp_path_factory.mktemp("broken") / "run"
    with pytest.MonkeyPatch.context() as patch:
        _break_off(patch, out, 72)
    assert steps_of(out) == [48, 64]
    assert [row["step"] for row in run_dir.read_rows(out)] == [24, 48, 72]
    return out


@pytest.fixture
def broken(broken_off, tmp_path):
    return Path(shutil.copytree(broken_off, tmp_path / "run"))


def _files(run):
    """The content of all files but the lock."""
    return {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != "lock"}


# ------------------------------------------------------------------------------------------------- kill -9


@pytest.mark.parametrize("case", [["Pendulum-v1"], ["jax:pendulum"], ["Pendulum-v1", "--seeds", "2"]], ids="-".join)
def test_killed_at_random_points_and_resumed(tmp_path, case):
    env, *more = case
    steps = 1200 if env.startswith("jax:") else 400  # long enough to be hit

    def start(*args):
        return subprocess.Popen([SBEED_COMMAND, *args], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    reference = start(*_command(tmp_path / "never", *more, env=env, steps=steps))
    run, moments = tmp_path / "run", sorted(random.sample(range(16, steps - 32), 2))
    for command, moment in zip((_command(run, *more, env=env, steps=steps), ["resume", str(run)]), moments):
        with start(*command) as process:
            while max(steps_of(run), default=0) < moment and process.poll() is None:
                time.sleep(0.002)
            process.kill()
    with start("resume", str(run)) as last:
        assert (last.wait(), last.stderr.read()) == (0, "")
    with reference:
        assert reference.wait() == 0
    assert _everything(run) == _everything(tmp_path / "never"), moments


# ------------------------------------------------------------------------------------------------- in good order


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize(("number", "code", "word"), [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "terminated")])
def test_a_signal_stops_with_a_checkpoint(capsys, tmp_path, monkeypatch, never_stopped, number, code, word):
    advance, run = Trainer.advance, tmp_path / "run"

    def until(self, most):
        if self.step == 40:
            signal.raise_signal(getattr(signal, number))
        return advance(self, most)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", until)
        found, _, err = run_command(capsys, *_command(run))
    assert found == code
    assert err.endswith(f"sbeed: {word}: what was learned until then lies in '{run}'\n")
    assert steps_of(run) == [32, 48]  # 48 is evaluated too: those rows stay, the final ones go
    assert [(row["step"], row["final"]) for row in run_dir.read_rows(run)] == [(24, False), (48, False), (48, True)]
    assert SBEED.load(run / "model").num_timesteps == 48
    found, out, err = run_command(capsys, "resume", run)
    assert (found, err) == (0, "")
    assert out.endswith(f"{run}\n")
    assert _everything(run) == _everything(never_stopped)


@pytest.mark.usefixtures("ctrl_c")
def test_the_second_signal_stops_at_once(capsys, broken, monkeypatch, never_stopped):
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", lambda *args: [signal.raise_signal(signal.SIGTERM) for _ in range(2)])
        code, _, _ = run_command(capsys, "resume", broken)
    assert code == 143
    assert steps_of(broken) == [48, 64]
    resume(broken)
    assert _everything(broken) == _everything(never_stopped)


def test_killed_in_the_final_evaluation(tmp_path, monkeypatch, never_stopped):
    evaluate = Trainer.evaluate

    def until(self, episodes):
        if self.step == STEPS:
            raise Killed
        return evaluate(self, episodes)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "evaluate", until)
        with pytest.raises(Killed):
            cli.main(_command(tmp_path / "run"))
    heard = []
    rows = resume(tmp_path / "run", on_progress=heard.append)
    assert heard == []
    assert rows == run_dir.read_rows(tmp_path / "run")
    assert _everything(tmp_path / "run") == _everything(never_stopped)


def test_killed_before_the_first_checkpoint(tmp_path, never_stopped):
    (tmp_path / "run").mkdir()
    for name in ("config.yaml", "lock"):
        shutil.copy(never_stopped / name, tmp_path / "run")
    resume(tmp_path / "run")
    assert _everything(tmp_path / "run") == _everything(never_stopped)


def test_a_finished_run_says_so(capsys, never_stopped):
    before = _files(never_stopped)
    code, out, err = run_command(capsys, "resume", never_stopped)
    assert (code, out, err) == (0, f"'{never_stopped}' is finished: there is nothing left to do\n", "")
    assert resume(never_stopped) == run_dir.read_rows(never_stopped)
    assert _files(never_stopped) == before


def test_looking_changes_nothing(tmp_path, never_stopped):
    """Rows and checkpoints, or none of them: the parameters are the same."""
    for name, flags in (("rarely", "90 --checkpoint-every 0"), ("often", "8 --checkpoint-every 8 --final-episodes 1")):
        with pytest.raises(SystemExit):
            cli.main([*_command(tmp_path / name), "--evaluate-every", *flags.split()])
    models = [_manifest(run / "model")["tensors"] for run in (tmp_path / "rarely", tmp_path / "often", never_stopped)]
    assert models[0] == models[1] == models[2]
    assert not (tmp_path / "rarely" / "checkpoints").exists()


def _manifest(directory):
    return json.loads((directory / "manifest.json").read_text())


# ------------------------------------------------------------------------------------------------- learn(resume=True)

ASKED = {"evaluate_every": 24, "episodes": 1, "final_episodes": 2, "checkpoint_every": 16, "resume": True}


def _agent(env="Pendulum-v1", **fields):
    return SBEED(None, env, **TINY, **fields)


def test_the_same_script_again_and_again(tmp_path, never_stopped):
    def stop(agent):
        return agent.num_timesteps < 40

    _agent().learn(STEPS, out=tmp_path / "run", callback=stop, **ASKED)
    assert steps_of(tmp_path / "run") == [32, 40]
    for _ in range(2):  # the second time it is finished
        agent = _agent().learn(STEPS, out=tmp_path / "run", **ASKED)
        assert agent.num_timesteps == STEPS
        assert _everything(tmp_path / "run") == _everything(never_stopped)
    with pytest.raises(ValueError, match=r"is another run's: its steps is 100, here it is 200"):
        _agent().learn(200, out=tmp_path / "run", **ASKED)
    with pytest.raises(ValueError, match=r"is another run's: its lam is .*, here it is 0\.5"):
        _agent(lam=0.5).learn(STEPS, out=tmp_path / "run", **ASKED)
    with pytest.raises(ValueError, match=r"resume: .* \(out\)"):
        _agent().learn(STEPS, resume=True)


def test_an_agent_that_was_stopped_goes_on_itself(tmp_path, never_stopped):
    agent = _agent()
    agent.learn(STEPS, out=tmp_path / "run", callback=lambda agent: agent.num_timesteps < 40, **ASKED)
    assert agent.learn(STEPS, out=tmp_path / "run", **ASKED).num_timesteps == STEPS
    assert _everything(tmp_path / "run") == _everything(never_stopped)


def test_a_second_call_has_a_run_of_its_own(tmp_path, capsys):
    runs = tmp_path / "never", tmp_path / "stopped"
    for run in runs:
        if run.name == "stopped":
            _agent().learn(20).learn(60, out=run, callback=lambda agent: agent.num_timesteps < 40, **ASKED)
        assert _agent().learn(20).learn(60, out=run, **ASKED).num_timesteps == 80
    assert _everything(runs[0]) == _everything(runs[1])
    code, _, err = run_command(capsys, "resume", runs[0])
    assert (code, err.count("\n")) == (2, 1)
    assert "only the program that began it can go on" in err


def test_a_vector_environment_has_no_checkpoints(tmp_path):
    agent = SBEED(None, gymnasium.make_vec("Pendulum-v1", 2), **TINY)
    agent.learn(24, out=tmp_path / "run", **ASKED)
    assert steps_of(tmp_path / "run") == []


# ------------------------------------------------------------------------------------------------- what cannot go on


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("checkpoints/step_000000064/state.safetensors", "tensor "),
        ("checkpoints/step_000000064/manifest.json", "manifest.json"),
        ("replay/part_000000048_000000064.safetensors", "tensor "),
    ],
)
def test_a_damaged_checkpoint_is_named_and_the_one_before_offered(capsys, broken, never_stopped, name, words):
    content = bytearray((broken / name).read_bytes())
    content[-3] ^= 1
    (broken / name).write_bytes(content)
    before = _files(broken)
    code, out, err = run_command(capsys, "resume", broken)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert str(broken / name) in err
    assert words in err
    assert err.endswith("; there is a checkpoint of step 48 too (--from 48)\n")
    assert _files(broken) == before
    code, _, err = run_command(capsys, "resume", broken, "--from", 48)
    assert (code, err) == (0, "")
    assert _everything(broken) == _everything(never_stopped)


def test_an_older_checkpoint_that_is_damaged_is_not_needed(broken, never_stopped):
    path = broken / "checkpoints" / "step_000000048" / "manifest.json"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.warns(RuntimeWarning, match=r"step_000000048.*; the run goes on without it"):
        resume(broken)
    assert _everything(broken) == _everything(never_stopped)


def _cut_rows(run):
    (run / "metrics.jsonl").write_text("")


def _newer(run):
    forge(run / "checkpoints" / "step_000000064" / "manifest.json", schema=7)


def _no_past(run):
    path = run / "checkpoints" / "step_000000064" / "manifest.json"
    forge(path, about={**json.loads(path.read_text())["about"], "past": {"first": 0, "rows": 10**30, "seconds": 1}})


def _no_checkpoints(run):
    shutil.rmtree(run / "checkpoints")


def _set(name, value):
    def change(run):
        settings = run_dir.read_config(run / "config.yaml")
        (run / "config.yaml").write_text(json.dumps({**settings, name: value}))

    return change


@pytest.mark.parametrize(
    ("change", "args", "words"),
    [
        (_cut_rows, [], ["metrics.jsonl", "has 0 bytes"]),
        (_newer, [], ["is of schema 7", "reads schema 2"]),
        (_no_past, [], ["does not say what was before it", "--from 48"]),
        (_no_checkpoints, [], ["has rows and no checkpoint"]),
        (lambda run: None, ["--from", "50"], ["no checkpoint of step 50; it has 48, 64"]),
        (lambda run: None, ["--env", "CartPole-v1"], ["the run's is 'Pendulum-v1'"]),
        (lambda run: None, ["--workers", "-1"], ["--workers"]),
        (lambda run: (run / "config.yaml").unlink(), [], ["is not a run's directory", "config.yaml"]),
        (shutil.rmtree, [], ["is not a run's directory", "does not exist"]),
        (lambda run: (run / "config.yaml").write_text("lam: ["), [], ["neither YAML nor JSON"]),
        (lambda run: (run / "config.yaml").write_text("a" * 2**21), [], ["too long"]),
        (_set("lam", 0.5), [], ["its lam is"]),
        (_set("seed", 1), [], ["its seeds is [0], here it is [1]"]),
        (_set("agent", "os.system"), [], ["agent: must be one of"]),
        (_set("steps", "many"), [], ["steps: expected a whole number"]),
        (_set("env", "antigravity:Gone-v0"), [], ["would import a module"]),
    ],
)
def test_what_cannot_go_on_gets_one_line_and_stays_as_it_is(capsys, broken, change, args, words):
    change(broken)
    before = _files(broken)
    code, out, err = run_command(capsys, "resume", broken, *args)
    assert (code, out, err.count("\n")) == (2, "", 1)
    for word in words:
        assert word in err
    assert _files(broken) == before
    assert "antigravity" not in sys.modules


def test_a_run_in_use_is_refused(capsys, broken):
    with run_dir.RunDir(broken, resume=True):
        for args in (["resume", broken], _command(broken)):
            code, out, err = run_command(capsys, *args)
            assert (code, out, err.count("\n")) == (2, "", 1)
            assert "in use by another process" in err or "not an empty directory" in err


def test_an_environment_that_is_not_deterministic(tmp_path):
    asked, run = {**ASKED, "evaluate_every": 1000}, tmp_path / "run"

    def agent():
        return SBEED(None, Clockwork(), eval_env=Clockwork(), **TINY)

    agent().learn(40, out=run, callback=lambda agent: agent.num_timesteps < 24, **asked)
    before = _files(run)
    with pytest.raises(EnvironmentFault, match="not deterministic"):
        agent().learn(40, out=run, **asked)
    assert _files(run) == before
    with pytest.warns(RuntimeWarning, match="that were open at step 24 are given up"):
        agent().learn(40, out=run, **asked, restart_episodes=True)
    assert [(row["step"], row["restarts"]) for row in run_dir.read_rows(run)] == [(40, 1)]
    with pytest.raises(
        ValueError, match="restart_episodes: requires resume: only a resumed run has unfinished episodes"
    ):
        agent().learn(40, restart_episodes=True)


def test_the_weaker_mode_of_the_command_line(capsys, tmp_path, monkeypatch, clockwork):
    """A population of two, killed at step 72, after a checkpoint of 64 and rows of 72."""
    run = tmp_path / "run"
    _break_off(monkeypatch, run, 72, "--seeds", "2", env=clockwork)
    before = _files(run)
    code, out, err = run_command(capsys, "resume", run)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "is not deterministic" in err
    assert "--restart-episodes" in err
    assert _files(run) == before

    with pytest.warns(RuntimeWarning, match="that were open at step 64 are given up"):
        code, _, _ = run_command(capsys, "resume", run, "--restart-episodes")
    assert code == 0
    told = {row["step"]: row.get("restarts", 0) for row in run_dir.read_rows(run)}
    assert told == {24: 0, 48: 0, 72: 1, 96: 1, 100: 1}
    last = Checkpoint(run, steps_of(run)[-1])
    assert last.about["past"]["restarts"] == [64]
    _, out, _ = run_command(capsys, "inspect", last.path)
    assert re.search(r"restarts .* \[64\]", out)
    obs, next_obs, ends = (np.array(_replay(run, last, name)) for name in ("obs", "next_obs", "last"))
    for member in range(2):
        joined = (next_obs[:-1, member] == obs[1:, member]).all(1)
        assert (joined | ends[:-1, member]).all()
        assert not joined[63]


# ------------------------------------------------------------------------------------------------- what ends a run


class Fragile(gymnasium.Wrapper):
    """Breaks at step 50 of its life, which is more than one episode if those are short."""

    count = 0

    def step(self, action):
        self.count += 1
        if self.count == 50:
            raise ZeroDivisionError("the wheel came off")
        return super().step(action)


@pytest.fixture
def fragile():
    def make():
        return Fragile(gymnasium.make("Pendulum-v1", max_episode_steps=30))

    gymnasium.register("Fragile-v0", make)
    yield "Fragile-v0"
    del gymnasium.registry["Fragile-v0"]


def test_an_environment_that_raises(capsys, tmp_path, fragile):
    run = tmp_path / "run"
    code, out, err = run_command(capsys, *_command(run, "--evaluate-every", "1000", env=fragile))
    assert (code, out) == (3, "")
    assert err == (
        "sbeed: Fragile-v0: ZeroDivisionError: the wheel came off at step 20 of episode 2; "
        f"the last checkpoint in '{run}' is of step 48\n"
    )
    assert steps_of(run) == [32, 48]


def test_the_environment_counts_on_after_it_was_stopped(capsys, tmp_path, fragile):
    run = tmp_path / "run"
    run_command(capsys, *_command(run, "--evaluate-every", "1000", env=fragile))
    code, _, err = run_command(capsys, "resume", run)  # from step 48; a new wheel takes again the 18 steps of episode 2
    assert code == 3
    assert err.endswith(f" off at step 20 of episode 3; the last checkpoint in '{run}' is of step 64\n")


def test_a_run_that_diverges(capsys, tmp_path, monkeypatch):
    take, run = Population.take, tmp_path / "run"

    def diverge(self, metrics, finite):
        if self.step > 60:
            raise Diverged(self.step, "V", 0)
        take(self, metrics, finite)

    monkeypatch.setattr(Population, "take", diverge)
    code, out, err = run_command(capsys, *_command(run))
    assert (code, out) == (4, "")
    last = f"the last checkpoint in '{run}' is of step 48"
    assert err == f"sbeed: V is not finite after 64 steps (seed 0): the run diverged; {last}\n"


def test_a_member_that_is_just_being_lost_costs_a_population_a_checkpoint_and_not_the_run(tmp_path, monkeypatch):
    save = checkpoints.Checkpoints.save

    def refuse(self, snapshot):
        if snapshot.step == 32:
            raise FloatingPointError("states/1/V is not finite after 32 steps: no checkpoint is written")
        return save(self, snapshot)

    monkeypatch.setattr(checkpoints.Checkpoints, "save", refuse)
    with pytest.raises(SystemExit) as stop, pytest.warns(RuntimeWarning, match=r"after 32 steps: .*; the run goes on"):
        cli.main(_command(tmp_path / "two", "--seeds", "2", steps=48))
    assert stop.value.code == 0
    with pytest.raises(SystemExit) as stop:
        cli.main(_command(tmp_path / "one", steps=48))
    assert stop.value.code == 4
    assert steps_of(tmp_path / "one") == [0, 16]


def test_a_row_that_the_disk_refuses_is_told_with_what_it_takes_and_what_is_free(capsys, broken, never_stopped):
    rows = Checkpoint(broken, 64).about["past"]["rows"]
    with limited(rows + 10):
        code, _, err = run_command(capsys, "resume", broken)
    assert (code, err.count("\n")) == (2, 1)
    assert re.search(rf"no row in '{broken}' \(File too large\): it takes [\d,]+ bytes, [\d,]+ are free\n", err)
    resume(broken)
    assert _everything(broken) == _everything(never_stopped)


def test_a_full_disk_leaves_the_last_checkpoint_good(capsys, tmp_path, monkeypatch, never_stopped):
    write, run = tensors.write_file, tmp_path / "run"

    def full(path, content):
        if "000000048" in str(path) and path.name == "state.safetensors":
            write(path, content[: len(content) // 2])
            raise OSError(28, "No space left on device")
        write(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(tensors, "write_file", full)
        code, out, err = run_command(capsys, *_command(run))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"no checkpoint of step 48 in '{run}' (No space left on device): it takes " in err
    assert "bytes" in err
    assert err.endswith(" are free; the last one is of step 32\n")
    assert not list(run.rglob("*.step_*"))
    resume(run)
    assert _everything(run) == _everything(never_stopped)

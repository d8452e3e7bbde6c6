"""Search for the values of fields that score best: Optuna proposes, runs evaluate.

One process proposes and prunes; the runs use the executors of figures. All results are in a journal of JSON lines with
the runs beside it, so that a stopped search continues, and its stopped runs with it.
"""

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import optuna
import yaml
from optuna.trial import TrialState

from sbeed.agents.registry import configured, find
from sbeed.experiments import runner
from sbeed.experiments.executors import Executor, Job
from sbeed.experiments.journal import open_journal
from sbeed.experiments.runner import Deaths, Show, step_of
from sbeed.experiments.space import Space, fields_of
from sbeed.experiments.spec import Run
from sbeed.experiments.worker import Outcome
from sbeed.reporting.figure_folder import RUNS, is_done, make_runs, read_end
from sbeed.storage.checkpoints import CHECKPOINTS, REPLAY
from sbeed.storage.lock import locked
from sbeed.storage.run_dir import METRICS, read_rows
from sbeed.storage.safe_write import write_file
from sbeed.training.run import RunSpec

JOURNAL, BEST = "journal.log", "best.yaml"
COUNTED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING)  # FAIL: broken off, or refused
# A trial is compared with no fewer others. One that is better than nine of ten is below a single other one time in ten,
# below the median of five one time in a hundred; and a search of 20 trials cannot wait for many more.
OTHERS = 5


def open_study(out: Path, space: Space, base: RunSpec, seeds: Sequence[int]) -> optuna.Study:
    """Open the search in that directory, new or continued; raise a ValueError if it is another one.

    The caller owns the directory (`lock`).
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    make_runs(out)
    study = optuna.create_study(
        study_name="sbeed",
        direction="maximize",
        storage=open_journal(out / JOURNAL),
        load_if_exists=True,
    )
    study.sampler = optuna.samplers.TPESampler(seed=seeds[0] + len(study.trials))
    distributions = {name: optuna.distributions.distribution_to_json(one) for name, one in space.items()}
    asked = json.loads(json.dumps({"run": base.as_dict(), "seeds": list(seeds), "space": distributions}))
    if study.user_attrs.setdefault("asked", asked) != asked:
        raise ValueError(f"'{out}' belongs to another search: its runs, seeds or ranges differ")
    study.set_user_attr("asked", asked)
    for left in study.get_trials(states=(TrialState.RUNNING,)):  # by the process that was stopped
        study.tell(left.number, state=TrialState.FAIL)
        study.enqueue_trial(left.params)
    return study


class Candidate(NamedTuple):
    trial: optuna.Trial
    jobs: list[Job]  # one for each seed
    told: dict[int, float]  # the curve, as far as the study knows it


class Search:
    """Trials that run side by side."""

    def __init__(self, study: optuna.Study, space: Space, base: RunSpec, seeds: Sequence[int], out: Path):
        self._study, self._space, self._base, self._seeds, self._out = study, space, base, seeds, out
        self._open: dict[int, Candidate] = {}
        self._waiting: list[Job] = []
        self._running: dict[Path, Job] = {}
        self._deaths = Deaths()
        # Runs that are not continued: the same values would end like that again. The journal lists them all.
        pruned = study.get_trials(deepcopy=False, states=(TrialState.PRUNED,))
        self._given_up = {self._path(run) for trial in pruned for run in self._runs(trial.params)}
        self._to_clear = set(self._given_up)

    def run(self, trials: int, executor: Executor, show: Show) -> None:
        """Run until there are `trials` trials, those of earlier calls included."""
        cost = self._base.steps * len(self._seeds)
        show.begin(trials * cost)
        while True:
            self._start(trials, executor, show)
            self._to_clear = {path for path in self._to_clear if not clear(path)}
            # A run may be done before its end is heard of; and a cluster without cores asks for nothing, yet.
            if not self._open and not self._running and self._asked() >= trials:
                return
            ended = executor.ended(runner.LOOK)
            for job, _ in ended:  # all of them first: reporting one may end others, but not those that have ended
                del self._running[job.path]
            for job, outcome in ended:
                self._hear(job, outcome, executor, show)
            for candidate in list(self._open.values()):
                self._look(candidate, executor, show)
            over = len(self._study.get_trials(deepcopy=False, states=COUNTED[:2])) * cost
            under_way = {path: (job, step_of(job)) for path, job in self._running.items()}
            show.look(over + sum(step for _, step in under_way.values()), under_way)

    def _start(self, trials: int, executor: Executor, show: Show) -> None:
        while len(self._running) < executor.slots:
            self._waiting = [job for job in self._waiting if not is_done(job.path)]
            free = [job for job in self._waiting if job.path not in self._running]  # two may be the same run
            if free:
                self._waiting.remove(free[0])
                self._running[free[0].path] = free[0]
                executor.start(free[0])
            elif self._waiting or self._asked() >= trials:
                return
            else:
                self._ask(show)

    def _asked(self) -> int:
        return len(self._study.get_trials(deepcopy=False, states=COUNTED))

    def _ask(self, show: Show) -> None:
        trial = self._study.ask(dict(self._space))
        runs = self._runs(trial.params)
        title = f"trial {trial.number} {_words(trial.params)}"
        jobs = [Job(f"{title} seed {run.seed}", run, self._path(run)) for run in runs]
        candidate = self._open[trial.number] = Candidate(trial, jobs, {})
        try:
            check(runs[0].spec)
        except ValueError as error:  # values that do not go together
            self._close(candidate, None, show, str(error))
            return
        left = [job for job in jobs if not is_done(job.path)]
        if any(job.path in self._given_up for job in left):
            self._report(candidate)
            self._close(candidate, None, show, "a trial of the same values was ended early")
            return
        self._waiting += left

    def _runs(self, params: Mapping[str, Any]) -> list[Run]:
        """The runs of a trial, one per seed."""
        spec = replace(self._base, fields={**self._base.fields, **fields_of(params)})
        return [Run(spec, seed) for seed in self._seeds]

    def _path(self, run: Run) -> Path:
        return self._out / RUNS / run.id

    def _hear(self, job: Job, outcome: Outcome, executor: Executor, show: Show) -> None:
        candidates = [one for one in self._open.values() if job.path in {its.path for its in one.jobs}]
        if outcome.kind == "done" or not candidates:
            return
        if outcome.kind == "died" and self._deaths.may_go_on(job):
            self._waiting.append(job)
            return
        if outcome.kind == "refused":  # hardly for the values of its fields, which were checked: others may be too
            for candidate in candidates:  # a search that goes on does not begin with them again
                self._study.tell(candidate.trial, state=TrialState.FAIL)
            raise ValueError(f"{job.title}: {outcome.message}")
        for candidate in candidates:
            self._drop(candidate, executor, show, outcome.message)

    def _look(self, candidate: Candidate, executor: Executor, show: Show) -> None:
        """Report a candidate's progress to the study, and end it when it is finished or hopeless."""
        self._report(candidate)
        if all(is_done(job.path) for job in candidate.jobs):
            results = [read_end(job.path) for job in candidate.jobs]
            returns = [result["return"] for result in results]
            worth = None if None in returns else sum(returns) / len(returns)
            self._close(candidate, worth, show, "diverged")
        elif self._is_in_vain(candidate):
            self._drop(candidate, executor, show, f"no better than most after {max(candidate.told)} steps")

    def _is_in_vain(self, candidate: Candidate) -> bool:
        """True if a candidate is hopeless; decided from a quarter of the steps on."""
        if 4 * max(candidate.told, default=0) < self._base.steps:
            return False
        complete = self._study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        # The same values, which may be asked for again and again, count once.
        others = {frozenset(one.params.items()): one.intermediate_values for one in complete}
        return is_behind(candidate.told, others.values())

    def _report(self, candidate: Candidate) -> None:
        for step, value in curve([job.path for job in candidate.jobs], self._base.evaluate_every).items():
            if step not in candidate.told:
                candidate.told[step] = value
                candidate.trial.report(value, step)

    def _drop(self, candidate: Candidate, executor: Executor, show: Show, why: str) -> None:
        """End a candidate and delete its runs, except those that another trial needs."""
        needed = {job.path for one in self._open.values() if one is not candidate for job in one.jobs}
        over = {job.path for job in candidate.jobs} - needed
        self._waiting = [job for job in self._waiting if job.path not in over]
        for path in over & self._running.keys():
            executor.stop(self._running.pop(path))
        # Written to the journal before anything is deleted, so that no process looks for the checkpoints afterwards.
        self._close(candidate, None, show, why)
        self._given_up |= over
        self._to_clear |= over

    def _close(self, candidate: Candidate, worth: float | None, show: Show, why: str) -> None:
        trial = self._open.pop(candidate.trial.number).trial
        state = TrialState.PRUNED if worth is None else TrialState.COMPLETE
        self._study.tell(trial, worth, state=state)
        show.say(f"trial {trial.number} {_words(trial.params)}: {f'return {worth:.1f}' if worth is not None else why}")


def check(spec: RunSpec) -> None:
    """Raise a one-line ValueError for fields that cannot be combined."""
    env = runner.env_spec(spec.env, spec.noise)
    find(spec.agent).check(configured(spec.agent, spec.preset, env, spec.fields), env)


def goes_with(base: RunSpec, fields: Mapping[str, Any]) -> bool:
    """True if these fields can be combined with those of the base."""
    try:
        check(replace(base, fields={**base.fields, **fields}))
    except ValueError:
        return False
    return True


def is_behind(told: Mapping[int, float], others: Iterable[Mapping[int, float]]) -> bool:
    """True if the best score so far is below the median of the others' at the same step."""
    last = max(told)
    there = [other[last] for other in others if last in other]
    return len(there) >= OTHERS and max(told.values()) < median(there)


def clear(run: Path) -> bool:
    """Delete a run's checkpoints and its large replay, keep its rows and settings; returns True if that succeeded."""
    places = [run / name for name in (CHECKPOINTS, REPLAY) if (run / name).exists()]
    if not places:
        return True
    try:
        with locked(run):
            for place in places:
                shutil.rmtree(place, ignore_errors=True)
    except OSError:  # its worker, on another machine perhaps, has not heard yet that it was ended
        return False
    return True


def curve(paths: Sequence[Path], every: int) -> dict[int, float]:
    """Mean evaluation return at the steps that all these runs have reached, without the final evaluation.

    every: an evaluation is due at each multiple of it and made when the iteration ends, at 80000 or at 81000. It counts
    for the step that it was due at, so that runs whose iterations have other lengths can be compared.
    """
    each = []
    for path in paths:
        rows = read_rows(path) if (path / METRICS).exists() else []
        told = [row for row in rows if not row["final"] and row["return"] is not None]
        each.append({row["step"] // every * every: row["return"] for row in told})
    return {step: sum(one[step] for one in each) / len(each) for step in each[0] if all(step in one for one in each)}


def write_best(out: Path, study: optuna.Study, base: RunSpec) -> Path:
    """Write the best setting as a file for `sbeed train --config`."""
    best = study.best_trial
    settings = {"env": base.env, "agent": base.agent, "preset": base.preset, "steps": base.steps, "noise": base.noise}
    changes = {name: list(x) if isinstance(x, tuple) else x for name, x in base.fields.items()}
    text = yaml.safe_dump({**settings, **changes, **fields_of(best.params)}, sort_keys=False)
    path = out / BEST
    write_file(path, f"# return {best.value:.6g}: trial {best.number} of {len(study.trials)}\n{text}".encode())
    return path


def _words(params: Mapping[str, Any]) -> str:
    return " ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}" for name, value in params.items()
    )

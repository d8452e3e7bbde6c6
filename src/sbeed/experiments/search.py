"""Which values of which fields make a run best: Optuna asks, runs answer.

One process asks and prunes; the runs are a figure's, by the same executors. All that it has heard is in a journal of
JSON lines, and the runs lie beside it: broken off, the same search goes on, and its broken runs with it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import optuna
import yaml
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from sbeed.agents.knobs import with_fields
from sbeed.agents.registry import find
from sbeed.experiments import runner
from sbeed.experiments.executors import Executor, Task
from sbeed.experiments.runner import RUNS, Deaths, Show, is_done, step_of
from sbeed.experiments.space import Space, fields_of
from sbeed.experiments.spec import Run
from sbeed.experiments.worker import RESULT, Outcome
from sbeed.training.run import RunSpec
from sbeed.training.rundir import METRICS, read_rows
from sbeed.training.sources import spec_of

JOURNAL, BEST = "journal.log", "best.yaml"
COUNTED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING)  # FAIL: broken off, or refused


def open_study(out: Path, space: Space, base: RunSpec, seeds: Sequence[int]) -> optuna.Study:
    """The search in that directory, new or gone on with; a ValueError if it was another one."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    (out / RUNS).mkdir(exist_ok=True)
    storage = JournalStorage(JournalFileBackend(str(out / JOURNAL)))
    study = optuna.create_study(
        study_name="sbeed",
        direction="maximize",
        storage=storage,
        load_if_exists=True,
        pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=base.steps // 4),
    )
    study.sampler = optuna.samplers.TPESampler(seed=seeds[0] + len(study.trials))
    distributions = {name: optuna.distributions.distribution_to_json(one) for name, one in space.items()}
    asked = json.loads(json.dumps({"run": asdict(base), "seeds": list(seeds), "space": distributions}))
    if study.user_attrs.setdefault("asked", asked) != asked:
        raise ValueError(f"'{out}' is another search's: its runs, its seeds or its ranges are others")
    study.set_user_attr("asked", asked)
    for left in study.get_trials(states=(TrialState.RUNNING,)):  # by whoever was broken off
        study.tell(left.number, state=TrialState.FAIL)
        study.enqueue_trial(left.params)
    return study


class Candidate(NamedTuple):
    trial: optuna.Trial
    tasks: list[Task]  # one for each seed
    reported: set[int]  # steps


class Search:
    """Trials that run side by side."""

    def __init__(self, study: optuna.Study, space: Space, base: RunSpec, seeds: Sequence[int], out: Path):
        self._study, self._space, self._base, self._seeds, self._out = study, space, base, seeds, out
        self._open: dict[int, Candidate] = {}
        self._waiting: list[Task] = []
        self._running: dict[Path, Task] = {}
        self._deaths = Deaths()

    def run(self, trials: int, executor: Executor, show: Show) -> None:
        """Until there are so many trials, of earlier calls too."""
        cost = self._base.steps * len(self._seeds)
        show.begin(trials * cost)
        while True:
            self._start(trials, executor, show)
            # A run may be done before its end is heard of; and a cluster without cores asks for nothing, yet.
            if not self._open and not self._running and self._asked() >= trials:
                return
            for task, outcome in executor.ended(runner.LOOK):
                del self._running[task.path]
                self._hear(task, outcome, executor, show)
            for candidate in list(self._open.values()):
                self._look(candidate, executor, show)
            over = len(self._study.get_trials(deepcopy=False, states=COUNTED[:2])) * cost
            standing = {path: (task, step_of(task)) for path, task in self._running.items()}
            show.look(over + sum(step for _, step in standing.values()), standing)

    def _start(self, trials: int, executor: Executor, show: Show) -> None:
        while len(self._running) < executor.slots:
            self._waiting = [task for task in self._waiting if not is_done(task.path)]
            free = [task for task in self._waiting if task.path not in self._running]  # two may be the same run
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
        spec = replace(self._base, fields={**self._base.fields, **fields_of(trial.params)})
        runs = [Run(spec, seed) for seed in self._seeds]
        title = f"trial {trial.number} {_words(trial.params)}"
        tasks = [Task(f"{title} seed {run.seed}", run, self._out / RUNS / run.id) for run in runs]
        candidate = self._open[trial.number] = Candidate(trial, tasks, set())
        try:
            check(spec)
        except ValueError as error:  # values that do not go together
            self._close(candidate, None, show, str(error))
            return
        self._waiting += [task for task in tasks if not is_done(task.path)]

    def _hear(self, task: Task, outcome: Outcome, executor: Executor, show: Show) -> None:
        if outcome.kind == "done":
            return
        if outcome.kind == "died" and self._deaths.may_go_on(task):
            self._waiting.append(task)
            return
        candidates = [one for one in self._open.values() if task.path in {its.path for its in one.tasks}]
        if outcome.kind == "refused":  # hardly for the values of its fields, which were checked: others may be too
            for candidate in candidates:  # a search that goes on does not begin with them again
                self._study.tell(candidate.trial, state=TrialState.FAIL)
            raise ValueError(f"{task.title}: {outcome.message}")
        for candidate in candidates:
            self._drop(candidate, executor)
            self._close(candidate, None, show, outcome.message)

    def _look(self, candidate: Candidate, executor: Executor, show: Show) -> None:
        """Tell the study how it goes, and end it where that is over or in vain."""
        trial = candidate.trial
        for step, value in curve([task.path for task in candidate.tasks]).items():
            if step not in candidate.reported:
                candidate.reported.add(step)
                trial.report(value, step)
        if all(is_done(task.path) for task in candidate.tasks):
            results = [json.loads((task.path / RESULT).read_text()) for task in candidate.tasks]
            returns = [result["return"] for result in results]
            worth = None if None in returns else sum(returns) / len(returns)
            self._close(candidate, worth, show, "diverged")
        elif candidate.reported and trial.should_prune():
            self._drop(candidate, executor)
            self._close(candidate, None, show, f"no better than most after {max(candidate.reported)} steps")

    def _drop(self, candidate: Candidate, executor: Executor) -> None:
        """End its runs, but not those that another trial needs."""
        needed = {task.path for one in self._open.values() if one is not candidate for task in one.tasks}
        for path in {task.path for task in candidate.tasks} - needed:
            self._waiting = [task for task in self._waiting if task.path != path]
            if path in self._running:
                executor.stop(self._running.pop(path))

    def _close(self, candidate: Candidate, worth: float | None, show: Show, why: str) -> None:
        trial = self._open.pop(candidate.trial.number).trial
        state = TrialState.PRUNED if worth is None else TrialState.COMPLETE
        self._study.tell(trial, worth, state=state)
        show.say(f"trial {trial.number} {_words(trial.params)}: {f'return {worth:.1f}' if worth is not None else why}")


def check(spec: RunSpec) -> None:
    """A ValueError in one line for fields that do not go together."""
    agent, env = find(spec.agent), spec_of(spec.env, spec.noise)
    agent.check(with_fields(agent.preset(spec.preset, env), spec.fields), env)


def goes_with(base: RunSpec, fields: Mapping[str, Any]) -> bool:
    """Whether these fields go together with the others'."""
    try:
        check(replace(base, fields={**base.fields, **fields}))
    except ValueError:
        return False
    return True


def curve(paths: Sequence[Path]) -> dict[int, float]:
    """Mean evaluation return at the steps that all these runs have reached; the last one's is left out."""
    each = []
    for path in paths:
        rows = read_rows(path) if (path / METRICS).exists() else []
        each.append({row["step"]: row["return"] for row in rows if not row["final"] and row["return"] is not None})
    return {step: sum(one[step] for one in each) / len(each) for step in each[0] if all(step in one for one in each)}


def write_best(out: Path, study: optuna.Study, base: RunSpec) -> Path:
    """The best setting as a file that `sbeed train --config` takes."""
    best = study.best_trial
    settings = {"env": base.env, "agent": base.agent, "preset": base.preset, "steps": base.steps, "noise": base.noise}
    changes = {name: list(x) if isinstance(x, tuple) else x for name, x in base.fields.items()}
    text = yaml.safe_dump({**settings, **changes, **fields_of(best.params)}, sort_keys=False)
    path = out / BEST
    path.write_text(f"# return {best.value:.6g}: trial {best.number} of {len(study.trials)}\n{text}")
    return path


def _words(params: Mapping[str, Any]) -> str:
    return " ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}" for name, value in params.items()
    )

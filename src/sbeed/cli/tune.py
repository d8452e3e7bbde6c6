"""`sbeed tune`: search for the values of fields that score best."""

from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import tyro

from sbeed.cli.console import UserError, complaints, make_directory, require
from sbeed.cli.figure import executing
from sbeed.cli.train import Asking


@dataclass(frozen=True)
class Tune(Asking):
    """Search for the best values of some fields. Repeat the command, with more trials if you like, to continue.

    Each trial runs every seed; a trial that does no better than most is stopped early.
    """

    out: Path
    """Directory of the search: its journal, its runs, and best.yaml for `sbeed train --config`."""
    workers: int = 0
    """Number of simultaneous runs; 0: one per core."""
    over: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="FIELD=VALUES ...", help_behavior_hint="")] = None
    """Fields to search: lam=0.001..0.1 k=1,10,20; without this flag, the paper's own grids."""
    trials: int = 20
    """Total number of trials, 1 to 100000; more search better and cost time."""
    executor: Literal["local", "ray"] = "local"
    """Where runs execute: processes of this machine, or tasks of a Ray cluster."""
    address: Annotated[str | None, tyro.conf.arg(metavar="HOST:PORT", help_behavior_hint="")] = None
    """Ray cluster to join; without it, one is started on this machine alone."""

    def __call__(self) -> int:
        require("--trials", 1 <= self.trials <= 100_000, f"must lie in 1..100000, got {self.trials}")
        require("tune", find_spec("optuna") is not None, "needs optuna: pip install 'sbeed[tune]'")
        require("--over", self.over != (), "name at least one field and its values, such as lam=0.001..0.1")
        plan = self.merged()
        why = "must be at least 1: stopped runs continue from their checkpoints"
        require("--checkpoint-every", plan.settings.checkpoint_every > 0, why)
        from gymnasium.error import Error as GymnasiumError

        from sbeed.experiments import search
        from sbeed.experiments.progress_bars import bars
        from sbeed.experiments.space import fields_of, paper_space, read_space
        from sbeed.storage.lock import locked

        base, seeds = plan.spec(), plan.seeds
        with self.complaints(ValueError, GymnasiumError, ImportError):
            self.check_env(base.env)
            search.check(base)
            space = (
                read_space(base.agent, base.preset, self.over)
                if self.over
                else paper_space(base.agent, base.preset, partial(search.goes_with, base))
            )
            require(
                "--over",
                len(space) > 0,
                f"is needed: the preset {base.preset} of {base.agent} has none of the fields of the paper's grids",
            )
            both = set(fields_of(dict.fromkeys(space))) & set(plan.changes)
            require("--over", not both, f"{', '.join(both)}: cannot be both searched and set")
        make_directory("--out", self.out)
        with (
            complaints(ValueError, OSError),
            locked(self.out),
            executing(self.executor, self.address, self.workers or None) as executor,
            bars("trials") as show,
        ):
            study = search.open_study(self.out, space, base, seeds)
            search.Search(study, space, base, seeds, self.out).run(self.trials, executor, show)
        if not study.get_trials(states=(search.TrialState.COMPLETE,)):
            raise UserError(f"no trial in '{self.out}' was completed")
        path = search.write_best(self.out, study, base)
        print(path.read_text(), end="")
        print(path)
        return 0

"""The learning results: committed rows in, README.md and learning.png out. `make results`

<root>/random.json                  what uniformly random actions earn, by task (`--random` measures it anew)
<root>/<preset>/<task>/config.yaml, metrics.jsonl    of a run, as `sbeed train` writes them; sac stands for SAC's preset
<root>/<preset>/<task>/origin.yaml                   command, commit, machine and, where there is more to say, note;
                                                     rows: the folder with the other two, if it is another
"""

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from sbeed.reporting import plots, stats
from sbeed.reporting.number_format import number, short
from sbeed.storage.run_dir import CONFIG, Row, read_config, read_rows


class Goal(NamedTuple):
    steps: int
    mean: float


FROZEN_LAKE_OPTIMUM = 0.74419  # chance of the best policy to arrive within the 100 steps
GOALS = {
    "default": {
        "Pendulum-v1": Goal(20_000, -170),
        "InvertedDoublePendulum-v5": Goal(300_000, 9000),
        "Hopper-v5": Goal(1_000_000, 3000),
        "HalfCheetah-v5": Goal(1_000_000, 9500),
        "Swimmer-v5": Goal(1_000_000, 300),
        "CartPole-v1": Goal(50_000, 490),
        "Acrobot-v1": Goal(100_000, -90),
        "FrozenLake-v1": Goal(100_000, 0.95 * FROZEN_LAKE_OPTIMUM),
    },
    "paper": {
        "Pendulum-v1": Goal(200_000, -200),
        "InvertedDoublePendulum-v5": Goal(2_000_000, 7000),
        "Hopper-v5": Goal(2_000_000, 2000),
        "HalfCheetah-v5": Goal(2_000_000, 3000),
        "Swimmer-v5": Goal(2_000_000, 250),
    },
}
ACTIONS = {"CartPole-v1": 2, "Acrobot-v1": 3, "FrozenLake-v1": 4}
TASKS = list(GOALS["default"])
COLOURS = {"default": plots.BLUE, "paper": plots.VERMILLION, "sac": plots.GREEN}
STABLE = 0.6
ORIGIN = "origin.yaml"

TEXT = """\
# Learning

Written by `make results` from the rows beside it and those of [off_policy](../off_policy/runs); do not edit.

![Learning curves](learning.png)

Thick lines are means over the seeds, bands their 95% intervals, thin lines single seeds; a dashed line is a goal, as
long as the steps it allows.

- **Final return**: of the last parameters, deterministic policy, never the best checkpoint; {episodes} episodes. The
  interval is Student's t over the seeds, 95%.
- **Goal**: at least this mean, after at most so many steps. A run that ended before the steps asked of it is
  *unfinished*, whatever its mean.
- **Stability**: the 10th percentile of the evaluations in the run's last quarter over its best rolling mean of five
  evaluations, both measured from what random actions earn (100 episodes, `random.json`). The goal is 0.6 in every run.
  Evaluations are `evaluate_every` steps apart (config.yaml).
- **V**: the largest |V| in a run's rows against (max |r| + max lam |H|) / (1 - gamma) of the same rows, for the seed
  that comes closest to it; H is log A where there are A actions, otherwise what was measured. A row has the mean, over
  one iteration's updates, of each batch's largest. "≥": the rows do not have the rewards, and max |r| is only known to
  be no less than a mean reward per step or one that random actions met.
"""


FORMER = """\
`default` on {tasks}: of sbeed 0.1, where another learner had this name. Today's has no rows here yet.
"""
VERSUS = """\
Interquartile means of the final returns, same steps, gamma and evaluation, and the seeds that both have; intervals,
95%, of a bootstrap over the seeds. The chance is that of a run against another's, a tie counted half. SAC is
[ours](../../docs/agents/sac.md).
"""


class LearningRun(NamedTuple):
    preset: str
    task: str
    config: Mapping[str, Any]
    rows: Sequence[Row]
    origin: Mapping[str, Any]

    @property
    def by_seed(self) -> dict[int, list[Row]]:
        """Each seed's rows in the order of their steps; a seed that the run should have and has not is empty."""
        first = self.config["seed"]
        seeds = range(first, first + self.config["seeds"])
        ordered = sorted(self.rows, key=lambda row: row["step"])
        return {s: [row for row in ordered if row["seed"] == s] for s in seeds}

    @property
    def reached(self) -> int:
        return max(row["step"] for row in self.rows)

    @property
    def finals(self) -> dict[int, float | None]:
        """The final return of each seed; None where it diverged or was cut off."""
        return {
            seed: next((row["return"] for row in rows if row["final"]), None) for seed, rows in self.by_seed.items()
        }


class Bound(NamedTuple):
    V: float
    limit: float
    exact: bool  # False: the true limit is this or more


def read_runs(root: Path) -> list[LearningRun]:
    """All runs below root, presets and tasks in the order of their goals, others after them by name.

    A run's config and rows lie beside its origin.yaml, or where that says: the folder of a figure's run.
    """
    order = [(preset, task) for preset in (*GOALS, "sac") for task in TASKS]
    runs = []
    for folder in sorted({file.parent for name in (CONFIG, ORIGIN) for file in root.glob(f"*/*/{name}")}):
        origin = read_config(folder / ORIGIN)
        place = folder / origin.get("rows", "")
        runs.append(LearningRun(folder.parent.name, folder.name, read_config(place / CONFIG), read_rows(place), origin))
    return sorted(runs, key=lambda run: order.index(key) if (key := (run.preset, run.task)) in order else len(order))


def stability(rows: Sequence[Row], random_return: float) -> float | None:
    """(10th percentile of the last quarter - random) / (best rolling mean of 5 - random); None if none beat random."""
    steps, returns = np.array([row["step"] for row in rows]), np.array([row["return"] for row in rows])
    window = min(5, len(returns))
    best = np.convolve(returns, np.ones(window) / window, "valid").max()
    if best <= random_return:
        return None
    low = np.percentile(returns[steps > 0.75 * steps[-1]], 10)
    return float((low - random_return) / (best - random_return))


def bound(rows: Sequence[Row], config: Mapping[str, Any], random_reward: float) -> Bound | None:
    """Of one seed; None where V or the reward's scale is unknown. random_reward: largest that random actions met."""
    V, reward = _largest(row.get("V_largest") for row in rows), _largest(row.get("reward_largest") for row in rows)
    exact = reward is not None
    if reward is None and not config["normalize_rewards"]:
        reward = max(random_reward, *(abs(row["return"]) / row["length"] for row in rows))
    if V is None or reward is None:
        return None
    most = np.log(ACTIONS.get(config["env"], 1))
    smoothing = [
        row.get("lam_now", row.get("lam", config["lam"])) * max(most, abs(row["entropy"]))
        for row in rows
        if row.get("entropy")
    ]
    return Bound(V, (reward + max(smoothing, default=0.0)) / (1 - config["gamma"]), exact)


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def report(runs: Sequence[LearningRun], random: Mapping[str, Mapping[str, float]]) -> str:
    """The text of README.md."""
    episodes = " or ".join(str(n) for n in sorted({run.config["final_episodes"] for run in runs}))
    parts = [TEXT.format(episodes=episodes)]
    for preset in dict.fromkeys(run.preset for run in runs):
        some = [run for run in runs if run.preset == preset]
        parts += [f"## `{preset}`\n", *_former(some)]
        parts += [_table("task | steps, of | goal (steps) | final mean | verdict | by seed", map(_score, some))]
        header = "task | stability by seed | all ≥ 0.6 | largest V, of its bound | within"
        parts += [_table(header, (_holding(run, random[run.task]) for run in some))]
        parts += ["".join(f"- {run.task}: {_origin(run)}\n" for run in some)]
    if pairs := versus(runs):
        parts += ["## `default` against SAC\n", *_former(runs), VERSUS]
        parts += [_table("task | `default` | SAC | chance that `default` is above", pairs)]
    return "\n".join(parts)


def _former(runs: Iterable[LearningRun]) -> list[str]:
    """A remark where rows of `default` are of sbeed 0.1, whose V took actions of the policy."""
    tasks = [run.task for run in runs if run.preset == "default" and run.config.get("V_actions", "replay") != "replay"]
    return [FORMER.format(tasks=", ".join(tasks))] if tasks else []


def _table(header: str, lines: Iterable[str]) -> str:
    return "".join(f"| {line} |\n" for line in (header, "|".join("---" for _ in header.split("|")), *lines))


def _score(run: LearningRun) -> str:
    goal = GOALS.get(run.preset, {}).get(run.task)
    found = [final for final in run.finals.values() if final is not None]
    scores = stats.mean(np.array(found)) if found else None
    mean = f"{number(float(scores.value))} ± {number(float(scores.hi - scores.value))}" if scores else "–"
    return " | ".join(
        (
            run.task,
            f"{run.reached:,} / {run.config['steps']:,}",
            f"{round(goal.mean, 3):,g} ({goal.steps:,})" if goal else "–",
            mean,
            verdict(run, goal) if goal else "–",
            " ".join(number(final) for final in run.finals.values()),
        )
    )


def versus(runs: Sequence[LearningRun]) -> list[str]:
    """Lines for the tasks that `default` and SAC have both finished."""
    ended = {(run.preset, run.task): run.finals for run in runs if _finished(run)}
    lines = []
    for task in TASKS:
        if {("default", task), ("sac", task)} <= ended.keys():
            pair = ended["default", task], ended["sac", task]
            ours, theirs = (np.array([one[seed] for seed in pair[0].keys() & pair[1].keys()]) for one in pair)
            scores = [stats.overall_iqm([one]) for one in (ours, theirs)]
            chance = stats.improvement([ours], [theirs])
            cells = [f"{number(float(s.value))} ({number(float(s.lo))} to {number(float(s.hi))})" for s in scores]
            lines.append(" | ".join((task, *cells, f"{chance.value:.2f} ({chance.lo:.2f} to {chance.hi:.2f})")))
    return lines


def _finished(run: LearningRun) -> bool:
    """Whether every seed has gone all the way."""
    return None not in run.finals.values() and run.reached >= run.config["steps"]


def verdict(run: LearningRun, goal: Goal) -> str:
    """A goal is met by all seeds' mean at the run's end, and only within the goal's steps."""
    found = [final for final in run.finals.values() if final is not None]
    if len(found) < len(run.finals):
        return "missed: a seed has no final return"
    above = np.mean(found) >= goal.mean
    if run.reached < run.config["steps"]:
        return f"unfinished ({'above' if above else 'below'} the goal)"
    return "**met**" if above and run.reached <= goal.steps else "missed"


def _holding(run: LearningRun, random: Mapping[str, float]) -> str:
    members = [rows for rows in run.by_seed.values() if rows]
    held = [stability(rows, random["return"]) for rows in members]
    bounds = [bound(rows, run.config, random["largest_reward"]) for rows in members]
    ended = None not in run.finals.values()  # a seed that diverged may have been steady until then
    stable = "yes" if ended and all(share is not None and share >= STABLE for share in held) else "no"
    cells = [run.task, " ".join("–" if share is None else f"{share:.2f}" for share in held), stable, "–", "–"]
    known = [found for found in bounds if found is not None]
    if len(known) == len(members):
        worst = max(known, key=lambda found: found.V / found.limit)
        cells[3] = f"{number(worst.V)} / {'' if worst.exact else '≥ '}{number(worst.limit)}"
        cells[4] = "yes" if worst.V <= worst.limit else "no" if worst.exact else "unknown"
    return " | ".join(cells)


def _origin(run: LearningRun) -> str:
    text = f"`{run.origin['command']}` at {run.origin['commit']}, {run.origin['machine']}."
    if run.reached < run.config["steps"]:
        text += f" Stopped early, at {run.reached:,} of {run.config['steps']:,} steps."
    return text + (f" {run.origin['note']}" if "note" in run.origin else "")


def draw(runs: Sequence[LearningRun]) -> Figure:
    """A panel per task, a colour per preset."""
    tasks = sorted({run.task for run in runs}, key=lambda task: (task not in TASKS, [*TASKS, task].index(task), task))
    with rc_context(plots.STYLE):
        figure, places = plots.grid(len(tasks), legend=0.6)
        for axes, task in zip(places, tasks):
            _panel(axes, task, [run for run in runs if run.task == task])
        for axes in places[::3]:
            axes.set_ylabel("evaluation return")
        presets = [preset for preset in COLOURS if any(run.preset == preset for run in runs)]
        keys = [Line2D([], [], color=COLOURS[preset], lw=2, label=preset) for preset in presets]
        keys += [Line2D([], [], color=plots.GREY, lw=0.8, label="one seed")]
        keys += [Line2D([], [], color=plots.BLACK, lw=1.2, ls="--", label="goal and its steps")]
        figure.legend(handles=keys, loc="outside upper center", ncols=len(keys), fontsize=11)
    return figure


def _panel(axes: Axes, task: str, runs: Sequence[LearningRun]) -> None:
    heights = [row["return"] for run in runs for row in run.rows]
    for run in runs:
        colour = COLOURS.get(run.preset, plots.BLACK)
        for rows in run.by_seed.values():
            axes.plot([row["step"] for row in rows], [row["return"] for row in rows], color=colour, lw=0.7, alpha=0.35)
        series = stats.over_seeds(run.rows)
        axes.plot(series.x, series.y, color=colour)
        axes.fill_between(series.x, series.lo, series.hi, color=colour, alpha=0.18, lw=0)
        if goal := GOALS.get(run.preset, {}).get(task):
            axes.plot([0, goal.steps], [goal.mean] * 2, color=colour, lw=1.2, ls="--")
            heights.append(goal.mean)
    # The interval of a few seeds that disagree may reach far outside anything that was measured.
    margin = 0.05 * (max(heights) - min(heights)) or 1.0
    axes.set(
        title=task, xlabel="environment steps", xlim=(0, None), ylim=(min(heights) - margin, max(heights) + margin)
    )
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(lambda x, _: short(x))


def measure_random(tasks: Iterable[str], episodes: int = 100) -> dict[str, dict[str, float]]:
    """What uniformly random actions earn: mean return and largest |reward|; episode i starts from seed i."""
    import gymnasium

    found = {}
    for task in tasks:
        env = gymnasium.make(task)
        env.action_space.seed(0)
        returns, largest = np.zeros(episodes), 0.0
        for episode in range(episodes):
            env.reset(seed=episode)
            over = False
            while not over:
                _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
                returns[episode] += float(reward)
                largest = max(largest, abs(float(reward)))
                over = terminated or truncated
        env.close()
        found[task] = {"return": float(returns.mean()), "largest_reward": largest}
    return found


def read_random(root: Path) -> dict[str, dict[str, float]]:
    return json.loads((root / "random.json").read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description="Write README.md and learning.png of the runs below a directory.")
    parser.add_argument("root", type=Path)
    parser.add_argument("--random", action="store_true", help="measure what random actions earn first")
    given = parser.parse_args()
    if given.random:
        (given.root / "random.json").write_text(json.dumps(measure_random(TASKS), indent=1) + "\n")
    runs = read_runs(given.root)
    (given.root / "README.md").write_text(report(runs, read_random(given.root)))
    for path in (given.root / "README.md", *plots.save(draw(runs), given.root / "learning")):
        print(path)


if __name__ == "__main__":
    main()

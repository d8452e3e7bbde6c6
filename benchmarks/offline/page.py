"""README.md of results/offline, a pure function of rows.jsonl beside it."""

from collections.abc import Iterable, Sequence

import numpy as np

from benchmarks.markdown import aligned
from benchmarks.offline.learning import STUDIES
from benchmarks.rows import Measurement

GOALS = {name: study.goal for name, study in STUDIES.items()}
SEEDS = 5
MEDIUM = "medium"  # the study of what our own agents did
TEXT = """\
# Learning from fixed data

Written by `python -m benchmarks.offline` from rows.jsonl beside it; do not edit. `--only NAME` does one study again,
`--page` writes this page alone. Which study says what, and when to trust it: [docs/offline.md](../../docs/offline.md).

![What fixed data teach](offline.png)

"""

FORMER = """\
Studies measured with sbeed 0.1, whose `default` and `offline` were another learner: {studies}.

"""

FINALS = """
Final return of the last parameters, 20 episodes, deterministic; path and agent share a seed. The path is worth
`effective` independent transitions ([mixing](../../src/sbeed/data/mixing.py)). *Unbroken*: without the time limit. The
discrete settings of `offline` were chosen by looking at seeds 0 to 2 of CartPole, on other paths of 50,000 steps; of
Pendulum one path was looked at, beside the sets below, when those of a box were.
"""
RANK = 0.8
RANKS = """
Spearman's rank correlation of eight policies' estimates with their true mean returns. The policies are stages of a
learning agent, the data those of another one's and of random actions; {warned} of {policies} estimates came with a
warning of thin coverage. The verdict is of the mean over seeds; of the fitted estimates {above} of {fits} are at least
{rank} by themselves. CartPole's policies and the number of updates were chosen after a first study on these seeds had
missed (its later stages were too close together, told on seeds 50 and 51; the fit had not converged, told on 3 and 4).
"""
MEDIUM_TEXT = """
Mean return of 20 deterministic episodes of the last parameters; the behaviour's is of its own episodes, actions drawn.
`clone` is 20,000 steps of maximum likelihood alone; `td3+bc`, where it stands, is d3rlpy's with its settings, on the
same data and episodes, after fewer updates than `offline` had. The box's settings of `offline` were chosen on these
sets and seeds (docs/log/offline_narrow_data.md): these are not fresh ones.
"""


def readme(rows: Sequence[Measurement]) -> str:
    former = sorted({row["study"] for row in rows if "sbeed" not in row})  # the version is in rows since 0.2
    parts = [TEXT, *([FORMER.format(studies=", ".join(former))] if former else [])]
    parts += ["## Learning from one path of uniformly random actions\n\n", _learning(rows)]
    parts += [FINALS, "\n## The error of V and the length of the path\n\n", _garnet(rows)]
    parts += ["\n## Values told from data alone\n\n", _values(rows)]
    parts += ["\n## Learning from what our own agents did\n\n", _medium(rows)]
    parts += ["\n## A million transitions\n\n", _loading(rows), "\n## Where it comes from\n\n", _origins(rows)]
    return "".join(parts)


def _of(rows: Iterable[Measurement], study: str) -> list[Measurement]:
    return sorted((row for row in rows if row["study"] == study), key=lambda row: row["seed"])


def verdict(met: bool, tried: int) -> str:
    return ("met" if met else "**missed**") + ("" if tried >= SEEDS else f" so far ({tried} of {SEEDS} seeds)")


def _learning(rows: Sequence[Measurement]) -> str:
    lines = [["study", "preset", "steps", "effective", "data's return", "goal", "mean", "by seed", "verdict"]]
    for study, goal in GOALS.items():
        for preset in sorted({row["preset"] for row in _of(rows, study)}):
            some = [row for row in _of(rows, study) if row["preset"] == preset]
            finals = [row["return"] for row in some]
            data, worth = (np.mean([row[key] for row in some]) for key in ("data_return", "effective"))
            lines.append(
                [
                    *(study, preset, f"{some[0]['transitions']:,}", f"{worth:,.0f}", f"{data:.0f}", f"{goal:g}"),
                    *(f"{np.mean(finals):.1f}", " ".join(f"{x:.0f}" for x in finals)),
                    verdict(bool(np.mean(finals) >= goal), len(some)),
                ]
            )
    return aligned(lines)


def _garnet(rows: Sequence[Measurement]) -> str:
    some, networks = _of(rows, "garnet"), _of(rows, "garnet, networks")
    if not some:
        return "Not measured.\n"
    slopes = np.concatenate([row["slopes"] for row in some])
    half = 1.96 * slopes.std(ddof=1) / np.sqrt(len(slopes))
    met = abs(slopes.mean() + 0.5) <= 0.1
    T = some[0]["T"]
    text = f"""\
Tables, eta 1, {len(slopes)} garnets, a path each of {T[0]:,} to {T[-1]:,} steps: log sup |V^ - V*_lam| has the slope
{slopes.mean():.3f} ± {half:.3f} in log T (95%, over paths). Asked for is -0.5 ± 0.1: {verdict(bool(met), len(some))}.
"""
    if networks:
        lines = [["seed", "T", "statistical", "optimisation", "total"]]
        keys = ("statistical", "optimisation", "total")
        lines += [
            [str(row["seed"]), f"{one['T']:,}", *(f"{one[key]:.4f}" for key in keys)]
            for row in networks
            for one in row["errors"]
        ]
        text += "\nWith networks, sup errors to V*_lam (total) and to the path's own optimum V^:\n\n"
        text += aligned(lines)
    return text


def _values(rows: Sequence[Measurement]) -> str:
    lines = [["task", "estimate", "mean", "by seed", "asked for", "verdict"]]
    for study in sorted({row["study"] for row in rows if row["study"].startswith("values, ")}):
        some = _of(rows, study)
        for kind, name in {"fitted": "fitted", "robust": "doubly robust"}.items():
            ranks = [row[f"{kind}_rank"] for row in some]
            mean, each = f"{np.mean(ranks):.2f}", " ".join(f"{rank:.2f}" for rank in ranks)
            met = verdict(bool(np.mean(ranks) >= RANK), len(ranks))
            lines.append([study.partition(", ")[2], name, mean, each, f"{RANK}", met])
    if len(lines) == 1:
        return "Not measured.\n"
    policies = [one for row in rows if row["study"].startswith("values, ") for one in row["policies"]]
    warned = sum(one["warning"] is not None for one in policies)
    fits = [row["fitted_rank"] for row in rows if row["study"].startswith("values, ")]
    above = sum(rank >= RANK for rank in fits)
    return aligned(lines) + RANKS.format(warned=warned, policies=len(policies), above=above, fits=len(fits), rank=RANK)


def _medium(rows: Sequence[Measurement]) -> str:
    some = _of(rows, MEDIUM)
    if not some:
        return "Not measured; [how to](../../docs/offline.md#medium-datasets).\n"
    lines = [["task", "data", "system", "updates", "mean", "by seed", "against the behaviour"]]
    by_system: dict[tuple[str, ...], list[Measurement]] = {}
    for row in some:
        sizes = "x".join(map(str, row.get("hidden", ())))
        by_system.setdefault((row["task"], row["kind"], f"{row['system']} {sizes}".strip()), []).append(row)
    means = {key: float(np.mean([row["return"] for row in found])) for key, found in by_system.items()}
    for key, found in sorted(by_system.items()):
        behaviour = means.get((*key[:2], "behaviour"))
        judged = "–"
        if behaviour is not None and key[2] != "behaviour":
            judged = verdict(means[key] > behaviour, len(found)).replace("met", "above").replace("missed", "below")
        made = f"{found[0]['updates']:,}" if "updates" in found[0] else "–"
        lines.append([*key, made, f"{means[key]:.0f}", " ".join(f"{row['return']:.0f}" for row in found), judged])
    return aligned(lines) + MEDIUM_TEXT


def _loading(rows: Sequence[Measurement]) -> str:
    """Both in processor time, of which an idle machine's clock shows no more."""
    some, epochs = _of(rows, "loading"), _of(rows, "epoch")
    lines = [["a million transitions", "processor time at worst", "asked for", "verdict"]]
    for what, found, limit in (("read, hashed and checked", some, 1), ("one epoch at the paper's sizes", epochs, 60)):
        if found:
            worst = max(row["processor_seconds"] for row in found)
            lines.append([what, f"{worst:.2f} s", f"{limit} s", "met" if worst <= limit else "**missed**"])
        else:
            lines.append([what, "–", f"{limit} s", "not measured"])
    return aligned(lines)


def _origins(rows: Sequence[Measurement]) -> str:
    origins = sorted({f"- {row['study']}: commit {row['commit']}, {row['machine']}\n" for row in rows})
    return "".join(origins)

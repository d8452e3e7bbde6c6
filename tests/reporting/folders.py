"""Figures' folders to read, made of committed rows or of made-up ones."""

import json
from pathlib import Path

import numpy as np
import yaml
from benchmarks.learning_page import read_runs

LEARNED = Path(__file__).parents[2] / "results" / "learning"
TASKS = ("Pendulum-v1", "Hopper-v5", "HalfCheetah-v5")


def write_run(folder, id, config, rows):
    place = folder / "runs" / id
    place.mkdir(parents=True)
    (place / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    (place / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_figure(folder, panels, **more):
    about = {"name": "made", "title": "Made up", "scale": "smoke", "executor": "local", "machine": "two cores"}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "figure.json").write_text(json.dumps({**about, "seconds": 93.5, "panels": panels, **more}))
    return folder


def learned(folder, tasks=TASKS):
    """Both presets of results/learning as a figure with a run for each seed."""
    runs = {(run.preset, run.task): run for run in read_runs(LEARNED)}
    panels = []
    for task in tasks:
        panel = {"name": task, "env": task, "x": "step", "runs": []}
        for preset in ("default", "paper"):
            run = runs[preset, task]
            for seed in range(5):
                id = f"{preset}-{task}-{seed}"
                write_run(folder, id, {**run.config, "seed": seed, "seeds": 1}, run.by_seed[seed])
                panel["runs"].append({"label": f"SBEED {preset}", "seed": seed, "id": id})
        panels.append(panel)
    return write_figure(
        folder, panels, name="off-policy", title="SBEED's presets", scale="full", machine="one H200", seconds=54_000
    )


def rows_of(returns, *, seed=0, every=100, env="Pendulum-v1"):
    """Evaluations every so many steps, the last one final."""
    return [
        {"env": env, "seed": seed, "step": every * i, "final": i == len(returns), "return": x, "seconds": 2.0 * i}
        for i, x in enumerate(returns, 1)
    ]


def rows_of_seeds(seeds=(0, 1, 2), env="Pendulum-v1"):
    """Two evaluations of each seed, the later one first."""
    return [
        {"env": env, "seed": seed, "step": step, "return": float(seed + step)} for step in (20, 10) for seed in seeds
    ]


def ablation(folder, values=(0.001, 0.01, 0.1, 1.0), seeds=5):
    """Panels that have nothing to compare across: each has labels of its own."""
    rng, panels = np.random.default_rng(0), []
    for field in ("lam", "eta", "k"):
        panel = {"name": f"over {field}", "env": "Swimmer-v5", "x": "iteration", "runs": []}
        for i, value in enumerate(values):
            for seed in range(seeds):
                height = (60, 200, 280, 120)[i % 4] + 20 * rng.normal()
                returns = height * (1 - np.exp(-np.arange(1, 31) / 8)) + 12 * rng.normal(size=30)
                id = f"{field}-{value}-{seed}"
                config = {"env": "Swimmer-v5", "steps": 300_000, "steps_per_iteration": 2_000, field: value}
                write_run(folder, id, config, rows_of(list(returns), seed=seed, every=10_000, env="Swimmer-v5"))
                panel["runs"].append({"label": f"{field} = {value:g}", "seed": seed, "id": id})
        panels.append(panel)
    return write_figure(folder, panels, name="ablation", title="What lam, eta and k do")


def unfinished(folder):
    """Of `all` both seeds are over, of `some` one has just begun, of `cut` one diverged, of `none` none has begun."""
    config = {"env": "Pendulum-v1", "steps": 300, "steps_per_iteration": 50, "seeds": 1}
    stand = {"all-0": 3, "all-1": 3, "some-0": 3, "some-1": 3, "some-2": 1, "cut-0": 3, "cut-1": 2}
    for i, (id, evaluations) in enumerate(stand.items()):
        rows = rows_of([10.0 * i + 1, 10.0 * i + 2, 10.0 * i + 3], seed=int(id[-1]))
        write_run(folder, id, config, rows[:evaluations])
    (folder / "runs" / "cut-1" / "result.json").write_text('{"outcome": "diverged", "seconds": 4.0}')
    runs = [{"label": id[:-2], "seed": int(id[-1]), "id": id} for id in (*stand, "none-0")]
    panel = {"name": "Pendulum", "env": "Pendulum-v1", "x": "step", "runs": runs}
    return write_figure(folder, [panel], title="Not over yet")


EVIL = "</script></title><script>pwned=1</script><img src=x onerror=pwned=1>\"'><svg onload=pwned=1>"


def hostile(folder):
    """Markup wherever a file may hold text, and letters that are none."""
    config = {"env": EVIL, "steps": 200, "steps_per_iteration": 10, EVIL: [EVIL, {EVIL: "\u202e"}], "z": "\x1b[2J"}
    runs = []
    for seed in range(2):
        write_run(folder, f"evil-{seed}", config, rows_of([1.0, 2.0 + seed], seed=seed, env=EVIL))
        result = dict.fromkeys(("outcome", "message", "machine"), EVIL) | {"versions": {EVIL: EVIL}}
        (folder / "runs" / f"evil-{seed}" / "result.json").write_text(json.dumps(result))
        runs += [
            {"label": label, "seed": seed, "id": f"evil-{seed}"} for label in (EVIL, "\ud800 javascript:pwned=1\x00")
        ]
    claim = {"name": EVIL, "says": EVIL, "holds": True, "held": 1, "mdps": 1, "margin": 0.5, "seconds": 1}
    (folder / "claims.json").write_text(json.dumps([{**claim, "counterexample_fails": True}]))
    (folder / "theory.csv").write_text(
        "panel,series,x,y,lo,hi\n" + "".join(f'a,"{EVIL.replace(chr(34), "")}",{x},1,1,1\n' for x in (1, 2))
    )
    panels = [{"name": EVIL, "env": EVIL, "x": "step", "runs": runs}]
    words = dict.fromkeys(("name", "title", "scale", "executor", "machine"), EVIL)
    return write_figure(folder, panels, versions={EVIL: EVIL}, **words)

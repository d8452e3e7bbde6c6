"""Looking at a run, keeping it and showing it changes nothing of it."""

import contextlib
import io
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.reliability import runs
from benchmarks.reliability.trial import Trial, attempt, require
from sbeed.storage import tensors

NAME = "looking"
MUST = "identical parameter hashes"
LIMIT = None
ABOUT = """\
The same agent learns for the same steps, with and without a directory (rows, TensorBoard events, models), evaluations,
checkpoints, a progress bar, a film, predictions and evaluations of its user's on the way. The SHA-256 of every tensor
must be that of the run without them. Seconds: of the run.
"""

STEPS = 100
ENVS = ("Pendulum-v1", "jax:pendulum")
LOOKS: dict[str, dict[str, Any]] = {
    "a directory": {"out": True, "evaluate_every": 1000, "checkpoint_every": 0},
    "evaluations often": {"out": True, "evaluate_every": 8, "episodes": 2, "checkpoint_every": 0},
    "evaluations rarely": {"out": True, "evaluate_every": 90, "final_episodes": 1, "checkpoint_every": 0},
    "checkpoints often": {"out": True, "evaluate_every": 1000, "checkpoint_every": 8},
    "checkpoints rarely": {"out": True, "evaluate_every": 1000, "checkpoint_every": 50},
    "a progress bar": {"progress_bar": True},
    "a film": {"callback": "film"},
    "predictions and evaluations": {"callback": "look"},
    "everything": {"out": True, "evaluate_every": 8, "checkpoint_every": 8, "progress_bar": True, "callback": "look"},
}
CASES = [(env, look) for env in ENVS for look in LOOKS if (env, look) != ("jax:pendulum", "a film")]
COUNT = len(CASES)


def trials(seeds: Sequence[int]) -> Iterator[Trial]:
    for seed in seeds:
        env, look = CASES[seed % len(CASES)]
        yield attempt(f"{look}, {env}", seed, lambda env=env, look=look: _same(env, LOOKS[look]))


def _same(env: str, look: dict[str, Any]) -> None:
    found, expected = hashes(env, **look), _unseen(env)
    different = [name for name in expected if found[name] != expected[name]]
    require(not different, f"other numbers: {', '.join(different)}")


@cache
def _unseen(env: str) -> dict[str, str]:
    return hashes(env)


def hashes(env: str, *, out: bool = False, callback: str = "", **asked: Any) -> dict[str, str]:
    """Of every tensor of an agent that has learned."""
    from sbeed import SBEED

    agent = SBEED(None, env, **runs.FIELDS)
    with tempfile.TemporaryDirectory() as place, contextlib.redirect_stderr(io.StringIO()):
        if out:
            asked["out"] = Path(place) / "run"
        agent.learn(STEPS, callback=_callback(callback, env, Path(place)), **asked)
        agent.close()
        return {name: tensors.sha256(x.tobytes()) for name, x in tensors.named_tensors(agent._learned()).items()}


def _callback(name: str, env: str, place: Path) -> Callable[[Any], None] | None:
    from sbeed.collect.video import film

    def filming(agent: Any) -> None:
        if agent.num_timesteps == 48:
            film(place / "film.gif", env, agent.policy, 1, seed=0)

    def looking(agent: Any) -> None:
        agent.predict(agent.observation_space.sample())
        if agent.num_timesteps % 24 == 0:
            agent.evaluate(1)

    return {"film": filming, "look": looking}.get(name)

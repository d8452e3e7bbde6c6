"""Film a policy as GIF or MP4. Needs the extra `video`."""

import math
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from sbeed.collect.actor import greedily
from sbeed.collect.episode import EVALUATION, Episode
from sbeed.envs.base import HostEnv
from sbeed.envs.gym import make_gym
from sbeed.envs.registry import make
from sbeed.envs.task import check_imports_nothing
from sbeed.models.host import HostPolicy

MOST_FRAMES_PER_SECOND = 30


def film(
    path: Path,
    name: str | None,
    policy: HostPolicy,
    episodes: int,
    *,
    seed: int,
    noise: float = 0.0,
    named_by_user: bool = False,
) -> None:
    """Film the deterministic policy at real speed, with at most 30 pictures a second.

    named_by_user: the user typed the environment's name, so it may import a module; a name from a file may not.
    """
    env = open_for_filming(name, named_by_user)
    try:
        steps_per_second = env.metadata.get("render_fps", MOST_FRAMES_PER_SECOND)
        every = math.ceil(steps_per_second / MOST_FRAMES_PER_SECOND)
        pictures = frames(env, policy, episodes, seed=seed, noise=noise, every=every)
        write(path, pictures, steps_per_second / every)
    finally:
        env.close()


def check_filmable(name: str | None, named_by_user: bool = False) -> None:
    """Raise a ValueError if the environment cannot be filmed, or if a name from a file would import a module."""
    if name is None or name.startswith("jax:"):
        raise ValueError(f"{name or 'this environment'} cannot be filmed: only a Gymnasium id can")
    if not named_by_user:
        check_imports_nothing(name, "--env")


def open_for_filming(name: str | None, named_by_user: bool = False) -> gymnasium.Env:
    """Make the Gymnasium environment of that name so that it renders arrays."""
    check_filmable(name, named_by_user)
    assert name is not None
    if sys.platform == "linux" and not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl")  # the defaults of MuJoCo and pygame need a screen
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    return make_gym(name, render_mode="rgb_array")


def frames(
    env: gymnasium.Env, policy: HostPolicy, episodes: int, *, seed: int, noise: float = 0.0, every: int = 1
) -> Iterator[Any]:
    """Yield the picture of the start and of every `every`-th step, in the first episodes that `evaluate` plays."""
    host = make(env, noise)
    assert isinstance(host, HostEnv)
    episode = Episode(host, seed, EVALUATION, " of the film")
    for index in range(episodes):
        episode.begin(index)
        yield env.render()
        for step in episode.play(greedily(policy)):
            if step.last or len(episode.actions) % every == 0:  # drawing takes far longer than stepping
                yield env.render()


def write(path: Path, pictures: Iterable[Any], frames_per_second: float) -> None:
    """Write the pictures as a GIF or MP4; if an exception interrupts it, the file is removed."""
    import imageio.v2 as imageio

    gif = path.suffix == ".gif"
    pace = {"duration": 1000 / frames_per_second, "loop": 0} if gif else {"fps": frames_per_second}
    options: dict[str, Any] = pace if gif else {**pace, "macro_block_size": 2}
    try:
        reel: Any
        with warnings.catch_warnings(), imageio.get_writer(path, **options) as reel:
            # jax warns of the process that ffmpeg runs in; it calls nothing of jax.
            warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called", category=RuntimeWarning)
            for picture in pictures:
                if not isinstance(picture, np.ndarray):
                    raise ValueError("the environment draws no pictures (its render gives no array)")
                reel.append_data(picture[::2, ::2] if gif else picture)  # a GIF is hardly compressed
    except BaseException:
        path.unlink(missing_ok=True)
        raise

"""Films of a policy: GIF or MP4. Needs the extra `video`."""

import math
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from sbeed.envs.base import HostEnv
from sbeed.envs.registry import make
from sbeed.models.host import HostPolicy
from sbeed.training.collect import EVALUATION, episode_seed

KINDS = (".gif", ".mp4")
MOST_FRAMES_PER_SECOND = 30


def open_for_filming(name: str | None) -> gymnasium.Env:
    """The Gymnasium environment of that name, which draws itself as arrays."""
    if name is None or name.startswith("jax:"):
        raise ValueError(f"{name or 'this environment'} cannot be filmed: only a Gymnasium id can")
    if sys.platform == "linux" and not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl")  # what MuJoCo and pygame choose by themselves needs a screen
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    return gymnasium.make(name, render_mode="rgb_array", disable_env_checker=True)


def frames(env: gymnasium.Env, policy: HostPolicy, *, seed: int, episodes: int, noise: float = 0.0) -> Iterator[Any]:
    """Every picture of the deterministic policy's episodes, the first ones that `evaluate` plays."""
    host = make(env, noise)
    assert isinstance(host, HostEnv)
    for episode in range(episodes):
        obs, over = host.reset(seed=episode_seed(seed, EVALUATION, episode)), False
        yield env.render()
        while not over:
            obs, _, terminated, truncated = host.step(policy.squash(policy.mode(obs)))
            over = terminated or truncated
            yield env.render()


def write(path: Path, pictures: Iterable[np.ndarray], frames_per_second: float) -> None:
    """Film in real time, thinned to at most 30 pictures a second. The file is there whole, or not at all."""
    import imageio.v2 as imageio

    stride = math.ceil(frames_per_second / MOST_FRAMES_PER_SECOND)
    rate = frames_per_second / stride
    part = path.with_name(f".{path.stem}.part{path.suffix}")
    gif = path.suffix == ".gif"
    options: dict[str, Any] = {"duration": 1000 / rate, "loop": 0} if gif else {"fps": rate, "macro_block_size": 2}
    try:
        film: Any
        with warnings.catch_warnings(), imageio.get_writer(part, **options) as film:
            # jax warns of the process that ffmpeg runs in; it calls nothing of jax.
            warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called", category=RuntimeWarning)
            for i, picture in enumerate(pictures):
                if i % stride == 0:
                    film.append_data(picture[::2, ::2] if gif else picture)  # a GIF is hardly compressed
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)

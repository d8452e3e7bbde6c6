"""Films of a policy."""

import gymnasium
import numpy as np
import pytest

from sbeed.collect import video

imageio = pytest.importorskip("imageio.v3")


class Still:
    """A policy that does nothing."""

    def mode(self, obs):
        return np.zeros(1, np.float32)

    def squash(self, action):
        return action


class Drawn(gymnasium.Env):
    """A hundred and one steps of a hundredth of a second, and the number of pictures taken."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 100}  # noqa: RUF012
    observation_space = action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, render_mode=None):
        self.render_mode, self.looks = render_mode, 0

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.zeros(1, np.float32), 0.0, self.t == 101, False, {}

    def render(self):
        self.looks += 1
        return np.full((32, 48, 3), self.t, np.uint8)  # a GIF joins equal pictures


@pytest.fixture
def drawn():
    gymnasium.register("Drawn-v0", Drawn)
    yield
    del gymnasium.registry["Drawn-v0"]


def test_a_picture_for_each_step_and_one_for_the_start():
    pytest.importorskip("pygame")
    env = video.open_for_filming("Pendulum-v1")
    pictures = list(video.frames(env, Still(), 1, seed=0))
    env.close()
    assert len(pictures) == 201
    assert pictures[0].shape == (500, 500, 3)
    assert (pictures[0] != pictures[100]).any()


def test_only_pictures_that_are_shown_are_drawn():
    env = Drawn()
    shown = [int(picture[0, 0, 0]) for picture in video.frames(env, Still(), 2, seed=0, every=25)]
    assert shown == [0, 25, 50, 75, 100, 101] * 2
    assert env.looks == 12


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # imageio leaves ffmpeg's pipes open
@pytest.mark.parametrize("name", ["film.gif", "film.mp4"])
def test_a_film_lasts_as_long_as_what_it_shows(drawn, tmp_path, name):
    video.film(tmp_path / name, "Drawn-v0", Still(), 1, seed=0)
    film = imageio.imread(tmp_path / name, index=...) if name.endswith("gif") else imageio.imread(tmp_path / name)
    assert film.shape == ((27, 16, 24, 3) if name.endswith("gif") else (27, 32, 48, 3))  # 1.01 seconds at 25 a second
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_film_that_breaks_off_leaves_no_file(tmp_path):
    def pictures():
        yield np.zeros((16, 16, 3), np.uint8)
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        video.write(tmp_path / "film.gif", pictures(), frames_per_second=25)
    assert list(tmp_path.iterdir()) == []


def test_only_what_can_be_drawn(tmp_path):
    with pytest.raises(ValueError, match="draws no pictures"):
        video.write(tmp_path / "film.gif", [None], frames_per_second=25)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="jax:pendulum cannot be filmed"):
        video.open_for_filming("jax:pendulum")

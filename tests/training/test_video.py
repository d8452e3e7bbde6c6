"""Films of a policy."""

import numpy as np
import pytest

from sbeed.training import video

imageio = pytest.importorskip("imageio.v3")


class Still:
    """A policy that does nothing."""

    def mode(self, obs):
        return np.zeros(1, np.float32)

    def squash(self, action):
        return action


def test_a_picture_for_each_step_and_one_for_the_start():
    pytest.importorskip("pygame")
    env = video.open_for_filming("Pendulum-v1")
    pictures = list(video.frames(env, Still(), seed=0, episodes=1))
    env.close()
    assert len(pictures) == 201
    assert pictures[0].shape == (500, 500, 3)
    assert (pictures[0] != pictures[100]).any()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # imageio leaves ffmpeg's pipes open
@pytest.mark.parametrize("name", ["film.gif", "film.mp4"])
def test_a_film_lasts_as_long_as_what_it_shows(tmp_path, name):
    pictures = np.zeros((125, 32, 48, 3), np.uint8)
    pictures[:, :16] = np.arange(125, dtype=np.uint8)[:, None, None, None]  # a GIF joins equal pictures
    video.write(tmp_path / name, pictures, frames_per_second=125)
    film = imageio.imread(tmp_path / name, index=...) if name.endswith("gif") else imageio.imread(tmp_path / name)
    assert film.shape == ((25, 16, 24, 3) if name.endswith("gif") else (25, 32, 48, 3))  # one second at 25 a second
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_film_that_breaks_off_leaves_no_file(tmp_path):
    def pictures():
        yield np.zeros((16, 16, 3), np.uint8)
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        video.write(tmp_path / "film.gif", pictures(), frames_per_second=25)
    assert list(tmp_path.iterdir()) == []


def test_only_what_can_be_drawn():
    with pytest.raises(ValueError, match="jax:pendulum cannot be filmed"):
        video.open_for_filming("jax:pendulum")

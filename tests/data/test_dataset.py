"""What a dataset is, and what is refused, with episode, index and field."""

import numpy as np
import pytest
from gymnasium import spaces

from sbeed.data.dataset import BadData, Dataset, from_arrays

LAST = [9, 19, 29]  # three episodes of ten steps; the second is cut off, the others terminate


def _box():
    obs = np.arange(62, dtype=np.float32).reshape(31, 2)
    last = np.zeros(30, bool)
    last[LAST] = True
    terminated = last.copy()
    terminated[19] = False
    return {
        "obs": obs[:-1].copy(),
        "action": np.linspace(-1.5, 1.5, 30)[:, None].astype(np.float32),
        "reward": np.ones(30),
        "next_obs": obs[1:].copy(),
        "terminated": terminated,
        "last": last,
    }


def _discrete():
    return _box() | {"action": np.arange(30) % 3, "obs": np.arange(30), "next_obs": np.arange(1, 31)}


SPACES = {"action_space": spaces.Box(-2, 2, (1,), np.float32)}
WHOLE = {"observation_space": spaces.Discrete(31), "action_space": spaces.Discrete(3)}


def _set(field, value, make=_box):
    def spoil(i):
        arrays = make()
        arrays[field] = arrays[field].astype(float)
        arrays[field][i] = value
        return arrays

    return spoil


def _shortened(i):
    arrays = _box()
    return arrays | {"reward": arrays["reward"][:i]}


def _goes_on(i):
    arrays = _box()
    arrays["terminated"][i] = True
    return arrays


KINDS = {
    "obs nan": (_set("obs", np.nan), "obs", SPACES),
    "obs inf": (_set("obs", np.inf), "obs", SPACES),
    "next_obs nan": (_set("next_obs", np.nan), "next_obs", SPACES),
    "next_obs inf": (_set("next_obs", np.inf), "next_obs", SPACES),
    "action nan": (_set("action", np.nan), "action", SPACES),
    "action -inf": (_set("action", -np.inf), "action", SPACES),
    "reward nan": (_set("reward", np.nan), "reward", SPACES),
    "reward inf": (_set("reward", np.inf), "reward", SPACES),
    "reward beyond float32": (_set("reward", -1e39), "reward", SPACES),
    "action above": (_set("action", 2.1), "action", SPACES),
    "action below": (_set("action", -2.1), "action", SPACES),
    "observation jumps": (_set("next_obs", 7.5), "next_obs", SPACES),
    "terminated goes on": (_goes_on, "terminated", SPACES),
    "flag is no flag": (_set("terminated", 2), "terminated", SPACES),
    "lengths differ": (_shortened, "reward", SPACES),
    "action not whole": (_set("action", 0.5, _discrete), "action", WHOLE),
    "action not there": (_set("action", 3, _discrete), "action", WHOLE),
    "observation not there": (_set("next_obs", -1, _discrete), "next_obs", WHOLE),
}  # fmt: skip


@pytest.mark.parametrize("index", [0, 14, 28])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_bad_is_refused_with_its_place(kind, index):
    spoil, field, given = KINDS[kind]
    with pytest.raises(BadData) as refusal:
        from_arrays(spoil(index), **given)
    error = refusal.value
    assert (error.field, error.index, error.episode) == (field, index, index // 10)
    assert f"{field}[{index}] (episode {index // 10}, step {index % 10}): " in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"last": np.zeros(30, bool), "terminated": np.zeros(30, bool)}, r"last\[29\].*the data end"),
        ({name: np.zeros((0, *x.shape[1:])) for name, x in _box().items()}, "there are no transitions"),
        ({"reward": np.ones((30, 2))}, r"reward: must have the shape \[transitions\]"),
        ({"obs": np.ones(30)}, "obs: must have the shape"),
        ({"action": np.array([["a"]] * 30)}, "action: must be an array of numbers"),
        ({"action": np.array([[None]] * 30)}, "action: must be an array of numbers"),
        ({"reward": 1.0}, "reward: must have an entry for each transition"),
        ({"rewards": np.ones(30)}, "is missing"),
    ],
)
def test_what_has_no_place_is_refused_by_its_field(change, words):
    arrays = _box() | change
    given = {"observation_space": spaces.Box(-np.inf, np.inf, (2,), np.float32), **SPACES}
    with pytest.raises(BadData, match=words):
        from_arrays(arrays, **given)


def test_spaces_that_no_agent_acts_in_are_refused():
    unbounded = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    with pytest.raises(BadData, match="action_space"):
        from_arrays(_box(), action_space=unbounded)
    with pytest.raises(BadData, match="observation_space"):
        from_arrays(_box(), observation_space=spaces.Dict({"a": unbounded}), **SPACES)


def test_episodes_follow_from_their_ends():
    found = from_arrays(_box(), **SPACES)
    assert len(found) == 30
    assert found.starts.tolist() == [0, 10, 20]
    assert found.lengths.tolist() == [10, 10, 10]
    assert found.returns.tolist() == [10.0, 10.0, 10.0]
    assert not found.single_path
    one = from_arrays({name: x[:10] for name, x in _box().items()}, **SPACES)
    assert one.single_path


def test_agents_see_vectors_and_unit_actions():
    seen = from_arrays(_box(), **SPACES).transitions()
    np.testing.assert_allclose(seen.action[[0, -1]], [[-0.75], [0.75]])  # +-1.5 of [-2, 2]
    shifted = {"observation_space": spaces.Discrete(31), "action_space": spaces.Discrete(3, start=5)}
    arrays = _discrete()
    seen = from_arrays(arrays | {"action": arrays["action"] + 5}, **shifted).transitions()
    assert seen.action[:4].tolist() == [0, 1, 2, 0]
    assert seen.obs.shape == (30, 31)
    assert (seen.obs.argmax(1) == np.arange(30)).all()


def test_d3rlpy_arrays():
    ours = _box()
    theirs = {
        "observations": ours["obs"],
        "actions": ours["action"],
        "rewards": ours["reward"],
        "terminals": ours["terminated"].astype(float),
        "timeouts": (ours["last"] & ~ours["terminated"]).astype(float),
    }
    whole = from_arrays(theirs | {"next_observations": ours["next_obs"]}, **SPACES)
    for x, y in zip(whole.data, from_arrays(ours, **SPACES).data):
        np.testing.assert_array_equal(x, y)
    # Without the next observations the step at the time limit, 19, goes, and 18 is its episode's last.
    found = from_arrays(theirs, **SPACES)
    assert found.lengths.tolist() == [10, 9, 10]
    assert found.data.terminated.sum() == 2
    theirs["timeouts"][-1] = theirs["terminals"][-1] = 0
    with pytest.raises(BadData, match=r"terminals\[29\] \(episode 2, step 9\)"):
        from_arrays(theirs, **SPACES)


def test_spaces_not_given_are_those_of_the_data():
    found = from_arrays(_box())
    assert found.action_space == spaces.Box(-1.5, 1.5, (1,), np.float32)
    assert from_arrays(_discrete()).action_space == spaces.Discrete(3)
    assert from_arrays(_discrete()).spec.observation_size == 31


def test_no_dataset_is_made_around_the_checks():
    good = from_arrays(_box(), **SPACES)
    bad = good.data._replace(reward=good.data.reward.astype(np.float64))
    with pytest.raises(BadData, match="reward: must be float32"):
        Dataset("x", good.observation_space, good.action_space, bad)

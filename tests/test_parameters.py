"""The learned state by names: what is set is what predicts, and goes on learning."""

import numpy as np
import pytest

from sbeed import SBEED
from tests.tiny import TINY

SEEN = np.ones((3, 3), np.float32)


def _agent(seed):
    return SBEED("MlpPolicy", "Pendulum-v1", seed=seed, **TINY).learn(24)


def test_what_was_got_can_be_set(tmp_path):
    one, other = _agent(0), _agent(1)
    before = one.predict(SEEN, deterministic=True)[0]
    other.save(tmp_path / "other")
    loaded = SBEED.load(tmp_path / "other")
    for agent in (other, loaded):
        assert (agent.predict(SEEN, deterministic=True)[0] != before).any()
        agent.set_parameters(one.get_parameters())
        np.testing.assert_array_equal(agent.predict(SEEN, deterministic=True)[0], before)
    other.learn(16)
    assert (other.predict(SEEN, deterministic=True)[0] != before).any()
    assert (one.predict(SEEN, deterministic=True)[0] == before).all()


def test_what_does_not_fit_is_named():
    agent = _agent(0)
    known = agent.get_parameters()
    name = next(name for name, array in known.items() if array.ndim == 2)
    for parameters, words in (
        ({}, "needs '.*' too"),
        ({**known, "nothing": 0.0}, "has no 'nothing'"),
        ({**known, name: np.zeros(99)}, r"is float32 \(.*\), got float64 \(99,\)"),
    ):
        with pytest.raises(ValueError, match=f"^parameters: .*{words}"):
            agent.set_parameters(parameters)
    agent.set_parameters({name: np.zeros_like(known[name])}, exact_match=False)
    assert not agent.get_parameters()[name].any()

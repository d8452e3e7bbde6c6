import gymnasium
import pytest

from tests.training.counting import Clockwork


@pytest.fixture
def clockwork():
    """The name of an environment that is not deterministic: it counts its episodes, whatever their seeds."""
    gymnasium.register("Clockwork-v0", Clockwork)
    yield "Clockwork-v0"
    del gymnasium.registry["Clockwork-v0"]

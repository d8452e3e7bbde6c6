"""Settings from flags, files and keywords: converted where the meaning is plain, refused in one line where not."""

import json

import pytest

from sbeed.agents.knobs import check_ranges, help_line, with_fields
from sbeed.agents.q_sbeed.config import QConfig
from sbeed.agents.sbeed.config import SBEEDConfig


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"lam": 1}, "lam", 1.0),
        ({"lam": "1e-3"}, "lam", 0.001),  # YAML reads 1e-3 as text
        ({"hidden": [64, 32]}, "hidden", (64, 32)),
        ({"batch_size": 64.0}, "batch_size", 64),
        ({"newest": None}, "newest", None),
        ({"newest": 10}, "newest", 10),
        ({"squash": False}, "squash", False),
        ({"dual": "net"}, "dual", "net"),
    ],
)
def test_plain_meanings_are_converted(given, name, value):
    found = getattr(with_fields(SBEEDConfig(), given), name)
    assert found == value
    assert type(found) is type(value)


def test_a_config_survives_json():
    config = SBEEDConfig(lam=0.1, hidden=(3, 4), newest=5)
    assert with_fields(SBEEDConfig(), json.loads(json.dumps(vars(config)))) == config


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"lamb": 1}, "lamb: no such field; did you mean lam"),
        ({"xyzzy": 1}, "the names are gamma, eta"),
        ({"lam": "much"}, "lam: expected a number, got 'much'"),
        ({"lam": True}, "lam: expected a number, got True"),
        ({"lam": None}, "lam: expected a number, got None"),
        ({"batch_size": 1.5}, "batch_size: expected a whole number, got 1.5"),
        ({"batch_size": "64"}, "batch_size: expected a whole number, got '64'"),
        ({"batch_size": float("inf")}, "batch_size: expected a whole number"),
        ({"squash": 1}, "squash: expected true or false, got 1"),
        ({"hidden": 64}, "hidden: expected a list of whole numbers, got 64"),
        ({"hidden": [64, "x"]}, "hidden: expected a whole number, got 'x'"),
        ({"dual": 3}, "dual: expected text, got 3"),
        ({"lam": ["x" * 10_000]}, "lam: expected a number, got ['xxxxxx"),
    ],
)
def test_anything_else_is_refused_in_one_line(given, words):
    with pytest.raises(ValueError, match="^" + next(iter(given))) as error:
        with_fields(SBEEDConfig(), given)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 2000


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("entropy_target", float("nan")),
        ("lam", -1.0),
        ("lam", 0.0),
        ("lam", float("nan")),
        ("eta", 1.5),
        ("gamma", 1.0),
        ("k", 0),
        ("dual", "some"),
    ],
)
def test_what_lies_outside_its_range_is_named(field, value):
    with pytest.raises(ValueError, match=f"^{field}: must "):
        check_ranges(with_fields(QConfig(), {field: value}))


@pytest.mark.parametrize("config", [QConfig, SBEEDConfig])
def test_every_field_explains_itself(config):
    check_ranges(config())
    for name, field in config.__dataclass_fields__.items():
        assert help_line(field.metadata), name
    assert help_line(SBEEDConfig.__dataclass_fields__["eta"].metadata).endswith("[0, 1]; paper: grid .004-.1")

"""One agent, two forms: the preset chooses the config, and the config's type the functions."""

import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

import sbeed
from sbeed import SBEED
from sbeed.agents.configs import FORMS, config_of
from sbeed.agents.q_sbeed.config import QConfig
from sbeed.agents.registry import AGENTS, configured, find
from sbeed.agents.sbeed.config import SBEEDConfig
from sbeed.types import EnvSpec
from tests.manifests import forge
from tests.tiny import PAPER, TINY

BOX = EnvSpec("box", 3, "box", 2, None)
GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize(("agent", "preset"), [(name, preset) for name in AGENTS for preset in AGENTS[name].presets])
def test_what_is_known_without_jax_is_what_the_presets_are(agent, preset):
    assert type(find(agent).preset(preset, BOX)) is config_of(agent, preset)


def test_every_agent_and_no_preset_that_there_is_not_is_known_without_jax():
    assert FORMS.keys() == AGENTS.keys()
    assert all(FORMS[name].keys() <= find(name).presets.keys() for name in AGENTS)


def test_the_preset_chooses_the_form():
    agent, key = find("sbeed"), jax.random.key(0)
    assert list(agent.presets) == ["default", "gradient", "offline", "paper", "paper-exact", "paper-on-policy"]
    config = agent.preset("default", BOX)
    assert type(config) is QConfig is sbeed.QConfig
    assert hasattr(jax.eval_shape(lambda: agent.init(config, BOX, key)), "Q")
    config = agent.preset("paper", BOX)
    assert type(config) is SBEEDConfig is sbeed.SBEEDConfig
    assert hasattr(jax.eval_shape(lambda: agent.init(config, BOX, key)), "V")


def test_an_unknown_preset_is_refused_with_the_names():
    known = "default, gradient, offline, paper, paper-exact, paper-on-policy"
    with pytest.raises(ValueError, match=f"preset: must be one of {known}, got 'fast'"):
        find("sbeed").preset("fast", BOX)


@pytest.mark.parametrize(
    ("agent", "preset", "field", "complaint"),
    [
        (
            "sbeed",
            "default",
            "V_step_size",
            "the form of preset default has no such field; that of paper, paper-exact, paper-on-policy",
        ),
        (
            "sbeed",
            "offline",
            "squash",
            "the form of preset offline has no such field; that of paper, paper-exact, paper-on-policy has",
        ),
        ("sbeed", "paper", "dual_ridge", "the form of preset paper has no such field; that of default has"),
        (
            "sbeed",
            "default",
            "V_actions",
            "is a setting of sbeed 0.1, .* train again with this version, or predict with",
        ),
        ("pcl", "paper", "dual_log_pi", "is a setting of sbeed 0.1, .* train again with this version, or predict with"),
        ("pcl", "default", "dual_ridge", "no such field; the names are|did you mean"),
        ("trpo", "default", "long_percent", "no such field; "),
    ],
)
def test_a_knob_of_another_form_is_refused_in_one_line(agent, preset, field, complaint):
    with pytest.raises(ValueError, match=f"^{field}: {complaint}[^\n]*$"):
        configured(agent, preset, BOX, {"lam": 0.5, field: 1} if agent != "trpo" else {field: 1})


def test_a_keyword_of_another_form_is_refused():
    with pytest.raises(ValueError, match=r"^V_step_size: the form of preset default has no such field; that of paper,"):
        SBEED(None, "jax:pendulum", V_step_size=0.1)


@pytest.mark.parametrize(("preset", "fields"), [("default", TINY), ("offline", TINY), ("paper", {**TINY, **PAPER})])
def test_a_saved_model_of_each_form_loads(tmp_path, preset, fields):
    agent = SBEED(None, "jax:pendulum", preset=preset, **fields).learn(24)
    agent.save(tmp_path / "model")
    again = SBEED.load(tmp_path / "model")
    assert (again.preset, again.config) == (preset, agent.config)
    obs = agent.observation_space.sample()
    assert again.predict(obs, deterministic=True)[0] == pytest.approx(agent.predict(obs, deterministic=True)[0])


def test_files_of_sbeed_0_1_are_refused_with_what_to_do(tmp_path):
    why = (
        "sbeed 0.1, whose sbeed and pcl are no longer there: train again with this version, or predict with sbeed 0.1$"
    )
    with pytest.raises(sbeed.DamagedModel, match=f"model_schema_1' was trained by {why}"):
        SBEED.load(GOLDEN / "model_schema_1")
    run = shutil.copytree(GOLDEN / "run_schema_1", tmp_path / "run")
    with pytest.raises(ValueError, match=f"^V_actions: is a setting of {why}"):
        sbeed.resume(run)
    agent = SBEED(None, "Pendulum-v1", **TINY)
    with pytest.raises(ValueError, match=f"^V_actions: is a setting of {why}"):
        agent.learn(100, out=run, resume=True)


@pytest.mark.parametrize(
    ("kind", "preset", "fields", "name"),
    [
        ("box", "paper", {"k": 1, "trace": 0.5}, "trace"),
        ("box", "paper", {"kappa": 1.0, "slow_rate": 0.1}, "slow_rate"),
        ("box", "paper", {"prior_rate": 0.5}, "prior_rate"),
        ("box", "paper", {"kl_target": 0.5}, "kl_target"),
        ("box", "paper", {"dual_steps": 1, "dual_tolerance": 0.5}, "dual_tolerance"),
        ("box", "paper", {"dual_features": "hidden"}, "dual_features"),
        ("box", "paper", {"dual": "linear", "dual_step_size": 0.5}, "dual_step_size"),
        ("box", "paper", {"dual": "none", "eta": 0.0, "dual_l2": 0.5}, "dual_l2"),
        ("box", "paper", {"policy": "mlp", "features": 7}, "features"),
        ("box", "paper", {"squash": False}, "squash"),
        ("discrete", "paper", {"initial_std": 0.5}, "initial_std"),
        ("box", "paper", {"policy": "mlp", "initial_std": 0.5}, "initial_std"),
        ("box", "paper", {"pi_prox": "euclidean", "kl_radius": 0.5}, "kl_radius"),
        ("box", "paper", {"normalize_observations": False, "scale_rounds": 7}, "scale_rounds"),
        ("box", "paper", {"pi_updates_per_iteration": None, "pi_batch_size": 7}, "pi_batch_size"),
        ("box", "paper", {"normalize_rewards": False, "lam_counts": "raw"}, "lam_counts"),
    ],
)
def test_a_knob_of_the_V_pi_form_that_would_do_nothing_is_refused_in_one_line(kind, preset, fields, name):
    with pytest.raises(ValueError, match=f"^{name}: does nothing here: it needs [^\n]+$"):
        configured("sbeed", preset, EnvSpec("task", 3, kind, 2, None), fields)


def test_files_of_this_version_are_read(tmp_path):
    again = SBEED.load(GOLDEN / "model_schema_2")
    assert type(again.config) is QConfig
    assert again.predict(np.zeros(3), deterministic=True)[0].shape == (1,)
    run = shutil.copytree(GOLDEN / "run_schema_2", tmp_path / "run")
    assert sbeed.resume(run)[-1]["step"] == 100


def test_another_agent_s_model_of_sbeed_0_1_is_read(tmp_path):
    sizes = {"hidden": (4,), "steps_per_iteration": 16, "replay_capacity": 16, "V_updates": 1, "V_batch_size": 4}
    agent = sbeed.TRPO(None, "Pendulum-v1", **sizes).learn(16)
    agent.save(tmp_path / "model")
    manifest = tmp_path / "model" / "manifest.json"
    forge(manifest, schema=1)
    again = sbeed.TRPO.load(tmp_path / "model")
    obs = np.zeros(3)
    assert again.predict(obs, deterministic=True)[0] == agent.predict(obs, deterministic=True)[0]

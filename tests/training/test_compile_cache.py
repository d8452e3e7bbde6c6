"""Where compiled programs are kept."""

import jax
import pytest

from sbeed.training.compile_cache import keep_compiled_programs

NAMES = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")


@pytest.fixture(autouse=True)
def _as_before():
    before = {name: jax.config.values[name] for name in NAMES}
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def test_programs_are_kept_in_the_users_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    jax.config.update("jax_compilation_cache_dir", None)
    keep_compiled_programs()
    assert jax.config.values["jax_compilation_cache_dir"] == str(tmp_path / "sbeed" / "xla")


def test_a_place_that_the_user_chose_stays():
    jax.config.update("jax_compilation_cache_dir", "elsewhere")
    keep_compiled_programs()
    assert jax.config.values["jax_compilation_cache_dir"] == "elsewhere"

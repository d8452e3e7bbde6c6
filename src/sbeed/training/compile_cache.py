"""A cache of compiled programs that outlives the process."""

import os
from pathlib import Path

import jax


def keep_compiled_programs() -> None:
    """Keep XLA's programs in the user's cache directory, so that the second run starts at once.

    A place that the user has chosen (JAX_COMPILATION_CACHE_DIR) is kept.
    """
    if jax.config.values["jax_compilation_cache_dir"] is None:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sbeed" / "xla"
        jax.config.update("jax_compilation_cache_dir", str(cache))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)

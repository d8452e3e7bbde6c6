import os
import signal

import pytest

# Tests run small programs once: compiling them is what takes the time. Set before jax starts.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_enable_compilation_cache", False)  # a test sees what this code compiles to, nothing older


@pytest.fixture
def ctrl_c():
    """SIGINT as it is at a terminal: a process started in the background inherits one that is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)

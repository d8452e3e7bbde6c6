import gc
import os
import signal
import tempfile
from pathlib import Path

import pytest

# Tests run small programs once: compiling them is what takes the time, most of all where fusions go through MLIR.
# Set before jax starts.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false")
# Threads to spare, without which two batches of matrices at once can wait for each other for ever (theory/report.py).
os.environ.setdefault("NPROC", "64")
# The tests keep every core busy as they are, and BLAS's threads wait for each other in loops. Set before numpy starts.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    # What one process of this run of the tests has compiled no other compiles again: not pytest-xdist's next worker,
    # not a command that a test starts. A new place for every run: a test sees what this code compiles to.
    _PROGRAMS = tempfile.TemporaryDirectory(prefix="sbeed-tests-", ignore_cleanup_errors=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = _PROGRAMS.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

import jax

jax.config.update("jax_enable_x64", True)

# Files of that cache are not written at once: a process that finds half of one warns, and compiles the program itself.
_HALF = "persistent compilation cache entry"
os.environ["PYTHONWARNINGS"] = f"ignore:Error reading {_HALF}"  # of the processes that tests start


def pytest_configure(config):
    config.addinivalue_line("filterwarnings", f"ignore:Error (reading|writing) {_HALF}")  # a full disk takes none


@pytest.fixture
def ctrl_c():
    """SIGINT as it is at a terminal: a process started in the background inherits one that is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


MAPS = Path("/proc/self/maps")
MANY_MAPS = 20_000


@pytest.fixture(autouse=True, scope="module")
def room_for_programs():
    """Forget compiled programs before there are too many: each takes several of the 65,530 maps of a process.

    Where there is no map left the next program ends the process with a segmentation fault.
    """
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MANY_MAPS:
        jax.clear_caches()
        gc.collect()

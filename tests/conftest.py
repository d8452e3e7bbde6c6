import os

# Tests run small programs once: compiling them is what takes the time. Set before jax starts.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import jax

jax.config.update("jax_enable_x64", True)

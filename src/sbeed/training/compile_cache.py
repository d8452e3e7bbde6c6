"""A cache of compiled programs that outlives the process."""

import hashlib
import os
from contextlib import suppress
from pathlib import Path

import jax

_DIGEST = 32  # bytes


def keep_compiled_programs() -> None:
    """Keep XLA's programs in the user's cache directory, so that the second run starts at once.

    A place that the user has chosen (JAX_COMPILATION_CACHE_DIR) is kept.
    """
    if jax.config.values["jax_compilation_cache_dir"] is None:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sbeed" / "xla"
        jax.config.update("jax_compilation_cache_dir", str(cache))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
        _check_entries(cache)


def _check_entries(cache: Path) -> None:
    """Let that cache keep a SHA-256 of each entry and its key, and remove an entry that differs.

    jax itself warns of a truncated entry at every start and never replaces it, and runs one that was put under another
    program's key.
    """
    with suppress(ImportError, AttributeError):  # jax's own parts, which may move: then entries are not checked
        from jax._src import compilation_cache
        from jax._src.lru_cache import LRUCache

        class Checked(LRUCache):
            def get(self, key: str) -> bytes | None:
                content = super().get(key)
                if content is None or content[:_DIGEST] == _digest(key, content[_DIGEST:]):
                    return content and content[_DIGEST:]
                (self.path / f"{key}-cache").unlink(missing_ok=True)
                return None

            def put(self, key: str, value: bytes) -> None:
                super().put(key, _digest(key, value) + value)

        usual = compilation_cache.get_file_cache
        ours = lambda path: (Checked(path, max_size=-1), path) if path == str(cache) else usual(path)
        compilation_cache.get_file_cache = ours


def _digest(key: str, content: bytes) -> bytes:
    return hashlib.sha256(key.encode() + content).digest()

"""What is measured lives in processes of its own, which sleep until they are asked: no two work at the same time.

Here is both ends of the pipe, a line of JSON in and a line of JSON out. Standard library only: the peers' environment
has nothing of ours.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parent.parent
PEERS = ROOT / ".venv-bench/bin/python"
D3RLPY = ROOT / ".venv-d3rlpy/bin/python"
CORES = len(os.sched_getaffinity(0))
SETTLE = 0.3  # seconds: a library's threads spin for a while before they sleep

Answer = dict[str, Any]


class System:
    """One process."""

    def __init__(
        self,
        module: str,
        *arguments: Any,
        peer: bool = False,
        python: Path = PEERS,
        device: str = "cpu",
        **environment: str,
    ) -> None:
        """python: a peer's. device: of jax; "" for whatever it finds. environment: variables of the process.

        Nothing compiled before is found again: its cache directory is its own.
        """
        if peer and not python.exists():
            place = python.parent.parent.name
            raise SystemExit(f"the peers' environment is missing: `make {place}/.installed` builds it")
        self._cache = tempfile.TemporaryDirectory()
        variables = {
            **{name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"},
            **({"JAX_PLATFORMS": device} if device else {}),
            "XDG_CACHE_HOME": self._cache.name,
            **environment,
        }
        command = [python if peer else sys.executable, "-m", f"benchmarks.systems.{module}", *map(str, arguments)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._began = time.perf_counter()
        self._process = subprocess.Popen(command, cwd=ROOT, env=variables, **pipes)

    @cached_property
    def hello(self) -> Answer:
        """What it said when it was ready, and the seconds until we heard it."""
        return {**self._hear(), "seconds": time.perf_counter() - self._began}

    def ask(self, do: str, **arguments: Any) -> Answer:
        self.tell(do, **arguments)
        return self._hear()

    def tell(self, do: str, **arguments: Any) -> None:
        """Set it to work; `answer` waits. For several that are to work at the same time."""
        assert self._process.stdin
        self.hello  # noqa: B018  is in the pipe before any answer
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Answer:
        return self._hear()

    def _hear(self) -> Answer:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args}: ended with exit code {self._process.wait()}")
        return json.loads(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        self._process.stdin.close()  # which ends it, unless it is in the middle of something
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
        with self._process:  # waits, and closes the other pipe
            self._cache.cleanup()


def serve(answers: Mapping[str, Callable[..., Answer]], **hello: Any) -> None:
    """The other end: answer questions until the pipe is closed."""
    # Answers alone go to the pipe: whatever libraries print goes where errors go.
    pipe = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(answer: Answer) -> None:
        pipe.write(json.dumps(answer) + "\n")
        pipe.flush()

    say({"ready": True, **hello})
    for line in sys.stdin:
        question = json.loads(line)
        say(answers[question.pop("do")](**question))


def alternately(systems: Mapping[str, System], rounds: int, do: str, **arguments: Any) -> dict[str, list[Answer]]:
    """Each system's answers to one question: A B A B ..., so that what drifts drifts for all of them."""
    answers: dict[str, list[Answer]] = {name: [] for name in systems}
    for _ in range(rounds):
        for name, system in systems.items():
            time.sleep(SETTLE)
            answers[name].append(system.ask(do, **arguments))
    return answers


def rounds(quick: bool) -> int:
    return 2 if quick else 7

"""The process in which hostile files are opened: a line of JSON in, a command; one out, what came of it."""

import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.reliability import runs
from benchmarks.reliability.golden import newest
from sbeed.storage.lock import LOCK

HARM = (
    *("pickle.", "marshal.", "exec", "compile", "code.", "import", "ctypes.", "subprocess.", "pty.", "socket."),
    *("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.kill", "urllib.", "webbrowser."),
    *("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown"),
    *("os.putenv", "shutil.", "tempfile.", "ftplib.", "smtplib.", "sqlite3."),
)
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Ears:
    """What an audit hook hears while `open`.   own: the directory that the command was told to make"""

    def __init__(self) -> None:
        self.open, self.heard, self.own = False, list[str](), ""
        sys.addaudithook(self._hear)

    def _hear(self, event: str, details: tuple[Any, ...]) -> None:
        if self.open and harmful(event, details) and not self._expected(event, details):
            self.heard.append(f"{event} {str(details)[:200]}")

    def _expected(self, event: str, details: tuple[Any, ...]) -> bool:
        if event in ("compile", "exec", "import"):
            return _by_the_command_line()
        path = str(details[0])
        if event == "os.mkdir" and os.path.isdir(path):  # which does nothing
            return True
        if event in ("os.remove", "os.rmdir") and details[-1] != -1:  # a part of shutil.rmtree, which was heard
            return True
        place, name = os.path.split(self.own)
        return bool(self.own) and path.startswith((self.own, os.path.join(place, f".{name}.")))  # put aside, to go


def harmful(event: str, details: tuple[Any, ...]) -> bool:
    if event == "open":
        path, mode, flags = details
        writes = (isinstance(mode, str) and any(letter in mode for letter in "wax+")) or bool((flags or 0) & WRITING)
        # A number is the handle of what was opened, and heard, before.
        return writes and not isinstance(path, int) and os.path.basename(str(path)) != LOCK
    return event.startswith(HARM)


def _by_the_command_line() -> bool:
    """Flags are dataclasses made of our own configs: Python writes their methods and compiles them."""
    frame, modules = sys._getframe(), set[str]()
    while frame is not None:
        module, name = frame.f_globals.get("__name__", ""), frame.f_code.co_name
        if module.startswith("sbeed.") and name in ("_parse", "with_flags_of"):
            return bool(modules & {"dataclasses", "tyro"})
        modules.add(module.partition(".")[0])
        frame = frame.f_back  # type: ignore[assignment]
    return False


def main() -> None:
    # Answers alone go to the pipe.
    answers, commands = os.fdopen(os.dup(1), "w"), sys.stdin
    os.dup2(2, 1)
    _import_everything()
    ears = Ears()
    for line in commands:
        answers.write(json.dumps(_obey(json.loads(line), ears)) + "\n")
        answers.flush()


def _obey(words: Sequence[str], ears: Ears) -> dict[str, Any]:
    ears.own = words[words.index("--out") + 1] if "--out" in words else ""
    ears.heard, begin = [], time.perf_counter()
    ears.open = True
    try:
        code, _, err = runs.sbeed(*words)
    except BaseException as error:
        code, err = -1, traceback.format_exception_only(error)[0]
    ears.open = False
    return {"code": code, "err": err, "events": ears.heard, "seconds": time.perf_counter() - begin}


def _import_everything() -> None:
    """What the commands import when they are first used is ours and no harm: they are used here, on good files."""
    with tempfile.TemporaryDirectory() as place:
        model, run = (runs.copy(newest(kind), Path(place) / kind) for kind in ("model", "run"))
        (run / "bad.yaml").write_text("lam: [")
        data, minari = (runs.copy(newest(kind), Path(place) / kind) for kind in ("data", "minari"))
        for words in (
            ("data", "show", data),
            ("data", "import", minari, "--out", run / "data"),
            ("data", "show", minari),
            ("fit", minari, "--out", run / "out"),
            ("resume", run),
            ("eval", model, "--episodes", 1),
            ("video", model, "--out", run / "film.gif", "--env", "jax:pendulum"),
            ("inspect", run),
            ("inspect", model),
            ("train", "--config", run / "bad.yaml", "--out", run / "out"),
            ("train", "--env", "CartPool-v1", "--out", run / "out"),
            ("eval", run / "nowhere"),
        ):
            runs.sbeed(*words)
        (model / "manifest.json").write_text("{")
        runs.sbeed("eval", model)


if __name__ == "__main__":
    main()

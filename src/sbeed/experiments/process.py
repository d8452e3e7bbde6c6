"""The process of one run. It imports almost nothing until it is sure to end with its parent.

python -m sbeed.experiments.process PARENT DIRECTORY, with the run as JSON on stdin.
"""

import ctypes
import os
import signal
import sys
from pathlib import Path


def end_with(parent: int) -> None:
    """Die with the parent process on Linux; elsewhere the process goes on without it."""
    if sys.platform == "linux":
        PR_SET_PDEATHSIG = 1
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was, before we asked for that
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    end_with(int(sys.argv[1]))
    from sbeed.experiments.worker import answer  # takes seconds

    sys.exit(answer(Path(sys.argv[2])))


if __name__ == "__main__":
    main()

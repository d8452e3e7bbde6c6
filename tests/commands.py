"""The command line: called in this process, or as a program of its own."""

import os
import sys

import pytest

from sbeed import cli

SBEED_COMMAND = os.path.join(os.path.dirname(sys.executable), "sbeed")


def run_command(capsys, *args):
    """(exit code, standard output, standard error) of a command called in this process."""
    with pytest.raises(SystemExit) as stop:
        cli.main([str(arg) for arg in args])
    out, err = capsys.readouterr()
    return stop.value.code, out, err

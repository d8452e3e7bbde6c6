"""`sbeed figure` on a Ray cluster that is there already: the real command, a real run."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from benchmarks.reliability.kin import family
from benchmarks.reliability.runs import rows_without_clocks

ASKED = ("figure", "on-policy", "--only", "Pendulum-v1", "TRPO")


@pytest.fixture
def cluster():
    """Its address and the variables that let a process join it. It listens on the loopback device alone."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    variables = {
        **os.environ,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    with tempfile.TemporaryDirectory(prefix="ray") as place:  # sockets want a short name
        words = f"start --head --block --node-ip-address 127.0.0.1 --port {address.rpartition(':')[2]} --num-cpus 2"
        more = f"--include-dashboard false --disable-usage-stats --temp-dir {place}"
        command = [str(Path(sys.executable).with_name("ray")), *words.split(), *more.split()]
        head = subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL, start_new_session=True)
        try:
            _wait_for(address)
            yield address, variables
        finally:
            for pid in reversed(family(head.pid)):  # in kindness it would take half a minute
                os.kill(pid, signal.SIGKILL)
            head.wait()


def _wait_for(address, seconds=60):
    host, _, port = address.partition(":")
    for _ in range(10 * seconds):
        with socket.socket() as door:
            if door.connect_ex((host, int(port))) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(address)


def _sbeed(*words, env=None):
    return subprocess.run([sys.executable, "-m", "sbeed", *words], env=env, capture_output=True, text=True, check=False)


def _executor_and_rows(out):
    figure = json.loads((out / "figure.json").read_text())
    ids = [run["id"] for run in figure["panels"][0]["runs"]]
    return figure["executor"], [rows_without_clocks(out / "runs" / id) for id in ids]


@pytest.mark.skipif(find_spec("ray") is None, reason="needs ray")
def test_a_figure_joins_a_cluster_and_has_the_rows_of_this_machine_s_own_processes(cluster, tmp_path):
    address, variables = cluster
    there = _sbeed(*ASKED, "--executor", "ray", "--address", address, "--out", str(tmp_path / "there"), env=variables)
    assert there.returncode == 0, there.stderr[-2000:]
    here = _sbeed(*ASKED, "--out", str(tmp_path / "here"))
    assert here.returncode == 0, here.stderr[-2000:]
    executors, rows = zip(*(_executor_and_rows(tmp_path / place) for place in ("there", "here")))
    assert executors == ("ray", "local")
    assert rows[0] == rows[1]
    assert [[row["final"] for row in run].count(True) for run in rows[0]] == [1]
    assert "Pendulum-v1" in (tmp_path / "there" / "report.html").read_text()

"""Describe the machine of a run in words."""

import os
import platform
from pathlib import Path


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine() -> str:
    """The machine in words, without its name."""
    names = [line.partition(":")[2] for line in _lines(Path("/proc/cpuinfo")) if line.startswith("model name")]
    kind = " ".join(names[0].split()) if names else platform.machine()
    return f"{cores()} cores ({kind}), {platform.system()}"


def machine_and_device() -> str:
    """The machine in words, with the accelerators that jax found."""
    import jax

    device = jax.devices()[0]
    return machine() + (f", {device.device_kind}" if device.platform != "cpu" else "")


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []

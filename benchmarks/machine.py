"""What a figure was measured on."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

import psutil

_QUIET_LOAD = 0.7
_QUIET_STEAL = 0.03


def describe() -> str:
    """The machine and the versions in one paragraph."""
    memory = next(
        int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal")
    )
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    packages = ", ".join(f"{name} {version(name)}" for name in ("kopf", "confluent-kafka", "kubernetes", "numpy"))
    return (
        f"{os.cpu_count()} cores ({model}), {memory / 2**20:.0f} GiB, Linux {platform.release()}, "
        f"Python {platform.python_version()}, {packages}"
    )


class Bystanders:
    """How much of the CPUs others took while something was measured. Begins when it is made."""

    def __init__(self) -> None:
        self._load = os.getloadavg()[0]
        self._before = psutil.cpu_times()

    def told(self) -> str:
        """In one sentence: the load at the start, and what the machine's host took since."""
        now, before = psutil.cpu_times(), self._before
        total = sum(now) - sum(before)
        stolen = (now.steal - before.steal) / total if total else 0.0
        quiet = self._load < _QUIET_LOAD and stolen < _QUIET_STEAL
        return (
            f"The load was {self._load:.1f} at the start, and {stolen:.0%} of the CPUs' time was stolen meanwhile"
            f"{'.' if quiet else ': NOT a quiet machine, so these times are no figures to keep.'}"
        )

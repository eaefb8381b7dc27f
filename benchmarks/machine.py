"""What a figure was measured on."""

import os
import platform
from importlib.metadata import version
from pathlib import Path


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

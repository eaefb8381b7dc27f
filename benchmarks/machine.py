"""The machine of a measurement, and how much CPU other processes took during it."""

import os
import platform
import re
import resource
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import psutil

_QUIET_LOAD = 0.7
_QUIET_STEAL = 0.03
_QUIET_OTHERS = 0.1


def describe() -> str:
    """Return a description of the machine and the versions of the software."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("kopf", "confluent-kafka", "kubernetes", "numpy"))
    return (
        f"{os.cpu_count()} cores ({_model()}), {_gib()} GiB, Linux {platform.release()}, "
        f"Python {platform.python_version()}, {packages}"
    )


def name() -> str:
    """Return a name for this kind of machine, such as `2-cores-intel-xeon-24-gib`. It has no host name."""
    model = re.sub(r"\(.*?\)|@.*|\b(cpu|processor|core|\d+-core)\b", " ", _model(), flags=re.IGNORECASE)
    words = f"{os.cpu_count()} cores {model} {_gib()} gib"
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


def _gib() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return round(next(int(line.split()[1]) for line in lines if line.startswith("MemTotal")) / 2**20)


def _model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    found = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(found, platform.machine())


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of a measurement. Shares are fractions of the time of all CPUs, from 0 to 1."""

    load: float
    """The load average of the minute before: tasks that use or wait for a CPU."""
    stolen: float
    """The share that the hypervisor took (steal time)."""
    others: float | None
    """The share of processes that do not belong to the benchmark, or None if it was not measured."""

    @property
    def quiet(self) -> bool:
        """Whether the machine was quiet enough to use the figure."""
        if self.others is None:
            return self.load < _QUIET_LOAD and self.stolen < _QUIET_STEAL
        return self.others < _QUIET_OTHERS and self.stolen < _QUIET_STEAL


class Bystanders:
    """Measures the CPU time of other processes, from its creation.

    `own` returns the CPU seconds that the processes of the benchmark have taken so far.
    """

    def __init__(self, own: Callable[[], float] | None = None) -> None:
        self._load = os.getloadavg()[0]
        self._own = own
        self._before = _cpu_times()
        self._spent = own() if own else 0.0

    def seen(self) -> Conditions:
        """Return the conditions since the creation."""
        total, busy, stolen = (now - before for now, before in zip(_cpu_times(), self._before, strict=True))
        if not total:
            return Conditions(self._load, 0.0, None)
        others = max(0.0, busy - (self._own() - self._spent)) / total if self._own else None
        return Conditions(self._load, stolen / total, others)

    def told(self) -> str:
        """Return a sentence with the load at the start and the steal time since then."""
        seen = self.seen()
        return (
            f"The load was {seen.load:.1f} at the start, and the steal time was {seen.stolen:.0%} of the CPU time"
            f"{'.' if seen.quiet else ': the machine was NOT quiet, so do not use these times.'}"
        )


def cpu_of(pids: Iterable[int]) -> float:
    """Return the CPU seconds that these processes have taken so far."""
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(each.user + each.system for each in times)


def cpu_of_ended() -> float:
    """Return the CPU seconds of this process and of its ended children."""
    spent = (resource.getrusage(who) for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF))
    return sum(each.ru_utime + each.ru_stime for each in spent)


def _cpu_times() -> tuple[float, float, float]:
    """Return the CPU seconds of all CPUs since boot: total, busy, and stolen."""
    now = psutil.cpu_times()
    busy = now.user + now.nice + now.system + now.irq + now.softirq
    return busy + now.idle + now.iowait + now.steal, busy, now.steal

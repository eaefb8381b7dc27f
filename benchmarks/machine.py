"""What a figure was measured on, and how much others used of it meanwhile."""

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
    """The machine and the versions in one paragraph."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("kopf", "confluent-kafka", "kubernetes", "numpy"))
    return (
        f"{os.cpu_count()} cores ({_model()}), {_gib()} GiB, Linux {platform.release()}, "
        f"Python {platform.python_version()}, {packages}"
    )


def name() -> str:
    """A word for machines of this kind, as in `2-cores-intel-xeon-24-gib`: no host's name."""
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
    """Under what a figure was measured. Shares are of all CPUs' time."""

    load: float
    """Tasks that wanted a CPU over the minute before."""
    stolen: float
    """What the machine's host took."""
    others: float | None
    """What processes took that do not belong to the benchmark; None where nobody counted these."""

    @property
    def quiet(self) -> bool:
        """Whether the figure is one to keep."""
        if self.others is None:
            return self.load < _QUIET_LOAD and self.stolen < _QUIET_STEAL
        return self.others < _QUIET_OTHERS and self.stolen < _QUIET_STEAL


class Bystanders:
    """How much of the CPUs others took while something was measured. Begins when it is made.

    `own` says how many CPU seconds the benchmark's own processes have taken so far.
    """

    def __init__(self, own: Callable[[], float] | None = None) -> None:
        self._load = os.getloadavg()[0]
        self._own = own
        self._before = _cpu_times()
        self._spent = own() if own else 0.0

    def seen(self) -> Conditions:
        """The conditions from the beginning until now."""
        total, busy, stolen = (now - before for now, before in zip(_cpu_times(), self._before, strict=True))
        if not total:
            return Conditions(self._load, 0.0, None)
        others = max(0.0, busy - (self._own() - self._spent)) / total if self._own else None
        return Conditions(self._load, stolen / total, others)

    def told(self) -> str:
        """In one sentence: the load at the start, and what the machine's host took since."""
        seen = self.seen()
        return (
            f"The load was {seen.load:.1f} at the start, and {seen.stolen:.0%} of the CPUs' time was stolen meanwhile"
            f"{'.' if seen.quiet else ': NOT a quiet machine, so these times are no figures to keep.'}"
        )


def cpu_of(pids: Iterable[int]) -> float:
    """CPU seconds that these processes have taken so far."""
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(each.user + each.system for each in times)


def cpu_of_ended() -> float:
    """CPU seconds that this process and the programs that ended have taken."""
    spent = (resource.getrusage(who) for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF))
    return sum(each.ru_utime + each.ru_stime for each in spent)


def _cpu_times() -> tuple[float, float, float]:
    """CPU seconds of all CPUs since the start: in total, busy, and stolen."""
    now = psutil.cpu_times()
    busy = now.user + now.nice + now.system + now.irq + now.softirq
    return busy + now.idle + now.iowait + now.steal, busy, now.steal

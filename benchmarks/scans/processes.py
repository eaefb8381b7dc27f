"""A command as a process: seconds, CPU and memory of it and of all that it starts."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

_EVERY_SECONDS = 0.2
_END_SECONDS = 5


class CutOffError(RuntimeError):
    """A process took longer than it was given, and was ended."""


class CommandFailedError(RuntimeError):
    """A process ended with an exit code that was not expected; the message has the end of what it said."""


@dataclass(frozen=True, slots=True)
class Ran:
    """
    What a process took: seconds on the clock, and of CPU with all below it.

    `peak` is the largest sum of PSS at one time, in bytes: pages that several processes share are counted once.
    """

    seconds: float
    cpu: float
    peak: int
    printed: str


def run(
    command: Sequence[str | Path],
    *,
    codes: Sequence[int] = (0,),
    most: float = 1800,
    environment: Mapping[str, str] | None = None,
) -> Ran:
    """
    Run a command in a process group of its own, and nothing of it is left afterwards.

    Raises CutOffError after `most` seconds, CommandFailedError for an exit code that is none of `codes`.
    """
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as said:
        started = time.perf_counter()
        process = subprocess.Popen(
            [str(word) for word in command],
            stdout=printed,
            stderr=said,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
        tree = _Tree(process.pid)
        try:
            while (code := process.poll()) is None:
                tree.look()
                if time.perf_counter() - started > most:
                    raise CutOffError(f"cut off after {most:.0f} s")
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_EVERY_SECONDS)
            seconds = time.perf_counter() - started
        finally:
            tree.end()
            process.wait()
        for file in (printed, said):
            file.seek(0)
        if code not in codes:
            raise CommandFailedError(f"{' '.join(map(str, command))}: exit code {code}: {said.read()[-2000:]}")
        return Ran(seconds, tree.cpu, tree.peak, printed.read())


class _Tree:
    """A process and its descendants, and the most that was seen of them."""

    def __init__(self, pid: int) -> None:
        self._top = psutil.Process(pid)
        self._seen: dict[psutil.Process, float] = {}
        self.peak = 0

    @property
    def cpu(self) -> float:
        return sum(self._seen.values())

    def look(self) -> None:
        held = 0
        for process in self._processes():
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                self._seen[process] = times.user + times.system
                held += _pss(process.pid)
        self.peak = max(self.peak, held)

    def end(self) -> None:
        """Kill what is left, by process, as each was seen, and wait until it is gone."""
        left = {*self._processes(), *self._seen}
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)  # psutil makes sure that the id is still that process's
        psutil.wait_procs(left, timeout=_END_SECONDS)

    def _processes(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.Error):
            return [self._top, *self._top.children(recursive=True)]
        return []


def _pss(pid: int) -> int:
    with contextlib.suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
    return 0


def note(text: str) -> None:
    """Say how far it is, on standard error."""
    print(f"  {text}", file=sys.stderr, flush=True)


def module(name: str, *arguments: Any) -> list[str]:
    """The command line of one of these modules."""
    return [sys.executable, "-m", f"benchmarks.scans.{name}", *map(str, arguments)]

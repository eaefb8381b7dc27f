"""Runs a command as a process. Measures the time, CPU and memory of the process and of all its descendants."""

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
    """A process exceeded its time limit and was killed."""


class CommandFailedError(RuntimeError):
    """A process ended with an unexpected exit code. The message has the end of its output."""


@dataclass(frozen=True, slots=True)
class Ran:
    """The cost of a process and its descendants: seconds on the clock, CPU seconds, and peak memory.

    `peak` is the maximum of the sum of PSS, in bytes. PSS counts pages that several processes share only once.
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
    """Run a command in a new process group. Kill all its remaining processes at the end.

    Raises CutOffError after `most` seconds, and CommandFailedError if the exit code is not in `codes`.
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
    """A process and its descendants, with their CPU time and peak memory."""

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
        """Kill each remaining process and wait until it has ended."""
        left = {*self._processes(), *self._seen}
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)  # psutil checks that the id is not reused by another process
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
    """Print the progress on standard error."""
    print(f"  {text}", file=sys.stderr, flush=True)


def module(name: str, *arguments: Any) -> list[str]:
    """Return the command line of a module of this package."""
    return [sys.executable, "-m", f"benchmarks.scans.{name}", *map(str, arguments)]

"""Processes of `rackspan`, one after the other, that can be killed at a step."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from dev.faults.cluster import FaultError
from dev.faults.kills import Fate

AT_ANY_MOMENT = "at any moment"
_NONE = Fate()


class Life:
    """A process of `rackspan`."""

    def __init__(self, server: "subprocess.Popen[str]", out: Path, killed: Path) -> None:
        self._server = server
        self._out = out
        self._killed = killed
        self.pid = int(self._line())

    def ended(self) -> int:
        """Wait for the end of the process. Return the exit code, negative for a signal."""
        return int(self._line())

    def kill(self) -> None:
        """Kill the process if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    @property
    def running(self) -> bool:
        """Whether the process still runs."""
        return Path(f"/proc/{self.pid}").exists()

    @property
    def said(self) -> str:
        """The output of the process."""
        return self._out.read_text(errors="replace")

    @property
    def killed_at(self) -> str:
        """The step at which the process killed itself."""
        return self._killed.read_text() if self._killed.exists() else AT_ANY_MOMENT

    def _line(self) -> str:
        assert self._server.stdout is not None
        line = self._server.stdout.readline()
        if not line:
            raise FaultError("the process that forks lives has ended")
        return line


class Lives:
    """Processes of one command, one at a time. The output of the last one stays in `directory`."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self._directory = directory
        self.count = 0
        self._server = subprocess.Popen(
            [sys.executable, "-m", "dev.faults.victim"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, arguments: list[str], fate: Fate = _NONE) -> Life:
        """Start a process that kills itself at the step of its fate. For a fate in seconds, the caller kills it."""
        self.count += 1
        out, killed = self._directory / "out", self._directory / "killed"
        out.write_text("")
        ends = {"kill_at": fate.step, "of": fate.of, "killed": str(killed)}
        life = {"arguments": arguments, "out": str(out), **ends}
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(life) + "\n")
        self._server.stdin.flush()
        return Life(self._server, out, killed)

    def close(self) -> None:
        """End the process that forks lives. The last life must have ended."""
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait(30)

"""Starting and stopping a stack's processes through its supervisor, in this process or in a later one."""

import contextlib
import fcntl
import functools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from dev.paths import REPOSITORY
from dev.stack.supervisor import SOCKET_NAME
from dev.waiting import eventually

_RECORD = "supervisor.json"
_LOOPBACK = "127.0.0.1"
_GIVEN: set[int] = set()  # ports that this process has asked for, and may not have bound yet
_GIVING = threading.Lock()


class ProcessDiedError(RuntimeError):
    """A process ended that should be running. The message holds the end of its log."""


class Processes:
    """The processes of one stack directory. Safe to use from several threads."""

    def __init__(self, directory: Path, lifeline: int | None = None) -> None:
        self.directory = directory
        self._lifeline = lifeline

    @classmethod
    def attached(cls, directory: Path) -> Self:
        """New processes that die with the calling process, whichever way it dies."""
        # The writing end is closed on exec, so that only this process keeps the line open.
        reading, writing = os.pipe()
        try:
            _launch(directory, reading)
        finally:
            os.close(reading)
        return cls(directory, writing)

    @classmethod
    def running(cls, directory: Path) -> Self | None:
        """The processes that another process started in `directory`; None when their supervisor is not alive."""
        return cls(directory) if _recorded_supervisor(directory) else None

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> int:
        """Start `command` under a name that is free, its output appended to that name's log. Returns its process id."""
        cwd = cwd or self.directory
        reply = self._request(
            do="start", name=name, command=list(command), cwd=str(cwd), env=dict(env or {}), log=str(self.log(name))
        )
        pid: int = reply["pid"]
        return pid

    def log(self, name: str) -> Path:
        logs = self.directory / "logs"
        logs.mkdir(exist_ok=True)
        return logs / f"{name}.log"

    def pid(self, name: str) -> int | None:
        """Process id, or None when the process has ended or was never started."""
        state = self._request(do="status").get(name)
        return state["pid"] if state and state["returncode"] is None else None

    def pids(self) -> dict[str, int]:
        """Process ids by name, of what is running now."""
        return {name: s["pid"] for name, s in self._request(do="status").items() if s["returncode"] is None}

    def ended(self, name: str) -> int | None:
        """Exit code of a process, None while it runs; -1 for one that was never started."""
        state = self._request(do="status").get(name)
        code: int | None = -1 if state is None else state["returncode"]
        return code

    def names(self) -> list[str]:
        """Names of what was ever started, in the order of its first start."""
        return list(self._request(do="status"))

    def check(self, name: str) -> None:
        """Raise ProcessDiedError, with the end of the log, unless the process runs."""
        state = self._request(do="status").get(name)
        if state is None:
            raise ProcessDiedError(f"{name} was never started")
        if state["returncode"] is not None:
            tail = self.log(name).read_text(errors="replace")[-2000:]
            raise ProcessDiedError(f"{name} exited with {state['returncode']}; the end of {self.log(name)}:\n{tail}")

    def signal(self, name: str, signum: signal.Signals) -> None:
        """Send `signum` to the process and all of its group; nothing happens when it has ended."""
        self._request(do="signal", name=name, signal=int(signum))

    def stop(self, name: str, grace: float = 30) -> None:
        """End the process: SIGTERM, and SIGKILL after `grace` seconds."""
        self.signal(name, signal.SIGTERM)
        try:
            eventually(lambda: self.pid(name) is None, f"{name} to end", timeout=grace)
        except TimeoutError:
            self.kill(name)

    def kill(self, name: str) -> None:
        """End the process the way a crash does."""
        self.signal(name, signal.SIGKILL)
        eventually(lambda: self.pid(name) is None, f"{name} to be killed", interval=0.02)

    def stay(self) -> None:
        """From now on, outlive the calling process: until `end`, or until the machine stops."""
        self._request(do="stay")
        self._close_lifeline()

    def end(self, grace: float = 10) -> None:
        """End all processes and their supervisor. Nothing happens when they have ended."""
        supervisor = _recorded_supervisor(self.directory)
        if supervisor is not None:
            with contextlib.suppress(ProcessDiedError):
                self._request(do="shutdown", grace=grace)
            try:
                _wait_ended(supervisor, timeout=grace + 20)
            except psutil.TimeoutExpired:
                supervisor.kill()  # its children die with it
                _wait_ended(supervisor, timeout=60)
        (self.directory / _RECORD).unlink(missing_ok=True)
        self._close_lifeline()

    def _close_lifeline(self) -> None:
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def _request(self, **request: object) -> dict[str, Any]:
        try:
            reply = self._exchange(request)
        except (OSError, ValueError) as error:
            raise ProcessDiedError(f"the supervisor of {self.directory} does not answer: {error}") from error
        if "error" in reply:
            raise ProcessDiedError(f"{request.get('name', request['do'])}: {reply['error']}")
        return reply

    def _exchange(self, request: Mapping[str, object]) -> dict[str, Any]:
        # By way of the directory's descriptor, because a socket's path is limited to 108 bytes.
        directory = os.open(self.directory, os.O_PATH | os.O_DIRECTORY)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(30)
                connection.connect(f"/proc/self/fd/{directory}/{SOCKET_NAME}")
                with connection.makefile("rw", encoding="utf-8") as stream:
                    stream.write(json.dumps(request) + "\n")
                    stream.flush()
                    reply: dict[str, Any] = json.loads(stream.readline())
        finally:
            os.close(directory)
        return reply


def free_ports(count: int) -> list[int]:
    """Loopback ports that are free now, none of them twice in the life of this process, nor another's while it lives.

    They lie below the range from which the kernel gives ports to outgoing connections, so that a broker which is down
    for a while finds its port still free.
    """
    found: list[int] = []
    with _GIVING:
        while len(found) < count:
            port = random.randint(12_000, 32_000)
            if port not in _GIVEN and _claimed(port) and _is_free(port):
                _GIVEN.add(port)
                found.append(port)
    return found


@functools.cache
def _claims() -> int:
    """A file with a byte for every port: who has locked it may use the port. The kernel unlocks what a process held."""
    return os.open(Path(tempfile.gettempdir()) / f"rackspan-ports-{os.getuid()}", os.O_RDWR | os.O_CREAT, 0o600)


def _claimed(port: int) -> bool:
    try:
        fcntl.lockf(_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((_LOOPBACK, port))
        except OSError:
            return False
    return True


def accepts_connections(port: int) -> bool:
    try:
        socket.create_connection((_LOOPBACK, port), timeout=1).close()
    except OSError:
        return False
    return True


def _launch(directory: Path, lifeline: int) -> None:
    if _recorded_supervisor(directory):
        raise ProcessDiedError(f"a supervisor already runs in {directory}")
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)  # keys and the supervisor's socket live here
    (directory / SOCKET_NAME).unlink(missing_ok=True)
    with (directory / "supervisor.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "dev.stack.supervisor", str(directory), str(lifeline)],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'operator'}"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=[lifeline],
        )
    (directory / _RECORD).write_text(json.dumps({"pid": process.pid, "started": _start_mark(process.pid)}))
    _OURS[process.pid] = process

    def listening() -> bool:
        if process.poll() is not None:
            raise ProcessDiedError(f"the supervisor did not start: {(directory / 'supervisor.log').read_text()}")
        return (directory / SOCKET_NAME).exists()

    eventually(listening, "the supervisor", interval=0.02)


# Supervisors that are children of this process: they have to be waited for, or they stay as zombies.
_OURS: dict[int, subprocess.Popen[bytes]] = {}


def _recorded_supervisor(directory: Path) -> psutil.Process | None:
    """The supervisor on record in `directory`, if it lives: the start mark tells it from a recycled process id."""
    try:
        record = json.loads((directory / _RECORD).read_text())
        process = psutil.Process(record["pid"])
        if process.status() == psutil.STATUS_ZOMBIE or _start_mark(process.pid) != record["started"]:
            return None
    except (OSError, ValueError, psutil.NoSuchProcess):
        return None
    return process


def _start_mark(pid: int) -> str:
    """When a process started, in clock ticks since a boot: exact, where times of day move with the machine's clock."""
    fields_after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return f"{fields_after_name[19]}@{Path('/proc/sys/kernel/random/boot_id').read_text().strip()}"


def _wait_ended(process: psutil.Process, timeout: float) -> None:
    ours = _OURS.pop(process.pid, None)
    if ours is None:
        process.wait(timeout)
        return
    try:
        ours.wait(timeout)
    except subprocess.TimeoutExpired as error:
        _OURS[process.pid] = ours
        raise psutil.TimeoutExpired(timeout, process.pid) from error

"""Start and stop the processes of a stack through its supervisor, from this process or a later one."""

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
_GIVEN: set[int] = set()  # ports returned to this process, which it may not have bound yet
_GIVING = threading.Lock()


class ProcessDiedError(RuntimeError):
    """A process has ended that should be running. The message contains the end of its log."""


class Processes:
    """The processes of one stack directory. Thread-safe."""

    def __init__(self, directory: Path, lifeline: int | None = None) -> None:
        self.directory = directory
        self._lifeline = lifeline

    @classmethod
    def attached(cls, directory: Path) -> Self:
        """Return a new set of processes that end with the calling process, even if it is killed."""
        # The write end is closed on exec, so that only this process keeps the pipe open.
        reading, writing = os.pipe()
        try:
            _launch(directory, reading)
        finally:
            os.close(reading)
        return cls(directory, writing)

    @classmethod
    def running(cls, directory: Path) -> Self | None:
        """Return the processes that another process started in `directory`, or None if their supervisor has ended."""
        return cls(directory) if _recorded_supervisor(directory) else None

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> int:
        """Start `command` under an unused name and return its process id. The output is appended to its log."""
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
        """Return the process id, or None if the process has ended or was never started."""
        state = self._request(do="status").get(name)
        return state["pid"] if state and state["returncode"] is None else None

    def pids(self) -> dict[str, int]:
        """Return the process ids of the running processes by name."""
        return {name: s["pid"] for name, s in self._request(do="status").items() if s["returncode"] is None}

    def ended(self, name: str) -> int | None:
        """Return the exit code of a process, None if it runs, or -1 if it was never started."""
        state = self._request(do="status").get(name)
        code: int | None = -1 if state is None else state["returncode"]
        return code

    def names(self) -> list[str]:
        """Return the names of all started processes, in the order of their first start."""
        return list(self._request(do="status"))

    def check(self, name: str) -> None:
        """Raise ProcessDiedError, with the end of the log, if the process does not run."""
        state = self._request(do="status").get(name)
        if state is None:
            raise ProcessDiedError(f"{name} was never started")
        if state["returncode"] is not None:
            tail = self.log(name).read_text(errors="replace")[-2000:]
            raise ProcessDiedError(f"{name} exited with {state['returncode']}; the end of {self.log(name)}:\n{tail}")

    def signal(self, name: str, signum: signal.Signals) -> None:
        """Send `signum` to the process group of the process. Do nothing if the process has ended."""
        self._request(do="signal", name=name, signal=int(signum))

    def stop(self, name: str, grace: float = 30) -> None:
        """End the process by SIGTERM, and by SIGKILL after `grace` seconds."""
        self.signal(name, signal.SIGTERM)
        try:
            eventually(lambda: self.pid(name) is None, f"{name} to end", timeout=grace)
        except TimeoutError:
            self.kill(name)

    def kill(self, name: str) -> None:
        """End the process by SIGKILL, like a crash."""
        self.signal(name, signal.SIGKILL)
        eventually(lambda: self.pid(name) is None, f"{name} to be killed", interval=0.02)

    def stay(self) -> None:
        """Keep the processes after the calling process ends, until `end` or until the machine stops."""
        self._request(do="stay")
        self._close_lifeline()

    def end(self, grace: float = 10) -> None:
        """End all processes and their supervisor. Do nothing if they have ended."""
        supervisor = _recorded_supervisor(self.directory)
        if supervisor is not None:
            with contextlib.suppress(ProcessDiedError):
                self._request(do="shutdown", grace=grace)
            try:
                _wait_ended(supervisor, timeout=grace + 20)
            except psutil.TimeoutExpired:
                supervisor.kill()  # the kernel kills its children, too
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
        # Use the descriptor of the directory, because a socket path is limited to 108 bytes.
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
    """Return free loopback ports. No port is returned twice, to this or to another process that still runs.

    The ports are below the range that the kernel uses for outgoing connections, so that the port of a stopped broker
    stays free.
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
    """Return a file with one byte per port. The process with its lock may use the port. Locks end with the process."""
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
    directory.chmod(0o700)  # it contains keys and the socket of the supervisor
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


# Supervisors that are children of this process. Without a wait they would remain as zombies.
_OURS: dict[int, subprocess.Popen[bytes]] = {}


def _recorded_supervisor(directory: Path) -> psutil.Process | None:
    """Return the recorded supervisor of `directory` if it runs. The start mark detects a reused process id."""
    try:
        record = json.loads((directory / _RECORD).read_text())
        process = psutil.Process(record["pid"])
        if process.status() == psutil.STATUS_ZOMBIE or _start_mark(process.pid) != record["started"]:
            return None
    except (OSError, ValueError, psutil.NoSuchProcess):
        return None
    return process


def _start_mark(pid: int) -> str:
    """Return the start of a process in clock ticks since boot, which does not change when the wall clock is set."""
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

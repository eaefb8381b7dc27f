"""The process that owns a stack's processes, so that none of them outlives the stack.

A stack's programs (etcd, brokers, ...) are children of one supervisor, never of the test run or command that asked for
them. The supervisor ends them all

- when the lifeline closes: a pipe whose other end only the owner holds, so that the kernel closes it whichever way the
  owner dies, SIGKILL included. Only a stack that is complete can be told to stay without one;
- when it is told to, by a request or by SIGTERM;
- when it is killed itself: each child asked the kernel to be killed with its parent (PR_SET_PDEATHSIG). The supervisor
  is single-threaded, so "parent" cannot mean a thread that has merely ended.

Grandchildren are covered twice: each child leads a process group that is killed as a whole, and what left its group is
re-parented to the supervisor (PR_SET_CHILD_SUBREAPER), which looks for it at the end.

Requests are one line of JSON per connection, on a Unix socket in the stack's directory, whose mode keeps other users
out. `dev.stack.processes` is the client.
"""

import contextlib
import ctypes
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

SOCKET_NAME = "supervisor.sock"
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


class Supervisor:
    def __init__(self, directory: Path, lifeline: int) -> None:
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._lifeline = lifeline
        self._stays = False
        self._ending: float | None = None  # seconds of grace, once the end has been decided
        os.chdir(directory)  # a socket's path is limited to 108 bytes: bind it by its bare name
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(f".{SOCKET_NAME}")
        self._listener.listen(16)
        Path(f".{SOCKET_NAME}").rename(SOCKET_NAME)  # who sees the name can connect
        signal.signal(signal.SIGTERM, lambda *_: self._end(grace=10))
        signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is the owner's to translate
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def serve(self) -> None:
        """Answer requests until the end, then leave nothing behind."""
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_read, False)
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ, self._answer)
            selector.register(wake_read, selectors.EVENT_READ, lambda: os.read(wake_read, 1024))
            selector.register(self._lifeline, selectors.EVENT_READ, lambda: self._end(grace=0))
            while self._ending is None:
                for key, _ in selector.select():
                    key.data()
                if self._stays and self._lifeline in selector.get_map():
                    selector.unregister(self._lifeline)
                self._reap()
        self._end_children(self._ending)
        Path(SOCKET_NAME).unlink(missing_ok=True)

    def _end(self, grace: float) -> None:
        self._ending = grace if self._ending is None else min(grace, self._ending)

    def _answer(self) -> None:
        connection, _ = self._listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.settimeout(10)
            with connection.makefile("rw", encoding="utf-8") as stream:
                try:
                    reply = self._handle(json.loads(stream.readline()))
                except Exception as error:  # the client's mistake is the client's answer, never our end
                    reply = {"error": f"{type(error).__name__}: {error}"}
                stream.write(json.dumps(reply) + "\n")
                stream.flush()

    def _handle(self, request: dict[str, Any]) -> dict[str, Any]:
        match request["do"]:
            case "start":
                return {"pid": self._start(request)}
            case "signal":
                child = self._children[request["name"]]
                with contextlib.suppress(ProcessLookupError):
                    if child.poll() is None:
                        os.killpg(child.pid, request["signal"])
                return {}
            case "status":
                return {name: {"pid": c.pid, "returncode": c.poll()} for name, c in self._children.items()}
            case "stay":
                self._stays = True
                return {}
            case "shutdown":
                self._end(grace=request["grace"])
                return {}
            case unknown:
                raise ValueError(f"no such request: {unknown}")

    def _start(self, request: dict[str, Any]) -> int:
        name = request["name"]
        previous = self._children.get(name)
        if previous is not None and previous.poll() is None:
            raise ValueError(f"{name} is already running as process {previous.pid}")
        supervisor = os.getpid()

        def die_with_supervisor() -> None:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != supervisor:  # it died before the line above
                os._exit(1)

        with Path(request["log"]).open("ab") as log:
            child = subprocess.Popen(
                request["command"],
                cwd=request["cwd"],
                env={**os.environ, **request["env"]},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_supervisor,  # noqa: PLW1509 - safe: this process has one thread
            )
        self._children[name] = child
        return child.pid

    def _reap(self) -> None:
        """Collect the exit codes of children, and of orphans that were re-parented to this process."""
        # The number of one that has ended may be another process's by now.
        known = {child.pid: child for child in self._children.values() if child.returncode is None}
        # Who has ended is asked of the kernel: looking through all of a machine's processes takes far longer.
        with contextlib.suppress(ChildProcessError):
            while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if ended.si_pid in known:
                    known[ended.si_pid].poll()
                else:
                    os.waitpid(ended.si_pid, os.WNOHANG)

    def _end_children(self, grace: float) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        deadline = time.monotonic() + grace
        if grace > 0:
            for child in reversed(self._children.values()):
                if child.poll() is None:
                    self._kill_group(child, signal.SIGTERM)
        while time.monotonic() < deadline and any(child.poll() is None for child in self._children.values()):
            time.sleep(0.02)
        for child in self._children.values():
            if child.poll() is None:
                self._kill_group(child, signal.SIGKILL)
        # What such a group leaves behind is this process's, as what left its group is. Killing a process can hand its
        # children to this one, so look again until there are none.
        while left := psutil.Process().children(recursive=True):
            for process in left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(left, timeout=1)

    @staticmethod
    def _kill_group(child: subprocess.Popen[bytes], signum: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signum)


def main() -> None:
    """Serve the directory that is named first; the lifeline's file descriptor comes second."""
    directory, lifeline = sys.argv[1:]
    Supervisor(Path(directory), int(lifeline)).serve()


if __name__ == "__main__":
    main()

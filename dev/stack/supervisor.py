"""The process that owns the processes of a stack, so that none of them outlives the stack.

The programs of a stack (etcd, brokers, ...) are children of one supervisor, not of the test run or command that started
them. The supervisor ends them all

- when the lifeline closes. This is a pipe whose other end only the owner holds, so that the kernel closes it when the
  owner ends, even by SIGKILL. Only a complete stack can stay without a lifeline;
- at a request or SIGTERM;
- when the supervisor is killed: each child requests that the kernel kills it with its parent (PR_SET_PDEATHSIG). The
  supervisor is single-threaded, so that "parent" cannot be a thread that has ended.

Grandchildren end in two ways: each child leads a process group that is killed as a whole, and processes that left their
group are re-parented to the supervisor (PR_SET_CHILD_SUBREAPER), which kills them at the end.

Requests are one line of JSON per connection, on a Unix socket in the directory of the stack, whose mode excludes other
users. `dev.stack.processes` is the client.
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
        self._ending: float | None = None  # grace period in seconds, once the supervisor has to end
        os.chdir(directory)  # bind by the bare name: a socket path is limited to 108 bytes
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(f".{SOCKET_NAME}")
        self._listener.listen(16)
        Path(f".{SOCKET_NAME}").rename(SOCKET_NAME)  # clients that see the name can connect
        signal.signal(signal.SIGTERM, lambda *_: self._end(grace=10))
        signal.signal(signal.SIGINT, lambda *_: None)  # the owner handles Ctrl-C
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def serve(self) -> None:
        """Serve requests until the end, then end all processes."""
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
                except Exception as error:  # an invalid request must not end the supervisor
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
            if os.getppid() != supervisor:  # the supervisor died before the line above
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
        # The process id of an ended child may be reused.
        known = {child.pid: child for child in self._children.values() if child.returncode is None}
        # The kernel reports ended processes. A search of all processes of the machine takes much longer.
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
        # Processes that left their group are children of this process now. A killed process may leave children to
        # this process, so repeat until there are none.
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
    """Serve the directory in the first argument. The second one is the file descriptor of the lifeline."""
    directory, lifeline = sys.argv[1:]
    Supervisor(Path(directory), int(lifeline)).serve()


if __name__ == "__main__":
    main()

"""Runs a command in a child process, so that the parent can report a crash in one sentence.

Kafka's native client ends its process on some responses, such as one without a cluster id. The parent does not import
the client. It waits, forwards signals, and ends in the same way as the child.
"""

import contextlib
import ctypes
import io
import os
import resource
import shlex
import signal
import sys
from typing import BinaryIO, Final, NoReturn

from rackspan.core.text import shown

CRASHED: Final = 71
"""The exit code, EX_OSERR of sysexits.h."""
INTERRUPTED: Final = 128 + signal.SIGINT
"""The exit code after Ctrl-C."""
DETAILED: Final = "--detailed-exitcode"
"""With this option, the exit code of every error is 1."""
_CRASHES = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE, signal.SIGSYS})
_OF_THE_TERMINAL = frozenset({signal.SIGINT, signal.SIGQUIT})
_PASSED_ON = _OF_THE_TERMINAL | {signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2}
_SI_KERNEL = 0x80
"""`si_code` in `siginfo_t` for a signal from a key, which all foreground processes of the terminal receive."""
_PR_SET_PDEATHSIG = 1
_SHOW_CURSOR = "\x1b[?25h"


def continue_in_child() -> None:
    """Return in a child process; the parent never returns. On systems other than Linux there is no child."""
    if sys.platform != "linux":
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if ignored, the child's exit status is lost
    watched = _PASSED_ON | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    parent = os.getpid()
    child = os.fork()
    if child:
        _wait(child, watched)
    _end_with(parent)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _StandardError(io.TextIOWrapper):
    """Standard error that may lose its terminal or its reader: failed writes are ignored and stop nothing."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            super().flush()


def outlive_standard_error() -> None:
    """Ignore errors of standard error. If it is closed, open a replacement, so that no later file gets descriptor 2."""
    if sys.stderr is None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        stream: BinaryIO = os.fdopen(2, "wb")
    else:
        stream = sys.stderr.buffer
    sys.stderr = _StandardError(stream, encoding="utf-8", errors="backslashreplace", line_buffering=True)


def _end_with(parent: int) -> None:
    """Kill this process when its parent is killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _wait(child: int, watched: frozenset[signal.Signals]) -> NoReturn:
    while True:
        seen = signal.sigwaitinfo(watched)
        if seen.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                _end_as(os.waitstatus_to_exitcode(status))
        elif seen.si_signo not in _OF_THE_TERMINAL or seen.si_code != _SI_KERNEL:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, seen.si_signo)


def _end_as(code: int) -> NoReturn:
    """End with the child's exit code, or by the signal that ended the child: then `code` is minus the signal number."""
    if code >= 0:
        sys.exit(code)
    ended_by = signal.Signals(-code)
    if ended_by in _CRASHES:
        _report(
            f"crashed ({ended_by.name}), most likely in Kafka's client on an answer that it cannot read",
            "check that the address is that of Kafka brokers that you trust",
        )
        sys.exit(1 if DETAILED in sys.argv else CRASHED)
    if ended_by is signal.SIGKILL:
        _report("was killed (SIGKILL), which the system does where memory is short", "")
    elif ended_by is not signal.SIGSTOP:
        signal.signal(ended_by, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {ended_by})
    os.kill(os.getpid(), ended_by)
    sys.exit(128 - code)  # in a container, its own signals do not end process 1


def _report(what: str, hint: str) -> None:
    if sys.argv[1:2] == ["apply"]:
        hint = "throttles may be left in Kafka: run the same command again, or with --cancel"
    command = shlex.join(["rackspan", *sys.argv[1:]])
    with contextlib.suppress(OSError, AttributeError):  # standard error may be closed
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{_SHOW_CURSOR}")
        print(f"error: {shown(command)} {what}", file=sys.stderr)
        if hint:
            print(f"hint: {hint}", file=sys.stderr)

"""Processes of `rackspan` that kill themselves at a given step, forked from one process that has imported all modules.

The process reads a life as a line of JSON from standard input. It prints the process id and, after the end, the exit
code (negative for a signal). The step of a kill is written to a file. The product has no code for this: this module
wraps its calls.
"""

import ctypes
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dev.faults.kills import ELECTED
from rackspan import main as operator
from rackspan.cli import app
from rackspan.cli.shared.journal_file import JournalFile
from rackspan.kafka.kafka_reassignments import KafkaReassignments
from rackspan.kafka.worker.workers import WorkerClient
from rackspan.kube.kube_reassignments import KubeReassignments
from rackspan.reconcile.plans.executor import Executor
from rackspan.reconcile.plans.reassignment_status import ReassignmentWriter, StatusJournal

IMPORTED = Executor, operator
"""The commands import these late. Here they are imported once before the forks."""
POINTS: dict[tuple[type, str], str] = {
    (JournalFile, "write"): "write of the journal",
    (KubeReassignments, "create"): "creation of the Reassignment",
    (StatusJournal, "write"): "write of the record",
    (ReassignmentWriter, "write"): "write of the status",
    (ReassignmentWriter, "release"): "removal of the finalizer",
    **{
        (client, name): words
        for client in (KafkaReassignments, WorkerClient)  # of the command, and of the operator in a worker process
        for name, words in (
            ("set_settings", "change of throttles"),
            ("alter", "request of a replica list"),
            ("elect", ELECTED),
        )
    },
}
"""The names of all calls that change Kafka or the record of a plan."""


def _wrapped(owner: type, name: str, words: str, reached: Callable[[str], None]) -> None:
    call: Any = getattr(owner, name)

    async def fatal(self: Any, *arguments: Any) -> Any:
        reached(f"before {words}")
        answer = await call(self, *arguments)
        reached(f"after {words}")
        return answer

    setattr(owner, name, fatal)


def _die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends: prctl(2), PR_SET_PDEATHSIG."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _live(life: dict[str, Any]) -> None:
    _die_with_parent()
    out = os.open(life["out"], os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    left, only = life["kill_at"], life["of"]
    lock = threading.Lock()

    def reached(point: str) -> None:
        nonlocal left
        with lock:
            if left is None or (only is not None and not point.endswith(only)):
                return
            left -= 1
            if left < 0:
                Path(life["killed"]).write_text(point)
                os.kill(os.getpid(), signal.SIGKILL)

    for (owner, name), words in POINTS.items():
        _wrapped(owner, name, words, reached)
    try:
        app(life["arguments"], prog_name="rackspan")
    except SystemExit as end:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else 1)
    os._exit(0)


def main() -> None:
    """Serve lives until standard input ends."""
    _die_with_parent()
    for line in sys.stdin:
        life = json.loads(line)
        Path(life["killed"]).unlink(missing_ok=True)
        pid = os.fork()
        if pid == 0:
            _live(life)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()

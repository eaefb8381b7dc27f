"""
`rackspan` in processes that end themselves at a chosen call: one process that has it all imported, and forks.

It reads a life as a line of JSON from standard input, answers with the process's id, and, once that has ended, with its
exit code (negative: the signal) and where it was killed. Nothing of this is in the product: the calls are wrapped here.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rackspan.cli import app
from rackspan.cli.shared.journal import JournalFile
from rackspan.kafka.reassignments import KafkaReassignments
from rackspan.reconcile.reassignments.executor import Executor

IMPORTED = Executor
"""The command imports it late; here it is before the forks, not in each of them."""
POINTS = [(JournalFile, "write"), *((KafkaReassignments, name) for name in ("set_settings", "alter", "elect"))]


def _wrapped(owner: type, name: str, reached: Callable[[str], None]) -> None:
    call: Any = getattr(owner, name)

    async def fatal(self: Any, *arguments: Any) -> Any:
        reached(f"before {name}")
        answer = await call(self, *arguments)
        reached(f"after {name}")
        return answer

    setattr(owner, name, fatal)


def _live(life: dict[str, Any]) -> None:
    out = os.open(life["out"], os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    left = life["kill_at"]
    lock = threading.Lock()

    def reached(point: str) -> None:
        nonlocal left
        with lock:
            if left is None:
                return
            left -= 1
            if left < 0:
                Path(life["killed"]).write_text(point)
                os.kill(os.getpid(), signal.SIGKILL)

    for owner, name in POINTS:
        _wrapped(owner, name, reached)
    try:
        app(life["arguments"], prog_name="rackspan")
    except SystemExit as end:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else 1)
    os._exit(0)


def main() -> None:
    """Serve lives until standard input ends."""
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

"""The `rackspan` command. `rack-id` starts without the imports of the other commands."""

import gc
import io
import signal
import sys

from rackspan import child_process, rack_id

_OPERATOR = "operator"
"""This command needs no child process: Kubernetes supervises its process, and its Kafka clients have their own."""
_TERMINATED = 128 + signal.SIGTERM
_NEW_OBJECTS, _YOUNG, _OLDER = 50_000, 10, 10
"""Thresholds of Python's cyclic garbage collector. The first is the number of new objects, by default 700.

With the default, an operator with 4,000 new topics spent a third of its time in the collector for nothing: objects
from JSON have no cycles, so reference counts free them. The cost is some megabytes of memory if there are cycles.
"""
_SWITCH_SECONDS = 0.001
"""How long a computing thread can delay each step of the event loop. The default is five times as long.

The plan of one tenant is computed in a thread, and a request of another tenant takes about 20 steps of the event loop.
"""


def main() -> None:
    """Run the command with the process's arguments, and exit."""
    try:
        _run()
    except KeyboardInterrupt:  # during an import; later the command handles it
        sys.exit(child_process.INTERRUPTED)


def _run() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # None if it is closed
            stream.reconfigure(encoding="utf-8", errors=stream.errors)  # in any locale: other commands read the result
    if sys.argv[1:2] == [rack_id.NAME]:
        sys.exit(rack_id.main(sys.argv[2:]))
    if sys.argv[1:2] == [_OPERATOR]:
        # Process 1 of a container ignores the signal until there is a handler, and the imports take a second.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    else:
        child_process.continue_in_child()
        child_process.outlive_standard_error()
    gc.set_threshold(_NEW_OBJECTS, _YOUNG, _OLDER)
    sys.setswitchinterval(_SWITCH_SECONDS)
    from rackspan.cli import app  # noqa: PLC0415 - takes ten times as long as all of rack-id

    app()


if __name__ == "__main__":
    main()

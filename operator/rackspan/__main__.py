"""The `rackspan` command. `rack-id` starts without the other commands and all that they import."""

import gc
import signal
import sys

from rackspan import child_process, rack_id

_OPERATOR = "operator"
"""Kubernetes watches over its process, and its Kafka clients have processes of their own."""
_TERMINATED = 128 + signal.SIGTERM
_NEW_OBJECTS, _YOUNG, _OLDER = 50_000, 10, 10
"""Python looks for garbage that refers to itself whenever so many objects are new, by default 700.

An operator that makes 4,000 topics spent a third of its time on that, for nothing: what JSON leaves behind goes by
itself. The price is some megabytes, where there is such garbage.
"""
_SWITCH_SECONDS = 0.001
"""For how long a thread that computes keeps the event loop waiting at each of its steps, by default five times as long.

A plan of one tenant is computed in a thread, and a request of another takes the event loop some twenty steps.
"""


def main() -> None:
    """Run the command with the process's arguments, and exit."""
    if sys.argv[1:2] == [rack_id.NAME]:
        sys.exit(rack_id.main(sys.argv[2:]))
    if sys.argv[1:2] == [_OPERATOR]:
        # As process 1 of a container it would miss the signal until it has a handler: its imports take a second.
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

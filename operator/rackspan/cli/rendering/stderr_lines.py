"""Lines on standard error next to a result, and the end of output."""

import os
import sys

from rackspan.core.text import escaped, shown


def print_no_more() -> None:
    """Discard later output and the output that is still buffered, about which Python would complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_error(message: str, hint: str = "") -> None:
    """Print an error, on one line, and its hint."""
    print(f"error: {shown(message)}", file=sys.stderr)
    if hint:
        print(f"hint: {shown(hint)}", file=sys.stderr)


def warn(message: str) -> None:
    """Print a warning on one line."""
    print(f"warning: {shown(message)}", file=sys.stderr)


def note(message: str) -> None:
    """Print a note on one line. It is never shortened, because it may be a command to run."""
    print(f"note: {escaped(message)}", file=sys.stderr)

"""Lines on standard error beside a result, and the end of what is printed."""

import os
import sys

from rackspan.core.text import escaped, shown


def print_no_more() -> None:
    """Drop what is printed from now on, and what was not written yet, of which Python would complain at exit."""
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
    """Print what is worth knowing beside the result, on one line, and whole: it may be a command to run."""
    print(f"note: {escaped(message)}", file=sys.stderr)

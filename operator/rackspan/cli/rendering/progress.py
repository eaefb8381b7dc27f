"""A progress bar on standard error: only on a terminal, and only once a step has taken a second."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from rackspan.core.text import shown

_PATIENCE_SECONDS = 1.0


class ProgressStep:
    """One step under way. Its bar only pulses until `advance` is called."""

    def __init__(self, bar: Progress, description: str) -> None:
        self._bar = bar
        self._task = bar.add_task(shown(description), total=None)

    def describe(self, description: str) -> None:
        """Show what is under way."""
        self._bar.update(self._task, description=shown(description))

    def advance(self, done: int, total: int) -> None:
        """Show how much is done."""
        self._bar.update(self._task, completed=done, total=total)


def bars_are_shown() -> bool:
    """Whether standard error is a terminal that can draw a bar. On others, rich prints empty lines."""
    return sys.stderr.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


@contextmanager
def step(description: str) -> Iterator[ProgressStep]:
    """Show a bar while the block runs, if that takes more than a second."""
    console = Console(stderr=True)
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not bars_are_shown(),
    )
    timer = threading.Timer(_PATIENCE_SECONDS, bar.start)
    timer.daemon = True
    if not bar.disable:
        timer.start()
    try:
        yield ProgressStep(bar, description)
    finally:
        timer.cancel()
        if not bar.disable:
            timer.join()  # it may be starting the bar now
            bar.stop()

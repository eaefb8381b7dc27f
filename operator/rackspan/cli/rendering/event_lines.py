"""What a command does for a while: a bar on a terminal, lines where there is none, an object per line for programs."""

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rackspan.cli.rendering.output_formats import Format
from rackspan.cli.rendering.printed_documents import printed_json
from rackspan.cli.rendering.stderr_lines import print_no_more
from rackspan.core.text import shown

QUIET_SECONDS = 10.0
"""A line that repeats is printed no more often than that."""
LONGEST = 2_000
"""Characters of a sentence on standard output or error, at most."""


class EventLines:
    """Prints events. One that repeats is printed when its sentence changes, and no more than once in ten seconds."""

    def __init__(self, output: Format) -> None:
        self._output = output
        self._last: dict[str, str] = {}
        self._printed: dict[str, float] = {}

    def report(self, event: str, sentence: str, document: Mapping[str, Any]) -> None:
        """Print what has happened."""
        if self._output is Format.JSON:
            print(printed_json(json.dumps({"event": event, **document}, ensure_ascii=False)), flush=True)
        else:
            print(shown(sentence, LONGEST), flush=True)

    def repeat(self, event: str, sentence: str, document: Mapping[str, Any]) -> None:
        """Print how far something is, if that is news; a terminal has a bar for it."""
        now = time.monotonic()
        if self._last.get(event) == sentence or now < self._printed.get(event, -QUIET_SECONDS) + QUIET_SECONDS:
            return
        self._last[event], self._printed[event] = sentence, now
        if self._output is Format.JSON or not sys.stderr.isatty():
            self.report(event, sentence, document)


@contextmanager
def lasting_lines(output: Format) -> Iterator[EventLines]:
    """Give events of what is done to its end, whoever reads them. Raises OSError then, where one could not be read."""
    lines = LastingLines(output)
    yield lines
    if lines.lost is not None:
        raise lines.lost


class LastingLines(EventLines):
    """`lost` is why standard output can no longer be written; what would be printed is left out from then on."""

    def __init__(self, output: Format) -> None:
        super().__init__(output)
        self.lost: OSError | None = None

    def report(self, event: str, sentence: str, document: Mapping[str, Any]) -> None:
        """Print what has happened, where that can be."""
        try:
            super().report(event, sentence, document)
        except OSError as error:
            self.lost = error
            print_no_more()

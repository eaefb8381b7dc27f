"""The events of a long command: a bar on a terminal, lines without a terminal, an object per line for programs."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rackspan.cli.rendering.output_formats import Format
from rackspan.cli.rendering.printed_documents import printed_json
from rackspan.cli.rendering.progress import bars_are_shown
from rackspan.cli.rendering.stderr_lines import print_no_more
from rackspan.core.text import shown

QUIET_SECONDS = 10.0
"""The minimum time between two prints of a repeated line."""
LONGEST = 2_000
"""The maximum number of characters of a sentence on standard output or error."""


class EventLines:
    """Prints events. A repeated event is printed if its sentence has changed, at most once in ten seconds."""

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
        """Print progress if it has changed. On a terminal, the bar shows it instead."""
        now = time.monotonic()
        if self._last.get(event) == sentence or now < self._printed.get(event, -QUIET_SECONDS) + QUIET_SECONDS:
            return
        self._last[event], self._printed[event] = sentence, now
        if self._output is Format.JSON or not bars_are_shown():
            self.report(event, sentence, document)


@contextmanager
def lasting_lines(output: Format) -> Iterator[EventLines]:
    """Yield event lines for work that must finish even without a reader. Raises OSError at the end if one was lost."""
    lines = LastingLines(output)
    yield lines
    if lines.lost is not None:
        raise lines.lost


class LastingLines(EventLines):
    """Event lines that survive a lost standard output. `lost` is the error; later events are not printed."""

    def __init__(self, output: Format) -> None:
        super().__init__(output)
        self.lost: OSError | None = None

    def report(self, event: str, sentence: str, document: Mapping[str, Any]) -> None:
        """Print what has happened, if standard output can be written."""
        try:
            super().report(event, sentence, document)
        except OSError as error:
            self.lost = error
            print_no_more()

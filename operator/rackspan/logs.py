"""Log lines as text, for a terminal: one line each, and nothing in them that a terminal obeys.

Kafka, nodes and custom resources choose much of what is logged. Lines as JSON need none of this.
"""

from __future__ import annotations

import copy
import logging

from rackspan.core.text import escaped


class OneLineFormatter(logging.Formatter):
    """Another formatter's lines with all characters escaped that are not printed; a traceback keeps its lines."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        """The record as text."""
        record = copy.copy(record)
        record.msg, record.args = escaped(record.getMessage()), None
        return "\n".join(map(escaped, self._inner.format(record).split("\n")))


def escape_lines() -> None:
    """From now on, whatever is handled at the root is escaped."""
    for handler in logging.getLogger().handlers:
        if not isinstance(handler.formatter, OneLineFormatter):
            handler.setFormatter(OneLineFormatter(handler.formatter or logging.Formatter()))

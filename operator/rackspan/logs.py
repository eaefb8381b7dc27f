"""Log lines as text for a terminal: one line per record, without control characters.

Log messages contain text from Kafka, nodes and custom resources, which could hold line breaks or escape sequences.
JSON log lines escape these anyway.
"""

from __future__ import annotations

import copy
import logging

from rackspan.core.text import escaped


class OneLineFormatter(logging.Formatter):
    """Wraps another formatter and escapes what is not printable; tracebacks keep their line breaks."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line, followed by its traceback if it has one."""
        record = copy.copy(record)
        record.msg, record.args = escaped(record.getMessage()), None
        return "\n".join(map(escaped, self._inner.format(record).split("\n")))


def escape_lines() -> None:
    """Wrap the formatters of all handlers of the root logger. Idempotent."""
    for handler in logging.getLogger().handlers:
        if not isinstance(handler.formatter, OneLineFormatter):
            handler.setFormatter(OneLineFormatter(handler.formatter or logging.Formatter()))

"""The audit log: a line for each change that Kafka was asked for, written after its answer."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.reconcile.failures import Failure

LOGGER = "rackspan.audit"
_log = logging.getLogger(LOGGER)


def record(operation: str, details: Mapping[str, object], refused: Failure | None) -> None:
    """Log a change with what it is about; `refused` is None where Kafka accepted it."""
    answer = {"answer": "ok"} if refused is None else {"answer": str(refused.reason), "message": refused.message}
    entry = {"operation": operation, **details, **answer}
    # JSON escapes line breaks, so that no name or message can forge a line.
    _log.info("%s %s", operation, json.dumps(entry), extra={"audit": entry})

"""Compliance: which placements are fair, how far one is from that, and the fewest moves that mend it."""

from rackspan.core.compliance.judging import (
    BROKER_LEVEL,
    REASONS,
    Compliance,
    Finding,
    FindingColumns,
    Reason,
    allowed_skews,
    judge,
)

__all__ = [
    "BROKER_LEVEL",
    "REASONS",
    "Compliance",
    "Finding",
    "FindingColumns",
    "Reason",
    "allowed_skews",
    "judge",
]

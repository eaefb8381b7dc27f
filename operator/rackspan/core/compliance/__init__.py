"""Compliance: which placements are fair, how far a placement is from fair, and the fewest moves that fix it."""

from rackspan.core.compliance.judging import (
    BROKER_LEVEL,
    REASONS,
    Compliance,
    FindingColumns,
    Violation,
    ViolationReason,
    allowed_skews,
    judge,
)
from rackspan.core.compliance.pinned import Pinned, assigned, judge_pinned

__all__ = [
    "BROKER_LEVEL",
    "REASONS",
    "Compliance",
    "FindingColumns",
    "Pinned",
    "Violation",
    "ViolationReason",
    "allowed_skews",
    "assigned",
    "judge",
    "judge_pinned",
]

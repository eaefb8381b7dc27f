"""Reassignment: from a plan and from what Kafka says is under way to the next calls, pass by pass."""

from rackspan.core.reassignment.cancellation import cancel
from rackspan.core.reassignment.decision import Decision, Progress, Tally, decide
from rackspan.core.reassignment.model import (
    Disk,
    Limits,
    Observed,
    PartitionState,
    Racks,
    TopicPartition,
    Waiting,
    WaitReason,
    of_change,
)
from rackspan.core.reassignment.throttles import Setting, SettingKind, wanted_throttles
from rackspan.core.reassignment.worklist import Worklist

__all__ = [
    "Decision",
    "Disk",
    "Limits",
    "Observed",
    "PartitionState",
    "Progress",
    "Racks",
    "Setting",
    "SettingKind",
    "Tally",
    "TopicPartition",
    "WaitReason",
    "Waiting",
    "Worklist",
    "cancel",
    "decide",
    "of_change",
    "wanted_throttles",
]

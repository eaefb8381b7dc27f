"""Reassignment: decides the next calls to Kafka in each pass, from a plan and the reassignments under way."""

from rackspan.core.move_limits import Limits
from rackspan.core.partitions import (
    Disk,
    ListChange,
    ListOperation,
    PartitionState,
    Setting,
    SettingChange,
    SettingKind,
    TopicPartition,
)
from rackspan.core.reassignment.approval import (
    ApprovalHold,
    ApprovalOutcome,
    Approver,
    Need,
    PlanPart,
    Terms,
    judge_approval,
)
from rackspan.core.reassignment.cancellation import cancel
from rackspan.core.reassignment.claims import Claims
from rackspan.core.reassignment.model import (
    Observed,
    Racks,
    Waiting,
    WaitReason,
    of_change,
)
from rackspan.core.reassignment.move_decision import MoveDecision, Progress, Tally, decide
from rackspan.core.reassignment.pacing import (
    Adaptive,
    Pace,
    PaceReason,
    Replica,
    first_pace,
    next_pace,
    replicas_behind,
)
from rackspan.core.reassignment.throttles import (
    SetThrottle,
    ThrottledReplicas,
    wanted_lists,
    wanted_throttles,
)
from rackspan.core.reassignment.worklist import Worklist

__all__ = [
    "Adaptive",
    "ApprovalHold",
    "ApprovalOutcome",
    "Approver",
    "Claims",
    "Disk",
    "Limits",
    "ListChange",
    "ListOperation",
    "MoveDecision",
    "Need",
    "Observed",
    "Pace",
    "PaceReason",
    "PartitionState",
    "PlanPart",
    "Progress",
    "Racks",
    "Replica",
    "SetThrottle",
    "Setting",
    "SettingChange",
    "SettingKind",
    "Tally",
    "Terms",
    "ThrottledReplicas",
    "TopicPartition",
    "WaitReason",
    "Waiting",
    "Worklist",
    "cancel",
    "decide",
    "first_pace",
    "judge_approval",
    "next_pace",
    "of_change",
    "replicas_behind",
    "wanted_lists",
    "wanted_throttles",
]

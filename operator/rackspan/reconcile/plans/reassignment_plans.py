"""From an approved plan to Reassignments, and from a Reassignment to the record that it is carried out by. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rackspan.api import reassignment as api
from rackspan.api.labels import API_VERSION, FINALIZER, PLAN, SCAN_TOPOLOGY, WHOLE_PLAN
from rackspan.api.racktopology import KIND as TOPOLOGY
from rackspan.api.reasons import Reason
from rackspan.core.reassignment import Racks
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.plans.plan_documents import (
    UNREADABLE,
    TooLargeError,
    document,
    packed,
    record_of,
    unpacked,
    with_progress,
)
from rackspan.reconcile.reassignment_ports import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rackspan.api.racktopology import RackTopology
    from rackspan.api.reassignment import Reassignment
    from rackspan.core.planning import Change
    from rackspan.core.rack_path import RackPath
    from rackspan.reconcile.ports import JsonObject

_MOST_PARTITIONS = 10_000
"""Of one Reassignment: 250 kB of text where racks, brokers and sizes are as diverse as can be."""
MOST_NAMES = 4_000
"""Of one plan: an annotation of 132 kB."""
_LONGEST_PREFIX = 200
_LONGEST_LABEL = 63
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class ApprovedPlan:
    """
    A plan that somebody, or a policy, has said yes to.

    `changes` are of partitions that exist, with sizes where they are known. `racks` are those that the plan was made
    for, `reported_racks` what Kafka had as `broker.rack` then. `approved_by` says in words who or what approved it,
    `names` are the hashes of the plan, and of its namespaces' and topics' parts, which this is all of, or some.
    `topic_ids` are those of its topics.
    """

    cluster_id: str
    plan_hash: str
    changes: Sequence[Change]
    racks: Mapping[int, RackPath | None]
    reported_racks: Mapping[int, str | None]
    approved_by: str = ""
    names: tuple[str, ...] = ()
    topic_ids: Mapping[str, str] = field(default_factory=dict)


class UnreadablePlanError(ValueError):
    """The plan or the record of a Reassignment is none; the message says why."""


def reassignments_of(topology: RackTopology, plan: ApprovedPlan) -> Sequence[JsonObject]:
    """The objects of a plan, of one name each whenever they are made; the partitions in the fewest domains first.

    Raises FailureError where the racks alone are too much for one object.
    """
    racks = Racks(plan.racks)
    changes = sorted(
        (change for change in plan.changes if change.before),
        key=lambda one: (racks.spread(one.before), one.topic, one.partition),
    )
    texts = [
        text
        for start in range(0, max(len(changes), 1), _MOST_PARTITIONS)
        for text in _texts(plan, changes[start : start + _MOST_PARTITIONS])
    ]
    return [_object(topology, plan, text, part, len(texts)) for part, text in enumerate(texts, start=1)]


def name_of(topology: str, plan_hash: str, part: int, parts: int) -> str:
    """The name of a Reassignment: that of its topology, the plan's hash, and which part it is if there are several."""
    name = f"{topology[:_LONGEST_PREFIX].rstrip('-.')}-{plan_hash}"
    return name if parts == 1 else f"{name}-{part}"


def record_from(reassignment: Reassignment, plan: str) -> Record:
    """What a Reassignment says, whose `spec.plan` this is, with what was recorded of it. Raises UnreadablePlanError."""
    spec = reassignment.spec
    try:
        record = record_of(unpacked(plan))
        if reassignment.status.record is not None:
            record = with_progress(record, unpacked(reassignment.status.record))
    except UNREADABLE as error:
        raise UnreadablePlanError(f"the plan cannot be read: {str(error)[:_SHOWN]}") from error
    if len(record.changes) > _MOST_PARTITIONS:
        raise UnreadablePlanError(f"the plan has more than {_MOST_PARTITIONS:,} partitions")
    if record.plan_hash != spec.plan_hash:
        raise UnreadablePlanError(f"the plan is {record.plan_hash[:_SHOWN]}, and planHash is {spec.plan_hash}")
    wrong = next(filter(None, map(_wrong, record.changes)), None)
    if wrong is not None:
        raise UnreadablePlanError(wrong)
    return record


def _texts(plan: ApprovedPlan, changes: Sequence[Change]) -> Iterator[str]:
    """The texts of changes, as few as fit into an object each."""
    record = Record(plan.cluster_id, plan.plan_hash, changes, plan.racks, plan.reported_racks, topic_ids=plan.topic_ids)
    try:
        yield packed(document(record), api.MAX_PLAN)
    except TooLargeError as error:
        if len(changes) <= 1:
            what = f"the racks of {len(plan.racks):,} brokers fit into no Reassignment, which then {error}"
            raise FailureError(Failure(Reason.TOO_LARGE, what, Remedy.SPEC)) from error
    else:
        return
    middle = len(changes) // 2
    yield from _texts(plan, changes[:middle])
    yield from _texts(plan, changes[middle:])


def _object(topology: RackTopology, plan: ApprovedPlan, text: str, part: int, parts: int) -> JsonObject:
    key = topology.key
    return {
        "apiVersion": API_VERSION,
        "kind": api.KIND,
        "metadata": {
            "name": name_of(key.name, plan.plan_hash, part, parts),
            "namespace": key.namespace,
            "labels": {PLAN: plan.plan_hash, SCAN_TOPOLOGY: key.name[:_LONGEST_LABEL].rstrip("-.")},
            "annotations": {WHOLE_PLAN: ",".join(plan.names[:MOST_NAMES]) or plan.plan_hash},
            "finalizers": [FINALIZER],
            "ownerReferences": [
                {"apiVersion": API_VERSION, "kind": TOPOLOGY, "name": key.name, "uid": topology.meta.uid}
            ],
        },
        "spec": {
            "topologyRef": {"name": key.name},
            "planHash": plan.plan_hash,
            "part": part,
            "parts": parts,
            "plan": text,
            "approvedBy": plan.approved_by[:1024],
        },
    }


def _wrong(change: Change) -> str | None:
    """Why a change cannot be carried out, whoever wrote it."""
    for replicas in (change.before, change.replicas):
        if not replicas or len(set(replicas)) != len(replicas):
            return f"{change.topic[:_SHOWN]!a}, partition {change.partition}: its replicas are not different brokers"
    return None

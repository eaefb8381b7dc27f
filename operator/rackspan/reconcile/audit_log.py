"""The audit log: one line for each change requested from Kafka, written after Kafka's response.

A line about a topic has the object, its generation, the field manager that last wrote its spec, the request and Kafka's
response. In a line about a move, the Reassignment, the plan's hash and the user who approved it replace the first
three. Each replica list, cancellation, election and throttle has its own line. If a call fails as a whole, each of its
topics, partitions or configs has a line with that failure.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from rackspan.api import kafkatopic, reassignment
from rackspan.api.reasons import Reason
from rackspan.core.reassignment import ListChange
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import ConfigChange, NewPartitions, NewTopic

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.reassignment import Reassignment
    from rackspan.core.reassignment import Setting, SettingChange, TopicPartition
    from rackspan.reconcile.ports import ReassignmentAdmin, Replicas

LOGGER = "rackspan.audit"
_log = logging.getLogger(LOGGER)

T = TypeVar("T")
Entry: TypeAlias = "tuple[str, Mapping[str, object]]"
"""The operation of a change, and its details."""
UNANSWERED = Failure(
    Reason.KAFKA_UNREACHABLE, "no answer was waited for or given, so Kafka may make the change", Remedy.RETRY
)


def record(operation: str, details: Mapping[str, object], refused: Failure | None) -> None:
    """Log a change and its details. `refused` is None if Kafka accepted the change."""
    answer = {"answer": "ok"} if refused is None else {"answer": str(refused.reason), "message": refused.message}
    entry = {"operation": operation, **details, **answer}
    # JSON escapes line breaks, so that no name or message can forge a line.
    _log.info("%s %s", operation, json.dumps(entry), extra={"audit": entry})


async def audited(
    entries: Mapping[T, Entry], call: Callable[[], Awaitable[Mapping[T, Failure | None]]]
) -> Mapping[T, Failure | None]:
    """Make a call that requests several changes, and log the entry of each.

    Raises FailureError if the call fails as a whole. Each change is then logged with that failure. A change without an
    answer, also because the operator ends, is logged as such: Kafka may make it.
    """
    outcomes: Mapping[T, Failure | None] = {}
    lost = UNANSWERED
    try:
        outcomes = await call()
    except FailureError as error:
        lost = error.failure
        raise
    finally:
        for one, entry in entries.items():
            record(*entry, outcomes.get(one, lost))
    return outcomes


def change_of(topic: KafkaTopic, change: NewTopic | NewPartitions | ConfigChange) -> Entry:
    """Return the operation and the details of a change requested for one topic."""
    match change:
        case NewTopic():
            size = {"partitions": change.partitions, "replicationFactor": change.replication_factor}
            return "CreateTopic", _about(topic, {**size, "config": dict(change.config)})
        case NewPartitions():
            return "CreatePartitions", _about(topic, {"partitions": change.total})
        case ConfigChange():
            return "AlterConfigs", _about(topic, {"config": dict(change.set)})


def deletion_of(topic: KafkaTopic) -> Entry:
    """Return the operation and the details of a deletion."""
    return "DeleteTopic", _about(topic, {})


def _about(topic: KafkaTopic, asked: Mapping[str, object]) -> Mapping[str, object]:
    meta, status = topic.meta, topic.status
    return {
        "topic": topic.topic_name,
        **({"topicId": status.topic_id} if status.topic_id else {}),
        **asked,
        "object": {
            "kind": kafkatopic.KIND,
            "namespace": meta.namespace,
            "name": meta.name,
            "uid": meta.uid,
            "generation": meta.generation,
        },
        "manager": meta.manager,
        "topology": str(topic.topology),
    }


class AuditedAdmin:
    """Logs the changes in Kafka that one Reassignment makes. Implements `ReassignmentAdmin`."""

    def __init__(self, admin: ReassignmentAdmin, about: Reassignment) -> None:
        meta = about.meta
        self._admin = admin
        self._about = {
            "object": {"kind": reassignment.KIND, "namespace": meta.namespace, "name": meta.name, "uid": meta.uid},
            "plan": about.spec.plan_hash,
            "approvedBy": about.spec.approved_by,
        }
        self.cluster = admin.cluster
        self.partitions = admin.partitions
        self.topic_names = admin.topic_names
        self.min_insync = admin.min_insync
        self.disks = admin.disks
        self.cordoned = admin.cordoned
        self.sizes = admin.sizes
        self.settings = admin.settings
        self.close = admin.close

    async def alter(
        self, targets: Mapping[TopicPartition, Replicas | None], same_size: Collection[TopicPartition] = ()
    ) -> Mapping[TopicPartition, Failure | None]:
        """Request new replica lists, or cancel the ongoing reassignment if the list is None."""

        def entry(at: TopicPartition) -> Entry:
            replicas, where = targets[at], {"topic": at.topic, "partition": at.partition}
            if replicas is None:
                return "CancelReassignment", {**where, **self._about}
            return "AlterReplicas", {**where, "replicas": list(replicas), **self._about}

        return await audited({at: entry(at) for at in targets}, lambda: self._admin.alter(targets, same_size))

    async def elect(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Failure | None]:
        """Elect the preferred leaders."""

        def entry(at: TopicPartition) -> Entry:
            return "ElectLeader", {"topic": at.topic, "partition": at.partition, **self._about}

        return await audited({at: entry(at) for at in partitions}, lambda: self._admin.elect(partitions))

    async def set_settings(self, changes: Mapping[Setting, SettingChange]) -> Mapping[Setting, Failure | None]:
        """Set, change or delete throttles."""

        def entry(one: Setting) -> Entry:
            change = changes[one]
            value = {str(change.operation): change.names} if isinstance(change, ListChange) else change
            return "AlterThrottle", {str(one.kind): one.name, "config": {one.key: value}, **self._about}

        return await audited({one: entry(one) for one in changes}, lambda: self._admin.set_settings(changes))

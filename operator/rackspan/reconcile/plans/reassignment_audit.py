"""Audit log of moves: one line for each replica list, cancellation, election and throttle that Kafka was asked for.

Each has the Reassignment, the plan's hash, who approved it, the request and Kafka's answer, and is written after the
answer. Where a call fails as a whole, each of its partitions or configs has a line with that failure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rackspan.api.reassignment import KIND
from rackspan.core.reassignment import ListChange
from rackspan.reconcile.audit_log import record
from rackspan.reconcile.failures import FailureError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from rackspan.api.meta import ObjectKey
    from rackspan.core.reassignment import Setting, SettingChange, TopicPartition
    from rackspan.reconcile.failures import Failure
    from rackspan.reconcile.reassignment_ports import ReassignmentAdmin, Replicas

T = TypeVar("T")


class AuditedAdmin:
    """Logs what one Reassignment changes in Kafka; implements `ReassignmentAdmin`."""

    def __init__(self, admin: ReassignmentAdmin, key: ObjectKey, uid: str, plan_hash: str, approved_by: str) -> None:
        self._admin = admin
        self._about = {
            "object": {"kind": KIND, "namespace": key.namespace, "name": key.name, "uid": uid},
            "plan": plan_hash,
            "approvedBy": approved_by,
        }
        self.cluster = admin.cluster
        self.partitions = admin.partitions
        self.topic_names = admin.topic_names
        self.min_insync = admin.min_insync
        self.disks = admin.disks
        self.cordoned = admin.cordoned
        self.sizes = admin.sizes
        self.settings = admin.settings

    async def alter(
        self, targets: Mapping[TopicPartition, Replicas | None], same_size: Collection[TopicPartition] = ()
    ) -> Mapping[TopicPartition, Failure | None]:
        """New replica lists, or None to cancel what is under way."""

        def entry(at: TopicPartition) -> tuple[str, Mapping[str, object]]:
            replicas, where = targets[at], {"topic": at.topic, "partition": at.partition}
            if replicas is None:
                return "CancelReassignment", where
            return "AlterReplicas", {**where, "replicas": list(replicas)}

        return await self._audited(list(targets), entry, lambda: self._admin.alter(targets, same_size))

    async def elect(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Failure | None]:
        """Let preferred leaders lead."""

        def entry(at: TopicPartition) -> tuple[str, Mapping[str, object]]:
            return "ElectLeader", {"topic": at.topic, "partition": at.partition}

        return await self._audited(partitions, entry, lambda: self._admin.elect(partitions))

    async def set_settings(self, changes: Mapping[Setting, SettingChange]) -> Mapping[Setting, Failure | None]:
        """Set, change or delete throttles."""

        def entry(one: Setting) -> tuple[str, Mapping[str, object]]:
            change = changes[one]
            value = {str(change.operation): change.names} if isinstance(change, ListChange) else change
            return "AlterThrottle", {str(one.kind): one.name, "config": {one.key: value}}

        return await self._audited(list(changes), entry, lambda: self._admin.set_settings(changes))

    async def _audited(
        self,
        asked: Sequence[T],
        entry: Callable[[T], tuple[str, Mapping[str, object]]],
        call: Callable[[], Awaitable[Mapping[T, Failure | None]]],
    ) -> Mapping[T, Failure | None]:
        try:
            outcomes = await call()
        except FailureError as error:
            self._record(asked, entry, dict.fromkeys(asked, error.failure))
            raise
        self._record(asked, entry, outcomes)
        return outcomes

    def _record(
        self,
        asked: Sequence[T],
        entry: Callable[[T], tuple[str, Mapping[str, object]]],
        outcomes: Mapping[T, Failure | None],
    ) -> None:
        for one in asked:
            operation, details = entry(one)
            record(operation, {**details, **self._about}, outcomes.get(one))

"""Cordons drained brokers in Kafka (KIP-1066), so that no client places replicas there, and releases them again.

A broker is cordoned once it is empty: Kafka 4.4 refuses every replica list with a cordoned broker, even if the replica
was already there. So a partition that keeps a replica there could not be changed, and other partitions could leave only
in a single step, which is less safe than two.

The operator releases only its own cordons. `status.cordons` records them before the first call to Kafka, so that an
operator that is killed in between knows its own cordons.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rackspan.api.codec import SpecError
from rackspan.api.racktopology import KIND, RackTopology
from rackspan.api.reasons import Reason
from rackspan.reconcile import audit_log
from rackspan.reconcile.cluster.broker_events import broker_list
from rackspan.reconcile.cluster.client import Session
from rackspan.reconcile.failures import FailureError, Remedy, is_answer
from rackspan.reconcile.ports import KubernetesEvent, ObjectRef

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopologyStatus
    from rackspan.reconcile.cluster.racks import RackView
    from rackspan.reconcile.failures import Failure
    from rackspan.reconcile.ports import KafkaAdmin, KafkaConnector, KubeApi

_log = logging.getLogger("rackspan.reconcile")
_RETRY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class CordonChanges:
    """The brokers to cordon and to release now. `held` are the brokers that the operator has already cordoned.

    `unable` are the brokers to cordon that do not report cordons.
    """

    cordon: frozenset[int]
    release: frozenset[int]
    held: frozenset[int]
    unable: frozenset[int]

    @property
    def recorded(self) -> frozenset[int]:
        """The brokers with cordons of the operator while these changes are in progress."""
        return self.held | self.cordon


def cordon_changes(
    topology: RackTopology,
    known: Collection[int],
    racks: RackView,
    able: Collection[int],
    empty: Collection[int],
    unproven: Collection[int],
) -> CordonChanges:
    """Return the changes to make. `known` are the brokers with cordons of the operator.

    `able` are the brokers that can be cordoned: those of Kafka 4.3 and later that respond. `empty` are drained brokers
    without replicas. A broker that another client has cordoned is left alone. An offline broker keeps its cordon until
    it is back. While racks are drained, a broker with an unknown rack keeps its cordon until the rack is known, because
    it may be in a drained rack. A broker whose rack is `unproven` stays unchanged until the rack is proven. A broker
    that is empty and offline has no row. It keeps its cordon, and is handled when it is back.
    """
    wanted = topology.spec.drain.cordon and not topology.meta.is_deleting
    drained = {row.id for row in racks.rows if row.draining} if wanted else set()
    spec, recorded = topology.spec, frozenset(known)
    by_rack = wanted and spec.drain_racks
    doubtful = set(unproven).difference(spec.drain_brokers) if by_rack else set()
    kept = drained.union(doubtful, (row.id for row in racks.missing if by_rack))
    online = {row.id for row in racks.rows if row.online}
    cordoned = {row.id for row in racks.rows if row.cordoned}
    due = frozenset(drained & online & set(empty) - cordoned - doubtful)
    return CordonChanges(due & set(able), (recorded - kept) & online, recorded, due - set(able))


def _problem(unable: Collection[int], failed: Mapping[int, str]) -> str | None:
    """Return why brokers are not cordoned or released, with the first broker of each kind, or None if all are."""
    sentences = [f"broker {broker}: {why}" for broker, why in sorted(failed.items())[:1]]
    if unable:
        sentences.append(
            f"{broker_list(unable)}: cordoned.log.dirs cannot be read: Kafka is older than 4.3, or the operator "
            "has no right to DescribeConfigs of the cluster"
        )
    return "; ".join(sentences) or None


class Cordons:
    """The cordons of one topology's drained brokers."""

    def __init__(self) -> None:
        self.problem: str | None = None
        """Why a broker could not be cordoned or released at the last attempt."""
        self._gone: frozenset[int] = frozenset()
        """The brokers without a row at the last attempt. They can be released only once they are back."""
        self._at_the_end = False
        """Whether the last attempt was during the topology's deletion: only such a failure ends the release."""
        self._recorded: tuple[int, ...] | None = None
        """The brokers with cordons of the operator, or None before the first attempt."""
        self._cluster_id: str | None = None
        """The id of their Kafka cluster, or None before the first observation."""
        self._failed: CordonChanges | None = None
        self._failed_at = 0.0

    def held(self, topology: RackTopology) -> tuple[int, ...]:
        """Return the brokers with cordons of the operator, as this process knows them, else as in the status."""
        return topology.status.cordons if self._recorded is None else self._recorded

    def releases(self, topology: RackTopology) -> bool:
        """Return whether a topology that is being deleted has cordons that can be released.

        They cannot if a release was tried and failed, or if none of their brokers has a row.
        """
        return not self._gone.issuperset(self.held(topology)) and not (self._at_the_end and self.problem)

    def shown(self, status: RackTopologyStatus) -> RackTopologyStatus:
        """Return `status` with the brokers that the operator has cordoned."""
        return status if self._recorded is None else replace(status, cordons=self._recorded)

    def leave(self, topology: RackTopology, cluster_id: str) -> KubernetesEvent | None:
        """Forget cordons in the topology's previous Kafka cluster, and return an Event about them, or None.

        Call this before the status gets the new cluster id. Otherwise it would show the cordons as that cluster's.
        """
        before, self._cluster_id = self._cluster_id or topology.status.cluster_id, cluster_id
        if before in (None, cluster_id):
            return None
        left, self._recorded = self.held(topology), ()
        self.problem = self._failed = None
        return cordons_left(topology, left, f" cluster {before}, where this topology led before") if left else None

    async def reconcile(
        self,
        topology: RackTopology,
        racks: RackView,
        able: Collection[int],
        empty: Collection[int],
        admin: KafkaAdmin,
        record: Callable[[], Awaitable[bool]],
        unproven: Collection[int],
    ) -> bool:
        """Cordon and release brokers as needed. Return whether something has changed in Kafka.

        `record` writes the result of `shown` to the API server, and returns whether it is stored and still requested.
        Never raises FailureError: a failure becomes the `problem`, and the same changes are retried after a minute.
        """
        changes = cordon_changes(topology, self.held(topology), racks, able, empty, unproven)
        self._gone = changes.held.difference(row.id for row in racks.rows)
        if changes.cordon:
            # Another client may have cordoned a broker since the last query.
            reported = await admin.cordoned(sorted(changes.cordon))
            free = {broker for broker in changes.cordon if reported.get(broker) is False}
            changes = dataclasses.replace(changes, cordon=frozenset(free))
        self._recorded = tuple(sorted(changes.held))
        if not changes.cordon and not changes.release:
            self.problem, self._failed = _problem(changes.unable, {}), None
            self._at_the_end = topology.meta.is_deleting
            return False
        now = asyncio.get_running_loop().time()
        if changes == self._failed and now < self._failed_at + _RETRY_SECONDS:
            return False
        self._failed, self._failed_at = changes, now
        self._recorded = tuple(sorted(changes.recorded))
        answers: dict[int, Failure | None] = {}
        lost, asked = None, False
        try:
            if changes.cordon and not await record():
                self._recorded, self._failed = tuple(sorted(changes.held)), None
                return False
            asked = True
            answers |= await _asked(topology, "CordonBroker", changes.cordon, admin.cordon)
            answers |= await _asked(topology, "UncordonBroker", changes.release, admin.uncordon)
        except FailureError as error:
            lost = str(error)
        released = {broker for broker in changes.release & answers.keys() if answers[broker] is None}
        refused = {broker for broker, failure in answers.items() if failure is not None and is_answer(failure)}
        not_set = changes.cordon & refused if asked else changes.cordon
        self._recorded = tuple(sorted(changes.recorded - released - not_set))
        failed = {broker: failure.message for broker, failure in answers.items() if failure is not None}
        self.problem = lost or _problem(changes.unable, failed)
        self._at_the_end = topology.meta.is_deleting
        if not failed and lost is None:
            self._failed = None
        return len(failed) < len(answers)


def cordons_left(topology: RackTopology, brokers: Collection[int], where: str) -> KubernetesEvent:
    """Return the Event about cordons that stay without a record. `where` says in which Kafka cluster, or why."""
    message = (
        f"the cordon of {broker_list(brokers)} is left in Kafka{where}: delete the config cordoned.log.dirs there with "
        "kafka-configs.sh --entity-type brokers"
    )
    _log.warning("topology %s: %s", topology.key, message)
    return KubernetesEvent(ObjectRef(KIND, topology.key, topology.meta.uid), Reason.CORDONS_LEFT, message, warning=True)


async def release_cordons(kube: KubeApi, connector: KafkaConnector) -> Mapping[ObjectKey, Sequence[int]]:
    """Release the cordons of all RackTopologies before the operator is removed, if Kafka responds.

    Return the brokers that keep their cordons, by RackTopology, for RackTopologies whose Kafka responded. They stay in
    `status.cordons`. Raises FailureError if the API server does not respond.
    """
    kept: dict[ObjectKey, Sequence[int]] = {}
    async for body in kube.objects(KIND):
        try:
            topology = RackTopology.from_object(body)
        except SpecError as error:
            _log.warning("%s cannot be read: %s", KIND, error)
            continue
        if topology.status.cordons and (left := await _not_released(topology, kube, connector)) is not None:
            kept[topology.key] = tuple(left)
            status = replace(topology.status, cordons=tuple(left))
            try:
                await kube.replace_status(ObjectRef(KIND, topology.key, topology.meta.uid), status.to_dict())
            except FailureError as error:
                if error.failure.remedy is Remedy.RETRY:
                    raise
                _log.warning("topology %s: its status still names cordons that are released: %s", topology.key, error)
    return kept


async def _not_released(topology: RackTopology, kube: KubeApi, connector: KafkaConnector) -> list[int] | None:
    """Release the cordons of one RackTopology. Return the brokers that keep theirs, or None if Kafka is not asked."""
    ours, session = topology.status.cordons, Session(connector, kube)
    try:
        admin = await session.connect(topology, fresh_secrets=True)
        if (await admin.cluster()).cluster_id != topology.status.cluster_id:
            return None
        refused = await _asked(topology, "UncordonBroker", ours, admin.uncordon)
    except FailureError as error:
        _log.warning("topology %s: its cordons are not released: %s", topology.key, error)
        return None
    finally:
        await session.close()
    return [broker for broker in ours if refused.get(broker) is not None]


async def _asked(
    topology: RackTopology,
    operation: str,
    brokers: Collection[int],
    call: Callable[[Sequence[int]], Awaitable[Mapping[int, Failure | None]]],
) -> Mapping[int, Failure | None]:
    """Return Kafka's responses to a change by broker, and write one audit log line for each. Raises FailureError."""
    asked = sorted(brokers)
    about = {"kind": KIND, "namespace": topology.key.namespace, "name": topology.key.name}
    entries = {broker: (operation, {"broker": str(broker), "object": about}) for broker in asked}
    return await audit_log.audited(entries, lambda: call(asked))

"""Cordons brokers that were drained in Kafka (KIP-1066), so that nobody places anything there, and releases them again.

A broker is cordoned once it is empty: Kafka 4.4 refuses every replica list that names a cordoned broker, also where the
replica was there before. So nobody could change a partition that keeps a replica there, and the other partitions could
leave in a single step only, which is less safe than two.

Only what the operator has cordoned itself is released. `status.cordons` records that before the first call to Kafka, so
that an operator that is killed in between knows its own cordons.
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
    """Brokers to cordon and to release now; `held` are those whose cordons are the operator's already.

    `unable` are those that shall be cordoned and do not report cordons.
    """

    cordon: frozenset[int]
    release: frozenset[int]
    held: frozenset[int]
    unable: frozenset[int]

    @property
    def recorded(self) -> frozenset[int]:
        """The brokers whose cordons are the operator's while these changes are under way."""
        return self.held | self.cordon


def cordon_changes(
    topology: RackTopology,
    known: Collection[int],
    racks: RackView,
    able: Collection[int],
    empty: Collection[int],
    unproven: Collection[int],
) -> CordonChanges:
    """What has to change; `known` are the brokers whose cordons are the operator's.

    `able` are the brokers that can be cordoned: those of Kafka 4.3 and later that answer. `empty` are drained brokers
    that hold no replica. A broker that somebody else has cordoned is left alone. One that is offline keeps its cordon
    until it is back, and one whose rack is not known while racks are drained until it is: it may stand in one of them.
    One whose rack is `unproven` stays as it is until then.
    Empty and offline a broker is in no row; it comes back with its cordon, and then gets its turn.
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
    """Why brokers are not cordoned or released, the first of each kind; None where all are."""
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
        """Why a broker could not be cordoned or released when that was tried last."""
        self._gone: frozenset[int] = frozenset()
        """Brokers that were in no row when that was tried last: only once they are back can they be released."""
        self._at_the_end = False
        """Whether that was while the topology is being deleted: what failed before says nothing of the last release."""
        self._recorded: tuple[int, ...] | None = None
        """The brokers whose cordons are the operator's; None before the first look."""
        self._cluster_id: str | None = None
        """Of the Kafka cluster that they are in; None before the first look."""
        self._failed: CordonChanges | None = None
        self._failed_at = 0.0

    def held(self, topology: RackTopology) -> tuple[int, ...]:
        """The brokers whose cordons are the operator's, as it knows or as the status says."""
        return topology.status.cordons if self._recorded is None else self._recorded

    def releases(self, topology: RackTopology) -> bool:
        """Whether a topology that is being deleted has cordons that can be released.

        They cannot where that was tried and failed, or where brokers are in no row.
        """
        return not self._gone.issuperset(self.held(topology)) and not (self._at_the_end and self.problem)

    def shown(self, status: RackTopologyStatus) -> RackTopologyStatus:
        """`status` with the brokers whose cordons are the operator's."""
        return status if self._recorded is None else replace(status, cordons=self._recorded)

    def leave(self, topology: RackTopology, cluster_id: str) -> KubernetesEvent | None:
        """Forget cordons in another Kafka cluster than this one, to which the topology leads now, and say so.

        To be called before the status says which cluster that is: with its id the status had them as that cluster's.
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
        """Cordon and release brokers as needed; whether something has changed in Kafka.

        `record` writes what `shown` says to the API server, and gives whether that is stored and still asked for.
        Never raises FailureError: a failure is the `problem`, and the same is tried again after a minute.
        """
        changes = cordon_changes(topology, self.held(topology), racks, able, empty, unproven)
        self._gone = changes.held.difference(row.id for row in racks.rows)
        if changes.cordon:
            # Somebody else may have cordoned one since brokers were asked last.
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
    """That cordons stay, of which nobody knows any more; `where` says in which Kafka, or why."""
    message = (
        f"the cordon of {broker_list(brokers)} is left in Kafka{where}: delete the config cordoned.log.dirs there with "
        "kafka-configs.sh --entity-type brokers"
    )
    _log.warning("topology %s: %s", topology.key, message)
    return KubernetesEvent(ObjectRef(KIND, topology.key, topology.meta.uid), Reason.CORDONS_LEFT, message, warning=True)


async def release_cordons(kube: KubeApi, connector: KafkaConnector) -> Mapping[ObjectKey, Sequence[int]]:
    """Release the cordons of all RackTopologies before the operator is removed, where Kafka answers.

    Gives the brokers that keep theirs, by the RackTopologies whose Kafka has answered. They stay in `status.cordons`.
    Raises FailureError where the API server does not answer.
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
    """Release the cordons of one RackTopology, and give the brokers that keep theirs; None where Kafka is not asked."""
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
    """The answers of Kafka to a change, by broker, each with a line in the audit log. Raises FailureError."""
    asked = sorted(brokers)
    about = {"kind": KIND, "namespace": topology.key.namespace, "name": topology.key.name}
    return await audit_log.audited(
        asked, lambda broker: (operation, {"broker": str(broker), "object": about}), lambda: call(asked)
    )

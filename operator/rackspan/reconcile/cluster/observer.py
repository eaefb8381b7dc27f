"""Keeps the state of one topology's cluster up to date from Kafka, nodes and pods."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rackspan.api.racktopology import RackTopologyStatus
from rackspan.api.reasons import Reason
from rackspan.metrics import count_error
from rackspan.reconcile.cluster.client import Session
from rackspan.reconcile.cluster.racks import last_seen, rack_view
from rackspan.reconcile.cluster.state import BrokerLoad, ClusterState, Settling
from rackspan.reconcile.failures import UNEXPECTED, Failure, FailureError, Remedy, invalid_spec
from rackspan.reconcile.runtime.waiting import Debounce, wait_for_any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology, RackTopologySpec
    from rackspan.core.rack_path import RackPath
    from rackspan.reconcile.cluster.racks import RackView
    from rackspan.reconcile.dependencies import Dependencies
    from rackspan.reconcile.ports import ClusterDescription, KafkaAdmin, RemainingReplicas

_log = logging.getLogger("rackspan.reconcile")

_POLL_SECONDS = 5.0
"""How often each cluster, not each topic, is asked for its brokers."""
_DRAIN_SECONDS = 15.0
"""The maximum age of the counts of replicas on drained brokers, which need a Metadata request over all topics."""
_CORDON_SECONDS = 15.0
"""The maximum age of known cordons. Each broker is asked for them and responds with all its configs."""
_DEBOUNCE_SECONDS = 0.2
"""How long to gather objects that are applied together, because they arrive as several watch events."""
_RETRY_FIRST_SECONDS = 1.0
_RETRY_MAX_SECONDS = 15.0
_LOST_SECONDS = 300.0
"""How long a cluster must be unreachable before its topics no longer report Ready."""


class Observer:
    """Polls one topology. `state` is replaced as a whole. `epoch` counts the changes that can change decisions."""

    def __init__(self, key: ObjectKey, dependencies: Dependencies) -> None:
        self.state: ClusterState | Failure = Failure(
            Reason.WAITING, f"topology {key} has not been observed yet", Remedy.RETRY
        )
        self.racks: RackView | None = None
        self.failed_spec: RackTopologySpec | None = None
        """The spec that was observed, if `state` is a Failure."""
        self.epoch = 0
        self._key = key
        self._spec: RackTopologySpec | None = None
        """The spec of the current observation."""
        self._dependencies = dependencies
        self._session = Session(dependencies.kafka, dependencies.kube)
        self._checked: KafkaAdmin | None = None
        """The client that observed `state`."""
        self._forget_brokers()
        self._rack_hash: str | None = None
        """The `rack_hash` of the spec that the last racks are based on."""
        self._settled: RackView | None = None
        self._cluster_seen: tuple[str, str] | None = None
        """The topology's uid and its cluster id, because the status may not be written yet when the spec changes."""
        self._resynced = float("-inf")
        self._failures = 0
        self._seen_at: float | None = None
        """When the cluster was last seen, or first observed."""
        self._lost = False
        """Whether the cluster was `out_of_sight` at the last observation."""
        self._wake = asyncio.Event()
        self._location_changed = asyncio.Event()
        self._debounce = Debounce()

    def _forget_brokers(self) -> None:
        """Forget the observed brokers, because those of another Kafka cluster may have the same ids."""
        self.remaining: RemainingReplicas | None = None
        """The replicas on drained brokers, as last counted."""
        self._remaining_at = float("-inf")
        self._cordoned: dict[int, bool | None] = {}
        """Whether each online broker is cordoned, or None if its version has no cordons."""
        self._cordons_at = self._cordons_changed_at = float("-inf")
        self._load: BrokerLoad | None = None
        self._min_insync: int | None = None
        self._last_racks: dict[int, RackPath | None] = {}
        self._settling = Settling()

    @property
    def admin(self) -> KafkaAdmin | None:
        """The client that observed `state`, or None while it is replaced, as a new client may reach another cluster."""
        return self._checked if self._checked is self._session.admin else None

    @property
    def out_of_sight(self) -> float | None:
        """The seconds since the cluster was last seen, or None while that is recent enough to trust what was seen."""
        if self._seen_at is None or not isinstance(self.state, Failure):
            return None
        seconds = asyncio.get_running_loop().time() - self._seen_at
        return seconds if seconds >= _LOST_SECONDS else None

    @property
    def cordonable(self) -> Collection[int]:
        """The brokers that can be cordoned: those that are online and report their cordons."""
        return {broker for broker, cordoned in self._cordoned.items() if cordoned is not None}

    def cordons_changed(self) -> None:
        """Observe soon, and ask brokers for cordons in two observations, because they lag behind the controller."""
        self._cordons_changed_at = asyncio.get_running_loop().time()
        self._wake.set()

    def wake(self) -> None:
        """Observe soon, because the topology changed or a Kafka call failed."""
        self._wake.set()

    def location_changed(self, key: ObjectKey) -> None:
        """Handle a change of a node or broker pod. While it keeps changing, observations become less frequent."""
        self._debounce.changed(key, asyncio.get_running_loop().time())
        self._location_changed.set()

    async def wait(self) -> None:
        """Wait until the next observation is due."""
        due = self._settling.due_in(asyncio.get_running_loop().time())
        pause = min(_POLL_SECONDS, self._dependencies.resync_seconds, _POLL_SECONDS if due is None else due)
        if isinstance(self.state, Failure):
            pause = min(_RETRY_MAX_SECONDS, _RETRY_FIRST_SECONDS * 2 ** min(self._failures, 5))
        until = asyncio.get_running_loop().time() + pause
        while not self._wake.is_set() and (rest := self._rest(until)) > 0:
            self._location_changed.clear()
            await wait_for_any(rest, self._wake, self._location_changed)
        if self._wake.is_set():
            await asyncio.sleep(_DEBOUNCE_SECONDS)
        self._wake.clear()
        self._debounce.handled(asyncio.get_running_loop().time())

    def _rest(self, until: float) -> float:
        """Return the seconds until this time, or until a debounced change is due if that is earlier."""
        due = self._debounce.due
        return (until if due is None else min(until, due)) - asyncio.get_running_loop().time()

    async def observe(self) -> bool:
        """Observe once. Return True if every topic must be requeued: after a relevant change, or for a resync."""
        now = asyncio.get_running_loop().time()
        resync = now - self._resynced >= self._dependencies.resync_seconds
        before = self.state
        self._seen_at = now if self._seen_at is None else self._seen_at
        try:
            self.state = await self._observe_cluster(resync=resync)
        except FailureError as error:
            await self._fail(error.failure)
        except Exception:
            _log.exception("topology %s: unexpected error", self._key)
            await self._fail(UNEXPECTED)
        else:
            self._failures = 0
            self._seen_at = now
            self._resynced = now if resync else self._resynced
        changed = self.state != before
        self.epoch += changed
        was_lost, self._lost = self._lost, self.out_of_sight is not None
        return changed or (self._lost and not was_lost) or (resync and isinstance(self.state, ClusterState))

    async def close(self) -> None:
        """Close the client."""
        await self._session.close()

    async def _fail(self, failure: Failure) -> None:
        if self.state != failure:
            _log.warning("topology %s: %s", self._key, failure.message)
        # Nonexistent topologies share one metric series, because users can name any number of them.
        topology = "" if failure.reason == Reason.TOPOLOGY_NOT_FOUND else str(self._key)
        count_error(topology, failure.remedy, failure.reason)
        self.state, self.failed_spec = failure, self._spec
        self._failures += 1
        self._load = None
        if failure.remedy is not Remedy.SPEC:
            await self._session.close()  # librdkafka may stay broken after a failure

    def _usable_topology(self) -> RackTopology:
        """Return the RackTopology. Raises FailureError if it may not be used as it is."""
        cache = self._dependencies.cache
        topology = cache.topologies.get(self._key)
        self._spec = topology.spec if topology else None
        if topology is None:
            raise FailureError(Failure(Reason.TOPOLOGY_NOT_FOUND, f"there is no RackTopology {self._key}", Remedy.SPEC))
        if (unusable := cache.unusable(self._key)) is not None:
            raise FailureError(unusable)
        if topology.spec.invalid_level is not None:
            raise invalid_spec(topology.spec.invalid_level)
        return topology

    async def _observe_cluster(self, *, resync: bool) -> ClusterState:
        cache = self._dependencies.cache
        topology = self._usable_topology()
        admin, seen = await self._describe_cluster(topology, fresh_secrets=resync or self._failures > 0)
        last_cluster_id = (
            self._cluster_seen[1] if self._cluster_seen and self._cluster_seen[0] == topology.meta.uid else None
        )
        _check_cluster_id(topology, last_cluster_id or topology.status.cluster_id, seen.cluster_id)
        if self._cluster_seen and self._cluster_seen[1] != seen.cluster_id:
            self._forget_brokers()
        if topology.status.cluster_id not in (None, seen.cluster_id):
            topology = replace(topology, status=RackTopologyStatus())  # these brokers are of another cluster
        self._cluster_seen = topology.meta.uid, seen.cluster_id
        cache.set_cluster_id(self._key, seen.cluster_id)
        if self._load is None or resync:
            if self._load is None:
                self._load = BrokerLoad(await admin.replica_counts())
            else:
                await self._load.recount(admin)
            min_insync = await admin.default_min_insync([broker.id for broker in seen.brokers])
            self._min_insync = self._min_insync if min_insync is None else min_insync
        # A pod disappears before Kafka notices that its broker is offline: remember its rack until then.
        if self._rack_hash != (rack_hash := topology.spec.rack_hash):
            self._rack_hash, self._last_racks = rack_hash, dict.fromkeys(self._last_racks)
        self._last_racks = last_seen(self._last_racks, topology, self._load.holders)
        cordoned = await self._cordoned_brokers(admin, [broker.id for broker in seen.brokers])
        racks = rack_view(cache, topology, seen.brokers, self._last_racks, self._load.holders, cordoned)
        self._last_racks |= racks.known_racks
        lasting = self._settling.settled(topology, racks, asyncio.get_running_loop().time())
        settled = None if lasting is racks else lasting
        if self.racks is not None and (self.racks, self._settled) != (racks, settled):
            # All plans are made again now, and start from the current replica counts in Kafka.
            await self._load.recount(admin)
        await self._count_remaining(admin, topology, (racks, lasting))
        # No await from here until `state` is set. Otherwise the status would show racks not yet used to place topics.
        self.racks, self._settled, self._checked = racks, settled, admin
        return ClusterState(
            self._key,
            topology.spec,
            seen.cluster_id,
            self.racks,
            self._load,
            self._dependencies.placers,
            self._min_insync,
            self._settled,
            self._settling.unproven,
        )

    async def _cordoned_brokers(self, admin: KafkaAdmin, online: Sequence[int]) -> Collection[int]:
        """Return the brokers that take no new replicas. A broker that does not report this keeps its last report."""
        now = asyncio.get_running_loop().time()
        fresh = now - self._cordons_at < min(_CORDON_SECONDS, self._dependencies.resync_seconds)
        lags = self._cordons_at - self._cordons_changed_at < _POLL_SECONDS
        if not fresh or lags or self._cordoned.keys() != set(online):
            reported = await admin.cordoned(online)
            self._cordoned = {broker: reported.get(broker, self._cordoned.get(broker)) for broker in online}
            self._cordons_at = now
        return {broker for broker, cordoned in self._cordoned.items() if cordoned}

    async def _count_remaining(self, admin: KafkaAdmin, topology: RackTopology, views: Iterable[RackView]) -> None:
        """Count the replicas on brokers drained in a view, unless done lately, because users remove empty brokers."""
        drained = {row.id for racks in views for row in racks.rows if row.draining}.union(topology.spec.drain_brokers)
        now = asyncio.get_running_loop().time()
        fresh = now - self._remaining_at < min(_DRAIN_SECONDS, self._dependencies.resync_seconds)
        if not drained:
            self.remaining = None
        elif self.remaining is None or self.remaining.replicas.keys() != drained or not fresh:
            self.remaining = await admin.remaining_replicas(drained)
            self._remaining_at = now

    async def _describe_cluster(
        self, topology: RackTopology, *, fresh_secrets: bool
    ) -> tuple[KafkaAdmin, ClusterDescription]:
        """Return the client and the cluster. If Kafka does not respond, the client is replaced and retried once."""
        before = self._session.admin
        admin = await self._session.connect(topology, fresh_secrets=fresh_secrets)
        try:
            return admin, await admin.cluster()
        except FailureError as error:
            if admin is not before or error.failure.remedy is not Remedy.RETRY:
                raise
            await self._session.close()
            admin = await self._session.connect(topology, fresh_secrets=True)
            return admin, await admin.cluster()


def _check_cluster_id(topology: RackTopology, last_cluster_id: str | None, cluster_id: str) -> None:
    """Raise FailureError for another cluster than the spec names or, if it names none, than the first connected one."""
    named = topology.spec.kafka.cluster_id
    expected = named or last_cluster_id
    if expected and expected != cluster_id:
        how = "spec.kafka.clusterId is" if named else "this topology was first connected to"
        raise FailureError(
            Failure(
                Reason.CLUSTER_ID_MISMATCH,
                f"{topology.spec.kafka.bootstrap_servers} reaches Kafka cluster {cluster_id}, and {how} {expected}; "
                "the operator changes nothing there until spec.kafka.clusterId names it",
                Remedy.SPEC,
            )
        )

"""Keeps the state of one topology: what Kafka and the nodes say now, or why that is not known."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from rackspan.api.reasons import Reason
from rackspan.metrics import count_error
from rackspan.reconcile.cluster.client import Session
from rackspan.reconcile.cluster.racks import last_seen, rack_view
from rackspan.reconcile.cluster.state import BrokerLoad, ClusterState
from rackspan.reconcile.failures import UNEXPECTED, Failure, FailureError, Remedy
from rackspan.reconcile.runtime.debounce import Debounce
from rackspan.reconcile.runtime.waiting import wait_for_any

if TYPE_CHECKING:
    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology
    from rackspan.core.topology import RackPath
    from rackspan.reconcile.cluster.racks import RackView
    from rackspan.reconcile.dependencies import Dependencies
    from rackspan.reconcile.ports import ClusterDescription, KafkaAdmin, RemainingReplicas

_log = logging.getLogger("rackspan.reconcile")

_POLL_SECONDS = 5.0
"""How often each cluster, not each topic, is asked for its brokers."""
_DRAIN_SECONDS = 15.0
"""How old a count of what is left on a drained broker may be: each is a Metadata call over all topics."""
_DEBOUNCE_SECONDS = 0.2
"""What is applied together arrives as several events."""
_RETRY_FIRST_SECONDS = 1.0
_RETRY_MAX_SECONDS = 15.0


class Observer:
    """`state` is replaced as a whole; `epoch` counts the times that decisions about topics may come out differently."""

    def __init__(self, key: ObjectKey, dependencies: Dependencies) -> None:
        self.state: ClusterState | Failure = Failure(
            Reason.WAITING, f"topology {key} has not been looked at yet", Remedy.RETRY
        )
        self.racks: RackView | None = None
        self.epoch = 0
        self._key = key
        self._dependencies = dependencies
        self._session = Session(dependencies.kafka, dependencies.kube)
        self.held: RemainingReplicas | None = None
        """What Kafka last said of the brokers that are to be drained."""
        self._held_asked = float("-inf")
        self._load: BrokerLoad | None = None
        self._min_insync: int | None = None
        self._places: dict[int, RackPath] = {}
        self._met: tuple[str, str] | None = None
        """The topology's uid and the cluster it led to: its status may not be written yet when its spec changes."""
        self._resynced = float("-inf")
        self._failures = 0
        self._wake = asyncio.Event()
        self._moved = asyncio.Event()
        self._debounce = Debounce()

    @property
    def admin(self) -> KafkaAdmin | None:
        """The client to act through, where there is one."""
        return self._session.admin

    def wake(self) -> None:
        """The topology changed, or Kafka failed a call."""
        self._wake.set()

    def places_changed(self) -> None:
        """A node or a broker pod changed. Where these go on changing, they are looked at ever less often."""
        self._moved.set()

    async def wait(self) -> None:
        """Until there is a reason to look again."""
        pause = min(_POLL_SECONDS, self._dependencies.resync_seconds)
        if isinstance(self.state, Failure):
            pause = min(_RETRY_MAX_SECONDS, _RETRY_FIRST_SECONDS * 2 ** min(self._failures, 5))
        if await wait_for_any(pause, self._wake, self._moved):
            if not self._wake.is_set():
                await wait_for_any(self._debounce.delay(asyncio.get_running_loop().time()), self._wake)
            if self._wake.is_set():
                await asyncio.sleep(_DEBOUNCE_SECONDS)
        self._wake.clear()
        self._moved.clear()

    async def look(self) -> bool:
        """Observe anew. True where every topic has to be looked at: something changed, or it is time for a resync."""
        now = asyncio.get_running_loop().time()
        resync = now - self._resynced >= self._dependencies.resync_seconds
        before = self.state
        try:
            self.state = await self._observe(resync=resync)
        except FailureError as error:
            await self._missed(error.failure)
        except Exception:
            _log.exception("topology %s: unexpected error", self._key)
            await self._missed(UNEXPECTED)
        else:
            self._failures = 0
            self._resynced = now if resync else self._resynced
        state = self.state
        changed = state != before if isinstance(state, Failure) else not state.decides_alike(before)
        self.epoch += changed
        return changed or (resync and isinstance(state, ClusterState))

    async def close(self) -> None:
        """Let go of the client."""
        await self._session.close()

    async def _missed(self, failure: Failure) -> None:
        if self.state != failure:
            _log.warning("topology %s: %s", self._key, failure.message)
        # Anybody can name topologies that are not there: they share one series.
        topology = "" if failure.reason == Reason.TOPOLOGY_NOT_FOUND else str(self._key)
        count_error(topology, failure.remedy, failure.reason)
        self.state = failure
        self._failures += 1
        self._load = None
        if failure.remedy is not Remedy.SPEC:
            await self._session.close()  # a client that failed once may stay broken

    async def _observe(self, *, resync: bool) -> ClusterState:
        cache = self._dependencies.cache
        topology = cache.topologies.get(self._key)
        if topology is None:
            raise FailureError(Failure(Reason.TOPOLOGY_NOT_FOUND, f"there is no RackTopology {self._key}", Remedy.SPEC))
        crowded = cache.quota.over_quota(self._key)
        if crowded is not None:
            raise FailureError(crowded)
        admin, seen = await self._ask(topology, fresh_secrets=resync or self._failures > 0)
        met = self._met[1] if self._met and self._met[0] == topology.meta.uid else None
        _guard(topology, met or topology.status.cluster_id, seen.cluster_id)
        self._met = topology.meta.uid, seen.cluster_id
        cache.leads_to(self._key, seen.cluster_id)
        if self._load is None or resync:
            self._load = BrokerLoad(await admin.replica_counts())
            min_insync = await admin.default_min_insync([broker.id for broker in seen.brokers])
            self._min_insync = self._min_insync if min_insync is None else min_insync
        # A pod that is lost is gone before Kafka misses its broker: what was known of it must outlast that moment.
        self._places = last_seen(self._places, topology.status, self._load.holders)
        before = self.racks
        self.racks = rack_view(
            topology,
            cache.nodes,
            cache.pods.values(),
            seen.brokers,
            self._places,
            held=self._load.holders,
            consent=cache.namespaces.get(topology.broker_namespace, {}),
        )
        self._places |= self.racks.places
        if before is not None and before != self.racks:
            # All plans are made anew now: from what lies on the brokers, as anybody else would who asks Kafka.
            self._load = BrokerLoad(await admin.replica_counts())
        await self._look_at_drains(admin, topology)
        return ClusterState(
            self._key,
            topology.spec,
            seen.cluster_id,
            self.racks,
            self._load,
            self._dependencies.placers,
            self._min_insync,
        )

    async def _look_at_drains(self, admin: KafkaAdmin, topology: RackTopology) -> None:
        """Count anew what is left on brokers that are to be emptied: people take away what is said to be empty."""
        racks = self.racks.rows if self.racks else ()
        drained = {row.id for row in racks if row.draining}.union(topology.spec.drain_brokers)
        now = asyncio.get_running_loop().time()
        fresh = now - self._held_asked < min(_DRAIN_SECONDS, self._dependencies.resync_seconds)
        if not drained:
            self.held = None
        elif self.held is None or self.held.replicas.keys() != drained or not fresh:
            self.held = await admin.remaining_replicas(drained)
            self._held_asked = now

    async def _ask(self, topology: RackTopology, *, fresh_secrets: bool) -> tuple[KafkaAdmin, ClusterDescription]:
        """Who is there. A client that gets no answer gives way to a new one before Kafka is said to be away."""
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


def _guard(topology: RackTopology, met: str | None, cluster_id: str) -> None:
    """Refuse another cluster than the one that is named, or else than the one that was met first."""
    named = topology.spec.kafka.cluster_id
    expected = named or met
    if expected and expected != cluster_id:
        how = "spec.kafka.clusterId says" if named else "this topology first met"
        raise FailureError(
            Failure(
                Reason.CLUSTER_ID_MISMATCH,
                f"{topology.spec.kafka.bootstrap_servers} leads to Kafka cluster {cluster_id}, {how} {expected}; "
                "nothing is done there until spec.kafka.clusterId names it",
                Remedy.SPEC,
            )
        )

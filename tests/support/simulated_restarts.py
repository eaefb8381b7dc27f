"""An in-memory Kafka on pods whose brokers the operator restarts, with a clock, faults and safety rules."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from msgspec import structs
from tests.support.loop_dependencies import rack_dependencies
from tests.support.rack_views import rack_view
from tests.unit.reconcile.examples import CLUSTER, NOON, topology

from rackspan.api.labels import RESTART
from rackspan.api.meta import ObjectKey
from rackspan.core.partitions import InSync
from rackspan.reconcile.cache import BrokerPod, Cache
from rackspan.reconcile.cluster.state import BrokerLoad, ClusterState
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import BrokerDescription, Eviction, PodFacts, ReplicaCounts, TopicConfig
from rackspan.reconcile.racks.restart import RestartsReconciler
from rackspan.reconcile.runtime.namespaces import NamespaceSet

STEP = timedelta(seconds=5)
FORGOTTEN_SECONDS = 9
"""Kafka considers an ended broker alive for this time (broker.session.timeout.ms)."""
START_SECONDS = 15
CATCH_UP_SECONDS = 45
LATE_SECONDS = 60
AWAY = FailureError(Failure("ApiServerUnreachable", "no answer", Remedy.RETRY))
SPEC = {
    "rackSource": "Nodes",
    "levels": [{"name": "zone", "nodeLabel": "zone"}],
    "brokers": {"podSelector": {"matchLabels": {"app": "kafka"}}, "restart": "OnDrift"},
}


@dataclass
class SimulatedBroker:
    """A broker. `down_at` is when its process last ended, or None once it is in sync again."""

    id: int
    reported: str
    takes_rack: bool = True
    uid: int = 0
    down_at: int | None = None
    returns: bool = True
    ours: bool = False
    """Whether the operator evicted the broker and it is not in sync again yet."""


class _Silent:
    async def hosted(self, _):
        await asyncio.Event().wait()


class _Known(Cache):
    """A cache that the simulation updates at each write, so it ignores responses to writes."""

    def put_topology_answer(self, body):
        pass


@dataclass
class RestartWorld:
    """The environment of the loop under test, which is also its Kafka and its port of pods. Times are in seconds."""

    brokers: dict[int, SimulatedBroker]
    partitions: list[tuple[str, tuple[int, ...]]]
    min_insync: int
    now: int = 0
    skew: int = 0
    """By how much the wall clock was set forward."""
    zones: dict[int, str] = field(default_factory=dict)
    published: dict[int, str] = field(default_factory=dict)
    budget: bool = True
    controller: bool = True
    failing: set[str] = field(default_factory=set)
    """Calls that fail once: write, evict (response lost), refuse (request lost), late (evicts after a minute)."""
    late: tuple[int, int, int] | None = None
    """A delayed eviction in the API server: the broker, the number of its pod, and the time of the eviction."""
    evicted: list[tuple[int, str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    told: list[Any] = field(default_factory=list)
    allowed: NamespaceSet = field(default_factory=lambda: NamespaceSet(("kafka",)))
    renames: bool = False
    """Whether the controller gives each new pod a new name."""
    hidden: bool = False
    """Whether Kafka does not respond."""
    without_spare: str = "Report"
    """The value of `topicsWithoutSpareReplica` in the RackTopology."""
    silent: set[ObjectKey] = field(default_factory=set)
    """Topologies whose Kafka never responds to the request for the partitions of a broker."""

    unproven: frozenset[int] = frozenset()
    """Brokers whose racks the operator has not observed for long enough."""
    cluster_id: str = CLUSTER

    def __post_init__(self):
        self.cache = _Known()
        for id_, broker in self.brokers.items():
            self.zones.setdefault(id_, broker.reported)
        self.published.update(self.zones)
        self.cache.topologies[topology().key] = topology(**SPEC)
        self.restart_operator()

    @property
    def key(self):
        return topology().key

    @property
    def topology(self):
        return self.cache.topologies[self.key]

    def restart_operator(self):
        """Start a new operator, which only knows the status of the objects."""
        dependencies = rack_dependencies(self.cache, self, pods=self, restart_in=self.allowed)
        self.loop = RestartsReconciler(
            dependencies,
            self,
            self.published_rack,
            now=lambda: NOON + timedelta(seconds=self.now + self.skew),
            clock=lambda: self.now,
        )

    def change(self, *, annotations=None, **brokers):
        """Change the RackTopology like a user."""
        old = self.topology
        brokers = {"topicsWithoutSpareReplica": self.without_spare, **brokers}
        new = topology(**SPEC | {"brokers": SPEC["brokers"] | brokers}, annotations=annotations)
        meta = structs.replace(new.meta, generation=old.meta.generation + 1)
        self.cache.topologies[self.key] = structs.replace(new, meta=meta, status=old.status)

    def relabel(self, id_, zone, *, published=True):
        self.zones[id_] = zone
        if published:
            self.published[id_] = zone

    def crash(self, id_, *, returns=True):
        """End the process of a broker and create its pod again."""
        broker = self.brokers[id_]
        broker.down_at, broker.returns = self.now, returns
        broker.uid += 1

    async def step(self):
        await self.loop.reconcile()
        await self.write_status(self.key, failing=False)
        self.now += STEP.seconds
        if self.late is not None and self.now >= self.late[2]:
            broker, number, _ = self.late
            self.late = None
            if self.brokers[broker].uid == number:
                self._evict(self.brokers[broker])
        for broker in self.brokers.values():
            since = self._since_down(broker)
            if since is not None and broker.returns and since >= START_SECONDS:
                broker.reported = self.published[broker.id] if broker.takes_rack else broker.reported
                hosts = any(broker.id in replicas for _, replicas in self.partitions)
                if since >= START_SECONDS + CATCH_UP_SECONDS * hosts:
                    broker.down_at, broker.ours = None, False

    async def run(self, seconds):
        for _ in range(seconds // STEP.seconds):
            await self.step()

    def _since_down(self, broker):
        return None if broker.down_at is None else self.now - broker.down_at

    def online(self, broker):
        """Return whether Kafka lists the broker."""
        since = self._since_down(broker)
        return since is None or since < FORGOTTEN_SECONDS or (broker.returns and since >= START_SECONDS)

    def in_sync(self, broker):
        """Return whether the broker is in its ISRs."""
        since = self._since_down(broker)
        return since is None or since < FORGOTTEN_SECONDS

    def pod_name(self, broker):
        """Return the current pod name of a broker."""
        return f"kafka-{broker.uid}-{broker.id}" if self.renames else f"kafka-{broker.id}"

    def isr(self, replicas):
        return frozenset(id_ for id_ in replicas if self.in_sync(self.brokers[id_]))

    @property
    def drifted(self):
        return {id_ for id_, broker in self.brokers.items() if broker.reported != self.zones[id_]}

    def condition(self, kind="Restarting"):
        return next((one for one in self.topology.status.conditions if one.type == kind), None)

    # --- environment of the loop -------------------------------------------------------------------------------------

    def cluster(self, key):
        return SimpleNamespace(state=self.state, admin=_Silent()) if key in self.silent else self

    @property
    def state(self):
        if self.hidden:
            return Failure("KafkaUnreachable", "no broker answers", Remedy.RETRY)
        nodes = {f"n{id_}": {"zone": zone} for id_, zone in self.zones.items()}
        where, consent = self.topology.broker_namespace, self.cache.namespaces
        pods = [
            BrokerPod(where, self.pod_name(broker), {"app": "kafka"}, {}, f"n{id_}")
            for id_, broker in self.brokers.items()
        ]
        online = [
            BrokerDescription(id_, "h", broker.reported) for id_, broker in self.brokers.items() if self.online(broker)
        ]
        view = rack_view(
            self.topology,
            nodes,
            pods,
            online,
            {id_: (zone,) for id_, zone in self.zones.items()},
            consent=consent.get(where, {}),
        )
        load = BrokerLoad(ReplicaCounts({}, {}))
        return ClusterState(
            self.key, self.topology.spec, self.cluster_id, view, load, {}, default_min_insync=1, unproven=self.unproven
        )

    @property
    def admin(self):
        return self

    def published_rack(self, _topology, _namespace, node):
        return self.published[int(node[1:])]

    def status_changed(self, _):
        pass

    async def write_status(self, _, *, failing=True):
        if failing and "write" in self.failing:
            self.failing.discard("write")
            raise AWAY
        old = self.topology
        status = structs.replace(old.status, cluster_id=self.cluster_id)
        status = self.loop.status(old, status, NOON + timedelta(seconds=self.now))
        self.cache.topologies[self.key] = structs.replace(old, status=status)

    async def set_annotation(self, ref, name, _value, version):
        annotations = {key: value for key, value in self.topology.meta.annotations.items() if key != name}
        meta = structs.replace(self.topology.meta, annotations=annotations)
        self.cache.topologies[self.key] = structs.replace(self.topology, meta=meta)
        return {}

    def record_event(self, event):
        self.told.append(event)

    # --- Kafka -------------------------------------------------------------------------------------------------------

    async def hosted(self, broker):
        numbers = Counter()
        found = []
        for name, replicas in self.partitions:
            if broker in replicas:
                found.append(InSync(name, numbers[name], replicas, self.isr(replicas)))
            numbers[name] += 1
        return found

    async def configs(self, names):
        return {name: TopicConfig({}, self.min_insync) for name in names}

    # --- pods --------------------------------------------------------------------------------------------------------

    async def get(self, key):
        broker = self.brokers[int(key.name.rpartition("-")[2])]
        since = self._since_down(broker)
        if key.name != self.pod_name(broker) or (since is not None and not broker.returns):
            return None
        ready = since is None or since >= STEP.seconds
        return PodFacts(f"p{broker.id}-{broker.uid}", f"n{broker.id}", False, ready, self.controller)  # noqa: FBT003

    async def evict(self, key, uid, *, rehearse):
        broker = self.brokers[int(key.name.rpartition("-")[2])]
        if uid != f"p{broker.id}-{broker.uid}":
            return Eviction.GONE
        if not self.budget:
            return Eviction.REFUSED
        if rehearse:
            return Eviction.ACCEPTED
        self._check(broker)
        if "refuse" in self.failing:
            self.failing.discard("refuse")
            raise AWAY
        if "late" in self.failing:
            self.failing.discard("late")
            self.late = broker.id, broker.uid, self.now + LATE_SECONDS
            raise AWAY
        self._evict(broker)
        if "evict" in self.failing:
            self.failing.discard("evict")
            raise AWAY
        return Eviction.ACCEPTED

    def _evict(self, broker):
        if others := [one.id for one in self.brokers.values() if one.ours]:
            self.wrong.append(f"{broker.id} was evicted at {self.now} while {others} were not back")
        self.evicted.append((broker.id, self.zones[broker.id]))
        self.crash(broker.id, returns=broker.returns)
        broker.ours = True

    def _check(self, broker):
        """Check an eviction. With `Report`, a fully in-sync partition may fall below min.insync.replicas."""
        reports = self.topology.spec.brokers.topics_without_spare_replica == "Report"
        for name, replicas in self.partitions:
            isr = self.isr(replicas)
            lasting = isr == set(replicas) and reports
            if broker.id in replicas and len(isr - {broker.id}) < max(1, self.min_insync) and not lasting:
                self.wrong.append(f"{broker.id} was evicted at {self.now}, and {name} fell below min.insync.replicas")


def world(size=3, *, min_insync=2, partitions=None, **changes):
    """Return brokers in separate zones, with a topic `orders` of which each partition is on three of them."""
    brokers = {id_: SimulatedBroker(id_, f"z{id_}") for id_ in range(size)}
    rows = [("orders", tuple((first + at) % size for at in range(min(3, size)))) for first in range(size)]
    return replace(RestartWorld(brokers, partitions or rows, min_insync), **changes)


__all__ = ["RESTART", "RestartWorld", "SimulatedBroker", "world"]

"""Minimal objects and states for tests of decisions."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from tests.support.rack_views import rack_view

from rackspan.api.conditions import find_condition
from rackspan.api.kafkatopic import KafkaTopic, KafkaTopicStatus
from rackspan.api.racktopology import RackTopology, RackTopologyStatus
from rackspan.core.placement.multilevel import MultiLevel
from rackspan.core.placement.simple import Simple
from rackspan.reconcile.cluster.racks import RackView
from rackspan.reconcile.cluster.state import BrokerLoad, ClusterState
from rackspan.reconcile.cluster.topology_status import StatusInputs
from rackspan.reconcile.failures import Failure
from rackspan.reconcile.ports import BrokerDescription, ReplicaCounts, TopicDescription

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
CLUSTER = "kafka-1"
LEVELS = ("region", "zone", "rack")
SIX = {
    0: "/eu/eu-1a/r1",
    1: "/eu/eu-1a/r2",
    2: "/eu/eu-1b/r1",
    3: "/us/us-1a/r1",
    4: "/us/us-1a/r2",
    5: "/us/us-1a/r2",
}
EVEN = {broker: f"/z{broker % 3}" for broker in range(6)}
"""Six brokers over three zones of two."""
PLACERS = MappingProxyType({"MultiLevel": MultiLevel(), "Simple": Simple()})


def topology(
    *,
    namespace: str = "kafka",
    status: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> RackTopology:
    """Return a RackTopology with three levels and racks from Kafka, unless `spec` changes that."""
    return RackTopology.from_object(
        {
            "metadata": {
                "namespace": namespace,
                "name": "prod",
                "uid": "rt-1",
                "generation": 1,
                "resourceVersion": "1",
                "annotations": dict(annotations or {}),
            },
            "spec": {
                "kafka": {"bootstrapServers": "kafka:9092"},
                "levels": [{"name": level} for level in LEVELS],
                "rackSource": "Broker",
                **spec,
            },
            "status": dict(status or {}),
        }
    )


def topic(
    name: str = "orders",
    *,
    namespace: str = "shop",
    status: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
    finalizers: Sequence[str] = (),
    created: str = "2026-01-01T00:00:00Z",
    uid: str | None = None,
    generation: int = 1,
    deleted: str | None = None,
    **spec: Any,
) -> KafkaTopic:
    """Return a KafkaTopic of three partitions with three replicas, unless `spec` changes that."""
    return KafkaTopic.from_object(
        {
            "metadata": {
                "namespace": namespace,
                "name": name,
                "uid": uid or hashlib.sha256(f"{namespace}/{name}".encode()).hexdigest()[:8],
                "generation": generation,
                "resourceVersion": "1",
                "creationTimestamp": created,
                **({"deletionTimestamp": deleted} if deleted else {}),
                "annotations": dict(annotations or {}),
                "finalizers": list(finalizers),
            },
            "spec": {
                "topologyRef": {"namespace": "kafka", "name": "prod"},
                "partitions": 3,
                "replicationFactor": 3,
                **spec,
            },
            "status": dict(status or {}),
        }
    )


def known(topic_id: str = "id-1", **status: Any) -> dict[str, Any]:
    """Return the status of an object that has its topic."""
    return {"topicId": topic_id, "clusterId": CLUSTER, "observedGeneration": 1, **status}


def condition(kind: str, status: str, reason: str = "X") -> dict[str, Any]:
    """Return a condition as JSON."""
    when = "2026-01-01T00:00:00Z"
    return {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": when}


def in_state(name: str, *, compliance: Mapping[str, Any] | None = None, **conditions: str) -> KafkaTopic:
    """Return a KafkaTopic with these conditions."""
    items = [condition(kind, status) for kind, status in conditions.items()]
    return topic(name, status={"conditions": items, **({"compliance": compliance} if compliance else {})})


def told(status: KafkaTopicStatus | RackTopologyStatus, kind: str) -> tuple[str, str] | None:
    """Return the status and the reason of a condition, or None if it is absent."""
    found = find_condition(status.conditions, kind)
    return found and (found.status.value, found.reason)


def sentence(status: KafkaTopicStatus | RackTopologyStatus, kind: str = "Ready") -> str:
    """Return the message of a condition."""
    return find_condition(status.conditions, kind).message


def seen(*rows: Sequence[int], name: str = "orders", topic_id: str = "id-1") -> TopicDescription:
    """Return a topic as Kafka describes it."""
    return TopicDescription(name, topic_id, tuple(tuple(row) for row in rows))


def state(
    racks: Mapping[int, str | None] | None = None, *, placers: Mapping[str, Any] = PLACERS, **spec: Any
) -> ClusterState:
    """Return the state of a usable topology with the brokers of `racks`, all online."""
    racks = SIX if racks is None else racks
    depth = max((rack or "").count("/") for rack in racks.values())
    levels = [{"name": level} for level in (LEVELS if depth > 1 else ("zone",))]
    prod = topology(**{"levels": levels, "adoption": "Allowed", **spec})
    brokers = [BrokerDescription(broker, f"kafka-{broker}:9092", rack) for broker, rack in racks.items()]
    view = rack_view(prod, {}, [], brokers)
    return ClusterState(prod.key, prod.spec, CLUSTER, view, BrokerLoad(ReplicaCounts({}, {})), placers, 1)


def status_inputs(
    where: ClusterState | Failure,
    racks: RackView | None,
    topics: Sequence[KafkaTopic],
    remaining: Any = None,
    **fields: Any,
) -> StatusInputs:
    """Return the inputs of a RackTopology's status. Without `fields`, there is no plan and no deletion waits."""
    names = ("deletions", "deletion_blocked", "planned", "failed_spec", "cordon_problem")
    return StatusInputs(where, racks, topics, remaining, **{**dict.fromkeys(names), "waiting": (), **fields})

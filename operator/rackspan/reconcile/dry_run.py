"""One observation of a topology without an operator: its state, its topics and their plan.

The operator keeps a topic's plan while its inputs are the same; here all plans are made at once. Both come to the same
result unless the replicas on the brokers have changed since the operator made its plans.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from msgspec import structs

from rackspan.api.conditions import READY, find_condition
from rackspan.api.reasons import Reason
from rackspan.api.requirements import requirements_of
from rackspan.core.planning import fill, fill_topics, plan, plan_topics
from rackspan.reconcile.cluster.racks import last_seen, rack_view_from
from rackspan.reconcile.cluster.state import BrokerLoad, ClusterState
from rackspan.reconcile.cluster.status import broker_status
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import TopicDescription
from rackspan.reconcile.topics.decision import ownership_problem
from rackspan.reconcile.topics.plan import plan_hashes, request_of
from rackspan.reconcile.topics.quotas import Claim, above_quotas
from rackspan.reconcile.topics.unmanaged import unmanaged_key, unmanaged_topics

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology
    from rackspan.core.placement import Placer
    from rackspan.core.planning import Plan, Request, TopicPlan
    from rackspan.reconcile.cache import Cache
    from rackspan.reconcile.ports import KafkaAdmin
    from rackspan.reconcile.topics.plan import Replicas

_NOT_THEIRS = frozenset({Reason.TOPIC_CONFLICT, Reason.ADOPTION_NOT_ALLOWED})
"""Reasons of Ready of KafkaTopics that the operator does not reconcile."""


@dataclass(frozen=True, slots=True)
class ObservedTopology:
    """A cluster's state, the topics in Kafka that belong to their KafkaTopics, and those without one to be repaired."""

    state: ClusterState
    topics: tuple[tuple[KafkaTopic, TopicDescription], ...]
    unmanaged: Mapping[str, Replicas] = field(default_factory=dict)
    above_quota: Collection[ObjectKey] = ()
    """KafkaTopics that get no more than Kafka holds."""


@dataclass(frozen=True, slots=True)
class TopologyPlan:
    """The plan of all topics of a topology, whose hash is the one in the RackTopology's status, and its parts.

    `namespaces` are the hashes of the parts of each namespace, of topics without a KafkaTopic under an empty name.
    `unplanned` are topics that cannot be planned, such as one on a broker whose rack is not known.
    """

    whole: Plan
    request: Request
    parts: Mapping[ObjectKey, TopicPlan]
    namespaces: Mapping[str, str]
    topics: Mapping[ObjectKey, KafkaTopic]
    unplanned: tuple[ObjectKey, ...]

    @property
    def differing(self) -> Sequence[ObjectKey]:
        """The KafkaTopics whose plan here has another hash than in their status, or exists in only one of the two."""
        in_status = {key: topic.status.plan.hash if topic.status.plan else None for key, topic in self.topics.items()}
        return [key for key, known in sorted(in_status.items()) if known != self.hash_of(key)]

    def hash_of(self, key: ObjectKey) -> str | None:
        """The hash of a topic's plan; None where it has no plan, or an empty one."""
        part = self.parts.get(key)
        return None if part is None or part.empty else part.hash


async def observe_topology(
    topology: RackTopology,
    topics: Collection[KafkaTopic],
    cache: Cache,
    admin: KafkaAdmin,
    placers: Mapping[str, Placer],
) -> ObservedTopology:
    """Observe the cluster and the topics once.

    Raises FailureError where Kafka does not answer, or is another cluster than the topology's.
    """
    cluster = await admin.cluster()
    expected = topology.spec.kafka.cluster_id or topology.status.cluster_id
    if expected and expected != cluster.cluster_id:
        raise FailureError(
            Failure(
                Reason.CLUSTER_ID_MISMATCH,
                f"cluster {cluster.cluster_id} answers, RackTopology {topology.key} is of {expected}",
                Remedy.SPEC,
            )
        )
    load = BrokerLoad(await admin.replica_counts())
    last_racks = last_seen({}, topology.status, load.holders)
    told = await admin.cordoned([broker.id for broker in cluster.brokers])
    cordoned = {broker for broker, is_cordoned in told.items() if is_cordoned}
    racks = rack_view_from(cache, topology, cluster.brokers, last_racks, load.holders, cordoned)
    state = ClusterState(topology.key, topology.spec, cluster.cluster_id, racks, load, placers)
    by_name = {topic.topic_name: topic for topic in topics if _is_the_objects_own(topic)}
    described = await admin.topics(by_name) if by_name else {}
    found = [
        (topic, seen)
        for name, topic in sorted(by_name.items())
        if isinstance(seen := described.get(name), TopicDescription) and ownership_problem(topic, seen, state) is None
    ]
    unmanaged: Mapping[str, Replicas] = {}
    if topology.spec.repairs_unmanaged:
        unmanaged = unmanaged_topics(topology, topics, (), await admin.assignments())
    return ObservedTopology(state, tuple(found), unmanaged, above_quotas(topology, map(Claim.of, topics)))


def plan_of(observed: ObservedTopology) -> TopologyPlan:
    """Plan all topics together. Raises MissingRackError where some brokers have a rack and some have not."""
    request, names = request_of(observed.topics, observed.unmanaged, observed.state, observed.above_quota)
    request = replace(request, min_insync=_min_insync(observed))
    fills = observed.state.spec.fills_brokers
    made, whole = (fill_topics(request)[0], fill(request)) if fills else (plan_topics(request), plan(request))
    parts = {names[name]: part for name, part in made.items()}
    whole_hash, namespaces = plan_hashes({key: part for key, part in parts.items() if not part.empty})
    topics = {topic.key: topic for topic, _ in observed.topics}
    return TopologyPlan(
        replace(whole, hash=whole_hash) if whole_hash else whole,
        request,
        parts,
        namespaces,
        topics,
        tuple(sorted((topics.keys() | set(map(unmanaged_key, observed.unmanaged))) - parts.keys())),
    )


def _min_insync(observed: ObservedTopology) -> Mapping[str, int]:
    """What topics have as `min.insync.replicas`, but for those where durability lowers it before they shrink."""
    defaults = observed.state.spec.defaults.durability
    return {
        topic.topic_name: topic.status.min_in_sync_replicas
        for topic, _ in observed.topics
        if topic.status.min_in_sync_replicas is not None and not requirements_of(topic.spec, defaults).durability
    }


def with_observed_brokers(topology: RackTopology, observed: ObservedTopology) -> RackTopology:
    """The topology with the observed brokers in its status."""
    rows = tuple(broker_status(row) for row in observed.state.racks.rows)
    return structs.replace(topology, status=structs.replace(topology.status, brokers=rows))


def _is_the_objects_own(topic: KafkaTopic) -> bool:
    ready = find_condition(topic.status.conditions, READY)
    return not topic.meta.is_deleting and (ready is None or ready.reason not in _NOT_THEIRS)

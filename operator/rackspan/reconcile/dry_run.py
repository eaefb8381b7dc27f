"""One observation of a topology without an operator: its state, its topics, their plan, and the effect of specs.

The operator keeps a topic's plan while its inputs are the same. Here all plans are made at once. Both give the same
result unless the replicas on the brokers have changed since the operator made its plans.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from msgspec import structs

from rackspan.api.conditions import READY, reason_of
from rackspan.api.kafkatopic import KafkaTopicStatus
from rackspan.api.meta import ObjectKey
from rackspan.api.plans import unmanaged_key
from rackspan.api.policies import Granted
from rackspan.api.racktopology import KafkaSpec, LevelSpec, RackSource, RackTopologySpec
from rackspan.api.reasons import Reason
from rackspan.core.config_keys import MIN_INSYNC
from rackspan.core.outage import min_insync_replicas
from rackspan.core.planning import fill, fill_topics, plan, plan_topics
from rackspan.core.snapshot import NONE
from rackspan.reconcile.cluster.batching import batches, config_records, topic_records
from rackspan.reconcile.cluster.drain_status import drain_statuses
from rackspan.reconcile.cluster.racks import LocatedBroker, RackView, last_seen, rack_view
from rackspan.reconcile.cluster.state import BrokerLoad, ClusterState
from rackspan.reconcile.cluster.topology_status import broker_status
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.plans.shrinking import min_insync_above_replicas
from rackspan.reconcile.plans.topology_plan import plan_hashes, request_of, unmanaged_topics
from rackspan.reconcile.ports import ReplicaCounts, TopicConfig, TopicDescription
from rackspan.reconcile.specs.ownership import owner, refusal, rival
from rackspan.reconcile.specs.topic_quotas import Demand, above_quotas
from rackspan.reconcile.topics.topic_decision import decide, ownership_problem

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.racktopology import DrainStatus, RackTopology
    from rackspan.core.placement import Placer
    from rackspan.core.planning import Plan, PlanRequest, TopicPlan
    from rackspan.core.snapshot import Snapshot
    from rackspan.core.topology import RackTree
    from rackspan.reconcile.cache import Cache
    from rackspan.reconcile.ports import Administrator, ConfigChange, KafkaAdmin, NewTopic, RemainingReplicas
    from rackspan.reconcile.specs.placement import Assignment
    from rackspan.reconcile.specs.topic_quotas import Excess

_NEVER_MENDED = frozenset({Reason.DURABILITY_UNSATISFIABLE, Reason.UNKNOWN_LEVEL, Reason.UNKNOWN_PLACER})
"""The reasons that no plan fixes. Only the plan decides whether an existing topic can be placed."""
_NOT_THEIRS = frozenset({Reason.TOPIC_CONFLICT, Reason.ADOPTION_NOT_ALLOWED})
"""The Ready reasons of KafkaTopics that the operator does not reconcile."""


@dataclass(frozen=True, slots=True)
class ObservedTopology:
    """A cluster's state, its topics with their KafkaTopics, and topics to be repaired that have no KafkaTopic."""

    state: ClusterState
    topics: tuple[tuple[KafkaTopic, TopicDescription], ...]
    unmanaged: Mapping[str, Assignment] = field(default_factory=dict)
    above_quota: Mapping[ObjectKey, Excess] = field(default_factory=dict)
    """The KafkaTopics that get no more than they already have in Kafka."""


@dataclass(frozen=True, slots=True)
class ObservedPlan:
    """The plan of all topics of a topology, whose hash is the one in the RackTopology's status, and the plan's parts.

    `namespaces` has the hash of each namespace's parts. The empty name has that of topics without a KafkaTopic.
    `unplanned` are topics that cannot be planned, such as a topic on a broker whose rack is not known.
    """

    whole: Plan
    request: PlanRequest
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
        """Return the hash of a topic's plan, or None if the topic has no plan or an empty one."""
        part = self.parts.get(key)
        return None if part is None or part.empty else part.hash


@dataclass(frozen=True, slots=True)
class Judgement:
    """The changes, except moves, that the operator would make in Kafka for some KafkaTopics, and what it cannot do.

    `created` and `configured` are by the key of the KafkaTopic. `problems` has one failure per KafkaTopic.
    """

    created: Mapping[ObjectKey, NewTopic]
    configured: Mapping[ObjectKey, ConfigChange]
    problems: Mapping[ObjectKey, Failure]


def judge(
    topics: Collection[KafkaTopic],
    seen: Mapping[str, TopicDescription],
    own: Mapping[str, Mapping[str, str]],
    state: ClusterState,
    above_quota: Mapping[ObjectKey, Excess] = MappingProxyType({}),
) -> Judgement:
    """Decide about KafkaTopics as the operator does. `seen`: the topics in Kafka. `own`: the configs set on them.

    Both are by topic name. New topics are placed one after the other, each on top of the previous ones. An existing
    topic is also checked for the durability that it would have if its replicas were placed from scratch.
    """
    state = replace(state, load=state.load.copy())
    created, configured, problems = {}, {}, {}
    for topic in sorted(topics, key=lambda one: one.topic_name):
        there = seen.get(topic.topic_name)
        excess = above_quota.get(topic.key)
        waits = None if excess is None else excess.failure(topic)
        made = decide(topic, there, own.get(topic.topic_name, {}), state, waits)
        problem = made.foreign or made.problem
        if problem is None and there is not None:
            anew = decide(structs.replace(topic, status=KafkaTopicStatus()), None, {}, state).problem
            problem = anew if anew is not None and anew.reason in _NEVER_MENDED else None
        if problem is not None:
            problems[topic.key] = problem
            continue
        if made.create is not None:
            created[topic.key] = made.create
            state.load.add(topic.topic_name, made.create.assignment or ())
        if made.configure is not None:
            configured[topic.key] = made.configure
    return Judgement(created, configured, problems)


def laid_over(
    topology: RackTopology,
    live: Collection[KafkaTopic],
    files: Collection[KafkaTopic],
    namespaces: Mapping[str, Mapping[str, str]],
) -> tuple[Mapping[ObjectKey, KafkaTopic], Mapping[ObjectKey, Failure]]:
    """Return the KafkaTopics of a topology after files are applied, and the failures of files that would be refused.

    `live` are the KafkaTopics that the topology admits, `namespaces` the labels of all namespaces. A file replaces only
    the spec of an object. A change that the API server or the topology refuses is left out, so that it takes no topic
    from others.
    """
    after = {topic.key: topic for topic in live}
    refused: dict[ObjectKey, Failure] = {}
    for topic in files:
        before = after.get(topic.key)
        forbidden = None if before is None else _forbidden_change(before, topic)
        if problem := forbidden or refusal(topic, topology, namespaces):
            refused[topic.key] = problem
        else:
            after[topic.key] = topic if before is None else structs.replace(before, spec=topic.spec)
    claims: defaultdict[str, list[tuple[KafkaTopic, RackTopology]]] = defaultdict(list)
    for topic in after.values():
        claims[topic.topic_name].append((topic, topology))
    owners = {name: owner(rivals) for name, rivals in claims.items()}
    for topic in files:
        if topic.key not in refused and (problem := rival(topic, owners[topic.topic_name])):
            refused[topic.key] = problem
    return after, refused


def _forbidden_change(before: KafkaTopic, after: KafkaTopic) -> Failure | None:
    """Return why the API server refuses a change, or None: the rules about changes in crds/kafkatopics.yaml."""
    if before.topic_name != after.topic_name:
        what = (
            f"spec.topicName: cannot change from {before.topic_name}: Kafka cannot rename a topic; make another object"
        )
    elif after.spec.partitions < before.spec.partitions:
        what = f"spec.partitions: cannot shrink from {before.spec.partitions}: Kafka cannot remove partitions"
    else:
        return None
    return Failure(Reason.INVALID_SPEC, what, Remedy.SPEC)


async def judge_observed(
    observed: ObservedTopology, topics: Collection[KafkaTopic], admin: Administrator
) -> tuple[Judgement, ClusterState, Collection[str]]:
    """Judge some KafkaTopics by Kafka's state and validation. Return the result, the state and all topic names."""
    described = await admin.topics([topic.topic_name for topic in topics])
    seen = {name: found for name, found in described.items() if isinstance(found, TopicDescription)}
    configs = await admin.configs(list(seen))
    own = {name: config.own for name, config in configs.items() if isinstance(config, TopicConfig)}
    brokers = [row.id for row in observed.state.racks.rows if row.online]
    state = replace(observed.state, default_min_insync=await admin.default_min_insync(brokers))
    made = judge(topics, seen, own, state, observed.above_quota)
    refused = await refused_by_kafka(made, admin)
    unread = {topic.key: found for topic in topics if isinstance(found := configs.get(topic.topic_name), Failure)}
    return replace(made, problems={**refused, **unread, **made.problems}), state, (await admin.assignments()).keys()


async def refused_by_kafka(made: Judgement, admin: Administrator) -> Mapping[ObjectKey, Failure]:
    """Return the changes that Kafka refuses, or cannot validate, with the failure (validate_only)."""
    keys = {one.name: key for changes in (made.created, made.configured) for key, one in changes.items()}
    refused: dict[ObjectKey, Failure] = {}
    answers = [await admin.validate_topics(some) for some in batches(made.created.values(), topic_records)]
    answers += [await admin.validate_configs(some) for some in batches(made.configured.values(), config_records)]
    for outcomes in answers:
        refused |= {keys[name]: failure for name, failure in outcomes.items() if failure is not None}
    return refused


def state_of_snapshot(snapshot: Snapshot, tree: RackTree, placers: Mapping[str, Placer]) -> ClusterState:
    """Return the state of a cluster from a snapshot alone, without a RackTopology. Unknown fields get defaults."""
    rows = tuple(
        LocatedBroker(
            id=broker.id,
            host=None,
            pods=(),
            node=None,
            rack=broker.rack,
            reported_rack=None,
            online=broker.online,
            draining=not broker.eligible,
            cordoned=broker.cordoned,
        )
        for broker in tree.brokers
    )
    held = snapshot.partitions.replicas
    counts = ReplicaCounts(Counter(held[held != NONE].tolist()), Counter(held[:, :1].ravel().tolist()))
    spec = RackTopologySpec(
        KafkaSpec(""),
        tuple(LevelSpec(name) for name in tree.levels),
        adoption=Granted.ALLOWED,
        rack_source=RackSource.BROKER,
    )
    racks = RackView(tree.levels, rows, ignore_missing=True)
    least = min_insync_replicas(snapshot.configs).tolist()
    inherited = (value for value, keys in zip(least, snapshot.inherited, strict=False) if MIN_INSYNC in keys)
    key = ObjectKey("cluster", snapshot.cluster_id or "unknown")
    return ClusterState(key, spec, snapshot.cluster_id or "", racks, BrokerLoad(counts), placers, next(inherited, None))


def topics_of_snapshot(
    snapshot: Snapshot, names: Collection[str]
) -> tuple[Mapping[str, TopicDescription], Mapping[str, Mapping[str, str]]]:
    """Return some topics of a snapshot, and the configs set on them, by name."""
    partitions = snapshot.partitions.ordered()
    rows: defaultdict[str, list[tuple[int, ...]]] = defaultdict(list)
    wanted = np.isin(partitions.topic, [at for at, name in enumerate(partitions.names) if name in names])
    some = partitions.rows(wanted)
    for topic, replicas in zip(some.topic.tolist(), some.replicas.tolist(), strict=True):
        rows[some.names[topic]].append(tuple(broker for broker in replicas if broker != NONE))
    own = {name: snapshot.own_config(at) for at, name in enumerate(snapshot.partitions.names) if name in rows}
    return {name: TopicDescription(name, "", tuple(lists)) for name, lists in rows.items()}, own


async def observe_topology(
    topology: RackTopology,
    topics: Collection[KafkaTopic],
    cache: Cache,
    admin: KafkaAdmin,
    placers: Mapping[str, Placer],
) -> ObservedTopology:
    """Observe the cluster and the topics once.

    Raises FailureError if Kafka does not respond, or is another cluster than the topology's.
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
    last_racks = last_seen({}, topology, load.holders)
    reported = await admin.cordoned([broker.id for broker in cluster.brokers])
    cordoned = {broker for broker, is_cordoned in reported.items() if is_cordoned}
    racks = rack_view(cache, topology, cluster.brokers, last_racks, load.holders, cordoned)
    state = ClusterState(topology.key, topology.spec, cluster.cluster_id, racks, load, placers)
    by_name = {
        topic.topic_name: topic
        for topic in topics
        if not topic.meta.is_deleting and reason_of(topic.status.conditions, READY) not in _NOT_THEIRS
    }
    described = await admin.topics(by_name) if by_name else {}
    found = [
        (topic, seen)
        for name, topic in sorted(by_name.items())
        if isinstance(seen := described.get(name), TopicDescription) and ownership_problem(topic, seen, state) is None
    ]
    unmanaged: Mapping[str, Assignment] = {}
    if topology.spec.repairs_unmanaged:
        unmanaged = unmanaged_topics(topology, topics, (), await admin.assignments())
    return ObservedTopology(state, tuple(found), unmanaged, above_quotas(topology, map(Demand.of, topics)))


def plan_of(observed: ObservedTopology) -> ObservedPlan:
    """Plan all topics together. Raises MissingRackError if some brokers have a rack and some have none."""
    request, names = request_of(observed.topics, observed.unmanaged, observed.state, observed.above_quota)
    managed = (topic for topic, _ in observed.topics)
    request = replace(request, min_insync=min_insync_above_replicas(managed, observed.state.spec))
    fills = observed.state.spec.fills_brokers
    made, whole = (fill_topics(request)[0], fill(request)) if fills else (plan_topics(request), plan(request))
    parts = {names[name]: part for name, part in made.items()}
    whole_hash, namespaces = plan_hashes({key: part for key, part in parts.items() if not part.empty})
    topics = {topic.key: topic for topic, _ in observed.topics}
    return ObservedPlan(
        replace(whole, hash=whole_hash) if whole_hash else whole,
        request,
        parts,
        namespaces,
        topics,
        tuple(sorted((topics.keys() | set(map(unmanaged_key, observed.unmanaged))) - parts.keys())),
    )


def drains_of(observed: ObservedTopology, made: ObservedPlan, remaining: RemainingReplicas) -> tuple[DrainStatus, ...]:
    """Return the drains as the status will show them before any move. `remaining` has the current replicas to drain."""
    by_plan = {
        made.topics[key].topic_name if key in made.topics else key.name: part
        for key, part in made.parts.items()
        if part.problems or not part.empty
    }
    # The operator's own plan is about the previous drains.
    topics = [structs.replace(one, status=structs.replace(one.status, plan=None)) for one, _ in observed.topics]
    return drain_statuses(observed.state, remaining, topics, by_plan)


def with_observed_brokers(topology: RackTopology, observed: ObservedTopology) -> RackTopology:
    """Return the topology with the observed brokers in its status."""
    rows = tuple(broker_status(row) for row in observed.state.racks.rows)
    return structs.replace(topology, status=structs.replace(topology.status, brokers=rows))

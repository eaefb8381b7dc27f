"""Computes a RackTopology's status from the observed state. Pure: the clock is an argument."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from rackspan.api.conditions import (
    BROKERS_ONLINE,
    COMPLIANT,
    CONNECTED,
    DELETIONS_HELD,
    DRAINED,
    RACKS_IN_SYNC,
    READY,
    REASSIGNED,
    SCANNED,
    STALLED,
    Conditions,
    ConditionStatus,
    find_condition,
    is_false,
    is_true,
)
from rackspan.api.plans import MAX_PLAN_SAMPLES, PlannedTopic, TopologyPlanStatus, is_unmanaged, topology_hash
from rackspan.api.racktopology import (
    MAX_DRAINS,
    MAX_DRIFT_SAMPLES,
    BrokerCount,
    BrokerStatus,
    DriftedTopics,
    DriftStatus,
    LevelCount,
    RackSource,
    TopicCounts,
    domain_summary,
)
from rackspan.api.reasons import PLAN_GOES_ON, Reason
from rackspan.core.rack_path import format_rack
from rackspan.core.text import be, few, have, plural, rounded
from rackspan.reconcile.cluster import drain_status
from rackspan.reconcile.cluster.broker_events import REPORTS, both_racks, broker_list, topics_affected, ways_out
from rackspan.reconcile.cluster.state import ClusterState
from rackspan.reconcile.cluster.topology_deletion import how_to_confirm
from rackspan.reconcile.failures import Failure, Remedy, set_problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import DeletionsStatus, RackTopology, RackTopologySpec, RackTopologyStatus
    from rackspan.core.planning import TopicPlan
    from rackspan.reconcile.cluster.racks import LocatedBroker, RackView
    from rackspan.reconcile.ports import RemainingReplicas


_BROKERS_BYTES: Final = 1_000_000
"""The most bytes of `status.brokers`. By default, etcd accepts objects of 1,572,864 bytes."""
_BROKER_BYTES: Final = 140
"""The bytes of one broker without its texts."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./:, -]*")
_ESCAPED: Final = 6
"""The bytes of one character of any other text, such as \\u003c."""
_PAUSED: Final = (
    "the annotation rackspan.dev/paused pauses the Reassignments of this RackTopology, and its plan does not begin; "
    "nothing else pauses: to pause a topic, annotate its KafkaTopic; to stop everything, scale the operator to zero"
)
_TRUE, _FALSE, _UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
_LOCATING = ("kafka", "levels", "rack_source", "rack_aliases", "brokers", "missing_rack_policy")
_DRAINING = ("drain_brokers", "drain_racks")
"""The spec fields that determine the locations of brokers, and those that determine which brokers are drained."""
_NOT_OBSERVED = Failure(Reason.WAITING, "the spec has changed, and Kafka has not been asked since", Remedy.RETRY)


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """The plan of all topics (None if none needs a change), the content of the condition Reassigned, and the parts."""

    plan: TopologyPlanStatus | None
    status: ConditionStatus
    reason: Reason
    message: str
    parts: Mapping[ObjectKey, TopicPlan]


NO_PLAN: Final = PlanSummary(None, _TRUE, Reason.IN_SYNC, "no topic needs a change", {})


@dataclass(frozen=True)
class StatusInputs:
    """The inputs of a status: the state or why there is none, the last known racks, the KafkaTopics, and more."""

    state: ClusterState | Failure
    racks: RackView | None
    topics: Sequence[KafkaTopic]
    remaining: RemainingReplicas | None
    """The replicas on drained brokers, as last counted."""
    deletions: DeletionsStatus | None
    waiting: Sequence[ObjectKey]
    """The KafkaTopics whose deletion waits for a user's confirmation."""
    deletion_blocked: Failure | None
    """What blocks the deletion of the RackTopology, if it is being deleted."""
    planned: PlanSummary | None
    """The plan, or None while not all topics have been reconciled."""
    failed_spec: RackTopologySpec | None
    """The spec that was observed, if `state` is a Failure."""
    cordon_problem: str | None
    """Why a drained broker could not be cordoned in Kafka."""

    def are_about(self, spec: RackTopologySpec, fields: Sequence[str]) -> bool:
        """Return whether the state was observed with these fields of a spec."""
        observed = self.state.spec if isinstance(self.state, ClusterState) else self.failed_spec
        return observed is None or all(getattr(observed, name) == getattr(spec, name) for name in fields)

    @cached_property
    def counts(self) -> TopicCounts:
        """The numbers of topics by state."""
        return TopicCounts(
            total=len(self.topics),
            ready=sum(is_true(topic.status.conditions, READY) for topic in self.topics),
            non_compliant=sum(is_false(topic.status.conditions, COMPLIANT) for topic in self.topics),
            stalled=sum(is_true(topic.status.conditions, STALLED) for topic in self.topics),
            pinned=sum((one.status.compliance.pinned or 0) for one in self.topics if one.status.compliance),
        )

    @cached_property
    def drifted_topics(self) -> DriftedTopics | None:
        """The topics that are not compliant only because of drift, or None if there are none."""
        if self.racks is None or not self.racks.drifted:
            return None
        found = sorted(str(one.key) for one in self.topics if one.status.compliance and one.status.compliance.drifted)
        return DriftedTopics(len(found), tuple(found[:MAX_DRIFT_SAMPLES])) if found else None

    @cached_property
    def offline(self) -> tuple[int, ...]:
        """The ids of brokers that Kafka does not list, but a pod, an earlier observation or their replicas show."""
        rows = self.racks.rows if self.racks else ()
        offline_ids = {row.id for row in rows if not row.online}
        if isinstance(self.state, ClusterState):
            offline_ids |= set(self.state.load.holders) - {row.id for row in rows}
        return tuple(sorted(offline_ids))

    @property
    def online(self) -> tuple[int, ...]:
        """The ids of brokers in Kafka's last list."""
        return tuple(row.id for row in self.racks.rows if row.online) if self.racks else ()


def topology_status(topology: RackTopology, inputs: StatusInputs, now: datetime) -> RackTopologyStatus:
    """Return the next status. While Kafka cannot be reached, the last facts stay and the conditions give the reason."""
    status, state, racks = topology.status, inputs.state, inputs.racks
    if isinstance(state, ClusterState):
        status = replace(status, cluster_id=state.cluster_id)
    if racks is not None:
        domains = tuple(LevelCount(level, count) for level, count in racks.domain_counts())
        status = replace(
            status,
            broker_count=len(racks.rows),
            rack_hash=racks.rack_hash,
            brokers=_brokers(racks.rows),
            domains=domains,
            domain_summary=domain_summary(domains),
            drift=replace(DriftStatus.of(_ids(racks.drifted)), topics=inputs.drifted_topics),
            missing_racks=BrokerCount.of(_ids(racks.missing)),
            offline=BrokerCount.of(inputs.offline),
        )
    conditions = Conditions(status.conditions, topology.meta.generation, now)
    problem = _problem(topology, status, inputs) or inputs.deletion_blocked
    if isinstance(state, ClusterState):
        conditions.set(CONNECTED, _TRUE, Reason.CONNECTED, f"Kafka cluster {state.cluster_id}")
    else:
        conditions.set(CONNECTED, _FALSE, state.reason, state.message)
    if isinstance(state, Failure):
        if not is_false(conditions.all, RACKS_IN_SYNC):  # earlier drift may last
            message = "Kafka cannot be asked which racks brokers report"
            conditions.set(RACKS_IN_SYNC, _UNKNOWN, state.reason, message)
    elif racks is not None:
        conditions.set(RACKS_IN_SYNC, *_racks_in_sync(topology, racks, inputs.drifted_topics))
    conditions.set(BROKERS_ONLINE, *_brokers_online(inputs))
    conditions.set_paused(topology.meta, _PAUSED)
    if problem is None:
        why = Reason.BROKER_OFFLINE if inputs.offline else Reason.IN_SYNC
        message = f"{_broker_summary(inputs)}, {status.domain_summary}{_ignored_pods(racks)}"
        conditions.set(READY, _TRUE, why, message)
    else:
        conditions.set(READY, _FALSE, problem.reason, problem.message)
    set_problem(conditions, problem)
    status = _with_drains(topology, status, inputs, conditions)
    held = inputs.deletions.held if inputs.deletions else ()
    if inputs.waiting:
        message = how_to_confirm(topology, inputs.waiting, held)
        conditions.set(DELETIONS_HELD, _TRUE, Reason.DELETION_HELD, message)
    else:
        conditions.remove(DELETIONS_HELD)
    if (planned := inputs.planned) is not None:
        message = _without_plan(inputs.topics) if planned is NO_PLAN else planned.message
        conditions.set(REASSIGNED, planned.status, planned.reason, message)
    is_observed = inputs.are_about(topology.spec, (*_LOCATING, *_DRAINING))
    status = replace(
        status,
        observed_generation=topology.meta.generation if is_observed else status.observed_generation,
        topics=inputs.counts,
        plan=_plan(inputs, topology.status.plan),
        deletions=inputs.deletions,
        conditions=conditions.all,
    )
    return replace(
        status,
        state=overall_state(status),
        offline_summary=offline_summary(status),
        plan_summary=plan_summary(status.plan),
    )


def _without_plan(topics: Sequence[KafkaTopic]) -> str:
    """Return the message without a plan. Topics that cannot be planned, or cannot be read, are not compliant."""
    conditions = (find_condition(topic.status.conditions, COMPLIANT) for topic in topics)
    found = Counter(one.status for one in conditions if one is not None)
    wrong = [(found[_FALSE], "not compliant"), (found[_UNKNOWN], "not judged")]
    some = [f"{plural(count, 'topic')} {be(count)} {what}" for count, what in wrong if count]
    if not some:
        return NO_PLAN.message
    its = "its" if found[_FALSE] + found[_UNKNOWN] == 1 else "their"
    return f"no plan: {' and '.join(some)}, and {its} condition {READY} says why"


def _with_drains(
    topology: RackTopology, status: RackTopologyStatus, inputs: StatusInputs, conditions: Conditions
) -> RackTopologyStatus:
    """Return the status with its drains. While Kafka is unreachable, the last counts stay, and nothing is drained."""
    if not topology.spec.drain_brokers and not topology.spec.drain_racks:
        conditions.remove(DRAINED)
        return replace(status, drains=(), drain_summary=None)
    state = inputs.state
    if isinstance(state, Failure) or not inputs.are_about(topology.spec, (*_LOCATING, *_DRAINING)):
        why = state if isinstance(state, Failure) else _NOT_OBSERVED
        conditions.set(DRAINED, _UNKNOWN, why.reason, why.message)
        unknown = {"drained": None, "reason": why.reason, "message": why.message}
        drains = tuple(replace(one, **unknown) if one.drained else one for one in status.drains)
        return replace(status, drains=drains, drain_summary="unknown")
    names = {topic.key: topic.topic_name for topic in inputs.topics}
    parts = inputs.planned.parts if inputs.planned else {}
    by_plan = {names.get(key, key.name): part for key, part in parts.items() if key in names or is_unmanaged(key)}
    found = drain_status.drain_statuses(state, inputs.remaining, inputs.topics, by_plan)
    drained, reason, message = drain_status.drained_condition(found)
    if inputs.cordon_problem:
        message += f"; not cordoned in Kafka, so that others may place new replicas there: {inputs.cordon_problem}"
    conditions.set(DRAINED, drained, reason, message)
    return replace(status, drains=found[:MAX_DRAINS], drain_summary=drain_status.summary(found))


def _problem(topology: RackTopology, status: RackTopologyStatus, inputs: StatusInputs) -> Failure | None:
    state, racks = inputs.state, inputs.racks
    if isinstance(state, Failure):
        return state
    if not inputs.are_about(topology.spec, _LOCATING):
        return _NOT_OBSERVED
    if racks is None or not racks.rows:
        return Failure(Reason.NO_BROKERS, "Kafka and the pods know of no broker", Remedy.RETRY)
    row = next((row for row in racks.rows if len(row.pods) > 1), None)
    if row is not None:
        return Failure(
            Reason.DUPLICATE_BROKER_ID,
            f"pods {few(row.pods)} all claim broker id {row.id}; its rack is not known before one is left",
            Remedy.SPEC,
        )
    refused = next((row.problem for row in racks.missing if _has(row, Reason.BROKER_PODS_NOT_SHARED)), None)
    if refused is not None:
        return refused
    if racks.missing and not racks.ignore_missing:
        row = next((row for row in racks.missing if _has(row, Reason.INVALID_RACK)), racks.missing[0])
        why = row.problem.message if row.problem else "its rack is not known"
        ids = ", ".join(str(row.id) for row in racks.missing[:10])
        return Failure(
            Reason.INVALID_RACK if _has(row, Reason.INVALID_RACK) else Reason.MISSING_RACKS,
            f"{len(racks.missing)} of {plural(len(racks.rows), 'broker')} "
            f"{have(len(racks.missing))} no rack ({ids}); broker {row.id}: {why}; "
            "correct that, or set missingRackPolicy: Ignore to place as if no broker had a rack",
            Remedy.SPEC,
        )
    if not status.lists_all_brokers:
        return Failure(
            Reason.TOO_LARGE,
            f"the racks of {len(racks.rows)} brokers do not fit into the status, which has the first "
            f"{len(status.brokers)}: scans and Reassignments need all of them; shorten the names of racks",
            Remedy.SPEC,
        )
    return _empty_level(topology, racks)


def _empty_level(topology: RackTopology, racks: RackView) -> Failure | None:
    """Return the problem of a level without domains, often a misspelt label, or None. Single paths may end early."""
    if not racks.known_racks:
        return None
    empty = [level for level, (_, count) in zip(topology.spec.levels, racks.domain_counts(), strict=True) if not count]
    if not empty:
        return None
    level = empty[0]
    by_label = topology.spec.rack_source == RackSource.NODES
    why = f"no node under one has the label {level.node_label}" if by_label else "each broker.rack ends above it"
    return Failure(
        Reason.EMPTY_LEVEL,
        f"no broker has a {level.name}: {why}; correct spec.levels or the labels, or remove the level",
        Remedy.SPEC,
    )


def _has(row: LocatedBroker, reason: Reason) -> bool:
    return row.problem is not None and row.problem.reason == reason


def _broker_summary(inputs: StatusInputs) -> str:
    """Return how many brokers there are, and which are offline."""
    online, offline = inputs.online, inputs.offline
    if not offline:
        return plural(len(online), "broker")
    return f"{len(online)} of {plural(len(online) + len(offline), 'broker')} online ({broker_list(offline)} offline)"


def _cordoned(inputs: StatusInputs) -> str:
    """Return which brokers are cordoned, to be appended to a message; empty if none is."""
    cordoned = inputs.racks.tree.cordoned if inputs.racks else ()
    if not cordoned:
        return ""
    takes = "takes" if len(cordoned) == 1 else "take"
    return f"; {broker_list(cordoned)} {be(len(cordoned))} cordoned in Kafka and {takes} no new replicas"


def _brokers_online(inputs: StatusInputs) -> tuple[ConditionStatus, Reason, str]:
    """Return BrokersOnline. It does not affect Ready: brokers return, and a rolling restart is not an error."""
    state, offline = inputs.state, inputs.offline
    if not isinstance(state, ClusterState):
        return _UNKNOWN, state.reason, "Kafka cannot be asked which brokers are online"
    if offline:
        return (
            _FALSE,
            Reason.BROKER_OFFLINE,
            f"{_broker_summary(inputs)}; their replicas stay, and new topics avoid them{_cordoned(inputs)}",
        )
    return _TRUE, Reason.BROKERS_ONLINE, f"every broker that is known is online{_cordoned(inputs)}"


def _plan(inputs: StatusInputs, before: TopologyPlanStatus | None) -> TopologyPlanStatus | None:
    """Return the plan or, while not all topics have been reconciled, the sums of their last statuses.

    If the sums match the plan `before`, that plan stays, because it has the bytes.
    """
    if inputs.planned is not None:
        return inputs.planned.plan
    planned = sorted(
        ((str(topic.key), plan) for topic in inputs.topics if (plan := topic.status.plan) is not None),
        key=lambda pair: (-pair[1].moves, pair[0]),
    )
    if not planned:
        return None
    plan_hash = topology_hash({key: plan.hash for key, plan in planned})
    if before is not None and before.hash == plan_hash:
        return before
    plans = [plan for _, plan in planned]
    sizes = [plan.bytes for plan in plans if plan.bytes is not None]
    return TopologyPlanStatus(
        hash=plan_hash,
        topics=len(plans),
        moves=sum(plan.moves for plan in plans),
        lower_bound=sum(plan.lower_bound for plan in plans),
        reorders=sum(plan.reorders for plan in plans),
        partitions=sum(plan.partitions for plan in plans),
        bytes=rounded(sum(sizes)) if len(sizes) == len(plans) else None,
        removals=sum(plan.removals or 0 for plan in plans) or None,
        samples=tuple(
            PlannedTopic(key, plan.hash, plan.moves, plan.removals) for key, plan in planned[:MAX_PLAN_SAMPLES]
        ),
    )


def _racks_in_sync(
    topology: RackTopology, racks: RackView, topics: DriftedTopics | None
) -> tuple[ConditionStatus, Reason, str]:
    """Return RacksInSync. While one of a broker's two racks is unknown, earlier drift is not reported as ended."""
    drifted = racks.drifted
    unknown = [row.id for row in racks.rows if not row.online or (row.rack is None and not racks.ignore_missing)]
    if not drifted and unknown and is_false(topology.status.conditions, RACKS_IN_SYNC):
        where = f"{broker_list(unknown)} {be(len(unknown))} offline or in no known rack, so drift there may last"
        message = f"{where}; the others report the racks that their nodes have{_ignored_pods(racks)}"
        return _FALSE, Reason.RACK_DRIFT, message
    if not drifted:
        who = "every broker that is online and in a known rack" if unknown else "every broker"
        return _TRUE, Reason.RACKS_IN_SYNC, f"{who} reports the rack that its node has{_ignored_pods(racks)}"
    why = f"{topics_affected(topics)}; " if topics else ""
    message = (
        f"{len(drifted)} of {plural(len(racks.rows), 'broker')} {REPORTS[len(drifted) == 1]}: "
        f"{both_racks(broker_status(drifted[0]))}; {why}"
        f"{ways_out(topology.spec, racks, topics=topics is not None)}{_ignored_pods(racks)}"
    )
    return _FALSE, Reason.RACK_DRIFT, message


def _ids(rows: Sequence[LocatedBroker]) -> tuple[int, ...]:
    return tuple(row.id for row in rows)


def _ignored_pods(racks: RackView | None) -> str:
    """Return which pods are ignored, to be appended to a message; empty if none is."""
    if racks is None or not racks.ignored_pods:
        return ""
    first, *others = racks.ignored_pods
    who = f"{first} and {plural(len(others), 'other')} are" if others else f"{first} is"
    return f"; pod {who} ignored: no broker can have {'their numbers' if others else 'its number'}"


def _brokers(rows: Sequence[LocatedBroker]) -> tuple[BrokerStatus, ...]:
    """Return the brokers for the status, limited so that the object fits into etcd.

    If they are too large, hosts, pods and nodes are left out. If that is not enough, the last brokers are left out.
    """
    found = tuple(map(broker_status, rows))
    if sum(map(_bytes, found)) <= _BROKERS_BYTES:
        return found
    found = tuple(replace(one, host=None, pod=None, node=None) for one in found)
    ends = accumulate(map(_bytes, found))
    return tuple(one for one, end in zip(found, ends, strict=True) if end <= _BROKERS_BYTES)


def _bytes(one: BrokerStatus) -> int:
    """Return the maximum bytes that one broker needs in etcd."""
    texts = filter(None, (one.host, one.pod, one.node, one.rack, one.reported_rack))
    return _BROKER_BYTES + sum(len(text) if _PLAIN.fullmatch(text) else _ESCAPED * len(text) for text in texts)


def broker_status(row: LocatedBroker) -> BrokerStatus:
    """Return one broker for `status.brokers`."""
    return BrokerStatus(
        id=row.id,
        host=row.host,
        pod=few(row.pods) or None,
        node=row.node,
        rack=format_rack(row.rack) if row.rack else None,
        reported_rack=row.reported_rack,
        online=row.online,
        drift=row.drift,
        draining=row.draining or None,
        cordoned=row.cordoned or None,
    )


# --- what `kubectl get racktopologies` shows in one word or line each -----------------------------------------------


_HASH_SHOWN: Final = 8


def overall_state(status: RackTopologyStatus) -> str:
    """Return the reason of the most severe condition that is not as it should be, or `InSync`."""
    offline, topics, plan = status.offline, status.topics, _reason(status, REASSIGNED)
    racks = _reason(status, RACKS_IN_SYNC)
    found = (
        _reason(status, CONNECTED),
        _reason(status, READY),
        Reason.BROKER_OFFLINE if offline is not None and offline.count else None,
        None if status.only_lacks_racks else racks,
        None if plan in PLAN_GOES_ON else plan,
        Reason.DELETION_HELD if is_true(status.conditions, DELETIONS_HELD) else None,
        plan,
        Reason.NOT_COMPLIANT if topics is not None and topics.non_compliant else None,
        "TopicsNotReady" if topics is not None and topics.ready < topics.total else None,
        _reason(status, DRAINED),
        racks,
        _reason(status, SCANNED),
    )
    return next(filter(None, found), Reason.IN_SYNC)


def plan_summary(plan: TopologyPlanStatus | None) -> str | None:
    """Return the beginning of a plan's hash, and how many replicas it copies and removes."""
    if plan is None:
        return None
    removals = f", {plural(plan.removals, 'removal')}" if plan.removals else ""
    return f"{plan.hash[:_HASH_SHOWN]}, {plural(plan.moves, 'move')}{removals}"


def offline_summary(status: RackTopologyStatus) -> str | None:
    """Return how many brokers are offline, or `?` while Kafka cannot be asked."""
    if not is_true(status.conditions, CONNECTED):
        return "?"
    return None if status.offline is None else str(status.offline.count)


def _reason(status: RackTopologyStatus, kind: str) -> str | None:
    """Return why a condition does not hold, or None if it holds or does not exist."""
    condition = find_condition(status.conditions, kind)
    return None if condition is None or condition.status == ConditionStatus.TRUE else condition.reason

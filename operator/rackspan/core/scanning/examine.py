"""The rules, applied to all partitions at once. Each rule is a function that returns findings.

A broker that is not online is one finding. Its consequences are no findings of their own: that its replicas are not in
sync, do not lead, or are on a broker that must not hold them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from rackspan.core.compliance import Compliance, ViolationReason, assigned, judge, judge_pinned
from rackspan.core.durability import effective_min_insync, insync_bounds
from rackspan.core.requirements import ClusterRequirements, TopicRequirements
from rackspan.core.scanning.brokers import BrokerLocations
from rackspan.core.scanning.findings import (
    ASSIGNMENT_DIFFERS,
    NO_RACK,
    NO_VALUE,
    NONE_ELIGIBLE,
    ONLY_ELIGIBLE,
    REASONS,
    Findings,
)
from rackspan.core.scanning.rules import RULES, SEVERITY_OF, TOPIC_RULES, Rule, Severity
from rackspan.core.snapshot import NONE, Partitions
from rackspan.core.topology import BoolArray, IntArray

_UNKNOWN = REASONS.index(ViolationReason.BROKER_UNKNOWN)
_NOT_ELIGIBLE = REASONS.index(ViolationReason.BROKER_NOT_ELIGIBLE)
_ONLY_ELIGIBLE, _NONE_ELIGIBLE = REASONS.index(ONLY_ELIGIBLE), REASONS.index(NONE_ELIGIBLE)
_DIFFERS, _NO_VALUE = REASONS.index(ASSIGNMENT_DIFFERS), REASONS.index(NO_VALUE)
_held_against = attrgetter("replication_factor", "spread", "include", "exclude", "assignment", "durability")
"""The requirements that the rules use. Topics with equal values of these fields are examined together."""


@dataclass(frozen=True, slots=True, eq=False)
class Examined:
    """The findings, and the compliance of each partition, shape (partitions,).

    `broken`: out of compliance. `moves_of`: the fewest moves that fix the partition. `judged`: whether both are known.
    `unfair` counts, per level, the partitions with an unfair split in that level.
    """

    findings: Findings
    broken: BoolArray
    moves_of: IntArray
    judged: BoolArray
    unfair: Mapping[str, int]


def examine(
    locations: BrokerLocations,
    partitions: Partitions,
    min_insync: IntArray,
    requirements: ClusterRequirements,
    fewest_replicas: IntArray | None = None,
) -> Examined:
    """Examine partitions by every rule about partitions or topics.

    `min_insync`, shape (topics,), is `min.insync.replicas`, whether it is set on the topic or inherited. If the
    partitions of a topic come in several portions, each portion returns the findings about the topic; duplicates have
    the same `Findings.ids`. `fewest_replicas`, shape (topics,), is then that of all partitions
    (`Partitions.fewest_replicas`). Rules about levels that the tree does not have are left out, because one KafkaTopic
    must not fail the scan. The operator reports them on the KafkaTopic.
    """
    count = len(partitions)
    broken, moves_of = np.zeros(count, dtype=bool), np.zeros(count, dtype=np.int64)
    unfair = Counter(dict.fromkeys(locations.tree.levels, 0))
    judged = np.ones(count, dtype=bool)
    fewest = partitions.fewest_replicas if fewest_replicas is None else fewest_replicas
    away = ~np.isin(partitions.replicas, [NONE, *locations.online])
    parts = [*_health(partitions, min_insync, away)]
    for declared, rows in _alike(partitions, requirements):
        required = declared.on_levels(locations.tree.levels)
        some = partitions.rows(rows)
        compliance, found = _compliance(locations, some, required)
        parts.append(_replication_factor(some, fewest, required, compliance.moves_of))
        broken[rows], moves_of[rows], judged[rows] = compliance.broken, compliance.moves_of, ~compliance.unknown
        unfair.update(compliance.unfair)
        parts += [found, *_insync(locations, some, min_insync, compliance.broken, required)]
    parts += [*_about_topics(partitions, Rule.NOT_JUDGED, ~judged), _unmanaged(partitions, requirements)]
    parts.append(_offline_brokers(locations, partitions, away, moves_of))
    return Examined(_once(Findings.joined(parts)), broken, moves_of, judged, unfair)


def examine_brokers(locations: BrokerLocations) -> Findings:
    """Examine brokers: whether their racks are known and agree with Kafka."""
    drifts = [broker for broker in locations.brokers if broker.drifts]
    drifting = np.array([broker.id for broker in drifts], dtype=np.int64)
    reason = np.array([NONE if broker.reported_rack else REASONS.index(NO_RACK) for broker in drifts], dtype=np.int64)
    missing = np.array(locations.missing, dtype=np.int64)
    return Findings.joined(
        [
            Findings.of(Rule.RACK_DRIFT, len(drifting), broker=drifting, reason=reason),
            Findings.of(Rule.MISSING_RACK, len(missing), broker=missing),
        ]
    )


# --- rules ------------------------------------------------------------------------------------------------------------


def _health(partitions: Partitions, min_insync: IntArray, away: BoolArray) -> Iterator[Findings]:
    """Find partitions without a leader, partitions with lagging replicas, and leaders that are not preferred.

    Replicas on offline brokers (`away`, shape of the replicas) do not count for the last two, unless writes stop.
    """
    if not len(partitions):
        return
    size = partitions.replication_factor
    in_sync = np.count_nonzero(partitions.in_sync & (partitions.replicas != NONE), axis=1)
    offline = partitions.leader == NONE
    rows = np.flatnonzero(offline)
    reason, broker = _who_may_lead(partitions.rows(rows), away[rows])
    yield _rows_about(Rule.OFFLINE, partitions, rows, excess=(in_sync - size)[rows], reason=reason, broker=broker)
    stopped = in_sync < effective_min_insync(min_insync[partitions.topic], size)
    lags = ~partitions.in_sync & (partitions.replicas != NONE) & ~away
    behind = np.flatnonzero(~offline & (stopped | lags.any(axis=1)))
    ranks = np.where(stopped[behind], Severity.CRITICAL.rank, SEVERITY_OF[Rule.UNDER_REPLICATED].rank)
    yield _rows_about(
        Rule.UNDER_REPLICATED,
        partitions,
        behind,
        ranks,
        excess=(in_sync - size)[behind],
        broker=_lagging(partitions.rows(behind)),
    )
    other = np.flatnonzero(~offline & ~away[:, 0] & (partitions.leader != partitions.replicas[:, 0]))
    yield _rows_about(Rule.LEADER_NOT_PREFERRED, partitions, other, broker=partitions.leader[other])


def _who_may_lead(partitions: Partitions, away: BoolArray) -> tuple[IntArray, IntArray]:
    """Return the reason of each finding, and the first broker whose return gives a leader without data loss.

    The reason is -1 if several replicas may lead. Both are -1 if one of them is online: no broker has to return then.
    """
    able = partitions.in_sync | partitions.eligible
    count = np.count_nonzero(able, axis=1)
    first = partitions.replicas[np.arange(len(able)), able.argmax(axis=1)]
    missing = (count > 0) & ~(able & ~away).any(axis=1)
    reason = np.select([count == 0, missing & (count == 1)], [_NONE_ELIGIBLE, _ONLY_ELIGIBLE], NONE)
    return reason, np.where(missing, first, NONE)


def _lagging(partitions: Partitions) -> IntArray:
    """Return the broker that lags in each partition; -1 if several lag."""
    lags = ~partitions.in_sync & (partitions.replicas != NONE)
    first = partitions.replicas[np.arange(len(lags)), lags.argmax(axis=1)] if len(lags) else partitions.leader
    return np.where(np.count_nonzero(lags, axis=1) == 1, first, NONE)


def _offline_brokers(
    locations: BrokerLocations, partitions: Partitions, away: BoolArray, moves_of: IntArray
) -> Findings:
    """Return one finding for each broker that is not online and holds replicas, with the number of its partitions.

    If the broker is not in the cluster or is drained, its replicas have to move, and the finding has their moves.
    """
    rows, columns = np.nonzero(away)
    held = np.unique(np.stack([partitions.replicas[rows, columns], rows]), axis=1)  # a row may list a broker twice
    brokers, of_broker, count = np.unique(held[0], return_inverse=True, return_counts=True)
    moves = np.zeros(len(brokers), dtype=np.int64)
    np.add.at(moves, of_broker, moves_of[held[1]])
    known = np.isin(brokers, [broker.id for broker in locations.brokers])
    stays = known & ~np.isin(brokers, list(locations.drained))
    ranks = np.where(known, SEVERITY_OF[Rule.BROKER_OFFLINE].rank, Severity.HIGH.rank)
    return Findings.of(
        Rule.BROKER_OFFLINE, len(brokers), ranks, broker=brokers, excess=count, moves=np.where(stays, 0, moves)
    )


def _replication_factor(
    partitions: Partitions, fewest: IntArray, required: TopicRequirements, moves_of: IntArray
) -> Findings:
    """Find topics that differ from the required replication factor; without a requirement, topics with several."""
    size = partitions.replication_factor
    if required.replication_factor is not None:
        rule, excess, moves = Rule.REPLICATION_FACTOR_DIFFERS, size - required.replication_factor, moves_of
    else:
        rule, excess, moves = Rule.REPLICATION_FACTOR_VARIES, size - fewest[partitions.topic], None
    return Findings.joined(list(_about_topics(partitions, rule, excess != 0, excess=excess, moves=moves)))


def _compliance(
    locations: BrokerLocations, partitions: Partitions, required: TopicRequirements
) -> tuple[Compliance, Findings]:
    if required.assignment:
        return _against_assignment(locations, partitions, required.assignment)
    if len(locations.missing) == len(locations.brokers) > 0:
        nothing = np.zeros(len(partitions), dtype=bool)
        return Compliance(nothing, nothing.astype(np.int64), {}, ~nothing, nothing), Findings.joined([])
    tree = required.eligible(locations.tree)
    asked = required.replication_factor
    compliance = judge(tree, partitions.replicas, required.spread, asked)
    size = partitions.replication_factor if asked is None else np.full(len(partitions), asked)
    return compliance, _spread(locations, partitions, compliance, np.maximum(size - tree.capacity, 0))


def _spread(locations: BrokerLocations, partitions: Partitions, compliance: Compliance, beyond: IntArray) -> Findings:
    """Find partitions out of compliance; `beyond` is how many replicas exceed the number of eligible brokers."""
    found = compliance.columns
    about_broker = found.level == len(locations.tree.levels)
    drained = (found.reason == _NOT_ELIGIBLE) & np.isin(found.domain, list(locations.drained))
    unknown = found.reason == _UNKNOWN
    away = (drained | unknown) & ~np.isin(found.domain, list(locations.online))
    columns = {
        "level": found.level,
        "domain": np.where(about_broker, NONE, found.domain),
        "broker": np.where(about_broker, found.domain, NONE),
        "reason": found.reason,
        "excess": found.excess,
    }
    never = np.flatnonzero(compliance.unsatisfiable)
    return Findings.joined(
        [
            _rows_about(Rule.UNSATISFIABLE, partitions, never, excess=beyond[never]),
            *(
                _rows_about(
                    rule,
                    partitions,
                    found.partition[chosen],
                    moves=compliance.moves_of[found.partition[chosen]],
                    **{name: column[chosen] for name, column in columns.items()},
                )
                for rule, chosen in (
                    (Rule.NOT_COMPLIANT, ~drained & ~away),
                    (Rule.REPLICA_ON_DRAINED_BROKER, drained & ~away),
                )
            ),
        ]
    )


def _against_assignment(
    locations: BrokerLocations, partitions: Partitions, assignment: Sequence[Sequence[int]]
) -> tuple[Compliance, Findings]:
    """Compare replicas with an explicit assignment, and check the assignment itself: its brokers and its spread."""
    found = judge_pinned(locations.tree, partitions.replicas, assigned(assignment, partitions.number))
    wrong, unfair = np.flatnonzero(found.different), np.flatnonzero(found.unfair)
    kept = [
        (at, broker)
        for at in np.flatnonzero(found.ineligible).tolist()
        for broker in assignment[int(partitions.number[at])]
        if broker in locations.drained
    ]
    rows, brokers = np.array(kept, dtype=np.int64).reshape(-1, 2).T
    differs = np.full(len(partitions), _DIFFERS, dtype=np.int64)
    findings = [
        _rows_about(Rule.NOT_COMPLIANT, partitions, wrong, moves=found.moves_of[wrong], reason=differs[wrong]),
        _rows_about(Rule.REPLICA_ON_DRAINED_BROKER, partitions, rows, broker=brokers, reason=differs[rows]),
        _rows_about(Rule.PINNED_UNFAIR, partitions, unfair, moves=found.moves_without[unfair]),
    ]
    nothing = np.zeros(len(partitions), dtype=bool)
    return Compliance(found.broken, found.moves_of, {}, nothing, nothing), Findings.joined(findings)


def _insync(
    locations: BrokerLocations,
    partitions: Partitions,
    min_insync: IntArray,
    broken: BoolArray,
    required: TopicRequirements,
) -> Iterator[Findings]:
    """Compare `min.insync.replicas` with the required durability, except for replicas known to be misplaced.

    If racks are missing, return only findings that are true for all possible racks of those brokers. The bounds are
    loosest if each of them is alone in its domain.
    """
    if not required.durability or not len(partitions):
        return
    given, size = min_insync[partitions.topic], partitions.replication_factor
    effective = effective_min_insync(given, size)
    in_place = ~broken & ((required.replication_factor or size) == size)
    least, most = insync_bounds(locations.missing_apart, partitions.replicas, required.durability)
    lowest, highest = np.zeros(len(partitions.names)), np.full(len(partitions.names), np.inf)
    np.maximum.at(lowest, partitions.topic[in_place], least[in_place])
    np.minimum.at(highest, partitions.topic[in_place], most[in_place])
    reason = np.where((lowest > highest)[partitions.topic], _NO_VALUE, NONE)
    for rule, wrong, excess in (
        (Rule.MIN_INSYNC_TOO_SMALL, effective < least, effective - least),
        (Rule.MIN_INSYNC_TOO_LARGE, effective > most, given - most),
    ):
        yield from _about_topics(partitions, rule, in_place & wrong, excess=excess, reason=reason)


def _unmanaged(partitions: Partitions, requirements: ClusterRequirements) -> Findings:
    used = np.unique(partitions.topic)
    bare = np.array([at for at in used.tolist() if requirements.lacks_object(partitions.names[at])], dtype=np.int64)
    return Findings.of(Rule.UNMANAGED_TOPIC, len(bare), topic=bare)


# --- columns ----------------------------------------------------------------------------------------------------------


def _alike(partitions: Partitions, requirements: ClusterRequirements) -> Iterator[tuple[TopicRequirements, IntArray]]:
    """Yield requirements and the rows of all topics that have them."""
    used = np.unique(partitions.topic)
    groups: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    kinds: list[TopicRequirements] = []
    for topic in used.tolist():
        required = requirements[partitions.names[topic]]
        same = groups[_held_against(required)]
        if not same:
            kinds.append(required)
        same.append(topic)
    if len(groups) == 1:
        yield kinds[0], np.arange(len(partitions))
        return
    group_of = np.zeros(len(partitions.names), dtype=np.int64)
    for number, topics in enumerate(groups.values()):
        group_of[topics] = number
    order = np.argsort(group_of[partitions.topic], kind="stable")
    bounds = np.searchsorted(group_of[partitions.topic][order], np.arange(len(groups) + 1))
    for number, required in enumerate(kinds):
        yield required, order[bounds[number] : bounds[number + 1]]


def _rows_about(
    rule: Rule, partitions: Partitions, rows: IntArray, severity: IntArray | None = None, **columns: IntArray
) -> Findings:
    """Return findings about the partitions `rows`; each column has one entry per finding."""
    where = {"topic": partitions.topic[rows], "partition": partitions.number[rows]}
    return Findings.of(rule, len(rows), severity, **where, **columns)


def _about_topics(
    partitions: Partitions,
    rule: Rule,
    broken: BoolArray,
    excess: IntArray | None = None,
    moves: IntArray | None = None,
    reason: IntArray | None = None,
) -> Iterator[Findings]:
    """Yield one finding per topic with a broken partition: the excess farthest from 0, and the sum of the moves.

    `reason` has the same value for all partitions of a topic.
    """
    rows = np.flatnonzero(broken)
    if not len(rows):
        return
    nothing = np.zeros(len(partitions), dtype=np.int64)
    far, copied = (nothing if column is None else column for column in (excess, moves))
    order = rows[np.lexsort((far[rows], -np.abs(far[rows]), partitions.topic[rows]))]
    topics, first = np.unique(partitions.topic[order], return_index=True)
    total = np.zeros(len(partitions.names), dtype=np.int64)
    np.add.at(total, partitions.topic[rows], copied[rows])
    why = np.full(len(topics), NONE) if reason is None else reason[order[first]]
    yield Findings.of(rule, len(topics), topic=topics, excess=far[order[first]], moves=total[topics], reason=why)


def _once(findings: Findings) -> Findings:
    """Return the findings with only one per topic and rule, even if groups of partitions were examined separately."""
    is_topic = np.isin(findings.rule, [RULES.index(rule) for rule in TOPIC_RULES])
    if not is_topic.any():
        return findings
    at = np.flatnonzero(is_topic)
    _, first = np.unique(np.stack([findings.rule[at], findings.topic[at]]), axis=1, return_index=True)
    keep = ~is_topic
    keep[at[first]] = True
    return findings.rows(keep)

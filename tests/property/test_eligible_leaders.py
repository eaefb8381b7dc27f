"""Statements about leaders and writes, compared with every state that a partition can reach; nothing is random.

Replication factor 1 to 4, `min.insync.replicas` 1 to 4, with and without eligible leader replicas (KIP-966).
"""

from functools import cache
from itertools import combinations, permutations, product

import numpy as np
import pytest
from tests.property import cases
from tests.property.eligible_leaders import NOBODY, Kafka, members

from rackspan.core.durability import Durability, DurabilityError, min_insync, write_guarantees
from rackspan.core.outage import outage_of
from rackspan.core.partitions import TopicPartition
from rackspan.core.requirements import ClusterRequirements
from rackspan.core.scanning import BrokerLocations, Rule, Severity, examine
from rackspan.core.scanning.findings import NONE_ELIGIBLE, ONLY_ELIGIBLE
from rackspan.core.scanning.rules import SEVERITIES
from rackspan.core.snapshot import table
from rackspan.core.topology import Broker, BrokerLocation, RackTree

SIZES = range(1, 5)
EVERY = list(product(SIZES, SIZES, [True, False]))
"""Replicas, min.insync.replicas, and whether there is an ELR."""
over_all = pytest.mark.parametrize(
    ("size", "least", "elr"),
    EVERY,
    ids=[f"rf{size}-min{least}-{'elr' if elr else 'isr'}" for size, least, elr in EVERY],
)


@cache
def reachable(size, needed, elr):
    kafka = Kafka(size, needed, elr)
    return kafka, sorted(kafka.reachable())


def states(size, least, elr):
    """Return the rules and every state. A `least` above the replication factor counts as the replication factor."""
    return reachable(size, min(size, least), elr)


def seen(one):
    """Return what a snapshot has of a partition: the ELR only if the partition has no leader."""
    return one.isr, one.elr if one.leader == NOBODY else 0, one.up, one.leader


def columns(rows, size):
    """Return the partitions of one topic from results of `seen`."""
    numbered = [
        (0, at, range(size), members(isr), None if leader == NOBODY else leader, None)
        for at, (isr, _, _, leader) in enumerate(rows)
    ]
    return table(["orders"], numbered, {TopicPartition("orders", at): members(row[1]) for at, row in enumerate(rows)})


def trees(size, up):
    """Yield trees of the brokers, once with the offline ones, as known from Kubernetes, once without."""
    everybody = [Broker(broker, (str(broker),), online=bool(up >> broker & 1)) for broker in range(size)]
    yield RackTree(("rack",), tuple(everybody))
    if up:
        yield RackTree(("rack",), tuple(broker for broker in everybody if broker.online))


@over_all
def test_outage_predicts_leaders_and_writes_only_where_kafka_has_them(size, least, elr):
    """For every order of losses. If the outage says offline, an ELR that the snapshot lacks may still help."""
    kafka, every = states(size, least, elr)
    needed = np.array([least])
    found = {}
    for row in sorted({seen(one) for one in every}):
        partitions = columns([row], size)
        for tree, lost in product(trees(size, row[2]), range(1 << size)):
            told = outage_of(tree, partitions, needed, (broker for broker in members(lost) if broker in tree.ids))
            found.setdefault((row, lost), set()).add((told.offline, told.not_writable, told.last_replica))
    for one in sorted({one._replace(unclean=0) for one in every}):  # unclean stops matter only when brokers return
        for lost in range(1 << size):
            after = set()
            for order in permutations(members(lost & one.up)):
                left = one
                for broker in order:
                    left = kafka.stopped(left, broker)
                after.add((left.leader != NOBODY, kafka.accepts(left)))
            ((leads, writes),) = after
            in_sync = (one.isr & one.up & ~lost).bit_count()
            ((offline, not_writable, last),) = found[seen(one), lost]
            assert (not_writable, last) == (not writes, in_sync == 1), (one, lost)
            unseen = one.elr if one.leader != NOBODY else 0
            assert offline == (not leads) or (offline and unseen & one.up & ~lost), (one, lost)
            cases.counted()


@over_all
def test_findings_match_the_state_and_name_brokers_whose_return_gives_a_leader(size, least, elr):
    kafka, every = states(size, least, elr)
    judged = {}
    for up in range(1 << size):
        rows = sorted({seen(one) for one in every if one.up == up})
        if not rows:
            continue
        up_or_down = (BrokerLocation(broker, online=bool(up >> broker & 1)) for broker in range(size))
        locations = BrokerLocations((), tuple(up_or_down))
        examined = examine(locations, columns(rows, size), np.array([least]), ClusterRequirements()).findings
        for severity, facts in zip(examined.severity.tolist(), examined.facts(["orders"], locations.tree), strict=True):
            if facts.rule in (Rule.OFFLINE, Rule.UNDER_REPLICATED):
                judged[rows[facts.partition]] = facts, SEVERITIES[severity]
    for one in every:
        facts, severity = judged.get(seen(one), (None, None))
        stops = severity is Severity.CRITICAL
        assert stops == (not kafka.accepts(one)), one
        assert (facts is not None and facts.rule is Rule.OFFLINE) == (one.leader == NOBODY), one
        if one.leader == NOBODY:
            after = {broker: kafka.returned(one, broker).leader for broker in range(size) if not one.up >> broker & 1}
            clean = {broker for broker, leader in after.items() if leader == broker != one.last_known}
            if facts.reason == NONE_ELIGIBLE:
                assert (clean, facts.broker) == (set(), None), one
                assert all_back(kafka, one).leader == one.last_known, one
            else:
                named = facts.broker
                assert named in after, one
                assert after[named] == named or one.unclean >> named & 1, one
                if facts.reason == ONLY_ELIGIBLE:
                    assert {leader for broker, leader in after.items() if broker != named} <= {NOBODY}, one
        cases.counted()


def all_back(kafka, one):
    for broker in range(kafka.replicas):
        one = one if one.up >> broker & 1 else kafka.returned(one, broker)
    return one


@pytest.mark.parametrize(("size", "least", "elr"), [one for one in EVERY if one[0] >= one[1]])
def test_isr_and_elr_members_that_stopped_cleanly_have_the_acknowledged_write(size, least, elr):
    for one in Kafka(size, least, elr).traced((1 << size) - 1):
        partition = one.partition
        if partition.leader == NOBODY:
            assert not (partition.isr | partition.elr) & ~partition.unclean & ~one.holders, one
        cases.counted()


@over_all
def test_change_of_min_insync_makes_a_leader_impossible_exactly_if_the_isr_is_empty(size, least, elr):
    """The operator therefore delays such a change. In other states a leader exists or comes back with a broker."""
    kafka, every = states(size, least, elr)
    for one in every:
        helped = one.leader != NOBODY or all_back(kafka, kafka.forgotten(one)).leader != NOBODY
        assert helped == bool(one.isr), one
        cases.counted()


@cache
def loses(size, needed, domain, *, elr, covered=False):
    """Return whether unclean stops of the brokers of a domain can lose an acknowledged write."""
    found = list(Kafka(size, needed, elr).traced(domain, covered=covered))
    cases.counted(len(found))
    return any(one.lost for one in found)


def spreads(size):
    """Return every way to spread replicas over racks, as the rack of each replica."""
    return [
        one
        for one in product(range(size), repeat=size)
        if all(r <= max(one[:at], default=-1) + 1 for at, r in enumerate(one))
    ]


def spread(racks):
    return RackTree(("rack",), tuple(Broker(broker, (str(rack),)) for broker, rack in enumerate(racks)))


@pytest.mark.parametrize("size", SIZES)
def test_write_guarantees_match_the_writes_that_kafka_can_lose(size):
    """With the ELR always, without it while another replica is in sync. A write that may be lost can indeed be lost.

    With four replicas, the first ones are lost, because only their number matters.
    """
    rows = np.array([range(size)])
    for least, racks in product(SIZES, spreads(size)):
        found = write_guarantees(spread(racks), rows, np.zeros(1, dtype=np.int64), np.array([least]))[0]
        for level, domains in zip(found.levels, (racks, range(size)), strict=True):
            groups = [sum(1 << at for at in range(size) if domains[at] == domain) for domain in sorted(set(domains))]
            if size == max(SIZES):
                groups = [(1 << group.bit_count()) - 1 for group in groups]
            needed = min(least, size)
            assert level.keeps_writes == (not any(loses(size, needed, group, elr=True) for group in groups))
            if level.keeps_writes:
                assert not any(loses(size, needed, group, elr=False, covered=True) for group in groups)
                assert all(loses(size, needed, group, elr=False) for group in groups)
                assert "Without eligible leader replicas" in found.sentence
            kafka = Kafka(size, least, elr=True)
            assert level.stays_writable == all(kafka.accepts(without(kafka, members(group))) for group in groups)


def without(kafka, brokers):
    """Return a partition with all replicas in sync after some brokers have stopped."""
    left = kafka.start
    for broker in brokers:
        left = kafka.stopped(left, broker)
    return left


@pytest.mark.parametrize(("size", "elr"), list(product(SIZES, [True, False])))
def test_derived_min_insync_satisfies_the_durability_in_kafka(size, elr):
    for racks, least, tolerated in product(spreads(size), range(5), range(5)):
        asked = Durability({"rack": least} if least else {}, {"rack": tolerated} if tolerated else {})

        def keeps(value, racks=racks, least=least, tolerated=tolerated):
            kafka = Kafka(size, value, elr)
            acknowledging = [isr for some in range(value, size + 1) for isr in combinations(racks, some)]
            lost = combinations(sorted(set(racks)), min(tolerated, len(set(racks))))
            stopped = ([at for at in range(size) if racks[at] in domains] for domains in lost)
            return all(len(set(isr)) >= least for isr in acknowledging) and all(
                kafka.accepts(without(kafka, brokers)) for brokers in stopped
            )

        try:
            derived = min_insync(spread(racks), [range(size)], asked)
        except DurabilityError:
            assert not any(map(keeps, range(1, size + 1)))
        else:
            assert derived is None if not asked else keeps(derived)
        cases.counted()

"""Advice on a consumer group that reads from other racks."""

import pytest
from tests.unit.core.test_locality import REPLICAS, group, member

from rackspan.core.consumers.advice import AdviceCode, advise
from rackspan.core.consumers.group_locality import GroupProtocol, GroupSeen, Selector, locality

HERE = {"10.0.0.1": ("eu", "b"), "10.0.0.2": ("us", "b")}


def told(seen, racks=HERE, selector=Selector.SAME_RACK):
    found = locality(REPLICAS, seen, racks, selector)
    return {one.code: one.message for one in advise(REPLICAS, seen, found, selector)}


def test_group_that_reads_all_partitions_near_gets_no_advice():
    assert told(group(member(rack="/eu/b", orders=[1], topics=frozenset({"orders"})))) == {}


def test_group_without_members_gets_no_advice():
    assert told(group()) == {}


def test_member_without_client_rack_is_advised_to_set_it():
    said = told(group(member(orders=[1])))
    assert list(said) == [AdviceCode.CLIENT_RACK_MISSING]
    assert said[AdviceCode.CLIENT_RACK_MISSING] == (
        "the one member sends no client.rack, so brokers serve it from leaders: set it to the rack id of its node"
    )


def test_advice_counts_the_members_without_client_rack():
    said = told(group(member(orders=[1]), member("two", rack="/eu/a", orders=[0])))
    assert said[AdviceCode.CLIENT_RACK_MISSING].startswith("1 of 2 members sends no client.rack, ")


def test_advice_quotes_a_client_rack_that_no_broker_reports():
    said = told(group(member(rack="eu/b", orders=[1])))
    assert said == {
        AdviceCode.CLIENT_RACK_FOREIGN: (
            "no broker reports the client.rack of the one member (eu/b), and the selector takes only the very same: "
            "spell it as broker.rack is, or let brokers compare paths by dev.rackspan.kafka.NearestReplicaSelector"
        )
    }
    assert told(group(member(rack="eu/b", orders=[1])), selector=Selector.NEAREST) == {}


def test_missing_replica_selector_is_reported():
    said = told(group(member(rack="/eu/b", orders=[1])), selector=Selector.LEADER)
    assert said == {
        AdviceCode.SELECTOR_MISSING: (
            "brokers serve from leaders only: set replica.selector.class="
            "org.apache.kafka.common.replica.RackAwareReplicaSelector on them"
        )
    }


def test_client_assignor_that_ignores_racks_is_reported():
    crossed = (
        member(rack="/us/b", orders=[1]),
        member("two", host="10.0.0.2", rack="/eu/b", sales=[0]),
    )
    racks = {"10.0.0.1": ("us", "b"), "10.0.0.2": ("eu", "b")}
    both = frozenset({"orders", "sales"})
    seen = GroupSeen("g", "roundrobin", tuple(_subscribed(one, both) for one in crossed))
    said = told(seen, racks)
    assert said[AdviceCode.ASSIGNOR] == (
        "assignor roundrobin ignores racks, 1 more partition could be near: use cooperative-sticky or range"
    )


def _subscribed(one, topics):
    return type(one)(one.id, one.client_id, one.host, one.partitions, one.client_rack, topics)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_built_in_assignors_of_brokers_are_reported_as_ignoring_racks(assignor):
    racks = {"10.0.0.1": ("us", "b"), "10.0.0.2": ("eu", "b")}
    both = frozenset({"orders", "sales"})
    members = (
        _subscribed(member(rack="/us/b", orders=[1]), both),
        _subscribed(member("two", host="10.0.0.2", rack="/eu/b", sales=[0]), both),
    )
    seen = GroupSeen("g", assignor, members, GroupProtocol.CONSUMER)
    said = told(seen, racks)
    assert said[AdviceCode.PROTOCOL].startswith(f"assignor {assignor} of the consumer protocol ignores racks")
    assert AdviceCode.ASSIGNOR not in said


def test_rack_aware_assignor_of_brokers_is_not_reported_as_ignoring_racks():
    racks = {"10.0.0.1": ("us", "b"), "10.0.0.2": ("eu", "b")}
    both = frozenset({"orders", "sales"})
    members = (
        _subscribed(member(rack="/us/b", orders=[1]), both),
        _subscribed(member("two", host="10.0.0.2", rack="/eu/b", sales=[0]), both),
    )
    said = told(GroupSeen("g", "rack-aware", members, GroupProtocol.CONSUMER), racks)
    assert list(said) == [AdviceCode.ASSIGNOR_FALLS_SHORT]


def test_client_rack_is_not_reported_as_missing_if_kafka_does_not_expose_it():
    seen = GroupSeen("g", "uniform", (member(orders=[1]),), GroupProtocol.CONSUMER, racks_seen=False)
    assert told(seen) == {
        AdviceCode.CLIENT_RACK_UNSEEN: (
            "client.rack of the one member is not known: make sure that it is set to the rack id of the node"
        )
    }


def test_share_group_gets_advice_on_its_assignor_and_on_leaders_in_other_racks():
    crossed = (member(orders=[0]), member("two", host="10.0.0.2", orders=[1]))
    racks = {"10.0.0.1": ("us", "a"), "10.0.0.2": ("eu", "a")}
    assert told(GroupSeen("g", "simple", crossed, GroupProtocol.SHARE), racks) == {
        AdviceCode.ASSIGNOR: (
            "assignor simple ignores racks, up to 2 more partitions could be near: set "
            "group.share.assignors=dev.rackspan.kafka.RackAwareShareAssignor on brokers"
        )
    }
    assert told(GroupSeen("g", "rack-aware", crossed, GroupProtocol.SHARE), racks) == {}
    far = GroupSeen("g", "rack-aware", (member(orders=[0, 2]),), GroupProtocol.SHARE)
    assert told(far, {"10.0.0.1": ("eu", "a")}) == {
        AdviceCode.NO_REPLICA_NEAR: (
            "1 of 2 partitions cannot be near: share consumers read from leaders, and too few of these are where "
            "members are"
        )
    }


def test_streams_group_gets_advice_on_client_rack_only():
    seen = GroupSeen("g", "", (member(orders=[1]),), GroupProtocol.STREAMS)
    assert list(told(seen)) == [AdviceCode.CLIENT_RACK_MISSING]


def test_partition_without_a_replica_near_the_members_is_reported():
    said = told(group(member(host="10.0.0.2", rack="/us/b", orders=[0])))
    assert said == {
        AdviceCode.NO_REPLICA_NEAR: (
            "1 of 1 partition cannot be near with any even assignment: no replica is where members are, or too few "
            "members are where replicas are"
        )
    }


def test_external_strings_are_truncated_and_escaped():
    said = told(group(member(rack="x\x1b[2J" + "y" * 5000, orders=[1])))
    message = said[AdviceCode.CLIENT_RACK_FOREIGN]
    assert message.isprintable()
    assert len(message) < 600

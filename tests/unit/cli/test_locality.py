"""`rackspan locality`: its output for given groups, and the arguments that it rejects."""

import numpy as np
import pytest
import yaml
from dev.paths import REPOSITORY
from tests.support.command import cli
from tests.unit.core.clusters import cluster
from tests.unit.core.test_locality import REPLICAS, member

from rackspan.cli.shared.connection import Connection
from rackspan.cli.shared.live_groups import LiveGroups
from rackspan.core.consumers.group_locality import GroupSeen, MemberSeen, ReplicaPlaces, Selector
from rackspan.core.snapshot import table
from rackspan.core.topology import BrokerLocation

SERVER = ("--bootstrap-server", "127.0.0.1:1")
FAR = GroupSeen("billing", "range", (member(rack="/us/b", orders=[0, 1, 2]),))
NEAR = GroupSeen("orders", "range", (member(rack="/eu/b", orders=[1]),))
IDLE = GroupSeen("idle")


@pytest.fixture
def groups(monkeypatch):
    """A function that sets the groups of the cluster: `groups(FAR, NEAR)`."""

    def have(*seen, selector=Selector.SAME_RACK, rates=None, written=None):
        found = LiveGroups(Connection("127.0.0.1:1", {}), seen, selector, REPLICAS)
        monkeypatch.setattr(LiveGroups, "read", lambda *_, **__: found)
        sampled = LiveGroups(found.connection, seen, selector, REPLICAS, {}, (rates or {}).get, written)
        monkeypatch.setattr(LiveGroups, "sampled", lambda *_: sampled)

    return have


def test_locality_reports_near_and_far_reads_and_advice_of_each_group(groups):
    groups(NEAR, FAR, IDLE)
    ran = cli("locality", *SERVER, "-o", "json")
    assert ran.code == 0
    far, near, idle = ran.json["groups"]
    assert (near["group"], near["shareNotReadNear"], near["advice"]) == ("orders", 0, [])
    assert (idle["group"], idle["members"]) == ("idle", 0)
    assert far == {
        "group": "billing",
        "protocol": "classic",
        "assignor": "range",
        "members": 1,
        "membersWithoutRack": 0,
        "partitions": 3,
        "near": 0,
        "readsNear": 0,
        "readsFar": 3,
        "couldBeNear": 0,
        "shareNotReadNear": 1,
        "crossBytesPerSecond": None,
        "costPerMonth": None,
        "advice": [{"code": "NoReplicaNear", "message": far["advice"][0]["message"]}],
    }
    assert (ran.json["level"], ran.json["selector"], ran.json["sampleSeconds"]) == ("zone", "SameRack", None)


def test_locality_as_text_prints_a_summary_and_advice(groups):
    groups(NEAR, FAR, IDLE)
    ran = cli("locality", *SERVER)
    assert "2 groups read 4 partitions: 1 in the member's own zone, 3 from another" in ran.out
    assert "billing: 3 of 3 partitions cannot be near" in ran.out
    assert "1 group without members reads nothing" in ran.out


def test_sampled_rates_are_converted_to_costs_with_the_given_price(groups):
    rates = {"billing": np.array([1e6, 2e6, np.nan, np.nan, np.nan])}
    groups(NEAR, FAR, rates=rates)
    arguments = ("locality", *SERVER, "--sample", "1m", "--price-per-gb", "0.02", "--currency", "USD")
    far = cli(*arguments, "-o", "json").json
    assert far["crossBytesPerSecond"] == 3e6
    # 3 MB/s are 7,884 GB in 730 hours.
    assert (far["groups"][0]["costPerMonth"], far["groups"][1]["costPerMonth"]) == (157.68, None)
    assert far["costPerMonth"] == 157.68
    assert (far["sampleSeconds"], far["currency"]) == (60, "USD")
    assert yaml.safe_load(cli(*arguments, "-o", "yaml").out) == far
    shown = cli(*arguments).out
    assert "2.9 MiB/s from other domains, by offsets committed in 60 s: 157.68 USD a month of 730 hours" in shown


def test_costs_are_unknown_if_no_rate_is_known(groups):
    groups(FAR)
    ran = cli("locality", *SERVER, "--sample", "10s", "--price-per-gb", "1")
    assert "bytes from other domains are not known" in ran.out
    assert cli("locality", *SERVER, "--sample", "10s", "--price-per-gb", "1", "-o", "json").json["costPerMonth"] is None


@pytest.mark.parametrize(("share", "code"), [("100%", 0), ("1", 0), ("0.99", 1), ("0", 1), ("0%", 1)], ids=str)
def test_fail_above_exits_with_1_if_the_share_of_far_reads_of_a_group_is_higher(groups, share, code):
    groups(NEAR, FAR)
    assert cli("locality", *SERVER, "--fail-above", share).code == code
    assert cli("locality", *SERVER, "--fail-above", share, "--group", "orders").code == 0


def test_reads_of_unknown_locality_count_as_far_for_fail_above(groups):
    groups(GroupSeen("lost", "range", (member(orders=[0, 1]),)))
    ran = cli("locality", *SERVER, "--fail-above", "10%", "-o", "json")
    assert ran.code == 1
    assert (ran.json["groups"][0]["readsFar"], ran.json["groups"][0]["shareNotReadNear"]) == (0, 1)
    assert "of 2 it is not known" in cli("locality", *SERVER).out


def test_locality_reports_near_writes_of_producers_alternatives_and_costs(groups):
    groups(NEAR, written=np.array([1e6, 2e6, 3e6, 0.0, np.nan]))
    arguments = ("--producers", "/eu/a=3", "--producers", "/us/b", "--sample", "1s", "--price-per-gb", "0.02")
    ran = cli("locality", *SERVER, *arguments, "-o", "json")
    assert ran.code == 0
    orders, sales = ran.json["writes"]["topics"]
    assert orders == {
        "topic": "orders",
        "partitions": 3,
        "near": 0.25,
        "nearByRack": 0.75,
        "couldBeNear": 0.25,
        "bytesPerSecond": 6e6,
    }
    assert (sales["topic"], sales["near"], sales["bytesPerSecond"]) == ("sales", 0.25, None)
    assert {name: ran.json["writes"][name] for name in ("near", "nearByRack", "crossBytesPerSecond")} == {
        "near": 0.25,
        "nearByRack": 0.75,
        "crossBytesPerSecond": 4.5e6,
    }
    assert ran.json["writes"]["costPerMonth"] == round(4.5e6 * 730 * 3600 / 1e9 * 0.02, 2)
    told = cli("locality", *SERVER, *arguments)
    assert "producers in 2 racks write to 2 topics: 25% to leaders in their own zone" in told.out
    assert "4.3 MiB/s to other domains: 236.52 EUR a month" in told.out


def test_locality_names_a_rack_of_producers_that_no_broker_reports(groups):
    groups(NEAR)
    told = cli("locality", *SERVER, "--producers", "eu/a")
    assert (
        "no broker reports 1 rack id of producers, such as eu/a: partitioner.rack.aware compares whole ids" in told.out
    )
    assert "?" not in told.out.rpartition("producers in")[2]


@pytest.mark.parametrize(
    "text", ["", "=", "=2", "/eu/a=", "/eu/a=0", "/eu/a=-1", "/eu/a=1.5", "/eu/a=x", "/eu/a=9999999999"]
)
def test_invalid_producers_are_rejected_with_an_example(groups, text):
    groups(NEAR)
    ran = cli("locality", *SERVER, "--producers", text)
    assert (ran.code, "such as /eu/eu-1a=3" in ran.err) == (2, True)


def test_producers_in_more_than_100_racks_are_rejected(groups):
    groups(NEAR)
    named = [word for number in range(101) for word in ("--producers", f"/rack-{number}")]
    ran = cli("locality", *SERVER, *named)
    assert (ran.code, ran.error) == (2, "--producers names 101 racks, more than 100")
    assert cli("locality", *SERVER, *named[2:]).code == 0


def test_unknown_group_is_rejected_with_the_nearest_name(groups):
    groups(NEAR, FAR)
    ran = cli("locality", *SERVER, "--group", "order")
    assert (ran.code, ran.error) == (2, "--group order: the cluster has no such consumer group")
    assert ran.hint == "the nearest is orders"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((), "the cluster is missing"),
        ((*SERVER, "--price-per-gb", "1"), "--price-per-gb needs rates"),
        (
            (*SERVER, "--sample", "0s"),
            '--sample "0s": write a time of a second or more, such as 90, 10s or 1h30m',
        ),
        ((*SERVER, "--fail-above", "2"), '--fail-above "2": write a share from 0 to 1, such as 0.1 or 10%'),
        ((*SERVER, "--fail-above", "nan"), '--fail-above "nan": write a share from 0 to 1, such as 0.1 or 10%'),
        (("--topology", "a/b", *SERVER), "--bootstrap-server is not for --topology"),
    ],
)
def test_locality_rejects_invalid_arguments(arguments, error):
    ran = cli("locality", *arguments)
    assert (ran.code, ran.error) == (2, error)


def test_control_characters_in_group_names_are_escaped(groups):
    groups(GroupSeen("a\x1b[2Jb", "range", (member(orders=[0]),)))
    assert "\x1b" not in cli("locality", *SERVER).out
    assert "\x1b" not in cli("locality", *SERVER, "-o", "json").out


def test_documentation_shows_the_output_for_an_example_cluster(groups, monkeypatch):
    monkeypatch.setattr(LiveGroups, "read", lambda *_, **__: _made_up())
    monkeypatch.setattr(LiveGroups, "sampled", lambda *_: _made_up())
    ran = cli("locality", *SERVER, "--sample", "60s", "--price-per-gb", "0.02", "--currency", "USD")
    printed = "\n".join(line.rstrip() for line in ran.out.splitlines())
    assert printed in (REPOSITORY / "docs" / "consumers.md").read_text(), printed


def _made_up():
    """Three zones with one broker each. A partition of `orders` has replicas in all, one of `billing` in two."""
    racks = {0: "/eu/eu-1a", 1: "/eu/eu-1b", 2: "/eu/eu-1c"}
    rows = [(0, at, [at % 3, (at + 1) % 3], [0, 1, 2], at % 3, None) for at in range(12)]
    rows += [(1, at, [at % 3, (at + 1) % 3, (at + 2) % 3], [0, 1, 2], at % 3, None) for at in range(6)]
    brokers = [BrokerLocation(broker, rack) for broker, rack in racks.items()]
    replicas = ReplicaPlaces(cluster("region zone", racks), brokers, table(["billing", "orders"], rows))
    zones = [("eu", "eu-1a"), ("eu", "eu-1b"), ("eu", "eu-1c")]
    hosts = [f"10.0.{zone}.1" for zone in range(3)]
    billing = tuple(
        MemberSeen(f"b{at}", f"b{at}", host, {"billing": list(range(at, 12, 3))}, None, frozenset({"billing"}))
        for at, host in enumerate((hosts[2], hosts[1], hosts[0]))
    )
    orders = tuple(
        MemberSeen(f"o{at}", f"o{at}", host, {"orders": [2 * at, 2 * at + 1]}, None, frozenset({"orders"}))
        for at, host in enumerate(hosts)
    )
    return LiveGroups(
        Connection("127.0.0.1:1", {}),
        (GroupSeen("billing", "roundrobin", billing), GroupSeen("orders", "cooperative-sticky", orders)),
        Selector.LEADER,
        replicas,
        dict(zip(hosts, zones, strict=True)),
        {name: np.full(18, rate) for name, rate in (("billing", 400_000.0), ("orders", 350_000.0))},
    )

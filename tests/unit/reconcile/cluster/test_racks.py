"""The actual racks of brokers, from pods, nodes and Kafka."""

import gc
from weakref import ref

import pytest
from tests.support.rack_views import rack_view
from tests.unit.reconcile.examples import topology

from rackspan.api.racktopology import BrokerIdSpec
from rackspan.reconcile.cache import BrokerPod
from rackspan.reconcile.cluster.racks import broker_id_of, last_seen
from rackspan.reconcile.ports import BrokerDescription

LABELS = {"region": "example.com/region", "zone": "example.com/zone", "rack": "example.com/rack"}


def of_nodes(**spec):
    return topology(
        **{
            "rackSource": "Nodes",
            "levels": [{"name": name, "nodeLabel": label} for name, label in LABELS.items()],
            "brokers": {"podSelector": {"matchLabels": {"app": "kafka"}}},
            **spec,
        }
    )


def node(*path):
    return dict(zip(LABELS.values(), path, strict=False))


def pod(name="kafka-0", node="n0", *, namespace="kafka", labels=None, annotations=None):
    return BrokerPod(namespace, name, {"app": "kafka", **(labels or {})}, annotations or {}, node)


def broker(number=0, rack="/eu/eu-1a/r1"):
    return BrokerDescription(number, f"kafka-{number}:9092", rack)


def only_row(topology, nodes=None, pods=(), brokers=()):
    (row,) = rack_view(topology, nodes or {}, pods, brokers).rows
    return row


def test_rack_of_a_broker_is_the_rack_of_its_node():
    row = only_row(of_nodes(), {"n0": node("eu", "eu-1a", "r1")}, [pod()], [broker()])
    assert row.rack == ("eu", "eu-1a", "r1")
    assert (row.pods, row.node, row.host) == (("kafka-0",), "n0", "kafka-0:9092")
    assert row.online
    assert not row.draining
    assert not row.drift


def test_different_rack_in_kafka_is_drift_and_the_rack_of_the_node_counts():
    row = only_row(of_nodes(), {"n0": node("eu", "eu-1b", "r1")}, [pod()], [broker()])
    assert row.rack == ("eu", "eu-1b", "r1")
    assert row.drift


@pytest.mark.parametrize("reported", [None, "", "a//b", "/eu"])
def test_missing_or_invalid_rack_in_kafka_is_drift(reported):
    assert only_row(of_nodes(), {"n0": node("eu", "eu-1a", "r1")}, [pod()], [broker(rack=reported)]).drift


def test_offline_broker_has_the_rack_of_its_pod_without_drift():
    row = only_row(of_nodes(), {"n0": node("eu", "eu-1a", "r1")}, [pod()])
    assert row.rack == ("eu", "eu-1a", "r1")
    assert not row.online
    assert not row.drift


def test_rack_path_may_end_early_but_not_have_a_gap():
    early = only_row(of_nodes(), {"n0": node("eu", "eu-1a")}, [pod()], [broker(rack="/eu/eu-1a")])
    assert early.rack == ("eu", "eu-1a")
    assert not early.drift
    gap = only_row(of_nodes(), {"n0": {LABELS["region"]: "eu", LABELS["rack"]: "r1"}}, [pod()], [broker()])
    assert gap.rack is None
    assert gap.problem.message == "node n0 has no label example.com/zone"


@pytest.mark.parametrize(
    ("nodes", "pods", "sentence"),
    [
        ({}, [], "no pod of spec.brokers.podSelector has this broker id"),
        ({}, [pod()], "node n0 is not known"),
        ({}, [pod(node=None)], "pod kafka-0 is not bound to a node"),
        ({"n0": {}}, [pod()], "node n0 has no label example.com/region"),
        (
            {"n0": node("eu")},
            [pod("a-0"), pod("b-0")],
            "pods a-0, b-0 all claim this broker id",
        ),
    ],
)
def test_missing_rack_has_a_message_with_its_cause(nodes, pods, sentence):
    view = rack_view(of_nodes(), nodes, pods, [broker()])
    assert [row.problem.message for row in view.missing] == [sentence]
    assert view.missing[0].problem.reason == "MissingRacks"


def test_two_pods_with_the_same_broker_id_are_duplicates():
    view = rack_view(of_nodes(), {"n0": node("eu")}, [pod("a-0"), pod("b-0")], [broker()])
    assert [row.pods for row in view.rows if len(row.pods) > 1] == [("a-0", "b-0")]


def test_pods_of_other_namespaces_labels_or_names_are_no_brokers():
    pods = [pod(namespace="other"), BrokerPod("kafka", "web-0", {"app": "web"}, {}, "n0"), pod("kafka-tools")]
    assert rack_view(of_nodes(), {"n0": node("eu")}, pods, []).rows == ()


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (BrokerIdSpec(), 7),
        (BrokerIdSpec(offset=100), 107),
        (BrokerIdSpec("Label", "id"), 3),
        (BrokerIdSpec("Annotation", "id", 10), 14),
        (BrokerIdSpec("Label", "absent"), None),
        (BrokerIdSpec("Label", "word"), None),
    ],
)
def test_broker_id_is_read_from_name_label_or_annotation(source, found):
    facts = pod("kafka-7", labels={"id": "3", "word": "three"}, annotations={"id": "4"})
    assert broker_id_of(source, facts) == found


@pytest.mark.parametrize("name", ["kafka", "kafka-", "kafka-x", "kafka-\u0663", "kafka--1x"])
def test_pod_name_without_a_number_at_its_end_has_no_broker_id(name):
    assert broker_id_of(BrokerIdSpec(), pod(name)) is None


@pytest.mark.parametrize(
    ("source", "facts"),
    [
        (BrokerIdSpec(), pod("kafka-99999999999999999999")),
        (BrokerIdSpec(), pod("kafka-2147483648")),
        (BrokerIdSpec(offset=1), pod("kafka-2147483647")),
        (BrokerIdSpec(offset=-1), pod("kafka-0")),
        (BrokerIdSpec("Annotation", "id"), pod(annotations={"id": "9" * 5_000})),
    ],
)
def test_pod_with_an_impossible_broker_id_is_ignored_and_reported(source, facts):
    of_pods = {"podSelector": {"matchLabels": {"app": "kafka"}}, "brokerId": {"from": source.from_}}
    of_pods["brokerId"] |= {"offset": source.offset, **({"key": source.key} if source.key else {})}
    good = pod("good", "n0", annotations={"id": "1"}) if source.key else pod(f"good-{1 - source.offset}", "n0")
    view = rack_view(of_nodes(brokers=of_pods), {"n0": node("eu")}, [facts, good], [broker(1)])
    assert [row.rack for row in view.rows] == [("eu",)]
    assert view.ignored_pods == (facts.name,)


def test_leading_zeros_do_not_change_the_broker_id():
    assert broker_id_of(BrokerIdSpec(), pod("kafka-" + "0" * 5_000 + "7")) == 7
    assert broker_id_of(BrokerIdSpec(), pod("kafka-2147483647")) == 2**31 - 1


def test_racks_can_come_from_kafka_and_an_alias_is_no_drift():
    flat = topology(rackAliases={"use1-az1": "/us-east-1/use1-az1"})
    row = only_row(flat, brokers=[broker(rack="use1-az1")])
    assert row.rack == ("us-east-1", "use1-az1")
    assert not row.drift
    assert only_row(flat, brokers=[broker(rack=None)]).problem.message == "Kafka reports no broker.rack"


def test_alias_applies_to_the_racks_of_nodes_and_of_kafka():
    aliased = of_nodes(rackAliases={"/eu/eu-1a/r1": "/north/a/1"})
    row = only_row(aliased, {"n0": node("eu", "eu-1a", "r1")}, [pod()], [broker(rack="/eu/eu-1a/r1")])
    assert row.rack == ("north", "a", "1")
    assert not row.drift


@pytest.mark.parametrize(
    ("rack", "sentence"),
    [
        ("/a/b/c/d", "broker.rack '/a/b/c/d' has 4 steps, the topology has 3 levels"),
        ("a//b", "broker.rack 'a//b' is not a rack path"),
    ],
)
def test_rack_that_is_not_a_path_of_the_topology_is_invalid(rack, sentence):
    view = rack_view(topology(), {}, [], [broker(rack=rack)])
    assert view.missing[0].problem.reason == "InvalidRack"
    assert view.missing[0].problem.message.startswith(sentence)
    assert view.tree.capacity == 1, "the tree can still be built"


def test_drained_brokers_are_not_eligible_and_have_no_capacity():
    spec = {"drainBrokers": [0], "drainRacks": ["/us/us-1a"]}
    racks = {0: "/eu/a/r1", 1: "/eu/a/r1", 2: "/us/us-1a/r1", 3: "/us/us-1ab/r1", 4: "/us"}
    view = rack_view(topology(**spec), {}, [], [broker(number, rack) for number, rack in racks.items()])
    assert {row.id: not row.draining for row in view.rows} == {0: False, 1: True, 2: False, 3: True, 4: True}
    assert view.tree.capacity == 3


def test_domains_are_counted_per_level_to_the_depth_of_each_path():
    racks = {0: "/eu/a/r1", 1: "/eu/b/r1", 2: "/us"}
    view = rack_view(topology(), {}, [], [broker(number, rack) for number, rack in racks.items()])
    assert view.domain_counts() == (("region", 2), ("zone", 2), ("rack", 2))


def test_no_broker_has_a_rack_if_a_missing_rack_is_ignored():
    brokers = [broker(0, "/eu/a/r1"), broker(1, None)]
    strict = rack_view(topology(), {}, [], brokers)
    assert strict.tree.missing_racks == (1,)
    relaxed = rack_view(topology(missingRackPolicy="Ignore"), {}, [], brokers)
    assert [item.rack for item in relaxed.tree.brokers] == [None, None]
    whole = rack_view(topology(missingRackPolicy="Ignore"), {}, [], brokers[:1])
    assert [item.rack for item in whole.tree.brokers] == [("eu", "a", "r1")]


# -- offline brokers ---------------------------------------------------------------------------------------------------

PLACES = {0: ("eu", "eu-1a", "r1"), 1: ("eu", "eu-1b", "r1")}


def test_offline_broker_has_its_last_known_rack():
    row = rack_view(of_nodes(), {}, [], [], PLACES).rows[1]
    assert (row.id, row.rack, row.online, row.problem) == (1, ("eu", "eu-1b", "r1"), False, None)


def test_online_broker_without_pod_has_no_rack():
    view = rack_view(of_nodes(), {}, [], [broker()], PLACES)
    assert view.rows[0].rack is None
    assert view.known_racks == {1: ("eu", "eu-1b", "r1")}


def test_last_racks_prefer_own_observations_and_exclude_brokers_without_replicas():
    rows = [{"id": 1, "rack": "/us/us-1a/r1"}, {"id": 2, "rack": "/us/us-1a/r2"}, {"id": 3, "rack": None}]
    about = topology(status={"brokers": [{**row, "online": True} for row in rows]})
    assert last_seen(PLACES, about, {1, 2, 3}) == {1: ("eu", "eu-1b", "r1"), 2: ("us", "us-1a", "r2")}


OTHER_LABELS = [{"name": name, "nodeLabel": f"example.org/{name}"} for name in LABELS]


@pytest.mark.parametrize(
    "spec",
    [
        {"levels": OTHER_LABELS},
        {"levels": OTHER_LABELS[:2]},
        {"rackSource": "Broker"},
        {"rackAliases": {"flat": "/eu/eu-1a/r1"}},
        {"brokers": {"podSelector": {"matchLabels": {"app": "other"}}}},
    ],
)
def test_last_rack_of_an_earlier_spec_is_unknown_but_its_broker_stays_listed(spec):
    before = of_nodes()
    status = {"rackHash": before.spec.rack_hash, "brokers": [{"id": 1, "rack": "/eu/eu-1b/r1"}]}
    assert last_seen({}, of_nodes(status=status), {1}) == {1: ("eu", "eu-1b", "r1")}
    about = of_nodes(status=status, **spec)
    (row,) = rack_view(about, {}, [], [], last_seen({}, about, {1})).rows
    assert (row.id, row.rack, row.online, row.problem.reason) == (1, None, False, "MissingRacks")


@pytest.mark.parametrize("spec", [{}, {"drainBrokers": [1]}, {"missingRackPolicy": "Ignore"}, {"adoption": "Allowed"}])
def test_other_spec_fields_do_not_change_the_last_racks(spec):
    status = {"rackHash": of_nodes().spec.rack_hash, "brokers": [{"id": 1, "rack": "/eu/eu-1b/r1"}]}
    assert last_seen({}, of_nodes(status=status, **spec), {1}) == {1: ("eu", "eu-1b", "r1")}


def test_last_rack_deeper_than_the_levels_is_unknown_but_its_broker_stays_listed():
    about = topology(levels=[{"name": "region"}], status={"brokers": [{"id": 1, "rack": "/eu/eu-1b/r1"}]})
    (row,) = rack_view(about, {}, [], [], last_seen({}, about, {1})).rows
    assert (row.id, row.rack, row.online) == (1, None, False)


# -- pods of another namespace -----------------------------------------------------------------------------------------

ELSEWHERE = of_nodes(brokers={"namespace": "other", "podSelector": {}}, missingRackPolicy="Ignore")
THERE = [pod(f"kafka-{number}", namespace="other") for number in range(3)]
NODES = {"n0": node("eu", "eu-1a", "r1")}


@pytest.mark.parametrize("labels", [{}, {"rackspan.dev/broker-pods-for": "another"}])
def test_pods_of_a_namespace_without_consent_are_not_shown(labels):
    view = rack_view(ELSEWHERE, NODES, THERE, [broker()], holders={1}, consent=labels)
    (row,) = view.rows
    assert (row.pods, row.node, row.rack) == ((), None, None)
    assert row.problem.reason == "BrokerPodsNotShared"
    assert "label it rackspan.dev/broker-pods-for=kafka" in row.problem.message
    assert not view.ignore_missing, "topics are not placed without racks because of it"


def test_only_pods_of_known_brokers_are_shown_from_another_namespace():
    consent = {"rackspan.dev/broker-pods-for": "kafka"}
    view = rack_view(ELSEWHERE, NODES, THERE, [broker()], holders={1}, consent=consent)
    assert [(row.id, row.pods) for row in view.rows] == [(0, ("kafka-0",)), (1, ("kafka-1",))]
    away = rack_view(ELSEWHERE, NODES, THERE, [broker()], PLACES, consent=consent)
    assert [(row.id, row.pods) for row in away.rows] == [(0, ("kafka-0",)), (1, ("kafka-1",))]


def test_equal_views_have_the_same_tree_so_that_plans_compare_theirs_at_once():
    first, second, other = (
        rack_view(topology(), {}, [], [broker(0), broker(1, rack)]) for rack in ("/eu/a/r1", "/eu/a/r1", "/eu/b/r1")
    )
    assert first.tree is second.tree
    assert first.tree != other.tree
    tree = ref(first.tree)
    del first, second
    gc.collect()
    assert tree() is None, "each change of a rack makes a tree"

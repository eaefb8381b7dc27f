"""The status of a RackTopology, computed from the state."""

import json
import re
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.support.rack_views import rack_view
from tests.unit.reconcile.examples import (
    CLUSTER,
    LEVELS,
    NOON,
    SIX,
    in_state,
    sentence,
    state,
    status_inputs,
    told,
    topic,
    topology,
)

from rackspan.api.reasons import Reason
from rackspan.reconcile.cache import BrokerPod
from rackspan.reconcile.cluster.racks import LocatedBroker, RackView
from rackspan.reconcile.cluster.state import BrokerLoad
from rackspan.reconcile.cluster.topology_status import NO_PLAN, topology_status
from rackspan.reconcile.failures import Failure, Remedy
from rackspan.reconcile.ports import BrokerDescription, RemainingReplicas, ReplicaCounts

LATER = NOON + timedelta(minutes=1)
AWAY = Failure(Reason.KAFKA_UNREACHABLE, "no broker answers", Remedy.RETRY)
WRONG = Failure(Reason.CLUSTER_ID_MISMATCH, "another cluster", Remedy.SPEC)


OBSERVED = ("kafka", "levels", "rack_source", "rack_aliases", "brokers", "missing_rack_policy")
"""The fields of a spec that determine how brokers and their racks are observed."""


def status_of(where, racks=None, topics=(), about=None, now=NOON):
    """Return the status for brokers that were observed with the current spec."""
    racks = racks or (None if isinstance(where, Failure) else where.racks)
    about = about or topology()
    if not isinstance(where, Failure):
        asked = {name: getattr(about.spec, name) for name in OBSERVED}
        where = replace(where, spec=structs.replace(where.spec, **asked))
    return topology_status(about, status_inputs(where, racks, topics), now)


def test_usable_topology_is_ready():
    status = status_of(state())
    assert told(status, "Ready") == ("True", "InSync")
    assert told(status, "Connected") == ("True", "Connected")
    assert told(status, "RacksInSync") == ("True", "RacksInSync")
    assert told(status, "Stalled") is told(status, "Reconciling") is None
    assert (status.cluster_id, status.broker_count) == (CLUSTER, 6)
    assert status.domain_summary == "2 regions, 3 zones, 5 racks"
    assert [broker.rack for broker in status.brokers] == list(SIX.values())


def test_bytes_of_an_unchanged_plan_stay_while_topics_are_reconciled_again():
    plan = {"hash": "21cb6c3a84622ccf", "moves": 1, "lowerBound": 1, "reorders": 0, "partitions": 1}
    topics = [topic("crowded", status={"plan": plan})]
    first = status_of(state(), topics=topics)
    assert (first.plan.moves, first.plan.bytes) == (1, None)
    sizes = ({"bytes": 1_100}, {"bytes": 2_250})
    both = [topic(f"crowded-{at}", status={"plan": plan | more}) for at, more in enumerate(sizes)]
    assert status_of(state(), topics=both).plan.bytes == 3_400
    assert status_of(state(), topics=[*both, *topics]).plan.bytes is None, "the size of one topic is unknown"
    measured = structs.replace(first, plan=structs.replace(first.plan, bytes=5_000))
    again = status_of(state(), topics=topics, about=structs.replace(topology(), status=measured))
    assert again.plan == measured.plan
    other = [topic("crowded", status={"plan": {**plan, "hash": "31a9a64b0fcb5d1f"}})]
    assert status_of(state(), topics=other, about=structs.replace(topology(), status=measured)).plan.bytes is None


@pytest.mark.parametrize(
    ("compliant", "said"),
    [
        (("True", "True"), "no topic needs a change"),
        (("True", "False"), "no plan: 1 topic is not compliant, and its condition Ready says why"),
        (("False", "False"), "no plan: 2 topics are not compliant, and their condition Ready says why"),
        (("True", "Unknown"), "no plan: 1 topic is not judged, and its condition Ready says why"),
        (
            ("False", "Unknown"),
            "no plan: 1 topic is not compliant and 1 topic is not judged, and their condition Ready says why",
        ),
    ],
)
def test_reassigned_message_without_a_plan_counts_topics_that_are_not_known_to_be_compliant(compliant, said):
    topics = [in_state(f"t{at}", Ready=one, Compliant=one) for at, one in enumerate(compliant)]
    status = topology_status(topology(), status_inputs(state(), state().racks, topics, planned=NO_PLAN), NOON)
    assert (told(status, "Reassigned"), sentence(status, "Reassigned")) == (("True", "InSync"), said)


def test_topics_are_counted_by_state():
    topics = [
        in_state("a", Ready="True", Compliant="True"),
        in_state("b", Ready="False", Compliant="False"),
        in_state("c", Ready="False", Stalled="True"),
        topic("d"),
    ]
    counts = status_of(state(), topics=topics).topics
    assert (counts.total, counts.ready, counts.non_compliant, counts.stalled) == (4, 1, 1, 1)


def test_last_known_facts_stay_while_kafka_is_unreachable():
    before = status_of(state())
    status = status_of(AWAY, state().racks, about=structs.replace(topology(), status=before), now=LATER)
    assert told(status, "Ready") == ("False", "KafkaUnreachable")
    assert told(status, "Connected") == ("False", "KafkaUnreachable")
    assert told(status, "Reconciling") == ("True", "KafkaUnreachable")
    assert told(status, "Stalled") is None
    assert (status.cluster_id, status.brokers) == (before.cluster_id, before.brokers)


def test_topology_connected_to_a_wrong_cluster_is_stalled():
    status = status_of(WRONG)
    assert told(status, "Stalled") == ("True", "ClusterIdMismatch")
    assert told(status, "Reconciling") is None
    assert status.cluster_id is None


def test_topology_without_brokers_is_not_ready():
    empty = replace(state(), racks=rack_view(topology(), {}, [], []))
    assert told(status_of(empty), "Ready") == ("False", "NoBrokers")


def test_missing_racks_make_the_topology_not_ready_unless_they_are_ignored():
    gap = {**SIX, 6: None}
    strict = status_of(state(gap))
    assert told(strict, "Ready") == ("False", "MissingRacks")
    assert (strict.missing_racks.count, strict.missing_racks.brokers) == (1, (6,))
    assert "1 of 7 brokers has no rack (6); broker 6: Kafka reports no broker.rack" in sentence(strict)
    relaxed = status_of(state(gap, missingRackPolicy="Ignore"))
    assert told(relaxed, "Ready") == ("True", "InSync")
    assert relaxed.missing_racks.count == 1


def test_invalid_rack_is_reported_before_a_missing_rack():
    status = status_of(state({**SIX, 6: None, 7: "/a/b/c/d"}, levels=[{"name": level} for level in "xyz"]))
    assert told(status, "Ready") == ("False", "InvalidRack")


def test_two_pods_with_the_same_broker_id_are_reported():
    about = topology(rackSource="Nodes", brokers={"podSelector": {}})
    pods = [BrokerPod("kafka", f"{name}-0", {}, {}, "n0") for name in "ab"]
    racks = rack_view(about, {}, pods, [BrokerDescription(0, "kafka:9092", None)])
    status = status_of(replace(state(), racks=racks), about=about)
    assert told(status, "Ready") == ("False", "DuplicateBrokerId")
    assert "pods a-0, b-0 all claim broker id 0" in sentence(status)
    assert status.brokers[0].pod == "a-0, b-0"


ETCD = 1_572_864
"""The maximum size of a request to etcd in bytes, by default."""
texts = st.one_of(
    st.text("abc-0/", max_size=60), st.text(max_size=40), st.sampled_from(["<" * 300, "\u2028" * 200, "😀" * 90])
)


def row(number, **texts):
    known = {"host": None, "pods": (), "node": None, "rack": None, "reported_rack": None, **texts}
    return LocatedBroker(id=number, online=True, draining=False, drift=True, **known)


def stored(status):
    """Return the size of a status in bytes as the API server stores it: Go escapes HTML characters."""
    text = json.dumps(status.to_dict(), ensure_ascii=False, separators=(",", ":"))
    return len(re.sub("[<>&\u2028\u2029]", r"\\u0000", text).encode("utf-8", "replace"))


def test_three_thousand_brokers_fit_into_the_status_with_all_fields():
    rows = tuple(
        row(
            number,
            host=f"main-kafka-{number}.main-kafka-brokers.kafka.svc.cluster.local",
            pods=(f"main-kafka-{number}",),
            node=f"ip-10-0-{number}.eu-central-1.compute.internal",
            rack=("eu-central-1", "eu-central-1a", f"rack-{number}"),
            reported_rack=f"/eu-central-1/eu-central-1a/rack-{number}",
        )
        for number in range(3_000)
    )
    status = status_of(state(), RackView(LEVELS, rows, ignore_missing=False))
    assert len(status.brokers) == status.broker_count == 3_000
    assert all(broker.host and broker.pod and broker.node and broker.rack for broker in status.brokers)
    assert told(status, "Ready") == ("True", "InSync")
    assert stored(status) < 1_050_000


def test_hosts_pods_and_nodes_are_left_out_first_if_brokers_do_not_fit():
    rows = tuple(
        row(number, host="h" * 250, pods=("p" * 250,), rack=("a", "b", f"r{number}")) for number in range(5_000)
    )
    status = status_of(state(), RackView(LEVELS, rows, ignore_missing=False))
    assert len(status.brokers) == 5_000
    assert {(broker.host, broker.pod) for broker in status.brokers} == {(None, None)}
    assert status.brokers[7].rack == "/a/b/r7"
    assert told(status, "Ready") == ("True", "InSync")


def test_brokers_that_do_not_fit_into_the_status_make_it_stalled_as_too_large():
    rows = tuple(row(number, rack=("a" * 1_000, "b", f"r{number}")) for number in range(5_000))
    status = status_of(state(), RackView(LEVELS, rows, ignore_missing=False))
    assert status.broker_count == 5_000
    assert 0 < len(status.brokers) < 5_000
    assert not status.lists_all_brokers
    assert (told(status, "Ready"), told(status, "Stalled")) == (("False", "TooLarge"), ("True", "TooLarge"))
    assert stored(status) < 1_100_000


@given(st.lists(st.tuples(texts, texts, texts, texts), min_size=1, max_size=20), st.integers(1, 100))
def test_status_fits_into_etcd_with_any_names_of_brokers(some, times):
    rows = tuple(
        row(number, host=host, pods=(pod,) * times, node=node, reported_rack=reported)
        for number, (host, pod, node, reported) in enumerate(some * times)
    )
    status = status_of(state(), RackView(LEVELS, rows, ignore_missing=True))
    assert stored(status) < ETCD - 300_000
    assert status.lists_all_brokers == (len(status.brokers) == len(rows))


def test_many_pods_with_the_same_broker_id_are_shortened_to_a_count():
    pods = [BrokerPod("kafka", f"kafka-{number}", {"app": "kafka", "id": "1"}, {}, "n1") for number in range(2_000)]
    selector = {"podSelector": {"matchLabels": {"app": "kafka"}}, "brokerId": {"from": "Label", "key": "id"}}
    of_pods = topology(rackSource="Nodes", brokers=selector)
    view = rack_view(of_pods, {}, pods, [])
    status = status_of(state(), view)
    assert status.brokers[0].pod.endswith(" and 1,990 more")
    assert stored(status) < 20_000


def test_pod_with_an_impossible_broker_id_is_reported_and_the_topology_stays_ready():
    about = topology(
        rackSource="Nodes", levels=[{"name": "region", "nodeLabel": "region"}], brokers={"podSelector": {}}
    )
    pods = [BrokerPod("kafka", name, {}, {}, "n0") for name in ("kafka-0", "kafka-99999999999999999999")]
    racks = rack_view(about, {"n0": {"region": "eu"}}, pods, [BrokerDescription(0, "h", "/eu")])
    status = status_of(replace(state(), racks=racks), about=about)
    assert told(status, "Ready") == ("True", "InSync")
    words = "pod kafka-99999999999999999999 is ignored: no broker can have its number"
    assert sentence(status).endswith(words)
    assert sentence(status, "RacksInSync").endswith(words)


def test_drift_is_reported_and_the_topology_stays_ready():
    levels = [{"name": name, "nodeLabel": name} for name in ("region", "zone", "rack")]
    about = topology(rackSource="Nodes", levels=levels, brokers={"podSelector": {}})
    node = {"region": "eu", "zone": "eu-1b", "rack": "r1"}
    racks = rack_view(
        about, {"n0": node}, [BrokerPod("kafka", "kafka-0", {}, {}, "n0")], [BrokerDescription(0, "h", "/eu/eu-1a/r1")]
    )
    status = status_of(replace(state(), racks=racks), about=about)
    assert told(status, "RacksInSync") == ("False", "RackDrift")
    assert told(status, "Ready") == ("True", "InSync")
    assert (status.drift.count, status.drift.brokers) == (1, (0,))


def test_level_without_any_labeled_node_is_reported_with_its_label():
    levels = [{"name": name, "nodeLabel": label} for name, label in (("zone", "zone"), ("rack", "example.com/rcak"))]
    about = topology(rackSource="Nodes", levels=levels, brokers={"podSelector": {}})
    nodes = {f"n{at}": {"zone": f"z{at}", "example.com/rack": "r1"} for at in range(2)}
    pods = [BrokerPod("kafka", f"kafka-{at}", {}, {}, f"n{at}") for at in range(2)]
    seen = [BrokerDescription(at, "h", f"z{at}") for at in range(2)]
    status = status_of(replace(state(), racks=rack_view(about, nodes, pods, seen)), about=about)
    assert told(status, "Ready") == ("False", "EmptyLevel")
    assert told(status, "Stalled") == ("True", "EmptyLevel")
    assert sentence(status) == (
        "no broker has a rack: no node under one has the label example.com/rcak; "
        "correct spec.levels or the labels, or remove the level"
    )
    nodes["n1"]["example.com/rcak"] = "r1"
    deeper = status_of(replace(state(), racks=rack_view(about, nodes, pods, seen)), about=about)
    assert told(deeper, "Ready") == ("True", "InSync"), "rack paths may have different depths"


SPECIFIED = [{"name": name, "nodeLabel": f"example.com/{name}"} for name in LEVELS]
OTHER_SPECS = {
    "more levels": {"levels": [*SPECIFIED, {"name": "host", "nodeLabel": "kubernetes.io/hostname"}]},
    "fewer levels": {"levels": SPECIFIED[:2]},
    "renamed levels": {"levels": [*SPECIFIED[:2], {"name": "row", "nodeLabel": "example.com/rack"}]},
    "labels": {"levels": [*SPECIFIED[:2], {"name": "rack", "nodeLabel": "example.com/row"}]},
    "rackSource": {"rackSource": "Nodes"},
    "rackAliases": {"rackAliases": {"flat": "/eu/a"}},
    "missingRackPolicy": {"missingRackPolicy": "Ignore"},
    "kafka": {"kafka": {"bootstrapServers": "other:9092"}},
}


@pytest.mark.parametrize("spec", OTHER_SPECS.values(), ids=OTHER_SPECS)
def test_observed_generation_does_not_include_a_spec_that_was_not_observed_yet(spec):
    before = status_of(state())
    edited = structs.replace(topology(**spec), status=before)
    edited = structs.replace(edited, meta=structs.replace(edited.meta, generation=edited.meta.generation + 1))
    status = topology_status(edited, status_inputs(state(), state().racks, ()), LATER)
    assert told(status, "Ready") == ("False", Reason.WAITING)
    assert told(status, "Reconciling") == ("True", Reason.WAITING)
    assert status.observed_generation == before.observed_generation
    for failure in (AWAY, WRONG):
        failed = topology_status(edited, status_inputs(failure, state().racks, (), failed_spec=state().spec), LATER)
        assert told(failed, "Ready") == ("False", failure.reason)
        assert failed.observed_generation == before.observed_generation, "the failure is about the previous spec"
        failed = topology_status(edited, status_inputs(failure, state().racks, (), failed_spec=edited.spec), LATER)
        assert failed.observed_generation == edited.meta.generation


@pytest.mark.parametrize("seen", [state().racks, None], ids=["running", "restarted"])
def test_racks_of_an_earlier_spec_are_not_treated_as_current(seen):
    before = status_of(state())
    assert structs.replace(topology(), status=before).has_current_racks
    edited = structs.replace(topology(levels=SPECIFIED[:2]), status=before)
    failed = topology_status(edited, status_inputs(AWAY, seen, (), failed_spec=edited.spec), LATER)
    assert failed.observed_generation == edited.meta.generation
    assert failed.brokers == before.brokers, "the last facts stay"
    assert not structs.replace(edited, status=failed).has_current_racks


def test_observed_generation_waits_until_kafka_has_reported_replicas_of_new_drains():
    before = status_of(state())
    edited = structs.replace(topology(drainBrokers=[1]), status=before)
    edited = structs.replace(edited, meta=structs.replace(edited.meta, generation=edited.meta.generation + 1))
    status = topology_status(edited, status_inputs(state(), state().racks, ()), LATER)
    assert told(status, "Ready") == ("True", "InSync")
    assert told(status, "Drained") == ("Unknown", Reason.WAITING)
    assert status.observed_generation == before.observed_generation


def test_other_spec_fields_are_observed_with_the_next_status():
    edited = topology(maxDeletionsPerMinute=3)
    status = topology_status(edited, status_inputs(state(), state().racks, ()), LATER)
    assert told(status, "Ready") == ("True", "InSync")
    assert status.observed_generation == edited.meta.generation


def test_level_below_every_broker_rack_is_reported():
    where = state({0: "/eu/a", 1: "/us/b"}, levels=[{"name": level} for level in LEVELS])
    status = status_of(where)
    assert told(status, "Ready") == ("False", "EmptyLevel")
    assert "no broker has a rack: each broker.rack ends above it" in sentence(status)


def asking_for(spec):
    return structs.replace(topology(), spec=state(**spec).spec)


def drained(left, spec, now=NOON, about=None, where=None):
    where = where or state(**spec)
    held = left if left is None else RemainingReplicas(NOON, {0: left})
    about = about or asking_for(spec)
    return topology_status(
        about, status_inputs(where, state().racks if isinstance(where, Failure) else where.racks, (), held), now
    )


def test_condition_drained_exists_while_the_spec_has_drains():
    spec = {"drainBrokers": [0]}
    busy = drained({"t": 2}, spec)
    assert told(busy, "Drained") == ("False", "Draining")
    assert told(busy, "Ready") == ("True", "InSync")
    assert busy.drain_summary == "0 of 1 drained, 2 replicas left"
    assert [broker.draining for broker in busy.brokers] == [True, *[None] * 5]
    about = structs.replace(asking_for(spec), status=busy)
    assert told(drained({}, spec, about=about), "Drained") == ("True", "Drained")
    ended = status_of(state(), about=structs.replace(topology(), status=busy))
    assert told(ended, "Drained") is ended.drain_summary is None
    assert ended.drains == ()


def test_drained_is_unknown_while_kafka_is_unreachable_or_the_response_is_outdated():
    spec = {"drainBrokers": [0]}
    before = drained({}, spec)
    about = structs.replace(asking_for(spec), status=before)
    away = drained({}, spec, LATER, about, AWAY)
    assert told(away, "Drained") == ("Unknown", "KafkaUnreachable")
    (one,) = away.drains
    assert (one.drained, one.reason, one.message) == (None, "KafkaUnreachable", "no broker answers")
    assert (one.replicas, one.observed_at) == (before.drains[0].replicas, before.drains[0].observed_at)
    busy = structs.replace(about, status=drained({"t": 2}, spec))
    assert drained({}, spec, LATER, busy, AWAY).drains == busy.status.drains
    assert told(drained({}, spec, LATER, about, state()), "Drained") == ("Unknown", "Waiting")


def without(*away, holders=()):
    """Return the state in which these brokers are offline. `holders` are known only by the replicas on them."""
    where = state()
    rows = tuple(replace(row, online=row.id not in away) for row in where.racks.rows)
    load = BrokerLoad(ReplicaCounts(dict.fromkeys(holders, 1), {}))
    return replace(where, racks=replace(where.racks, rows=rows), load=load)


def test_cordoned_broker_is_reported_and_the_topology_stays_ready():
    where = state()
    rows = tuple(replace(row, cordoned=row.id in {1, 4}) for row in where.racks.rows)
    status = status_of(replace(where, racks=replace(where.racks, rows=rows)))
    assert [broker.id for broker in status.brokers if broker.cordoned] == [1, 4]
    assert told(status, "Ready") == ("True", "InSync")
    words = "brokers 1, 4 are cordoned in Kafka and take no new replicas"
    assert words in sentence(status, "BrokersOnline")


def test_offline_broker_is_reported_and_the_topology_stays_ready():
    status = status_of(without(3, holders=[3, 7]))
    assert told(status, "BrokersOnline") == ("False", "BrokerOffline")
    assert told(status, "Ready") == ("True", "BrokerOffline"), "Ready stays True with this reason"
    assert told(status, "Stalled") is told(status, "Reconciling") is None
    words = "5 of 7 brokers online (brokers 3, 7 offline)"
    assert words in sentence(status, "BrokersOnline")
    assert words in sentence(status)
    assert (status.offline.count, status.offline.brokers) == (2, (3, 7))
    back = status_of(state(), about=structs.replace(topology(), status=status), now=LATER)
    assert told(back, "BrokersOnline") == ("True", "BrokersOnline")
    assert told(back, "Ready") == ("True", "InSync")
    assert back.offline.count == 0


def test_brokers_online_is_unknown_while_kafka_is_unreachable():
    before = status_of(without(3))
    status = status_of(AWAY, about=structs.replace(topology(), status=before), now=LATER)
    assert told(status, "BrokersOnline") == ("Unknown", "KafkaUnreachable")


@pytest.mark.parametrize(("annotation", "reason"), [("true", "Paused"), ("maybe", "InvalidAnnotation")])
def test_topology_with_a_pause_annotation_is_paused_and_ready(annotation, reason):
    about = topology()
    about = structs.replace(about, meta=structs.replace(about.meta, annotations={"rackspan.dev/paused": annotation}))
    status = status_of(state(), about=about)
    assert told(status, "Paused") == ("True", reason)
    assert told(status, "Ready") == ("True", "InSync")
    assert told(status_of(state(), about=structs.replace(topology(), status=status)), "Paused") is None


def test_status_computed_again_from_the_same_state_does_not_change():
    first = status_of(state())
    assert status_of(state(), about=structs.replace(topology(), status=first), now=LATER) == first

"""Plans as text in Reassignment objects: written plans are read back unchanged, invalid ones are rejected."""

import base64
import itertools
import json
import tracemalloc
import zlib
from collections import defaultdict
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.reconcile.examples import topology

from rackspan.api.reassignment import MAX_PLAN, Reassignment
from rackspan.core.planning import Change
from rackspan.core.reassignment import Racks, SetThrottle, Setting, SettingKind, TopicPartition
from rackspan.core.reassignment.throttles import FOLLOWERS, LEADERS, RATES
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.plans import approved_plans
from rackspan.reconcile.plans.approved_plans import ApprovedPlan, UnreadablePlanError, reassignments_of, record_from
from rackspan.reconcile.plans.plan_documents import packed, progress_document
from rackspan.reconcile.ports import Record

HASH = "0123456789abcdef"
RACKS = {0: ("a", "x"), 1: ("a", "y"), 2: ("b", "x"), 3: None}
REPORTED = {0: "/a/x", 1: "/a/y", 2: None}
brokers = st.lists(st.sampled_from(sorted(RACKS)), min_size=1, max_size=4, unique=True).map(tuple)
changes = st.dictionaries(
    st.tuples(st.sampled_from(["orders", "users", "a.b-c_d"]), st.integers(0, 2**31 - 1)),
    st.tuples(brokers, brokers, st.one_of(st.none(), st.integers(0, 2**60))),
    max_size=12,
).map(lambda found: [Change(*at, new, old, size) for at, (new, old, size) in found.items()])


def approved(some, **more):
    by = {"approved_by": "", "names": (HASH,)} | more
    return ApprovedPlan("cluster-1", HASH, some, RACKS, REPORTED, **by)


def objects(some, **more):
    return reassignments_of(topology(), approved(some, **more))


def read(body, **status):
    """Return the record of an object of the API server."""
    return record_from(Reassignment.from_object({**body, "status": status}), body["spec"]["plan"])


@given(changes, st.integers(1, 5))
def test_each_partition_is_in_one_part_and_partitions_in_the_fewest_domains_come_first(some, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(approved_plans, "_MOST_PARTITIONS", most)
        parts = objects(some)
    records = [read(one) for one in parts]
    found = [change for record in records for change in record.changes]
    key = lambda one: (one.topic, one.partition)  # noqa: E731
    assert sorted(found, key=key) == sorted(some, key=key)
    assert all(len(record.changes) <= most for record in records)
    spreads = [sorted(Racks(RACKS).spread(change.before) for change in record.changes) for record in records]
    assert all(before[-1] <= after[0] for before, after in itertools.pairwise(spreads))
    assert [(one["spec"]["part"], one["spec"]["parts"]) for one in parts] == [
        (at + 1, len(parts)) for at in range(len(parts))
    ]
    assert all((record.racks, record.reported_racks) == (RACKS, REPORTED) for record in records)


def test_reassignment_is_owned_by_its_topology_and_sets_no_throttle_or_limits():
    (body,) = reassignments_of(topology(), approved([], approved_by="kim"))
    assert body["metadata"]["name"] == f"prod-{HASH}"
    assert body["metadata"]["ownerReferences"][0]["uid"] == "rt-1"
    assert body["spec"].keys() == {"topologyRef", "planHash", "part", "parts", "plan", "approvedBy"}
    assert Reassignment.from_object(body).spec.approved_by == "kim"


def test_reassignment_leaves_out_new_partitions():
    (one,) = objects([Change("orders", 0, (0,)), Change("orders", 1, (0,), (1,))])
    assert [change.partition for change in read(one).changes] == [1]


def test_plan_longer_than_the_limit_is_split_into_parts(monkeypatch):
    monkeypatch.setattr(approved_plans.api, "MAX_PLAN", 600)
    some = [Change("orders", number, (0, 1), (1, 2), number**7) for number in range(200)]
    parts = objects(some)
    assert len(parts) > 1
    assert all(len(one["spec"]["plan"]) <= 600 for one in parts)
    assert [change for one in parts for change in read(one).changes] == some


def test_started_moves_and_throttles_are_read_back_from_the_record():
    (one,) = objects([Change("orders", 0, (0, 1), (1, 2))])
    setting = Setting(SettingKind.BROKER, "1", "leader.replication.throttled.rate")
    started, throttles = {TopicPartition("orders", 0): (0, 1, 2)}, {setting: SetThrottle(None, ("5", "7"))}
    record = Record("", "", (), {}, {}, started, throttles)
    found = read(one, record=packed(progress_document(record), MAX_PLAN))
    assert (found.started, found.throttles) == (started, throttles)


SPEC = {"topologyRef": {"name": "prod"}, "planHash": HASH}


def text(document):
    return base64.b64encode(zlib.compress(json.dumps(document).encode())).decode()


GOOD = {
    "version": 1,
    "clusterId": "c",
    "plan": HASH,
    "racks": {},
    "reportedRacks": {},
    "changes": {"orders": [[0, [1], [2], None]]},
    "started": [],
    "throttles": [],
}


@pytest.mark.parametrize(
    "plan",
    [
        "",
        "ä",
        "AAAA",
        base64.b64encode(zlib.compress(b"{}")[:-3]).decode(),
        base64.b64encode(zlib.compress(b"[" * 100_000)).decode(),
        text([]),
        text({}),
        text({**GOOD, "version": 2}),
        text({**GOOD, "plan": "another"}),
        text({**GOOD, "changes": {"orders": [[0, [1], [1, 1], None]]}}),
        text({**GOOD, "changes": {"orders": [[0, [], [1], None]]}}),
        text({**GOOD, "changes": {"orders": [[-1, [1], [2], None]]}}),
        text({**GOOD, "changes": {"orders": [[10**400, [1], [2], None]]}}),
        text({**GOOD, "changes": {"orders": [[0, [1], [2**31], None]]}}),
        text({**GOOD, "changes": {"orders": [[True, [1], [2], None]]}}),
        text({**GOOD, "changes": {"x" * 100_000: [[0, [1], "ab", None]]}}),
    ],
)
def test_invalid_plan_is_rejected_with_a_short_message(plan):
    (one,) = objects([])
    body = {"metadata": {"name": "a"}, "spec": SPEC | {"plan": plan}}
    with pytest.raises(UnreadablePlanError) as caught:
        read(body)
    assert len(str(caught.value)) < 600
    assert read(one).changes == ()


def test_valid_plan_of_another_client_is_read():
    body = {"metadata": {"name": "a"}, "spec": SPEC | {"plan": text(GOOD)}}
    assert read(body).changes == (Change("orders", 0, (2,), (1,)),)


LIMIT = 8 << 20
"""The maximum size of the JSON of a plan, in bytes."""


@pytest.mark.parametrize(
    "repeated",
    [b"0", b"{},", b"[],", b'{"a":', b'"orders":[],', b"[0,[1],[2],null],", b"1000,", b'"a",', b'"\\u0000",'],
    ids=lambda piece: piece.decode(),
)
@pytest.mark.parametrize("place", ["", "racks", "changes", "rows", "throttles"])
def test_small_text_that_decompresses_to_a_huge_plan_is_rejected_with_little_memory(repeated, place):
    before, _, after = json.dumps({**GOOD, "changes": {"rows": []}} | {place: "HERE"}).partition('"HERE"')
    if place == "rows":
        before, _, after = json.dumps({**GOOD, "changes": {"rows": "HERE"}}).partition('"HERE"')
    begin, end = ("{", "}") if repeated.startswith(b'"orders') else ("[", "]")
    room = (LIMIT - len(before) - len(after) - 2) // len(repeated)
    for count in (room, 8_000) if place else (4 * room,):
        whole = b"%s%s%s%s%s" % (before.encode(), begin.encode(), repeated * count, end.encode(), after.encode())
        plan = base64.b64encode(zlib.compress(whole if place else repeated * count, 9)).decode()
        assert len(plan) < MAX_PLAN
        tracemalloc.start()
        try:
            with pytest.raises(UnreadablePlanError):
                read({"metadata": {"name": "a"}, "spec": SPEC | {"plan": plan}})
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 48 << 20


def test_plan_of_the_largest_written_size_is_read_with_little_memory():
    racks = {broker: (f"region-{broker % 3}", f"zone-{broker % 30}", f"rack-{broker}") for broker in range(3_000)}
    some = [
        Change(
            f"{number:0249}", number, tuple(range(number % 1_000, number % 1_000 + 8)), tuple(range(8)), 2**60 + number
        )
        for number in range(10_000)
    ]
    reported = {broker: "/".join(("", *rack)) for broker, rack in racks.items()}
    plan = ApprovedPlan("cluster-1", HASH, some, racks, reported, approved_by="", names=(HASH,))
    bodies = reassignments_of(topology(), plan)
    tracemalloc.start()
    records = [read(body) for body in bodies]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    changed = [change for record in records for change in record.changes]
    assert sorted(changed, key=lambda one: one.partition) == some
    assert peak < 48 << 20


def begun(record, some):
    """Return the record after a step of `some` changes has started, with throttles on all their topics and brokers."""
    started, names, brokers = {}, defaultdict(set), set()
    for one in some:
        replicas = tuple(dict.fromkeys((*one.before, *one.replicas)))
        started[TopicPartition(one.topic, one.partition)] = replicas
        brokers.update(replicas)
        names[one.topic, LEADERS].update(f"{one.partition}:{broker}" for broker in replicas)
        names[one.topic, FOLLOWERS].update(f"{one.partition}:{broker}" for broker in one.added)
    throttles = {Setting(SettingKind.TOPIC, *at): SetThrottle(None, (",".join(sorted(s)),)) for at, s in names.items()}
    for broker, key in itertools.product(brokers, RATES):
        throttles[Setting(SettingKind.BROKER, str(broker), key)] = SetThrottle(None, ("50000000", "123456789"))
    return replace(record, started=started, throttles=throttles)


@pytest.mark.parametrize(
    ("partitions", "topics", "length", "factor"),
    [(1_000, 100, 20, 3), (1_000, 1_000, 20, 3), (150, 150, 249, 3), (500, 5, 20, 8)],
)
def test_record_fits_into_its_object_whatever_share_of_the_plan_has_started(
    monkeypatch, partitions, topics, length, factor
):
    monkeypatch.setattr(approved_plans.api, "MAX_PLAN", MAX_PLAN // 10)
    chance = Random(1)
    names = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz-.", k=length)) for _ in range(topics)]
    some = []
    for number in range(partitions):
        replicas = tuple(chance.sample(range(1_000), 2 * factor))
        planned = (*replicas[factor:], *replicas[1:factor])[:factor]
        change = Change(names[number % topics], number // topics, planned, replicas[:factor], chance.randrange(2**40))
        some.append(change)
    for one in objects(some):
        record = read(one)
        for share in (1.0, 0.9, 0.5):
            part = chance.sample(record.changes, int(share * len(record.changes)))
            assert len(packed(progress_document(begun(record, part)), MAX_PLAN)) <= MAX_PLAN // 10


def test_plan_with_more_than_10000_partitions_is_rejected():
    rows = [[number, [1], [2], None] for number in range(10_001)]
    with pytest.raises(UnreadablePlanError, match="more than 10,000 partitions"):
        read({"metadata": {"name": "a"}, "spec": SPEC | {"plan": text({**GOOD, "changes": {"orders": rows}})}})


def test_racks_that_do_not_fit_into_a_reassignment_are_an_error(monkeypatch):
    monkeypatch.setattr(approved_plans.api, "MAX_PLAN", 100)
    with pytest.raises(FailureError, match="the racks of 4 brokers fit into no Reassignment"):
        objects([Change("orders", 0, (0, 1), (1, 2))])

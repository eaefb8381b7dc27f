"""`rackspan status`: problems, their reasons and the next step, from objects alone."""

import asyncio
import itertools
import re
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
import yaml
from msgspec import structs
from tests.support.command import cli
from tests.unit.reconcile.examples import topic, topology

from rackspan.api.meta import ObjectKey
from rackspan.api.reasons import Reason
from rackspan.api.reassignment import Reassignment
from rackspan.cli.shared import looking, next_steps
from rackspan.cli.shared.operator_lease import OperatorLease, operator_lease
from rackspan.cli.shared.situation import AspectState, situation
from rackspan.kube import topology_edits
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.runtime.lease import LeaseRecord

CRDS = Path(__file__).resolve().parents[3] / "crds"
TOPOLOGY = ("--topology", "kafka/prod")
HASH = "d42a56bd00112233"
WHEN = "2026-11-25T10:00:00Z"
PLAN = {"hash": HASH, "topics": 1, "moves": 6, "lowerBound": 6, "reorders": 0, "partitions": 6, "bytes": 56 << 20}
ORDER = {"fine": 0, "goes on": 1, "wrong": 2, "unknown": 3}


def condition(kind, status, reason="X", message="it is so"):
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": WHEN}


GOOD = {
    "Connected": condition("Connected", "True", "Connected", "Kafka cluster abc"),
    "Ready": condition("Ready", "True", "InSync"),
    "RacksInSync": condition("RacksInSync", "True", "RacksInSync"),
    "BrokersOnline": condition("BrokersOnline", "True", "BrokersOnline"),
}


def seen(*conditions, spec=None, **status):
    """Return a topology with these conditions and, for other types, the conditions of a healthy one."""
    changed = GOOD | {one["type"]: one for one in conditions}
    found = topology(
        **(spec or {}),
        status={"clusterId": "abc", "brokerCount": 9, "conditions": list(changed.values()), **status},
    )
    observed = structs.replace(found.status, observed_generation=found.meta.generation)
    return structs.replace(found, status=observed)


def kafka_topic(name, status="True", reason="InSync", message="it is so", **more):
    return topic(name, status={"conditions": [condition("Ready", status, reason, message)], **more})


def reassignment(status=None, **spec):
    return Reassignment.from_object(
        {
            "metadata": {"name": "prod-d42a", "namespace": "kafka", "uid": "r-1"},
            "spec": {"topologyRef": {"name": "prod"}, "planHash": HASH, "plan": "x", **spec},
            "status": status
            or {"state": "Running", "moves": 6, "moved": 2, "message": "6 partitions wait for broker 3"},
        }
    )


def aspect(found, name):
    (one,) = [one for one in found.aspects if one.name == name]
    return one


def test_status_without_problems_has_no_next_step():
    found = situation(seen(), [kafka_topic("orders")], ())
    assert (found.state, found.step) == (AspectState.FINE, None)
    assert aspect(found, "brokers").message == "9 brokers online"


def test_status_names_cordoned_brokers():
    brokers = [{"id": 3, "cordoned": True}, {"id": 4}]
    closed = "; cordoned in Kafka, so that nothing new is placed there: 3"
    assert aspect(situation(seen(brokers=brokers), (), ()), "brokers").message == f"9 brokers online{closed}"
    away = situation(seen(brokers=brokers, **OFFLINE), (), ())
    assert aspect(away, "brokers").message == f"8 of 9 brokers online; offline: 4{closed}"


DRIFT = condition("RacksInSync", "False", "RackDrift", "1 of 9 brokers report another rack")
PENDING = condition("Reassigned", "False", "PlanPending", "approve it by an annotation")
OFFLINE = {"offline": {"count": 1, "brokers": [4]}}
FAILED = {
    "scanId": "s1",
    "trigger": "Schedule",
    "state": "Failed",
    "startedAt": "2026-11-25T10:00:00Z",
    "reason": "R",
    "message": "m",
}


@pytest.mark.parametrize(
    ("found", "name", "state", "step"),
    [
        (
            seen(**OFFLINE),
            "brokers",
            AspectState.WRONG,
            "start broker 4; only if it is gone for good: rackspan drain 4",
        ),
        (seen(DRIFT), "racks", AspectState.WRONG, "where the label of a node, spec.rackAliases or broker"),
        (seen(PENDING, plan=PLAN), "plan", AspectState.WRONG, "look at it: rackspan plan --topology kafka/prod; to"),
        (seen(condition("Reassigned", "False", "Reassigning"), plan=PLAN), "plan", AspectState.GOES_ON, None),
        (
            seen(condition("DeletionsHeld", "True", "DeletionHeld")),
            "deletions",
            AspectState.WRONG,
            "confirm the deletions with the kubectl annotate command",
        ),
        (
            seen(condition("Ready", "False", "EmptyLevel")),
            "topology",
            AspectState.WRONG,
            "correct nodeLabel of this level in spec.levels",
        ),
        (
            seen(condition("Connected", "False", "KafkaUnreachable")),
            "Kafka",
            AspectState.UNKNOWN,
            "make Kafka reachable",
        ),
        (seen(lastScan=FAILED), "scan", AspectState.WRONG, "correct the cause, such as a field of spec.compliance"),
        (seen(spec={"drainBrokers": [4]}), "drains", AspectState.GOES_ON, None),
    ],
)
def test_aspect_that_is_not_fine_comes_first_and_sets_the_next_step(found, name, state, step):
    whole = situation(found, [kafka_topic("orders")], ())
    assert (whole.aspects[0].name, whole.state) == (name, state)
    assert (whole.step is None) if step is None else whole.step.startswith(step)


TEN = ", ".join(map(str, range(10)))


@pytest.mark.parametrize(
    ("offline", "step"),
    [
        ({"count": 1, "brokers": [4]}, "start broker 4; only if it is gone for good: rackspan drain 4"),
        ({"count": 2, "brokers": [4, 5]}, "start brokers 4, 5; only if they are gone for good: rackspan drain 4 5"),
        (
            {"count": 150, "brokers": [*range(100)]},
            f"start brokers {TEN} and 140 more; only if they are gone for good: rackspan drain ID...",
        ),
    ],
)
def test_next_step_for_offline_brokers_names_a_drain_of_all_of_them(offline, step):
    found = situation(seen(offline=offline), (), ()).step
    assert found == f"{step} --topology kafka/prod; rackspan check --topology kafka/prod shows what has no leader"


def test_topology_that_the_operator_has_never_observed_is_unknown():
    whole = situation(topology(), (), ())
    assert {one.state for one in whole.aspects} == {AspectState.UNKNOWN}
    for name in ("brokers", "racks", "plan"):
        assert aspect(whole, name).message == "last seen: not known yet"


def reassigned(message, status="True", reason="InSync"):
    return condition("Reassigned", status, reason, message)


@pytest.mark.parametrize(
    ("found", "state", "message"),
    [
        (seen(reassigned("no topic needs a change")), AspectState.FINE, "no topic needs a change"),
        (seen(reassigned("no plan: see topics")), AspectState.FINE, "no plan: see topics"),
        (
            seen(reassigned("no topic needs a change"), plan=PLAN),
            AspectState.GOES_ON,
            f"plan {HASH} copies 6 replicas, 56.0 MiB; it is being made",
        ),
        (seen(PENDING), AspectState.GOES_ON, "it is being made"),
    ],
)
def test_plan_counts_as_being_made_until_plan_and_condition_agree(found, state, message):
    one = aspect(situation(found, (), ()), "plan")
    assert (one.state, one.message, one.step) == (state, message, None)


def drain(target, *reasons, reason="Draining", message="2 replicas left"):
    blocks = [{"reason": one, "topics": 1, "replicas": 2, "samples": ["orders"]} for one in reasons]
    return {"target": target, "reason": reason, "message": message, "drained": False, "blocks": blocks}


MOVED_BY_HAND = (
    "move topics without a KafkaTopic with rackspan apply --drain-broker, or let the operator plan for them by "
    "spec.unmanagedTopics: Repair: orders"
)
TAKE_BACK = "correct spec.drainBrokers or spec.drainRacks, or take what does not exist off: rackspan uncordon"


@pytest.mark.parametrize(
    ("drains", "state", "step"),
    [
        ([drain("4", "PlanPending", "NotManaged")], AspectState.GOES_ON, None),
        ([drain("4", "Infeasible")], AspectState.GOES_ON, None),  # the status of the topic states the step
        ([drain("77", reason="UnknownBroker")], AspectState.WRONG, f"{TAKE_BACK} 77 --topology kafka/prod"),
        ([drain("/mars", reason="UnknownRack")], AspectState.WRONG, f"{TAKE_BACK} --rack=/mars --topology kafka/prod"),
        (
            [drain("4", "PlanPending"), drain("5", "NotManaged")],
            AspectState.WRONG,
            MOVED_BY_HAND,
        ),
    ],
)
def test_drain_that_cannot_end_without_the_user_is_wrong(drains, state, step):
    spec = {"drainBrokers": [4, 5, 77], "drainRacks": ["/mars"]}
    one = aspect(situation(seen(spec=spec, drains=drains), (), ()), "drains")
    assert (one.state, one.step) == (state, step)


def test_generation_that_the_operator_has_not_observed_is_reported():
    edited = structs.replace(seen(), meta=structs.replace(seen().meta, generation=7))
    whole = situation(edited, (), ())
    assert whole.aspects[0].message == "the operator has not observed generation 7 of the RackTopology yet"
    assert whole.step.startswith("check that the operator runs")


LEASE = ObjectKey("rackspan", "rackspan")
NO_OPERATOR = "no operator runs: no process has renewed Lease rackspan/rackspan"
SINCE = datetime(2026, 11, 25, 10, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("operator", "state", "message"),
    [
        (OperatorLease(LEASE, "pod-1", SINCE), AspectState.FINE, "pod-1 holds Lease rackspan/rackspan"),
        (
            OperatorLease(LEASE, None, SINCE),
            AspectState.UNKNOWN,
            f"{NO_OPERATOR} since 2026-11-25 10:00:00 UTC",
        ),
        (
            OperatorLease(LEASE, None),
            AspectState.UNKNOWN,
            NO_OPERATOR,
        ),
    ],
)
def test_status_shows_from_the_lease_whether_the_operator_runs(operator, state, message):
    found = situation(seen(**OFFLINE), (), (), operator)
    one = aspect(found, "operator")
    assert (one.state, one.message) == (state, message)
    assert found.step.startswith("see why it does not run" if state is AspectState.UNKNOWN else "start broker 4")


@pytest.mark.parametrize(
    ("conditions", "operator", "current"),
    [
        (
            [
                condition("Connected", "False", "KafkaUnreachable"),
                condition("RacksInSync", "Unknown", "KafkaUnreachable"),
            ],
            OperatorLease(LEASE, "pod-1", SINCE),
            {"operator", "Kafka", "scan"},
        ),
        ([], OperatorLease(LEASE, None, SINCE), {"operator", "scan"}),
    ],
)
def test_aspects_seen_earlier_are_not_fine_without_kafka_or_an_operator(conditions, operator, current):
    done = {**FAILED, "state": "Completed", "finishedAt": WHEN, "findings": 0}
    found = seen(*conditions, PENDING, plan=PLAN, lastScan=done)
    whole = situation(found, [kafka_topic("orders")], [reassignment()], operator)
    others = [one for one in whole.aspects if one.name not in current]
    assert {one.name for one in others} == {"Kafka", "brokers", "racks", "plan", "moves", "topics"} - current
    assert AspectState.FINE not in {one.state for one in others}
    assert [one for one in others if one.step or not one.message.startswith("last seen: ")] == []
    assert aspect(whole, "brokers").message == "last seen: 9 brokers online"
    assert (aspect(whole, "plan").state, aspect(whole, "brokers").state) == (AspectState.WRONG, AspectState.UNKNOWN)
    assert aspect(whole, "racks").state is AspectState.UNKNOWN


DONE = {"scanId": "scan-1", "trigger": "Schedule", "state": "Completed", "startedAt": WHEN, "finishedAt": WHEN}
MISSED = condition("Scanned", "False", "ScanMissed", "3 scheduled scans were not started")


@pytest.mark.parametrize(
    ("conditions", "last", "state", "message"),
    [
        ((), {**DONE, "findings": 0}, AspectState.FINE, "scan scan-1 of 2026-11-25 10:00:00 UTC found 0 findings"),
        ((), DONE, AspectState.FINE, "scan scan-1 of 2026-11-25 10:00:00 UTC has no report"),
        (
            (MISSED,),
            {**DONE, "findings": 0},
            AspectState.WRONG,
            "ScanMissed: 3 scheduled scans were not started; scan scan-1 of 2026-11-25 10:00:00 UTC found 0 findings",
        ),
        (
            (condition("Scanned", "False", "ScanRunning"),),
            {**DONE, "state": "Running", "finishedAt": None},
            AspectState.GOES_ON,
            "scan scan-1 runs",
        ),
        ((MISSED,), None, AspectState.WRONG, "ScanMissed: 3 scheduled scans were not started"),
        (
            (condition("Scanned", "False", "ScanWaiting", "a scan is due and waits for others to end"),),
            {**DONE, "findings": 0},
            AspectState.GOES_ON,
            "a scan is due and waits for others to end; scan scan-1 of 2026-11-25 10:00:00 UTC found 0 findings",
        ),
    ],
    ids=["done", "without a report", "none since", "runs after a failure", "none at all", "waits after a failure"],
)
def test_status_tells_how_old_a_scan_is_and_why_there_is_none(conditions, last, state, message):
    one = aspect(situation(seen(*conditions, lastScan=last), (), ()), "scan")
    assert (one.state, one.message) == (state, message)


def record(version, *, holder="pod-1", ago=0.0):
    """Return a function that makes a record renewed `ago` seconds ago."""
    return lambda: LeaseRecord(holder, 30, 0, version, datetime.now(UTC) - timedelta(seconds=ago))


@pytest.mark.parametrize(
    ("records", "holder"),
    [
        ([record("1", ago=2)], "pod-1"),
        ([record("1", ago=-20)], "pod-1"),
        ([record("1", ago=3600), record("1", ago=3600), record("2", ago=3597)], "pod-1"),
        ([record("1", ago=-3600), record("2", ago=-3603)], "pod-1"),
        ([record("1", ago=3600), record("1", ago=3600)], None),
        ([partial(LeaseRecord, "pod-1", 30, 0, version, SINCE) for version in "12"], None),  # only annotated
        ([record("1", ago=3600), None], None),
        ([record("1", ago=3600), record("2", holder="", ago=0)], None),
        ([record("1", holder="")], None),
        ([None], None),
    ],
)
def test_lease_holder_is_the_process_that_renews_it_even_if_clocks_differ(records, holder, monkeypatch):
    class Leases:
        looks = 0

        async def lease(self, _key):
            at, self.looks = self.looks, self.looks + 1
            made = records[min(at, len(records) - 1)]
            return made and made()

    loop = asyncio.new_event_loop()
    monkeypatch.setattr(looking, "_LEAST_SECONDS", 1e-9)
    monkeypatch.setattr(loop, "time", itertools.count(step=1).__next__)  # each look takes a second or more
    monkeypatch.setattr(asyncio, "sleep", AsyncMock())
    found = loop.run_until_complete(operator_lease(Leases(), LEASE))
    assert (found.key, found.holder) == (LEASE, holder)


def test_next_step_for_rack_drift_is_the_label_before_the_moves_and_their_cost():
    drift = {"count": 1, "brokers": [2], "topics": {"count": 1, "samples": ["shop/orders"]}}
    spec = {"reassignment": {"throttle": 20 << 20}}
    found = situation(seen(DRIFT, PENDING, spec=spec, drift=drift, plan=PLAN), (), ())
    cost = "6 replicas, 56.0 MiB, under a minute at 20.0 MiB/s and broker"
    assert found.step == (
        "where the label of a node, spec.rackAliases or broker.rack is wrong, correct it first: then no replica has to "
        "move; "
        f"where the nodes are right, plan {HASH} copies {cost}"
    )
    assert aspect(found, "plan").message == f"plan {HASH} copies {cost}; it waits for approval"


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({"moves": 6, "removals": 2}, "copies 6 replicas, 56.0 MiB and removes 2 replicas; it waits for approval"),
        ({"moves": 0, "bytes": 0, "removals": 4}, "copies nothing and removes 4 replicas; it waits for approval"),
    ],
)
def test_status_shows_removed_replicas_next_to_copied_ones(plan, words):
    found = situation(seen(PENDING, plan=PLAN | plan), (), ())
    assert aspect(found, "plan").message == f"plan {HASH} {words}"


NONE = "0 of 1 KafkaTopic ready, 0 not compliant"
PLANNED = condition("Ready", "False", "PlanPending", "copies 3 replicas")
WAITING = [kafka_topic(name, "False", "PlanPending", "wait") for name in "bc"]


@pytest.mark.parametrize(
    ("topics", "state", "message"),
    [
        (
            [],
            AspectState.FINE,
            "no KafkaTopics; topics in Kafka are not judged here, see: rackspan check --topology kafka/prod",
        ),
        ([kafka_topic("a")], AspectState.FINE, "1 KafkaTopic ready"),
        (
            [kafka_topic("a", "False", "Creating")],
            AspectState.GOES_ON,
            "0 of 1 KafkaTopic ready, 0 not compliant: 1 Creating",
        ),
        ([topic("a")], AspectState.GOES_ON, f"{NONE}: 1 not reconciled yet"),
        (
            [kafka_topic("a", "False", "Infeasible", "no room"), *WAITING],
            AspectState.WRONG,
            "0 of 3 KafkaTopics ready, 0 not compliant: 2 PlanPending, 1 Infeasible; such as shop/b: wait",
        ),
        (
            [topic("a", status={"conditions": [PLANNED, condition("Compliant", "False", message="unfair")]})],
            AspectState.WRONG,
            "0 of 1 KafkaTopic ready, 1 not compliant: 1 PlanPending; such as shop/a: unfair",
        ),
        (
            [topic("a", status={"conditions": [PLANNED, condition("Compliant", "True", message="all fair")]})],
            AspectState.WRONG,
            "0 of 1 KafkaTopic ready, 0 not compliant: 1 PlanPending; such as shop/a: copies 3 replicas",
        ),
        (
            [kafka_topic("a", compliance={"partitions": 6, "nonCompliant": 0, "pinned": 2})],
            AspectState.FINE,
            "1 KafkaTopic ready; 2 partitions unfair by an explicit assignment",
        ),
    ],
)
def test_topics_are_counted_by_reason_with_one_example(topics, state, message):
    one = aspect(situation(seen(), topics, ()), "topics")
    assert (one.state, one.message) == (state, message)
    assert (one.step is None) == (state is not AspectState.WRONG)


def test_topics_that_cannot_be_listed_are_counted_from_the_topology_status():
    found = seen(topics={"total": 7, "ready": 2, "nonCompliant": 5, "stalled": 5})
    assert aspect(situation(found, None, ()), "topics").message == "2 of 7 KafkaTopics ready, 5 not compliant"


def test_status_shows_the_progress_of_a_reassignment_and_its_message():
    one = aspect(situation(seen(), (), [reassignment()]), "moves")
    assert one.state is AspectState.GOES_ON
    assert one.message == "prod-d42a: Running, 2 of 6 moves; 6 partitions wait for broker 3"
    less = structs.replace(reassignment(), status=structs.replace(reassignment().status, removals=4))
    assert "2 of 6 moves, 4 removals; " in aspect(situation(seen(), (), [less]), "moves").message
    paused = aspect(situation(seen(), (), [reassignment(paused=True)]), "moves")
    assert (paused.state, paused.step) == (
        AspectState.WRONG,
        "kubectl describe reassignment prod-d42a --namespace kafka",
    )


class Objects:
    def __init__(self, found, topics):
        self._found, self._topics = found, topics

    async def read(self):
        return self._found

    async def topics(self):
        if isinstance(self._topics, Exception):
            raise self._topics
        return self._topics

    async def reassignments(self):
        return ()

    async def lease(self, key):
        raise FailureError(Failure(Reason.NOT_AUTHORIZED, f"{key} is not for you", Remedy.ACCESS))


@pytest.fixture
def objects(monkeypatch):
    def have(found, topics=()):
        @asynccontextmanager
        async def connected(*_):
            yield found if isinstance(found, Objects) else Objects(found, topics)

        monkeypatch.setattr(topology_edits, "topology_edits", connected)

    return have


def test_status_ends_with_the_next_step_and_exits_with_1_if_an_aspect_is_wrong(objects):
    objects(seen(**OFFLINE))
    ran = cli("status", *TOPOLOGY)
    lines = [line.strip().split(maxsplit=2) for line in ran.out.splitlines() if line.strip()]
    assert (ran.code, lines[0]) == (1, ["RackTopology", "kafka/prod", "(cluster abc): wrong"])
    assert lines[1] == ["wrong", "brokers", "8 of 9 brokers online; offline: 4"]
    assert lines[-1][:2] == ["Next:", "start"]
    document = cli("status", *TOPOLOGY, "-o", "json").json
    assert (document["state"], document["aspects"][0]["name"]) == ("WRONG", "brokers")
    assert document["next"] == document["aspects"][0]["next"]


def test_next_step_is_one_line_on_a_narrow_terminal_so_that_its_command_can_be_copied(objects, monkeypatch):
    objects(seen(**OFFLINE))
    step = cli("status", *TOPOLOGY, "-o", "json").json["next"]
    for name, value in {"FORCE_COLOR": "1", "COLUMNS": "60", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    assert cli("status", *TOPOLOGY).out.endswith(f"\nNext: {step}\n")


def test_times_in_the_status_have_a_date_and_are_in_utc():
    away = condition("Connected", "False", "KafkaUnreachable") | {"lastTransitionTime": "2026-11-25T12:00:00+02:00"}
    moving = reassignment(status={"state": "Running", "estimatedEnd": "2026-11-27T14:16:08Z"})
    found = situation(seen(away), None, [moving])
    assert aspect(found, "Kafka").message == "it is so since 2026-11-25 10:00:00 UTC"
    assert "ends at about 2026-11-27 14:16:08 UTC" in aspect(found, "moves").message


@pytest.mark.parametrize(
    ("found", "code"), [(seen(), 0), (seen(condition("Connected", "False", "KafkaUnreachable")), 3)]
)
def test_exit_code_of_status_depends_on_the_state(objects, found, code):
    objects(found)
    assert cli("status", *TOPOLOGY).code == code


def test_status_warns_if_topics_cannot_be_listed(objects):
    objects(seen(), FailureError(Failure(Reason.NOT_AUTHORIZED, "forbidden", Remedy.ACCESS)))
    ran = cli("status", *TOPOLOGY)
    assert (ran.code, ran.err) == (0, "warning: KafkaTopics cannot be listed, so that none is named: forbidden\n")


def test_status_warns_if_the_lease_cannot_be_read(objects):
    objects(seen(lease="rackspan/rackspan"))
    ran = cli("status", *TOPOLOGY)
    said = "whether the operator runs cannot be seen, so all this may be out of date"
    assert (ran.code, ran.err) == (0, f"warning: {said}: rackspan/rackspan is not for you\n")


def test_status_with_watch_prints_only_changes(objects, monkeypatch):
    states = iter([seen(), seen(), seen(**OFFLINE)])

    class Changing(Objects):
        async def read(self):
            try:
                return next(states)
            except StopIteration:
                raise KeyboardInterrupt from None

    objects(Changing(None, ()))
    monkeypatch.setattr(looking, "_LEAST_SECONDS", 0)
    ran = cli("status", *TOPOLOGY, "--watch", "-o", "json")
    assert ran.code == 130
    assert ran.out.count('"topology"') == 2


def test_control_characters_in_conditions_are_escaped(objects):
    objects(seen(condition("Ready", "False", "EmptyLevel", "no\x1b[31m level")))
    assert "no\\x1b[31m level" in cli("status", *TOPOLOGY).out


STEPS = [
    ("Ready", "EmptyLevel", {}, "correct nodeLabel of this level in spec.levels"),
    (
        "Ready",
        "MissingRacks",
        {"rackSource": "Nodes"},
        "correct the labels of spec.levels on the nodes of these brokers, or set spec.missing",
    ),
    ("Ready", "InvalidRack", {"rackSource": "Broker"}, "correct broker.rack, or spec.rackAliases, for these brokers"),
    ("Ready", "BrokerPodsNotShared", {}, "kubectl label namespace kafka rackspan.dev/broker-pods-for=kafka"),
    ("Ready", "CordonsLeft", {}, "kubectl describe racktopology prod --namespace kafka"),
    (
        "Connected",
        "AuthenticationFailed",
        {},
        "correct the user or the password in the Secret of spec.kafka.sasl.secretRef",
    ),
    ("Connected", "ClusterIdMismatch", {}, "correct spec.kafka.bootstrapServers; or"),
    ("Connected", "UnexpectedError", {}, "kubectl describe racktopology prod --namespace kafka"),
]


@pytest.mark.parametrize(("kind", "reason", "spec", "step"), STEPS)
def test_next_step_names_the_field_or_label_to_change(kind, reason, spec, step):
    assert situation(seen(condition(kind, "False", reason), spec=spec), (), ()).step.startswith(step)


def test_fields_that_next_steps_name_exist_in_the_crds():
    kinds = [yaml.safe_load((CRDS / f"{kind}.yaml").read_text()) for kind in ("racktopologies", "kafkatopics")]
    schemas = [one["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for one in kinds]
    named = set(re.findall(r"(?<!\.)\bspec(?:\.[a-zA-Z]+)+", Path(next_steps.__file__).read_text()))
    assert "spec.kafka.bootstrapServers" in named
    for path in named:
        assert any(_has(schema, path.split(".")) for schema in schemas), path


def _has(schema, path):
    for name in path:
        schema = schema.get("properties", {}).get(name)
        if schema is None:
            return False
    return True

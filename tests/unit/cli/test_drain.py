"""`rackspan drain` and `rackspan uncordon`: what they change and reject, and when they stop waiting."""

from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
import yaml
from msgspec import structs
from tests.support.command import cli
from tests.unit.reconcile.examples import SIX, topology

from rackspan.api.drains import Drains, draining
from rackspan.api.racktopology import TopologyReassignment
from rackspan.api.reasons import Reason
from rackspan.api.reassignment import Reassignment
from rackspan.cli.actions import draining_brokers as command
from rackspan.cli.actions import watching_plans as watch
from rackspan.cli.rendering import event_lines
from rackspan.cli.shared import command_errors, drain_waiting, looking, operator_lease
from rackspan.cli.shared.command_errors import CommandError, ExitCode
from rackspan.core.reassignment.approval import ApprovalHold, PlanPart, Terms, judge_approval
from rackspan.kafka import admin
from rackspan.kube import topology_edits
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import ClusterDescription, RemainingReplicas
from rackspan.reconcile.runtime.lease import LeaseRecord

TOPOLOGY = ("--topology", "kafka/prod")
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
PLANNED = command._Planned(
    hash="0123456789abcdef",
    moves=3,
    bytes=3 * 2**30,
    removals=0,
    removed_bytes=0,
    empty=False,
    there=4,
    leave=3,
    throttle=None,
    left=(),
    limit=None,
)
PENDING = {"plan": {"hash": PLANNED.hash, "topics": 1, "moves": 3, "lowerBound": 3, "reorders": 0, "partitions": 3}}
BROKERS = [{"id": broker, "rack": rack} for broker, rack in SIX.items()]


def entry(target, left):
    done = {"drained": True, "reason": "Drained", "message": "Kafka shows no replica there"}
    waits = {"drained": False, "reason": "Draining", "message": f"{left} replicas left: they wait"}
    return {"target": target, **(waits if left else done), "replicas": {"total": left}}


def moving(state="Running", moved=1, **status):
    return Reassignment.from_object(
        {
            "metadata": {"name": "prod-0123", "namespace": "kafka", "uid": "r-1"},
            "spec": {"topologyRef": {"name": "prod"}, "planHash": PLANNED.hash, "plan": "x"},
            "status": {"state": state, "moves": 3, "moved": moved, "message": "a broker is gone", **status},
        }
    )


NEWER = moving("Superseded", finishedAt="2026-01-31T12:00:00Z")
"""A Reassignment that ended in a state that only a newer version knows."""


class Edits:
    """A RackTopology in memory. Each read after a change returns the next of `looks`; the last one repeats."""

    def __init__(self, *looks, managers=()):
        self.looks = list(looks) or [({}, ())]
        self.spec = Drains()
        self.generation = 1
        self.changes = []
        self.approved = []
        self._managers = managers
        self._now = {}, ()
        self.more = {}
        self.leases = []

    async def read(self):
        if self.generation > 1:
            self._now = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return self._object()

    async def reassignments(self):
        if not self.changes:
            await self.read()
        return self._now[1]

    async def change_drains(self, change, *, dry_run=False):
        wanted = change(self.spec)
        self.changes.append((wanted, dry_run))
        if not dry_run and wanted != self.spec:
            self.spec = wanted
            self.generation += 1
        return draining(self._object(), wanted)

    async def approve(self, plan_hash):
        self.approved.append(plan_hash)

    async def field_managers(self):
        return self._managers

    async def lease(self, _key):
        return self.leases.pop(0) if len(self.leases) > 1 else self.leases[0]

    def _object(self):
        seen = topology(**self.more, status={"brokers": BROKERS, "observedGeneration": self.generation, **self._now[0]})
        return draining(structs.replace(seen, meta=structs.replace(seen.meta, generation=self.generation)), self.spec)


@pytest.fixture
def drained(monkeypatch):
    """A function that sets the RackTopology and its plan: `drained(Edits(...), planned=...)`."""

    def have(edits, planned=PLANNED):
        @asynccontextmanager
        async def connected(*_):
            yield edits

        monkeypatch.setattr(topology_edits, "topology_edits", connected)
        monkeypatch.setattr(command, "_planned", lambda *_: planned)
        monkeypatch.setattr(looking, "_LEAST_SECONDS", 0)
        return edits

    return have


def test_drain_changes_the_topology_and_prints_the_size_of_the_plan(drained):
    edits = drained(Edits())
    ran = cli("drain", "4", "--rack", "eu/eu-1a", *TOPOLOGY)
    assert (ran.code, edits.spec, edits.approved) == (0, Drains((4,), ("/eu/eu-1a",)), [])
    assert ran.out.splitlines() == [
        "4 replicas there now: 3 can leave by plan 0123456789abcdef (3 moves, 3.0 GiB to copy), 1 cannot",
        "RackTopology kafka/prod: brokers and racks to drain: 4, /eu/eu-1a",
    ]
    assert ran.err == (
        "note: this command moves no replica; to approve the plan and wait for its end: "
        "rackspan drain 4 --rack=/eu/eu-1a --topology kafka/prod --approve --wait\n"
    )
    again = cli("drain", "4", *TOPOLOGY)
    assert again.out.splitlines()[1] == "RackTopology kafka/prod: brokers and racks to drain: 4, /eu/eu-1a (as before)"


def test_drain_prints_removed_replicas_next_to_the_bytes_to_copy(drained):
    drained(Edits(), replace(PLANNED, removals=2, removed_bytes=2**30))
    said = cli("drain", "4", *TOPOLOGY).out.splitlines()[0]
    assert "(3 moves, 3.0 GiB to copy; 2 replicas removed (1.0 GiB))" in said


def test_json_output_of_drain_has_one_object_per_line(drained):
    drained(Edits())
    ran = cli("drain", "4,5", *TOPOLOGY, "-o", "json")
    assert [yaml.safe_load(line) for line in ran.out.splitlines()] == [
        {
            "event": "plan",
            "plan": "0123456789abcdef",
            "moves": 3,
            "bytes": 3 * 2**30,
            "removals": 0,
            "removedBytes": 0,
            "there": 4,
            "leave": 3,
        },
        {"event": "drains", "topology": "kafka/prod", "dryRun": "none", "drainBrokers": [4, 5], "drainRacks": []},
    ]


def test_dry_run_of_drain_prints_the_manifest_and_changes_nothing(drained):
    edits = drained(Edits())
    ran = cli("drain", "4", *TOPOLOGY, "--dry-run=client", "-o", "yaml")
    assert yaml.safe_load(ran.out) == {
        "apiVersion": "rackspan.dev/v1alpha1",
        "kind": "RackTopology",
        "metadata": {"name": "prod", "namespace": "kafka"},
        "spec": {"drainBrokers": [4], "drainRacks": []},
    }
    assert "(client dry run)" in cli("drain", "4", *TOPOLOGY, "--dry-run=client").out
    assert edits.changes == []
    assert "(server dry run)" in cli("drain", "4", *TOPOLOGY, "--dry-run=server").out
    assert (edits.changes, edits.spec) == ([(Drains((4,)), True)], Drains())


def test_drain_with_wait_ends_when_no_replica_is_left(drained):
    edits = drained(
        Edits(
            ({"drains": []}, ()),
            ({"drains": [entry("4", 3)], **PENDING}, ()),
            ({"drains": [entry("4", 3)], **PENDING}, ()),
            ({"drains": [entry("4", 2)]}, (moving(),)),
            ({"drains": [entry("4", 0)]}, (moving("Succeeded", 3),)),
        )
    )
    ran = cli("drain", "4", *TOPOLOGY, "--approve", "--wait", "--timeout", "5m", "-o", "json")
    events = [yaml.safe_load(line) for line in ran.out.splitlines()]
    assert ran.code == 0
    assert edits.approved == [PLANNED.hash]
    assert [one["event"] for one in events] == ["plan", "drains", "approved", "waiting", "progress", "drained"]
    assert (events[4]["moved"], events[4]["state"], events[4]["left"]) == (1, "Running", 2)
    assert events[5] == {"event": "drained", "targets": ["4"], "brokers": [4]}


class Reader:
    """Standard output that fails from line `number` on: its reader has exited, or its disk is full."""

    def __init__(self, monkeypatch, number, error):
        self.lines, self._at, self._error = [], number, error
        monkeypatch.setattr(event_lines, "print", self.print, raising=False)
        for module in (event_lines, command_errors):
            monkeypatch.setattr(module, "print_no_more", lambda: None)

    def print(self, line, **_):
        self.lines.append(line)
        if len(self.lines) >= self._at:
            raise self._error


@pytest.mark.parametrize(("error", "code"), [(BrokenPipeError(32, "Broken pipe"), 0), (OSError(28, "No space"), 74)])
def test_drain_continues_after_standard_output_fails(drained, monkeypatch, error, code):
    edits = drained(Edits(({"drains": [entry("4", 3)], **PENDING}, ()), ({"drains": [entry("4", 0)]}, ())))
    Reader(monkeypatch, 2, error)
    ran = cli("drain", "4", *TOPOLOGY, "--approve", "--wait")
    assert ran.code == code
    assert (edits.spec.targets, edits.approved, len(edits.looks)) == (("4",), [PLANNED.hash], 1)


def test_drain_changes_nothing_if_the_plan_cannot_be_printed(drained, monkeypatch):
    edits = drained(Edits())
    Reader(monkeypatch, 1, BrokenPipeError(32, "Broken pipe"))
    ran = cli("drain", "4", *TOPOLOGY, "--approve", "--wait")
    assert (ran.code, edits.changes) == (74, [])
    assert ran.error == "standard output: Broken pipe; nothing was changed"


@pytest.mark.parametrize("call", ["read", "approve"])
@pytest.mark.parametrize(("remedy", "code"), [(Remedy.RETRY, 0), (Remedy.ACCESS, 3)])
def test_drain_retries_if_the_api_server_is_unreachable_and_ends_if_access_is_denied(drained, call, remedy, code):
    waits = {"drains": [entry("4", 3)], **PENDING}, ()
    edits = drained(Edits(waits, waits, ({"drains": [entry("4", 0)]}, ())))
    answers, away = getattr(edits, call), [FailureError(Failure(Reason.API_SERVER_UNREACHABLE, "it is away", remedy))]

    async def asked(*arguments):
        if edits.generation > 1 and away:
            raise away.pop()
        return await answers(*arguments)

    setattr(edits, call, asked)
    ran = cli("drain", "4", *TOPOLOGY, "--approve", "--wait", "--timeout", "1m")
    assert (ran.code, edits.spec.targets) == (code, ("4",)), ran.err
    assert edits.approved == [PLANNED.hash] * (code == 0)
    assert ran.hint == ("the drain is still in the RackTopology; rackspan uncordon ends it" if code else "")


def test_interrupted_wait_prints_that_the_drain_stays_in_the_topology(drained):
    edits = drained(Edits(({"drains": [entry("4", 3)]}, ())))

    async def interrupted():
        raise KeyboardInterrupt

    edits.reassignments = interrupted
    ran = cli("drain", "4", *TOPOLOGY, "--wait")
    assert (ran.code, ran.err) == (130, "note: the drain is still in the RackTopology; rackspan uncordon ends it\n")


def test_reassignment_from_before_the_drain_does_not_end_the_wait(drained):
    left = {"drains": [entry("4", 3)]}
    looks = [(left, (moving(),)), ({**left, **PENDING}, (moving("Stopped"),)), ({"drains": [entry("4", 0)]}, ())]
    drained(Edits(*looks))
    assert cli("drain", "4", *TOPOLOGY, "--wait").code == 0


def test_drain_does_not_approve_a_plan_that_differs_from_the_one_shown(drained):
    other = {"plan": {"hash": "ffff", "topics": 1, "moves": 9, "lowerBound": 3, "reorders": 0, "partitions": 3}}
    edits = drained(Edits((other, ())))
    ran = cli("drain", "4", *TOPOLOGY, "--approve", "--timeout", "1s")
    assert (ran.code, edits.approved) == (4, [])
    assert ran.error == "plan 0123456789abcdef was shown, and the operator's is ffff: it is not approved"


def test_drain_is_rejected_if_another_client_drains_all_other_brokers_meanwhile(drained):
    edits = drained(Edits())
    change_drains = edits.change_drains

    async def changed(change, **how):
        edits.spec = Drains((0, 1, 2, 3, 4))
        return await change_drains(change, **how)

    edits.change_drains = changed
    ran = cli("drain", "5", *TOPOLOGY)
    assert (ran.code, edits.spec) == (2, Drains((0, 1, 2, 3, 4)))
    assert ran.error == "all 6 brokers are drained then, none is left to hold replicas"


def test_drain_of_a_broker_without_replicas_approves_nothing(drained):
    nothing = replace(PLANNED, hash="0123", moves=0, bytes=0, empty=True, there=0, leave=0)
    edits = drained(Edits(({"drains": [entry("4", 0)]}, ())), nothing)
    ran = cli("drain", "4", *TOPOLOGY, "--approve", "--wait")
    assert (ran.code, edits.approved) == (0, [])
    assert "0 replicas there now; no plan moves any" in ran.out
    assert "4: no replica is left, by the operator's word" in ran.out


@pytest.mark.parametrize("state", ["Failed", "Stopped", "Cancelled"])
def test_wait_ends_with_an_error_if_the_reassignment_does_not_succeed(drained, state):
    drained(Edits(({"drains": [entry("4", 3)]}, (moving(),)), ({"drains": [entry("4", 3)]}, (moving(state),))))
    ran = cli("drain", "4", *TOPOLOGY, "--wait")
    assert (ran.code, ran.error) == (4, f"Reassignment kafka/prod-0123 has ended as {state}: a broker is gone")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda seen: draining(seen, Drains()), "RackTopology kafka/prod does not drain 4, /eu/eu-1a any more"),
        (lambda seen: draining(seen, Drains((4,))), "RackTopology kafka/prod does not drain /eu/eu-1a any more"),
        (
            lambda seen: structs.replace(seen, meta=structs.replace(seen.meta, uid="new", generation=1)),
            "RackTopology kafka/prod was deleted and created again",
        ),
    ],
    ids=["uncordon", "another spec", "another object"],
)
def test_wait_ends_with_an_error_if_another_client_withdraws_the_drain(drained, change, why):
    edits = drained(Edits(({"drains": [entry("4", 3), entry("/eu/eu-1a", 3)]}, ())))
    read, looks = edits.read, []

    async def changed():
        looks.append(await read())
        return change(looks[-1]) if len(looks) > 3 else looks[-1]

    edits.read = changed
    ran = cli("drain", "4", "--rack", "eu/eu-1a", *TOPOLOGY, "--wait", "--timeout", "2s")
    assert (ran.code, ran.error) == (4, why)
    assert ran.hint.startswith("to drain all the same, run the same command again")


def test_wait_prints_how_to_approve_a_pending_plan(drained):
    waits = {
        "type": "Reassigned",
        "status": "False",
        "reason": "PlanPending",
        "message": "to approve it: kubectl annotate",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    drained(Edits(({"drains": [entry("4", 3)], "conditions": [waits]}, ())))
    ran = cli("drain", "4", *TOPOLOGY, "--wait", "--timeout", "1s")
    assert ran.error.endswith("4: 3 replicas left: they wait; to approve it: kubectl annotate")
    assert "3 replicas left; 4: 3 replicas left: they wait; to approve it: kubectl annotate" in ran.out


def test_wait_ignores_a_status_of_an_older_generation(drained):
    drained(Edits(({"drains": [entry("4", 0)], "observedGeneration": 1}, ())))
    ran = cli("drain", "4", *TOPOLOGY, "--wait", "--timeout", "1s")
    assert ran.code == 4
    assert ran.error.startswith("not drained in time: what is left is not known; the operator has not seen the change")


def blocked(target, **counts):
    """Return an entry whose replicas are left for these reasons."""
    blocks = [
        {"reason": reason, "topics": 1, "replicas": count, "samples": ["orders"]} for reason, count in counts.items()
    ]
    return {**entry(target, sum(counts.values())), "blocks": blocks}


@pytest.mark.parametrize(
    ("spec", "counts", "code"),
    [
        ({}, {"ExplicitAssignment": 3}, 5),
        ({}, {"ExplicitAssignment": 3, "NotManaged": 1, "InternalTopic": 2}, 5),
        ({"unmanagedTopics": "Repair"}, {"NotManaged": 1}, 4),
        ({"unmanagedTopics": "Repair"}, {"ExplicitAssignment": 3, "InternalTopic": 1}, 4),
        ({}, {"ExplicitAssignment": 3, "PlanPending": 1}, 4),
        ({}, {"Waiting": 1}, 4),
        ({}, {"Infeasible": 2}, 4),
        ({}, {}, 4),
    ],
)
def test_wait_ends_if_only_replicas_are_left_that_no_plan_moves(drained, spec, counts, code):
    edits = drained(Edits(({"drains": [blocked("4", **counts) if counts else entry("4", 3)]}, ())))
    edits.more = spec
    ran = cli("drain", "4", *TOPOLOGY, "--wait", "--timeout", "1s")
    assert ran.code == code
    if code == 5:
        left = sum(counts.values())
        assert ran.error == f"no plan moves what is left: 4: {left} replicas left: they wait"
        assert len(ran.hint.split("; ")) == len(counts), "one hint for each reason"


def shown_before(counts, *, empty, limit=None):
    """Return the plan of a drain of broker 4 that has these replicas."""
    left = topology(status={"drains": [blocked("4", **counts)]}).status.drains
    there, leave = sum(counts.values()), counts.get("PlanPending", 0)
    return replace(PLANNED, empty=empty, there=there, leave=leave, left=left, limit=limit)


@pytest.mark.parametrize(
    ("spec", "counts", "code"),
    [
        ({}, {"ExplicitAssignment": 3}, 5),
        ({}, {"ExplicitAssignment": 3, "NotManaged": 1, "InternalTopic": 2}, 5),
        ({"unmanagedTopics": "Repair"}, {"NotManaged": 1}, 0),
        ({}, {"Infeasible": 2}, 0),
    ],
)
def test_drain_without_wait_reports_replicas_that_no_plan_moves(drained, spec, counts, code):
    edits = drained(Edits(({"drains": [blocked("4", **counts)]}, ())), shown_before(counts, empty=True))
    edits.more = spec
    ran = cli("drain", "4", *TOPOLOGY)
    assert (ran.code, edits.spec) == (code, Drains((4,)))
    left = sum(counts.values())
    assert ran.out.splitlines()[:2] == [
        f"{left} replica{'s' * (left > 1)} there now; no plan moves any",
        f"4: {left} replicas left: they wait",
    ]
    if code == 5:
        waited = cli("drain", "4", *TOPOLOGY, "--wait", "--timeout", "1s")
        assert (ran.error, ran.hint) == (waited.error, waited.hint)
        assert "spec.placement.assignment of these topics: orders" in ran.hint
    else:
        assert (
            "there is no plan to approve; rackspan status --topology kafka/prod shows the state of the drain" in ran.err
        )


def test_drain_without_wait_prints_moved_and_remaining_replicas_and_the_next_steps(drained):
    counts = {"PlanPending": 3, "ExplicitAssignment": 1}
    drained(Edits(), shown_before(counts, empty=False, limit="the plan is above maxMoves (2)"))
    ran = cli("drain", "4", *TOPOLOGY)
    assert ran.code == 0
    assert ran.out.splitlines()[0].startswith("4 replicas there now: 3 can leave by plan 0123456789abcdef")
    again = "rackspan drain 4 --topology kafka/prod --approve --wait"
    assert [line.removeprefix("note: ") for line in ran.err.splitlines()] == [
        "no plan moves the rest: take the brokers out of spec.placement.assignment of these topics: orders",
        "the plan is above maxMoves (2): not all of it begins without approval",
        f"this command moves no replica; to approve the plan and wait for its end: {again}",
    ]
    document = yaml.safe_load(cli("drain", "4", *TOPOLOGY, "-o", "json").out.splitlines()[1])
    assert (document["event"], document["target"], document["replicas"]) == ("left", "4", 4)
    assert [(one["reason"], one["replicas"]) for one in document["blocks"]] == list(counts.items())


@pytest.mark.parametrize(
    ("limits", "moves", "size", "said"),
    [
        ({}, 9, None, None),
        ({"max_moves": 2}, 2, None, None),
        ({"max_moves": 2}, 3, 0, "the plan is above maxMoves (2)"),
        ({"max_bytes": 1_000}, 3, 1_000, None),
        ({"max_bytes": 1_000}, 3, 1_001, "the plan is above maxBytes (1,000)"),
        ({"max_bytes": 1_000}, 3, None, "not all sizes are known, and maxBytes is 1,000"),
        ({"max_bytes": 1_000}, 0, None, None),
    ],
)
def test_drain_names_the_limit_by_which_the_operator_holds_the_plan(limits, moves, size, said):
    assert command._limit_reached(TopologyReassignment(**limits), moves, size) == said
    part = PlanPart("hash", moves, size, automatic=True)
    held = judge_approval({"a": part}, (), Terms(**limits)).holds if moves else {}
    assert held == ({} if said is None else {"a": ApprovalHold.LIMIT})


def test_timeout_covers_the_approval_and_the_wait_together(drained, monkeypatch):
    now, waited = [100.0], []

    async def until(look, _over, seconds):
        waited.append(seconds)
        now[0] += 7
        return PLANNED.hash if len(waited) == 1 else await look()

    monkeypatch.setattr(command.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(drain_waiting, "until", until)
    drained(Edits(({"drains": [entry("4", 3)]}, ())))
    ran = cli("drain", "4", *TOPOLOGY, "--approve", "--wait", "--timeout", "10s")
    assert (ran.code, waited) == (4, [10.0, 3.0])


@pytest.mark.parametrize(("remedy", "code"), [(Remedy.RETRY, 0), (Remedy.SPEC, 2)])
def test_wait_retries_if_kafka_is_unreachable_and_ends_if_a_setting_is_rejected(drained, monkeypatch, remedy, code):
    asked = []

    async def kafka(seen, _connection, _brokers, _cluster):
        asked.append(seen)
        if len(asked) == 1:
            raise FailureError(Failure(Reason.KAFKA_UNREACHABLE, "no answer", remedy))
        return seen

    monkeypatch.setattr(drain_waiting, "_seen_by_kafka", kafka)
    drained(Edits(({"drains": [entry("4", 0)]}, ())))
    ran = cli("drain", "4", *TOPOLOGY, "--wait", "--bootstrap-server", "127.0.0.1:1")
    assert ran.code == code
    assert ("not seen now: no answer" in ran.out) == (code == 0)


def test_wait_with_bootstrap_server_also_checks_the_replicas_in_kafka(drained, monkeypatch):
    asked = []

    async def kafka(seen, _connection, brokers, _cluster):
        asked.append(brokers)
        return seen if len(asked) > 1 else not_yet(seen)

    def not_yet(seen):
        return replace(seen, drained=False, left=1)

    drained(Edits(({"drains": [entry("/eu/eu-1a", 0)]}, ())))
    monkeypatch.setattr(drain_waiting, "_seen_by_kafka", kafka)
    ran = cli("drain", "--rack", "/eu/eu-1a", *TOPOLOGY, "--wait", "--bootstrap-server", "127.0.0.1:1")
    assert (ran.code, asked) == (0, [frozenset({0, 1})] * 2)
    assert "no replica is left, by the operator's word and by Kafka's own" in ran.out


def condition(kind, status, reason, message):
    time = "2026-01-31T12:00:00Z"
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": time}


def test_wait_does_not_trust_what_was_seen_before_kafka_became_unreachable(drained):
    away = condition("Connected", "False", "KafkaUnreachable", "no broker answers")
    drained(Edits(({"drains": [entry("4", 0)], "conditions": [away]}, ()), ({"drains": [entry("4", 0)]}, ())))
    ran = cli("drain", "4", *TOPOLOGY, "--wait")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[-2:] == [
        "what is left is not known; the operator does not see Kafka: no broker answers",
        "4: no replica is left, by the operator's word",
    ]


def lease(renewed_at, holder="rackspan-0"):
    return LeaseRecord(holder, 0, 1, "1", renewed_at)


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (None, "no operator runs: no process has renewed Lease kafka/rackspan"),
        (lease(NOON - timedelta(days=3)), "no process has renewed Lease kafka/rackspan since 2026-01-28 12:00:00 UTC"),
        (lease(NOON + timedelta(minutes=6)), "the operator has not updated the status since 2026-01-31 12:00:00 UTC"),
    ],
    ids=["no Lease", "down", "status refused"],
)
def test_wait_does_not_take_the_word_of_an_operator_that_writes_no_status(drained, monkeypatch, record, why):
    looked = {"drains": [{**entry("4", 0), "observedAt": "2026-01-31T12:00:00Z"}], "lease": "kafka/rackspan"}
    edits = drained(Edits((looked, ())))
    edits.leases = [record]
    monkeypatch.setattr(drain_waiting, "_left", lambda _: 0.0)
    monkeypatch.setattr(operator_lease, "datetime", SimpleNamespace(now=lambda _: NOON + timedelta(minutes=6)))
    ran = cli("drain", "4", *TOPOLOGY, "--wait", "--timeout", "1s")
    assert ran.code == 4
    assert why in ran.error, "the broker must not be stopped by this"
    edits.leases = [lease(NOON + timedelta(minutes=1))]
    monkeypatch.setattr(operator_lease, "datetime", SimpleNamespace(now=lambda _: NOON + timedelta(minutes=1)))
    assert cli("drain", "4", *TOPOLOGY, "--wait").code == 0


@pytest.mark.parametrize(("remedy", "code"), [(Remedy.RETRY, 4), (Remedy.ACCESS, 0)])
def test_wait_warns_if_the_lease_may_not_be_read_and_retries_if_it_cannot_be(drained, monkeypatch, remedy, code):
    monkeypatch.setattr(drain_waiting, "_left", lambda _: 0.0)

    async def refused(_key):
        raise FailureError(Failure(Reason.API_SERVER_UNREACHABLE, "no answer", remedy))

    edits = drained(Edits(({"drains": [entry("4", 0)], "lease": "kafka/rackspan"}, ())))
    edits.lease = refused
    ran = cli("drain", "4", *TOPOLOGY, "--wait", "--timeout", "1s")
    assert ran.code == code
    assert ("its word may be out of date: no answer" in ran.err) == (code == 0)


class OtherKafka:
    """A Kafka cluster with the id `other` in which the brokers of the drain hold no replica."""

    @classmethod
    async def ask_new_client(cls, _properties, question):
        return await question(cls())

    async def cluster(self):
        return ClusterDescription("other", ())

    async def remaining_replicas(self, brokers):
        return RemainingReplicas(NOON, {broker: {} for broker in brokers})


@pytest.mark.parametrize(("cluster", "code"), [("other", 0), ("c-1", 2)])
def test_wait_rejects_a_bootstrap_server_of_another_cluster(drained, monkeypatch, cluster, code):
    monkeypatch.setattr(admin, "ConfluentAdmin", OtherKafka)
    drained(Edits(({"drains": [entry("4", 0)], "clusterId": cluster}, ())))
    ran = cli("drain", "4", *TOPOLOGY, "--wait", "--bootstrap-server", "127.0.0.1:1")
    assert ran.code == code
    assert ("by Kafka's own" in ran.out) == (code == 0)
    assert ("127.0.0.1:1 reaches Kafka cluster other, and the RackTopology is of c-1" in ran.err) == (code == 2)


@pytest.mark.parametrize("code", [ExitCode.KAFKA, ExitCode.BAD_INPUT], ids=["away", "not allowed"])
def test_drain_is_stored_without_a_plan_but_rejected_with_approve(drained, monkeypatch, code):
    def away(*_):
        raise CommandError("no broker answers", code=code)

    made = command._planned
    edits = drained(Edits())
    monkeypatch.setattr(command, "_planned", made)
    monkeypatch.setattr(command.LiveTopology, "at", away)
    refused = cli("drain", "4", *TOPOLOGY, "--approve")
    assert (refused.code, edits.spec) == (2, Drains())
    ran = cli("drain", "4", *TOPOLOGY)
    assert (ran.code, edits.spec) == (0, Drains((4,)))
    assert "how much has to move is not known here: no broker answers" in ran.err


def test_drain_warns_if_another_field_manager_applies_the_field(drained):
    drained(Edits(managers=("argocd-controller",)))
    assert "applied by argocd-controller, which may put it back" in cli("drain", "4", *TOPOLOGY).err


@pytest.mark.parametrize(("command", "before", "after"), [("drain", (), (4,)), ("uncordon", (4,), ())])
def test_command_that_stored_its_change_goes_on_if_field_managers_cannot_be_read(drained, command, before, after):
    edits = drained(Edits())
    edits.spec = Drains(before)

    async def away():
        raise FailureError(Failure(Reason.API_SERVER_UNREACHABLE, "it is away", Remedy.RETRY))

    edits.field_managers = away
    ran = cli(command, "4", *TOPOLOGY)
    assert (ran.code, edits.spec) == (0, Drains(after))
    assert "RackTopology kafka/prod: brokers and racks to drain: " in ran.out
    assert "warning: whether another client manages the drains is not known: it is away" in ran.err


def test_watch_follows_a_reassignment_until_it_has_ended(drained):
    edits = drained(Edits(({}, (moving(moved=1),)), ({}, (moving(moved=2),)), ({}, (moving("Succeeded", 3),))))
    edits.generation = 2
    ran = cli("watch", *TOPOLOGY, "-o", "json")
    events = [yaml.safe_load(line) for line in ran.out.splitlines()]
    assert (ran.code, [(one["event"], one["moved"]) for one in events]) == (0, [("progress", 1), ("ended", 3)])
    assert {key: events[0][key] for key in ("reassignment", "plan", "part", "parts", "state", "moves")} == {
        "reassignment": "kafka/prod-0123",
        "plan": PLANNED.hash,
        "part": 1,
        "parts": 1,
        "state": "Running",
        "moves": 3,
    }
    assert "record" not in events[0]


def test_watch_once_prints_the_progress_and_ends(drained):
    edits = drained(Edits(({}, (moving(),))))
    edits.generation = 2
    ran = cli("watch", *TOPOLOGY, "--once")
    assert (ran.code, ran.out) == (0, "prod-0123: Running, 1 of 3 moves\n")


def test_watch_fails_if_the_reassignment_does_not_succeed(drained):
    edits = drained(Edits(({}, (moving(),)), ({}, (moving("Stopped"),))))
    edits.generation = 2
    ran = cli("watch", *TOPOLOGY)
    assert (ran.code, ran.error) == (4, "Reassignment kafka/prod-0123 has ended as Stopped")


def test_commands_follow_a_reassignment_to_its_end_in_a_state_of_a_newer_version(drained):
    drained(Edits(({"drains": [entry("4", 3)]}, (moving(),)), ({"drains": [entry("4", 3)]}, (NEWER,))))
    ran = cli("drain", "4", *TOPOLOGY, "--wait")
    assert (ran.code, ran.error) == (4, "Reassignment kafka/prod-0123 has ended as Unknown: a broker is gone")
    edits = drained(Edits(({}, (moving(),)), ({}, (NEWER,))))
    edits.generation = 2
    ran = cli("watch", *TOPOLOGY)
    assert (ran.code, ran.error) == (4, "Reassignment kafka/prod-0123 has ended as Unknown")


@pytest.mark.parametrize("state", ["Queued", "Running"])
def test_watch_fails_if_the_reassignment_is_deleted_before_it_ends(drained, state):
    edits = drained(Edits(({}, (moving(state),)), ({}, ())))
    edits.generation = 2
    ran = cli("watch", *TOPOLOGY)
    assert (ran.code, ran.error) == (4, "Reassignment kafka/prod-0123 was deleted before its end was seen")
    assert ran.hint == "rackspan status --topology kafka/prod shows what is left to do"


def test_watch_reports_the_end_of_a_reassignment_that_is_deleted_afterwards(drained):
    later = structs.replace(moving(), meta=structs.replace(moving().meta, name="prod-4567", uid="r-2"))
    after = structs.replace(later, status=moving("Succeeded", 3).status)
    looks = (moving(), later), (moving("Succeeded", 3), later), (after,)
    edits = drained(Edits(*(({}, found) for found in looks)))
    edits.generation = 2
    ran = cli("watch", *TOPOLOGY, "-o", "json")
    ended = [one["reassignment"] for one in map(yaml.safe_load, ran.out.splitlines()) if one["event"] == "ended"]
    assert (ran.code, ended) == (0, ["kafka/prod-0123", "kafka/prod-4567"])


def test_watch_without_a_reassignment_looks_for_a_plan_of_apply(drained, monkeypatch):
    def at(*_):
        raise CommandError("asked for the journal")

    drained(Edits())
    monkeypatch.setattr("rackspan.cli.actions.watching_plans.LiveTopology.at", at)
    assert cli("watch", *TOPOLOGY).error == "asked for the journal"


@pytest.mark.parametrize(
    ("planned", "waits"),
    [
        (None, ""),
        ({"status": "True", "reason": "InSync", "message": "no topic needs a change"}, ""),
        ({"status": "False", "reason": "PlanPending", "message": "plan d4 waits"}, ": plan d4 waits"),
    ],
)
def test_watch_without_a_running_reassignment_prints_the_pending_plan(planned, waits):
    when = {"type": "Reassigned", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    found = topology(status={"conditions": [planned | when] if planned else []})
    told = watch._nothing_to_watch(SimpleNamespace(inputs=SimpleNamespace(scan=SimpleNamespace(topology=found))))
    assert str(told) == f"no Reassignment of RackTopology kafka/prod is carried out now{waits}"
    assert (told.hint, told.code) == ("rackspan status --topology kafka/prod shows its state", 4)


def test_uncordon_removes_brokers_and_racks_from_the_drains(drained):
    edits = drained(Edits())
    edits.spec = Drains((4, 5), ("eu/eu-1a",))
    ran = cli("uncordon", "4", "--rack", "/eu/eu-1a", *TOPOLOGY)
    assert (ran.code, edits.spec) == (0, Drains((5,)))
    assert "RackTopology kafka/prod: brokers and racks to drain: 5" in ran.out
    again = cli("uncordon", "4", *TOPOLOGY)
    assert (again.code, "note: 4 is not drained" in again.err) == (0, True)
    assert "brokers and racks to drain: 5 (as before)" in again.out


def test_uncordon_rejects_a_broker_whose_rack_is_drained(drained):
    edits = drained(Edits())
    edits.spec = Drains((1,), ("/eu/eu-1a",))
    ran = cli("uncordon", "1", *TOPOLOGY)
    assert (ran.code, edits.changes) == (2, [])
    assert ran.error == "broker 1 stays drained by its rack: /eu/eu-1a"
    assert cli("uncordon", "0,1", *TOPOLOGY).error == "brokers 0, 1 stay drained by their rack: /eu/eu-1a"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("drain", *TOPOLOGY), "nothing is named"),
        (("uncordon", *TOPOLOGY), "nothing is named"),
        (("drain", "4"), "the RackTopology is missing"),
        (("drain", "4", "--topology", "prod"), '--topology "prod" is not NAMESPACE/NAME'),
        (("drain", "four", *TOPOLOGY), 'BROKER "four": "four" is not a broker id'),
        (("drain", "77", *TOPOLOGY), "the cluster has no broker 77"),
        (("drain", "--rack", "/eu/nowhere", *TOPOLOGY), "--rack /eu/nowhere: the cluster has no such rack"),
        (("drain", "--rack", "/eu/*", *TOPOLOGY), "--rack /eu/*: wildcards are not for drains"),
        (("drain", "--rack", "/eu//r1", *TOPOLOGY), '--rack: rack id "/eu//r1": step 2 is empty (after "/eu")'),
        (
            ("drain", "--rack", "/eu", "--rack", "us", *TOPOLOGY),
            "all 6 brokers are drained then, none is left to hold replicas",
        ),
        (("drain", "4", *TOPOLOGY, "-o", "yaml"), "-o yaml is for --dry-run=client"),
        (("drain", "4", *TOPOLOGY, "--timeout", "1m"), "--timeout is for --wait or --approve"),
        (("drain", "4", *TOPOLOGY, "--wait", "--command-config", "x"), "--command-config is for --bootstrap-server"),
        (
            ("drain", "4", *TOPOLOGY, "--dry-run=client", "--wait"),
            "--dry-run=client changes nothing, so there is nothing to approve or to wait for",
        ),
        (("drain", "4", *TOPOLOGY, "--bootstrap-server", "127.0.0.1:1"), "--bootstrap-server is for --wait"),
        (
            ("drain", "4", *TOPOLOGY, "--wait", "--timeout", "2d"),
            '--timeout "2d": write a time of a second or more, such as 90, 10s or 1h30m',
        ),
    ],
)
def test_drain_and_uncordon_reject_invalid_arguments(drained, arguments, error):
    edits = drained(Edits())
    ran = cli(*arguments)
    assert (ran.code, ran.error, edits.changes) == (2, error, [])

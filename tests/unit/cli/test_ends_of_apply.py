"""How `rackspan apply` ends and what it leaves, with a simulated Kafka."""

import asyncio
import itertools
import json
import os
import signal
import time
from dataclasses import dataclass, replace
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from tests.support.command import cli, cluster, topic
from tests.support.passes import a_pass
from tests.support.simulated_kafka import AWAY, CLUSTER_ID, SimulatedKafka, SimulatedPartition

from rackspan.api.reasons import Reason
from rackspan.cli.actions import applying_plans as command
from rackspan.cli.actions import watching_plans as watch
from rackspan.cli.rendering.output_formats import Format
from rackspan.cli.rendering.reassignment_progress import ReassignmentProgress
from rackspan.cli.shared import driving
from rackspan.cli.shared.cluster_source import ClusterSource
from rackspan.cli.shared.connection import Connection
from rackspan.cli.shared.journal_file import JournalFile
from rackspan.core.planning import Change
from rackspan.core.reassignment import SetThrottle, Setting, SettingKind, TopicPartition
from rackspan.core.reassignment.move_decision import Progress
from rackspan.core.reassignment.throttles import FOLLOWERS, RATES
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import Record

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
HASH = "0123456789abcdef0123456789abcdef"
SERVER = ("--bootstrap-server", "127.0.0.1:1")
REFUSED = Failure(Reason.NOT_AUTHORIZED, "Kafka says ClusterAuthorizationFailed", Remedy.ACCESS)
SLOW = ("--throttle", "5kB/s")


class Kafka(SimulatedKafka):
    """Completes the copies of partitions outside `stuck` at each look. Before look n, it calls `at_looks[n]`."""

    def __post_init__(self):
        super().__post_init__()
        self.stuck, self.looks, self.at_looks = set(), 0, {}

    async def partitions(self, topics):
        self.looks += 1
        self.at_looks.get(self.looks, lambda: None)()
        for at, one in self.state.items():
            for broker in one.replicas if at not in self.stuck else ():
                self.catch_up(at, broker)
        return await super().partitions(topics)


@dataclass
class Going:
    """A plan under way, which is in the journal, and the Kafka that it changes."""

    kafka: Kafka
    journal: JournalFile

    def apply(self, *arguments):
        return cli("apply", *SERVER, "--journal", self.journal.path, *arguments)

    def on(self, *arguments):
        return self.apply("--approve", HASH, *arguments)

    def another(self, *arguments):
        """Apply another plan, which is made from the current replicas."""
        return self.apply("--replication-factor", "b=3", *arguments)

    def write(self, *, sizes=None, **more):
        lists, planned = self.kafka.lists, self.kafka.planned
        changes = [
            Change(at.topic, at.partition, planned[at], before, (sizes or {}).get(at, 100))
            for at, before in lists.items()
        ]
        racks = {broker: "/".join(("", *rack)) for broker, rack in self.kafka.racks.items()}
        asyncio.run(self.journal.write(Record(CLUSTER_ID, HASH, changes, self.kafka.racks, racks, **more)))

    @property
    def throttles(self):
        """The brokers whose throttles are in the journal."""
        return {int(one.name) for one in self.journal.read(CLUSTER_ID).throttles}


@pytest.fixture
def going(monkeypatch, tmp_path):
    def of(lists, planned, **more):
        kafka = Kafka(dict.fromkeys(range(4), ("x", "a")), lists, planned)
        monkeypatch.setattr(Connection, "ask", lambda _, question: asyncio.run(question(kafka)))
        made = Going(kafka, JournalFile(tmp_path / "journal.json"))
        monkeypatch.setattr(command, "ClusterSource", lambda *_: ClusterSource(_snapshot(kafka, tmp_path), None, None))
        made.write(**more)
        return made

    return of


def _snapshot(kafka, folder):
    racks = {broker: "/".join(("", *kafka.racks[broker])) for broker in sorted(kafka.online)}
    topics = [topic(at.topic, one.replicas) for at, one in kafka.state.items()]
    file = folder / "snapshot.json"
    file.write_text(json.dumps(cluster(*topics, racks=racks)))
    return file


class TestThrottlesOfABrokerThatIsGone:
    """The broker may never return, so its throttles must not block the next plan."""

    @pytest.fixture
    def gone(self, going):
        """All replicas leave broker 0, which stops before its throttles are cleared."""
        going = going({A: (0, 1), B: (1, 0)}, {A: (3, 1), B: (1, 2)})
        going.kafka.at_looks[3] = lambda: going.kafka.kill(0)
        return going

    def test_finished_plan_reports_throttles_left_on_the_offline_broker(self, gone):
        ran = gone.on(*SLOW)
        assert ran.code == 4
        assert ran.error == "throttles are still set, without effect, on broker 0, which is away"
        assert "rackspan apply clears them" in ran.hint
        assert str(gone.journal.path) in ran.hint
        assert gone.journal.read(CLUSTER_ID).changes == ()
        assert gone.throttles == {0}

    def test_next_plan_is_made_and_approved_as_usual_and_keeps_the_throttles_in_the_journal(self, gone):
        gone.on(*SLOW)
        dry = gone.another("--dry-run", "-o", "json")
        assert (dry.code, dry.json["moves"]) == (0, 1)
        ran = gone.another("--approve", dry.json["hash"], *SLOW)
        assert (ran.code, ran.error) == (4, "throttles are still set, without effect, on broker 0, which is away")
        assert len(gone.kafka.state[B].replicas) == 3
        assert gone.throttles == {0}

    @pytest.mark.parametrize("arguments", [("--replication-factor", "b=2"), ("--cancel",)])
    def test_throttles_are_cleared_after_the_broker_is_online_again(self, gone, arguments):
        gone.on(*SLOW)
        assert gone.apply(*arguments).code == 4
        gone.kafka.revive(0)
        ran = gone.apply(*arguments)
        assert (ran.code, gone.kafka.configs, gone.journal.path.exists()) == (0, {}, False), ran.err

    def test_watch_does_not_take_remaining_throttles_for_a_plan(self, gone):
        gone.on(*SLOW)
        ran = cli("watch", *SERVER, "--journal", gone.journal.path)
        assert (ran.code, ran.error) == (4, "rackspan apply carries out no plan on this cluster from this machine")

    def test_cancelled_plan_reports_throttles_left_on_the_offline_broker(self, gone):
        gone.kafka.stuck = {A}
        gone.kafka.at_looks[3] = lambda: gone.kafka.kill(3)
        assert gone.on(*SLOW, "--patience", "1").code == 4
        ran = gone.apply("--cancel")
        assert (ran.code, ran.error) == (4, "throttles are still set, without effect, on broker 3, which is away")
        assert (gone.kafka.state[A].replicas, gone.throttles) == ((0, 1), {3})


def test_watch_does_not_change_the_journal(going):
    """The topic was created again, so its throttles are obsolete. Only `rackspan apply` removes them."""
    held = Setting(SettingKind.TOPIC, "a", FOLLOWERS)
    going = going({A: (0, 1)}, {A: (0, 3)}, topic_ids={"a": "old"}, throttles={held: SetThrottle(None, ("0:3",))})
    going.kafka.state[A].topic_id = "new"
    before = going.journal.path.read_bytes()
    assert cli("watch", *SERVER, "--journal", going.journal.path, "--once").code == 0
    assert going.journal.path.read_bytes() == before


class TestWhatIsLeft:
    """The error states the reason first, then the throttles and reassignments that are left, if any."""

    @pytest.fixture
    def stuck(self, going):
        going = going({A: (0, 1)}, {A: (0, 3)})
        going.kafka.stuck = {A}
        return going

    def away(self, kafka, since):
        """Make Kafka unavailable from look number `since` on."""
        looks = itertools.count()

        async def cluster():
            if next(looks) >= since:
                raise FailureError(AWAY)
            return await SimulatedKafka.cluster(kafka)

        kafka.cluster = cluster

    def test_apply_does_not_try_to_clear_throttles_if_none_is_set(self, stuck):
        self.away(stuck.kafka, 4)
        began = time.monotonic()
        ran = stuck.on("--patience", "5")
        assert (ran.code, time.monotonic() - began < 20) == (3, True)
        assert ran.error == "Kafka is unavailable: the broker is away"
        assert "1 reassignment under way goes on in Kafka; --cancel takes it back" in ran.err

    @pytest.mark.parametrize(
        ("answer", "left"),
        [
            (REFUSED, ""),
            (
                Failure(Reason.KAFKA_UNREACHABLE, "no answer", Remedy.RETRY),
                "; throttles may still be set on broker 0, 1, 3",
            ),
        ],
    )
    def test_error_has_the_reason_of_kafka_and_names_brokers_whose_throttles_may_be_set(
        self, stuck, monkeypatch, answer, left
    ):
        async def answered(changes):
            return {
                one: answer if one.kind is SettingKind.BROKER else stuck.kafka.change_config(one, change)
                for one, change in changes.items()
            }

        monkeypatch.setattr(stuck.kafka, "set_settings", answered)
        monkeypatch.setattr(driving, "_CLEARING_SECONDS", 1)
        ran = stuck.on(*SLOW, "--patience", "1")
        assert ran.code == 4
        assert ran.error.startswith(
            f"nothing could be moved for 1 s: broker 0 leader.replication.throttled.rate: {answer.what}"
        )
        assert ran.error.endswith(f"{answer.what}{left}")

    def test_plan_whose_throttles_kafka_refuses_is_cancelled_without_that_permission(self, stuck):
        async def refused(changes):
            return dict.fromkeys(changes, REFUSED)

        stuck.kafka.set_settings = refused
        assert stuck.on(*SLOW, "--patience", "1").code == 4
        assert stuck.journal.read(CLUSTER_ID).throttles == {}
        ran = stuck.apply("--cancel")
        assert (ran.code, stuck.journal.path.exists(), stuck.kafka.copies) == (0, False, []), ran.err

    @pytest.mark.parametrize("signals", [(signal.SIGINT,), (signal.SIGTERM,)])
    def test_interrupted_apply_reports_a_copy_to_a_failed_broker(self, stuck, signals):
        stuck.kafka.at_looks = {4: lambda: stuck.kafka.kill(3), 6: lambda: os.kill(os.getpid(), *signals)}
        ran = stuck.on()
        assert ran.code == 130, ran.err
        assert "1 reassignment under way goes on in Kafka; --cancel takes it back" in ran.err

    def test_apply_ends_after_its_patience_if_a_copy_waits_for_a_failed_broker(self, stuck):
        stuck.kafka.at_looks[4] = lambda: stuck.kafka.kill(3)
        ran = stuck.on("--patience", "5")
        assert (ran.code, ran.error) == (4, "nothing could be moved for 5 s: a-0 waits: BrokerOffline (broker 3)")
        assert "1 reassignment under way goes on in Kafka; --cancel takes it back" in ran.err

    def test_stopped_plan_reports_the_reassignments_that_continue_in_kafka(self, stuck):
        def moved():
            stuck.kafka.racks = {**stuck.kafka.racks, 1: ("x", "elsewhere")}

        stuck.kafka.at_looks[4] = moved
        ran = stuck.on(*SLOW)
        assert ran.code == 4
        assert ran.error.startswith("stopped: broker 1 was in rack")
        assert "1 reassignment under way goes on in Kafka; --cancel takes it back" in ran.err
        assert stuck.kafka.configs == {}

    def test_sigint_during_cancel_exits_with_130_and_cancel_can_be_repeated(self, stuck):
        stuck.on("--patience", "1")

        async def alter(targets, same_size=()):
            os.kill(os.getpid(), signal.SIGINT)
            return dict.fromkeys(targets, AWAY)

        stuck.kafka.alter = alter
        ran = stuck.apply("--cancel")
        assert (ran.code, ran.errors) == (130, [])
        assert "1 reassignment under way goes on in Kafka; --cancel takes it back" in ran.err
        assert "interrupted: rackspan apply --cancel goes on" in ran.err
        del stuck.kafka.alter
        assert stuck.apply("--cancel").code == 0


def test_cancel_does_not_wait_for_a_reassignment_of_another_client(going):
    going = going({A: (0, 1), B: (0, 1)}, {A: (0, 3), B: (0, 2)})
    going.kafka.stuck = {B}
    going.kafka.reassigned_by_others(B, (1, 3))
    ran = going.apply("--cancel", "--patience", "300")
    assert (ran.code, going.journal.path.exists()) == (0, False), ran.err
    assert going.kafka.state[B].of_others


def test_cancel_rejects_the_hash_of_another_plan_and_always_includes_all_topics(going):
    going = going({A: (0, 1)}, {A: (0, 3)})
    before = going.journal.path.read_bytes()
    ran = going.apply("--cancel", "--approve", "0" * 32)
    assert (ran.code, ran.error) == (2, f"--approve {'0' * 32}: --cancel would cancel plan {HASH}")
    assert going.journal.path.read_bytes() == before
    ran = going.on("--cancel", "--topic", "b")
    assert (ran.code, going.journal.path.exists()) == (0, False), ran.err
    assert f"note: --cancel is for all topics of plan {HASH}, also with --topic or --filename" in ran.err


def test_cancel_reports_a_partition_that_it_cannot_restore_because_a_broker_is_offline(going):
    going = going({A: (0, 1)}, {A: (0, 3)}, started={A: (0, 1, 3)})
    going.kafka.state[A] = SimulatedPartition((0, 1, 3), {0, 3}, 0)
    going.kafka.kill(1)
    ran = going.apply("--cancel", "--patience", "300")
    told = f"note: plan {HASH} is cancelled; {A} is given up: NotTakenBack (broker 1)"
    assert (ran.code, ran.err.splitlines()[-1]) == (0, told)
    assert (going.kafka.state[A].replicas, going.journal.path.exists()) == ((0, 1, 3), False)


def follow(going, monkeypatch, *changes):
    """Watch a plan. After each look, call the next of `changes`."""
    waits = iter(changes)

    async def sleep(_):
        next(waits)()

    monkeypatch.setattr(watch, "asyncio", SimpleNamespace(sleep=sleep))
    return cli("watch", *SERVER, "--journal", going.journal.path)


class TestWatching:
    @pytest.fixture
    def begun(self, going):
        going = going({A: (0, 1)}, {A: (0, 3)}, started={A: (0, 1, 3)})
        going.kafka.stuck = {A}
        going.kafka.reassigned_by_others(A, (0, 1, 3))
        return going

    def test_watch_exits_with_0_after_the_plan_is_carried_out(self, begun, monkeypatch):
        def moved():
            begun.kafka.state[A].replicas = (0, 3)
            begun.kafka.state[A].isr, begun.kafka.state[A].adding = {0, 3}, frozenset()
            begun.journal.discard()

        with begun.journal.locked():
            ran = follow(begun, monkeypatch, moved)
        assert (ran.code, ran.err.count("no rackspan apply")) == (0, 0), ran.err
        assert f"plan {HASH} has ended" in ran.err

    def test_watch_exits_with_4_after_the_plan_is_cancelled(self, begun, monkeypatch):
        def cancelled():
            begun.kafka.cancelled_by_others(A)
            begun.journal.discard()

        ran = follow(begun, monkeypatch, lambda: None, cancelled)
        assert (ran.code, ran.error) == (4, f"plan {HASH} has ended, and not all is as planned")
        assert ran.err.count("no rackspan apply is running") == 1

    def test_watch_retries_after_a_failed_request_to_kafka(self, begun, monkeypatch):
        def away():
            async def cluster():
                del begun.kafka.cluster
                raise FailureError(AWAY)

            begun.kafka.cluster = cluster

        ran = follow(begun, monkeypatch, away, lambda: None, begun.journal.discard)
        assert ran.code == 4
        assert "Kafka: the broker is away" in ran.err


def test_bytes_of_partitions_without_a_known_size_are_not_counted(going):
    """The leader of b does not report the size of its replica."""
    going = going({A: (0, 1), B: (1, 0)}, {A: (0, 3), B: (1, 2)})
    going.write(sizes={A: 1_000, B: None})
    going.kafka.stuck = {A, B}

    async def sizes(partitions):
        replicas = [(at, broker) for at, brokers in partitions.items() for broker in brokers]
        return {(at, broker): 1_000 if at == A else 900_000 for at, broker in replicas if (at, broker) != (B, 1)}

    going.kafka.sizes = sizes
    lines = [json.loads(line) for line in going.on("--patience", "1", "-o", "json").out.splitlines()]
    assert {one["bytes"] for one in lines} == {None}
    assert all(one["movedBytes"] <= 1_000 for one in lines)


@pytest.mark.parametrize(
    ("moved", "rate", "told"),
    [
        (40, 10, "0 of 2 moves; 40 B of 100 B; 1 copying; 10 B/s; 6 s left"),
        (100, 10, "0 of 2 moves; 100 B of 100 B; 1 copying; 10 B/s"),
        (0, 1e-5, "0 of 2 moves; 0 B of 100 B; 1 copying"),
    ],
)
def test_progress_shows_the_remaining_time_if_it_can_be_estimated(moved, rate, told):
    seen = a_pass(size=100)
    assert ReassignmentProgress._sentence(seen, {}, moved, rate) == told


def test_progress_does_not_show_a_remaining_time_of_months():
    seen = a_pass(size=10 * 2**40)
    assert ReassignmentProgress._sentence(seen, {}, 0, 1.5).endswith("; 1 copying; 2 B/s")


def test_progress_has_no_end_in_bytes_while_the_size_of_a_copy_left_is_not_known(capsys):
    seen = replace(a_pass(), progress=Progress(3, 1, 20, 10, unsized=1))
    assert ReassignmentProgress._sentence(seen, {}, 10, 2.0) == "1 of 3 moves; 1 copying; 2 B/s"
    bar = Mock()
    ReassignmentProgress(HASH, Format.JSON, bar).show(seen)
    bar.advance.assert_called_once_with(1, 3)
    assert json.loads(capsys.readouterr().out)["bytes"] is None


def test_repeated_failure_is_printed_once(going):
    going = going({A: (0, 1)}, {A: (0, 3)})

    async def partitions(_):
        raise FailureError(AWAY)

    going.kafka.partitions = partitions
    ran = going.on("--patience", "3")
    assert (ran.code, ran.err.count("Kafka: the broker is away")) == (3, 1)


def test_missing_permission_in_kafka_ends_apply_without_waiting_for_its_patience(going):
    going = going({A: (0, 1)}, {A: (0, 3)})

    async def partitions(_):
        raise FailureError(REFUSED)

    going.kafka.partitions = partitions
    began = time.monotonic()
    ran = going.on(*SLOW, "--patience", "300")
    assert (ran.code, time.monotonic() - began < 20) == (3, True)
    assert ran.error == "Kafka refuses: Kafka says ClusterAuthorizationFailed"


@pytest.fixture
def on_a_terminal(monkeypatch):
    """A terminal whose user answers no; the value is the list of questions."""
    asked = []
    monkeypatch.setattr(command, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    monkeypatch.setattr(command.typer, "confirm", lambda text, **_: asked.append(text))
    return asked


class TestGoingOn:
    @pytest.fixture
    def begun(self, going):
        return going({A: (0, 1), B: (0, 1)}, {A: (0, 3), B: (2, 3)})

    def test_apply_describes_the_plan_under_way_before_it_asks_for_approval(self, begun, on_a_terminal):
        ran = begun.apply("--drain-broker", "2")
        assert (ran.code, len(on_a_terminal)) == (2, 1)
        assert f"note: plan {HASH} (3 moves, 300 B to copy) is already under way and continues" in ran.err

    @pytest.mark.parametrize(
        ("arguments", "error"), [(("--max-moves", "2"), "has 3 moves"), (("--max-bytes", "99B"), "300 B")]
    )
    def test_plan_under_way_above_max_moves_or_max_bytes_is_rejected(self, begun, arguments, error):
        ran = begun.on(*arguments)
        assert (ran.code, begun.kafka.copies) == (2, [])
        assert error in ran.error

    def test_plan_under_way_is_not_approved_if_standard_input_is_closed(self, begun, monkeypatch):
        monkeypatch.setattr(command, "sys", SimpleNamespace(stdin=None))
        assert begun.apply().error == f"plan {HASH} is not approved"

    def test_apply_ends_with_a_note_that_the_plan_is_carried_out_or_cancelled(self, begun):
        ran = begun.on()
        assert (ran.code, ran.err.splitlines()[-1]) == (0, f"note: plan {HASH} is carried out")
        begun.write()
        ran = begun.apply("--cancel")
        assert (ran.code, ran.err.splitlines()[-1]) == (0, f"note: plan {HASH} is cancelled")


class TestDryRunWhileAPlanEnds:
    """Another process ends the plan under way just after the dry run has read the journal."""

    @pytest.fixture
    def ends(self, monkeypatch):
        """A function that sets how the plan ends: `ends(JournalFile.discard)`."""

        def by(conclude):
            def read_before(journal, cluster_id):
                monkeypatch.setattr(JournalFile, "read", read)
                record = read(journal, cluster_id)
                conclude(journal)
                return record

            read = JournalFile.read
            monkeypatch.setattr(JournalFile, "read", read_before)

        return by

    def test_dry_run_moves_no_replica_although_the_next_plan_is_approved(self, going, ends):
        going = going({A: (0, 1), B: (0, 1)}, {A: (0, 3), B: (0, 1)})
        going.journal.discard()
        plan = going.another("--dry-run", "-o", "json").json["hash"]
        going.write()
        ends(JournalFile.discard)
        ran = going.another("--dry-run", "--approve", plan)
        assert (ran.code, going.kafka.copies, going.kafka.state[B].replicas) == (0, [], (0, 1))

    def test_dry_run_does_not_clear_the_throttles_that_are_left(self, going, ends):
        going = going({A: (0, 1)}, {A: (0, 1)})
        left = Setting(SettingKind.BROKER, "0", RATES[0])
        going.kafka.configs[left] = "5000"
        record = replace(going.journal.read(CLUSTER_ID), throttles={left: SetThrottle(None, ("5000",))})
        ends(lambda journal: journal.conclude(record))
        ran = going.apply("--topic", "a", "--dry-run")
        assert (ran.code, going.kafka.configs, going.throttles) == (0, {left: "5000"}, {0})


def test_json_output_of_a_dry_run_of_apply_is_one_line(going):
    going = going({A: (0, 1), B: (0, 1)}, {A: (0, 1), B: (0, 1)})
    going.journal.discard()
    (line,) = going.another("--dry-run", "-o", "json").out.splitlines()
    assert (json.loads(line)["event"], json.loads(line)["moves"]) == ("plan", 1)

"""`rackspan apply` on real brokers: every kind of plan, under load, throttled, and killed at critical moments."""

import json
import signal
import subprocess
from pathlib import Path

import pytest
from dev.traffic import Traffic
from tests.support.command import cli
from tests.support.moves import (
    REASSIGN,
    SLOW,
    Apply,
    ask,
    filled,
    moved_topic,
    nothing_left_over,
    throttles,
    under_way,
    until_sizes,
)
from tests.support.processes import command
from tests.support.topics import Topics, until_missed
from tests.support.waiting import until

from rackspan.core.reassignment import Setting, SettingKind, TopicPartition
from rackspan.core.reassignment.throttles import FOLLOWERS, RATES


@pytest.fixture
def topic(topics):
    with moved_topic(topics, [[0, 1], [1, 2]]) as name:
        yield name


@pytest.fixture
def moving(kafka, topic, tmp_path):
    return Apply(kafka, topic, tmp_path)


def test_apply_raises_drains_and_lowers_replicas_under_load_without_losing_records(moving, kafka, topics, topic):
    with Traffic(kafka.client_config(), topic, 2) as traffic:
        plan, events = moving.applied("--replication-factor", f"{topic}=3")
        assert events[-1]["event"] == "finished"
        assert events[-1]["moved"] == events[-1]["moves"] == plan["moves"] >= 2
        assert moving.plan("--replication-factor", f"{topic}=3")["partitions"] == []

        until_sizes(topics, topic, 3)
        first = topics.replicas(topic, 2)[0][0]
        plan, events = moving.applied("--drain-broker", str(first))
        assert events[-1]["moved"] == plan["moves"] > 0
        until(lambda: not any(first in replicas for replicas in topics.replicas(topic, 2)), "the drain")

        plan, events = moving.applied("--replication-factor", f"{topic}=2")
        assert plan["moves"] == 0
        until_sizes(topics, topic, 2)
    assert traffic.check() > 100
    nothing_left_over(kafka, topic, moving.journal)


def test_apply_without_approval_or_above_max_moves_moves_no_replica(moving, topics, topic):
    before = topics.replicas(topic, 2)
    wish = ("--replication-factor", f"{topic}=3")
    plan = moving.plan(*wish)
    assert moving.apply(*wish).hint == f"look at it, then pass --approve {plan['hash']}"
    assert "the plan is" in moving.apply(*wish, "--approve", "0123456789abcdef").error
    assert "--max-moves allows 1" in moving.apply(*wish, "--approve", plan["hash"], "--max-moves", "1").error
    dry = moving.apply(*wish, "--dry-run", "-o", "json")
    assert (dry.code, dry.json["hash"]) == (0, plan["hash"])
    assert "nothing is under way" in moving.apply("--cancel").error
    assert topics.replicas(topic, 2) == before
    assert not moving.journal.exists()


def test_apply_keeps_the_throttle_settings_of_another_client(moving, kafka, topics, topic):
    wish = ("--replication-factor", f"{topic}=3")
    plan = moving.plan(*wish)
    theirs = Setting(SettingKind.BROKER, "5", RATES[1]), Setting(SettingKind.TOPIC, topic, FOLLOWERS)

    def set_them(values):
        assert set(ask(kafka, lambda admin: admin.set_settings(values)).values()) == {None}

    before = dict(zip(theirs, ("77000000", "0:1"), strict=True))
    set_them(before)
    try:
        until(lambda: throttles(kafka, topic) == before)
        ran = moving.apply(*wish, "--approve", plan["hash"], "--throttle", "50MB/s")
        assert ran.code == 0, ran.err
        until(lambda: throttles(kafka, topic) == before, "what somebody else had set")
    finally:
        set_them(dict.fromkeys(theirs))


def test_apply_clears_throttles_on_sigterm_and_cancel_ends_reassignments_in_progress(moving, kafka, topics, topic):
    filled(kafka, topic, 2, SLOW)
    before = topics.replicas(topic, 2)
    wish = ("--replication-factor", f"{topic}=3")
    plan = moving.plan(*wish)
    process = moving.start(*wish, "--approve", plan["hash"], "--throttle", "1kB/s")
    until(lambda: under_way(kafka, topic), "it is under way")
    until(lambda: throttles(kafka, topic), "throttles")
    watched = moving.watch()
    assert (watched.code, watched.json["plan"], watched.json["moves"]) == (0, plan["hash"], plan["moves"])
    assert "another rackspan apply is running" in moving.apply("--cancel").error
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 130, err
    assert f"rackspan apply --approve {plan['hash']}" in err
    until(lambda: not throttles(kafka, topic), "no throttle")
    cancelled = moving.apply("--cancel")
    assert cancelled.code == 0, cancelled.err
    after = topics.replicas(topic, 2)
    for old, new in zip(before, after, strict=True):
        assert set(old) <= set(new)
    nothing_left_over(kafka, topic, moving.journal)


def test_apply_on_ctrl_c_waits_for_copies_in_progress_and_can_be_resumed(moving, kafka, topics, topic):
    filled(kafka, topic, 2, size=3_000_000)
    wish = ("--replication-factor", f"{topic}=3", "--max-concurrent-moves", "1")
    plan = moving.plan(*wish[:2])
    process = moving.start(*wish, "--approve", plan["hash"], "--throttle", "200kB/s")
    until(lambda: moving.record()["started"], "it is under way")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 130, err
    assert "under way end first" in err
    assert "No partition reassignments found" in kafka.tool(REASSIGN, "--list")
    until(lambda: not throttles(kafka, topic), "no throttle")
    ran = moving.apply(*wish, "--approve", plan["hash"])
    assert ran.code == 0, ran.err
    until_sizes(topics, topic, 3)
    nothing_left_over(kafka, topic, moving.journal)


def test_second_ctrl_c_exits_during_copies_and_cancel_ends_them(moving, kafka, topics, topic):
    filled(kafka, topic, 2, SLOW)
    wish = ("--replication-factor", f"{topic}=3")
    plan = moving.plan(*wish)
    process = moving.start(*wish, "--approve", plan["hash"], "--throttle", "1kB/s")
    until(lambda: under_way(kafka, topic), "it is under way")
    process.send_signal(signal.SIGINT)
    for line in process.stderr:
        if "Ctrl-C again" in line:
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 130, err
    until(lambda: not throttles(kafka, topic), "no throttle")
    cancelled = moving.apply("--cancel")
    assert cancelled.code == 0, cancelled.err
    nothing_left_over(kafka, topic, moving.journal)


def loses_its_reader(process, moving):
    process.stdout.close()


def loses_its_terminal(process, moving):
    process.send_signal(signal.SIGHUP)


def loses_its_journal(process, moving):
    moving.journal.with_name("journal.json.new").mkdir()


@pytest.mark.parametrize(
    ("lost", "code", "told"),
    [
        (loses_its_reader, 74, "standard output: Broken pipe; paused"),
        (loses_its_terminal, 130, "paused: "),
        (loses_its_journal, 74, "cannot be written: Is a directory; throttles are cleared"),
    ],
    ids=["reader", "terminal", "journal"],
)
def test_apply_clears_throttles_and_sets_exit_code_after_loss_of_reader_terminal_or_journal(
    moving, kafka, topics, topic, lost, code, told
):
    filled(kafka, topic, 2, size=3_000_000)
    wish = ("--replication-factor", f"{topic}=3", "--max-concurrent-moves", "1")
    plan = moving.plan(*wish[:2])
    process = moving.start(*wish, "--approve", plan["hash"], "--throttle", "200kB/s", "-o", "json")
    until(lambda: moving.record()["started"], "it is under way")
    lost(process, moving)
    err = process.stderr.read()
    assert process.wait(600) == code, err
    assert told in err
    until(lambda: not throttles(kafka, topic), "no throttle")
    if lost is loses_its_journal:
        moving.journal.with_name("journal.json.new").rmdir()
    ran = moving.apply(*wish, "--approve", plan["hash"])
    assert ran.code == 0, ran.err
    until_sizes(topics, topic, 3)
    nothing_left_over(kafka, topic, moving.journal)


def test_apply_with_full_standard_output_starts_at_most_one_move(moving, kafka, topics, topic):
    wish = ("--replication-factor", f"{topic}=3", "--max-concurrent-moves", "1")
    plan = moving.plan(*wish[:2])
    approved = (*wish, "--approve", plan["hash"], "--throttle", "50MB/s")
    before = topics.replicas(topic, 2)
    with Path("/dev/full").open("w") as full:
        table = subprocess.run(
            command("apply", *moving.arguments, *approved), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
        assert table.returncode == 74
        assert "No space left on device; nothing was changed" in table.stderr
        assert (topics.replicas(topic, 2), moving.journal.exists()) == (before, False)
        json_ = subprocess.run(
            command("apply", *moving.arguments, *approved, "-o", "json"),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert json_.returncode == 74, json_.stderr
    assert "standard output: No space left on device; paused" in json_.stderr
    until(lambda: not throttles(kafka, topic), "no throttle")
    assert sorted(map(len, topics.replicas(topic, 2))) in ([2, 2], [2, 3])
    ran = moving.apply(*approved)
    assert ran.code == 0, ran.err
    until_sizes(topics, topic, 3)
    nothing_left_over(kafka, topic, moving.journal)


def test_killed_apply_resumes_from_its_journal(moving, kafka, topics, topic):
    # Kafka creates an internal topic at the first request about a group. That would change the plan during the test.
    groups = kafka.admin().describe_consumer_groups
    until(lambda: groups(["traffic"])["traffic"].exception(300) is None, "the coordinator of groups")
    filled(kafka, topic, 2)
    wish = ("--replication-factor", f"{topic}=3")
    plan = moving.plan(*wish)
    approved = (*wish, "--approve", plan["hash"])
    moments = [
        moving.journal.exists,
        lambda: moving.record()["throttles"],
        lambda: moving.record()["started"],
        lambda: under_way(kafka, topic),
    ]
    with Traffic(kafka.client_config(), topic, 2) as traffic:
        for moment in moments:
            process = moving.start(*approved, "--throttle", "2kB/s")
            until(moment)
            process.kill()
            process.communicate(timeout=600)
        ran = moving.apply(*approved, "--throttle", "50MB/s", "-o", "json")
        assert ran.code == 0, ran.err
    assert json.loads(ran.out.splitlines()[-1])["event"] == "finished"
    until_sizes(topics, topic, 3)
    assert traffic.check() > 100
    nothing_left_over(kafka, topic, moving.journal)


def test_apply_gives_up_a_partition_that_another_client_reassigns(moving, kafka, topics, topic):
    filled(kafka, topic, 2, size=1_200_000)  # too large to be copied at once
    before = topics.replicas(topic, 2)
    wish = ("--replication-factor", f"{topic}=3")
    plan = moving.plan(*wish)
    slow = ("--throttle", "100kB/s", "--max-concurrent-moves", "1")
    process = moving.start(*wish, "--approve", plan["hash"], *slow)
    begun = until(lambda: moving.record()["started"], "a copy under way")
    ours = begun[0][1]
    theirs = (before[1 - ours][0], next(one for one in kafka.racks if one not in (0, 1, 2)))

    target = {TopicPartition(topic, 1 - ours): theirs}
    assert set(ask(kafka, lambda admin: admin.alter(target)).values()) == {None}
    _, err = process.communicate(timeout=600)
    assert process.returncode == 4, err
    assert f"{topic}-{1 - ours} is given up: ChangedByOthers" in err
    until(lambda: topics.replicas(topic, 2)[1 - ours] == theirs, "their replicas")
    until(lambda: len(topics.replicas(topic, 2)[ours]) == 3, "the rest of the plan")
    nothing_left_over(kafka, topic, moving.journal)


def test_apply_carries_out_a_rebalance_and_a_plan_from_a_manifest_file(moving, kafka, topics, topic, tmp_path):
    plan, events = moving.applied("--rebalance")
    assert events[-1]["moved"] == plan["moves"] > 0
    until(lambda: topics.replicas(topic, 2) == tuple(tuple(one["replicas"]) for one in plan["partitions"]))
    wish = {
        "apiVersion": "rackspan.dev/v1alpha1",
        "kind": "KafkaTopic",
        "metadata": {"name": "wish", "namespace": "shop"},
        "spec": {"topologyRef": {"name": "kafka"}, "topicName": topic, "partitions": 2, "replicationFactor": 3},
    }
    (tmp_path / "wish.json").write_text(json.dumps(wish))
    plan, events = moving.applied("-f", str(tmp_path / "wish.json"))
    assert events[-1]["moved"] == plan["moves"] > 0
    until_sizes(topics, topic, 3)
    assert not moving.journal.exists()
    until(lambda: not throttles(kafka, topic), "no throttle")


@pytest.mark.usefixtures("cordons")
def test_apply_drains_a_broker_with_cordoned_log_dirs(moving, kafka, topics, topic):
    """Kafka keeps the removed replica during a slow copy. Broker 1 leads one partition and follows in the other one."""

    def cordon(broker, *change):
        kafka.tool("ConfigCommand", "--alter", "--entity-type", "brokers", "--entity-name", broker, *change)

    filled(kafka, topic, 2, SLOW)
    cordon("1", "--add-config", "cordoned.log.dirs=*")
    try:
        wish = ("--drain-broker", "1", "--approve", moving.plan("--drain-broker", "1")["hash"])
        slow = moving.start(*wish, "--throttle", "0.001MB/s", "--max-concurrent-moves", "1")
        until(lambda: under_way(kafka, topic), "a copy")
        ((at, seen),) = (one for one in ask(kafka, lambda admin: admin.partitions([topic])).items() if one[1].under_way)
        assert (seen.removing, seen.in_sync >= {1}, len(seen.adding)) == ({1}, True, 1)
        slow.kill()  # its throttle remains, so the copy stays slow
        slow.communicate(timeout=300)  # also waits for its child processes, which lock the journal
        assert moving.apply("--cancel").code == 0
        nothing_left_over(kafka, topic, moving.journal)
        assert set(topics.replicas(topic, 2)[at.partition]) == ({0, 1}, {1, 2})[at.partition]
        plan, events = moving.applied("--drain-broker", "1")
        assert events[-1]["moved"] == plan["moves"] == 2
        until(lambda: not any(1 in replicas for replicas in topics.replicas(topic, 2)), "the drain")
    finally:
        cordon("1", "--delete-config", "cordoned.log.dirs")
    nothing_left_over(kafka, topic, moving.journal)


@pytest.fixture
def half_moved(kafka_factory, tmp_path):
    """A cluster with 14 partitions in reassignment to broker 3, which was killed, and the result of `check`."""
    cluster = kafka_factory(["/a/1", "/b/1", "/c/1", "/d/1"])
    topics, moves = Topics(cluster.admin()), tmp_path / "moves.json"
    topics.create("orders", [[number % 2, 2] for number in range(14)])
    topics.create("logs", [[3, 0], [0, 3], [1, 3]])
    filled(cluster, "orders", 14, 3_000_000)  # too large to be copied at once in spite of the throttle
    rows = [{"topic": "orders", "partition": number, "replicas": [number % 2, 3]} for number in range(14)]
    moves.write_text(json.dumps({"version": 1, "partitions": rows}))
    cluster.tool(REASSIGN, "--reassignment-json-file", str(moves), "--execute", "--throttle", "1000")
    until(lambda: len(under_way(cluster, "orders")) == 14, "reassignments")
    cluster.kill_broker(3)
    until_missed(cluster, 3)
    there = ("--bootstrap-server", cluster.bootstrap())
    found = until(
        lambda: (
            (ran := cli("check", *there, "-o", "json")).code == 1
            and any(one["broker"] == 3 for one in ran.json["findings"])
            and ran
        ),
        "what follows from its death",
    )
    return there, found


def test_check_and_scan_report_a_dead_reassignment_target_as_one_finding(half_moved):
    there, checked = half_moved
    (found,) = checked.json["findings"]
    assert found["message"] == "broker 3 is not online: 3 partitions have a replica there"
    assert "rackspan plan --drain-broker 3" in found["fix"]
    assert checked.json["summary"]["nonCompliant"] == 3
    assert (
        "warning: 14 partitions are being reassigned, and taken without the replicas that are being added"
        in checked.err
    )

    scanned = cli("scan", *there, "--engine", "local", "-o", "json").json
    keys = ("id", "rule", "severity", "broker", "message", "fix", "excess", "moves")
    assert [{key: one[key] for key in keys} for one in scanned["findings"]] == [{key: found[key] for key in keys}]
    assert [words for words in scanned["warnings"] if words.startswith("14 partitions are being reassigned")]
    assert scanned["summary"]["nonCompliant"] == 3

    refused = cli("plan", *there)
    assert (refused.code, refused.error) == (2, "broker 3 holds replicas and did not answer")
    assert "--drain-broker 3" in refused.hint
    planned = cli("plan", *there, "--drain-broker", "3", "-o", "json")
    assert {one["topic"] for one in planned.json["partitions"]} == {"logs"}
    assert "14 partitions are being reassigned" in planned.err

"""Output of each command, as JSON and as text."""

import json
import re
import shlex

import pytest
import yaml
from tests.support.command import RACKS, cluster, topic
from tests.support.manifests import TOPIC
from tests.unit.core.test_scanning import locations, partitions

from rackspan.cli.actions import checking_clusters
from rackspan.cli.shared.command_errors import ExitCode
from rackspan.cli.shared.selection import TopologyOptions
from rackspan.core.requirements import ClusterRequirements
from rackspan.core.snapshot import Snapshot

LEVELS = ("--levels", "region,zone,rack")
WITHOUT_ELR = "Without eligible leader replicas (KIP-966) it is kept only while replicas elsewhere are in sync. "
ACKS_1 = "acks=1: it is on one broker, and losing that may lose it."
KIP_36 = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
FAIR = topic("orders", [0, 3], [4, 2], config={"min.insync.replicas": 2}, sizeBytes=1000)
UNFAIR = topic("payments", [0, 1, 3], [1, 0, 2], [4, 2], sizeBytes=10)


@pytest.fixture
def prod(snapshot):
    return snapshot(cluster(FAIR, UNFAIR))


# -- snapshot --------------------------------------------------------------------------------------------------------


def test_snapshot_output_adds_omitted_fields_and_can_be_read_again(rackspan, prod):
    ran = rackspan("snapshot", "--snapshot", prod)
    assert ran.code == 0
    assert ran.json["topics"][0] == {
        "name": "orders",
        "partitions": [
            {"partition": 0, "replicas": [0, 3], "isr": [0, 3], "leader": 0, "sizeBytes": 1000},
            {"partition": 1, "replicas": [4, 2], "isr": [4, 2], "leader": 4, "sizeBytes": 1000},
        ],
        "config": {"min.insync.replicas": "2"},
    }
    assert rackspan("snapshot", "--snapshot", "-", stdin=ran.out).out == ran.out
    assert yaml.safe_load(rackspan("snapshot", "--snapshot", prod, "-o", "yaml").out) == ran.json


def test_snapshot_without_topics_can_be_shown_and_used_for_a_placement(rackspan, snapshot):
    empty = snapshot(cluster())
    assert rackspan("snapshot", "--snapshot", empty).json["topics"] == []
    assert "6 brokers, 0 topics" in rackspan("snapshot", "--snapshot", empty, "-o", "table").out
    placed = rackspan("place", "--snapshot", empty, "--partitions", 2, "--replication-factor", 2, "-o", "json")
    assert len(placed.json["placement"]) == 2


def test_snapshot_table_shows_a_lower_bound_of_stored_bytes_if_some_sizes_are_unknown(rackspan, snapshot):
    for sizes, told in (((1024, 1024), "4.0 KiB"), ((1024, None), "at least 2.0 KiB"), ((None, None), "?")):
        topics = [topic(f"t{at}", [0, 1], sizeBytes=size) for at, size in enumerate(sizes)]
        ran = rackspan("snapshot", "--snapshot", snapshot(cluster(*topics)), "-o", "table")
        assert ran.out.splitlines()[0].endswith(f"4 replicas, {told}")


def test_rack_with_and_without_a_leading_slash_is_the_same_rack(rackspan, snapshot):
    file = snapshot(cluster(topic("a", [0, 1]), racks={0: "/b", 1: "b", 2: "a", 3: None}))
    rows = [line.split() for line in rackspan("snapshot", "--snapshot", file, "-o", "table").out.splitlines()]
    assert [row[:2] for row in rows if len(row) == 4 and row[1].isdigit()] == [
        ["(none)", "1"],
        ["/a", "1"],
        ["/b", "2"],
    ]


def test_plan_states_the_bytes_to_copy_only_if_all_sizes_are_known(rackspan, snapshot):
    topics = [topic("a", [0, 1], sizeBytes=1024), topic("b", [0, 2])]
    options = ("plan", "--snapshot", snapshot(cluster(*topics)), "--drain-broker", 0)
    assert rackspan(*options, "-o", "json").json["bytes"] is None
    assert "; an unknown number of bytes to copy" in rackspan(*options).out
    markdown = rackspan(*options, "-o", "markdown").out
    assert "| bytes to copy | not known |" in markdown
    assert "| `a` | 1 | 1 | 0 | 0 | 0 | 1.0 KiB |" in markdown
    known = rackspan(*options, "--topic", "a", "-o", "json").json
    assert known["bytes"] == 1024


def test_markdown_plan_of_many_topics_fits_into_a_github_comment_without_all(rackspan, snapshot):
    names = [f"domain.subdomain.events-{at:04}" for at in range(1_000)]
    file = snapshot(cluster(*(topic(name, [0, 1], sizeBytes=1 << 40) for name in names)))
    options = ("plan", "--snapshot", file, "--drain-broker", 0, "-o", "markdown")
    short, whole = rackspan(*options).out, rackspan(*options, "--all").out
    assert len(short.encode()) < 65_536
    assert "… and 800 more: `rackspan plan --all -o markdown`, or `-o json`." in short
    assert all(whole.count(f"| `{name}` |") == 2 for name in names)
    assert "… and" not in whole


def test_log_dirs_give_a_partition_the_size_of_its_largest_replica(rackspan, prod, tmp_path):
    directory = {
        "logDir": "/data",
        "error": None,
        "partitions": [
            {"partition": "orders-0", "size": 500, "offsetLag": 0, "isFuture": False},
            {"partition": "orders-1", "size": 900, "offsetLag": 0, "isFuture": True},
        ],
    }
    other = {"logDir": "/data", "partitions": [{"partition": "orders-0", "size": 700}]}
    document = {"version": 1, "brokers": [{"broker": 0, "logDirs": [directory]}, {"broker": 3, "logDirs": [other]}]}
    headers = "Querying brokers for log directories information\nReceived log directory information from brokers 0,3\n"
    (tmp_path / "dirs.txt").write_text(headers + json.dumps(document) + "\n")
    topics = rackspan("snapshot", "--snapshot", prod, "--log-dirs", "dirs.txt").json["topics"]
    assert [partition["sizeBytes"] for partition in topics[0]["partitions"]] == [700, 1000]
    refused = rackspan("snapshot", "--snapshot", prod, "--log-dirs", prod)
    assert refused.error == 'prod.json: $.brokers[0]: the field "logDirs" is missing'
    (tmp_path / "none.txt").write_text(headers)
    refused = rackspan("snapshot", "--snapshot", prod, "--log-dirs", "none.txt")
    assert refused.error == "none.txt: holds no line of JSON; write it with kafka-log-dirs.sh --describe"


def log_dirs(broker, **sizes):
    partitions = [{"partition": name.replace("_", "-"), "size": size} for name, size in sizes.items()]
    return {"version": 1, "brokers": [{"broker": broker, "logDirs": [{"logDir": "/data", "partitions": partitions}]}]}


OUTPUTS = (log_dirs(0, orders_0=500, orders_1=1000), log_dirs(3, orders_0=700, orders_1=1), log_dirs(4, orders_1=2))


@pytest.mark.parametrize("indent", [None, 0, 2])
@pytest.mark.parametrize(
    "between", ["\n", "\nReceived log directory information from brokers 0,3\n\n", "\n\ufeff", " "]
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_log_dirs_file_with_several_outputs_is_read_in_any_layout_and_encoding(
    rackspan, prod, tmp_path, indent, between, encoding
):
    text = "Querying brokers\r\n" + between.join(json.dumps(output, indent=indent) for output in OUTPUTS)
    (tmp_path / "dirs.txt").write_bytes(text.encode(encoding))
    topics = rackspan("snapshot", "--snapshot", prod, "--log-dirs", "dirs.txt").json["topics"]
    assert [partition["sizeBytes"] for partition in topics[0]["partitions"]] == [700, 1000]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'x\n{"brokers": []}\n{"brokers":\n', "ends too early: the file was cut off after 30 bytes"),
        (b'{"brokers": nil}', "is not JSON: invalid character at byte 16"),
        (b'{"brokers": []}\n{"broker": 1}', '$: the field "brokers" is missing'),
        (b'{"brokers": ["\xff"]}', "is not UTF-8"),
        (b'{"brokers":' + b"[" * 200_000, "$: is nested too deeply to be a snapshot"),
    ],
)
def test_invalid_log_dirs_file_is_rejected_with_a_message(rackspan, prod, tmp_path, data, said):
    (tmp_path / "dirs.txt").write_bytes(data)
    assert rackspan("snapshot", "--snapshot", prod, "--log-dirs", "dirs.txt").error == f"dirs.txt: {said}"


# -- check -----------------------------------------------------------------------------------------------------------


def test_check_of_a_cluster_out_of_compliance_lists_findings_and_exits_with_1(rackspan, prod):
    ran = rackspan("check", "--snapshot", prod, *LEVELS, "-o", "json")
    assert ran.code == 1
    assert list(ran.json) == ["summary", "findings", "topics"]
    checked = ran.json
    varies = checked["findings"].pop()
    assert (varies["rule"], varies["message"]) == ("ReplicationFactorVaries", "its partitions differ by 1 replica")
    assert {key: checked[key] for key in ("summary", "findings")} == {
        "summary": {
            "partitions": 5,
            "nonCompliant": 2,
            "moves": 2,
            "bytes": 20,
            "pinned": 0,
            "pinnedMoves": 0,
            "unfair": {"region": 1, "zone": 1, "rack": 0},
            "findings": 3,
            "byRule": {"NotCompliant": 2, "ReplicationFactorVaries": 1},
            "bySeverity": {"high": 2, "medium": 1},
        },
        "findings": [
            {
                "topic": "payments",
                "partition": partition,
                "level": level,
                "domain": domain,
                "reason": "TooManyReplicas",
                "excess": 1,
                "broker": None,
                "rule": "NotCompliant",
                "severity": "high",
                "moves": 1,
                "message": f"{level} {domain} holds 1 too many",
                "fix": "rackspan plan: 1 replica to copy, none does with fewer",
                "id": ran.json["findings"][partition]["id"],
            }
            for partition, level, domain in ((0, "zone", "/eu/eu-1a"), (1, "region", "/eu"))
        ],
    }


def test_check_groups_topics_with_equal_guarantees_in_one_row_for_any_replication_factor(rackspan, snapshot):
    file = snapshot(
        cluster(
            topic("two", [0, 3]),
            topic("three", [0, 2, 3]),
            topic("strict", [0, 2, 3], config={"min.insync.replicas": "2"}),
        )
    )
    rows = rackspan("check", "--snapshot", file, *LEVELS).out.split("on one broker only:")[1].splitlines()
    assert [row.split()[:3] for row in rows if row.strip()[:1].isdigit()] == [["2", "three", "1"], ["1", "strict", "2"]]


def test_check_states_for_each_topic_which_losses_acknowledged_writes_survive(rackspan, prod):
    orders, payments = rackspan("check", "--snapshot", prod, *LEVELS, "-o", "json").json["topics"]
    assert orders == {
        "topic": "orders",
        "replicationFactor": 2,
        "minInsyncReplicas": 2,
        "inherited": False,
        "levels": [
            {"level": level, "domains": 2, "keepsWrites": True, "staysWritable": False}
            for level in ("region", "zone", "rack", "broker")
        ],
        "message": orders["message"],
    }
    assert orders["message"].endswith(f"losing one region, zone, rack or broker may stop writes. {WITHOUT_ELR}{ACKS_1}")
    assert (payments["topic"], payments["minInsyncReplicas"]) == ("payments", 1)
    assert [(one["domains"], one["staysWritable"]) for one in payments["levels"]] == [
        (1, False),
        (1, True),
        (1, True),
        (1, True),
    ]
    shown = rackspan("check", "--snapshot", prod, *LEVELS).out
    assert "with acks=1 on one broker only" in shown
    (line,) = [line.split() for line in shown.splitlines() if line.split()[1:2] == ["orders"]]
    assert line == ["1", "orders", "2", *["2,", "stops"] * 4]


def test_check_lists_findings_other_than_compliance(rackspan, snapshot):
    behind = topic("behind", [0, 3], [1, 4], [2, 5])
    behind["partitions"][0] |= {"isr": [3], "leader": 3}
    behind["partitions"][1] |= {"isr": [], "leader": None}
    file = snapshot(cluster(behind))
    ran = rackspan("check", "--snapshot", file, *LEVELS, "-o", "json")
    assert [(one["rule"], one["partition"], one["severity"]) for one in ran.json["findings"]] == [
        ("Offline", 1, "critical"),
        ("UnderReplicated", 0, "medium"),
        ("LeaderNotPreferred", 0, "low"),
    ]
    assert ran.code == 1
    shown = rackspan("check", "--snapshot", file, *LEVELS).out
    assert "3 partitions: all are compliant" in shown
    assert "3 other findings:" in shown
    assert "behind-1" in shown


def test_check_prints_partitions_without_a_leader_before_those_out_of_compliance(rackspan, snapshot):
    dead = topic("dead", [4, 0], [5, 1], isr=[], leader=None)
    ran = rackspan("check", "--snapshot", snapshot(cluster(topic("unfair", *([0, 1],) * 30), dead)), *LEVELS)
    lines = [line for line in ran.out.splitlines() if line]
    assert lines[0] == "2 partitions have no leader: clients cannot read or write them"
    assert lines[1].startswith("30 of 32 partitions are out of compliance")
    assert lines.index("2 other findings: 2 critical") < lines.index("… and 10 more partitions (--all prints them)")
    fair = rackspan("check", "--snapshot", snapshot(cluster(dead)), *LEVELS).out
    assert fair.startswith(
        "2 partitions have no leader: clients cannot read or write them\n2 partitions: all are compliant"
    )


def test_check_counts_other_findings_by_severity_in_descending_order(rackspan, snapshot):
    behind = topic("behind", [0, 3], [1, 4], isr=[3], leader=3)
    behind["partitions"][1] |= {"isr": [1, 4], "leader": 1}
    shown = rackspan("check", "--snapshot", snapshot(cluster(behind)), *LEVELS).out
    assert "2 other findings: 1 medium, 1 low" in shown
    assert "no leader" not in shown


def test_check_assigns_findings_to_the_right_topic_if_replication_factors_differ(rackspan, snapshot):
    rows = {"r3": [0, 1, 2], "r2": [3, 4], "r4": [0, 1, 2, 3], "r1": [0], "fine": [1, 4], "s3": [3, 4, 5]}
    file = snapshot(cluster(*(topic(name, replicas) for name, replicas in rows.items())))
    found = rackspan("check", "--snapshot", file, *LEVELS, "-o", "json").json["findings"]
    assert [(one["topic"], one["domain"], one["excess"]) for one in found if one["level"] == "region"] == [
        ("r2", "/us", 1),
        ("r3", "/eu", 1),
        ("r4", "/eu", 1),
        ("s3", "/us", 1),
    ]
    shown = [line.split() for line in rackspan("check", "--snapshot", file, *LEVELS).out.splitlines()]
    assert {line[0] for line in shown if line and line[0] in rows} == {"r3", "r2", "r4", "s3"}
    assert all("/us" in " ".join(line) for line in shown if line and line[0] in ("r2", "s3"))


def test_check_of_compliant_topics_exits_with_0(rackspan, prod):
    ran = rackspan("check", "--snapshot", prod, "--topic", "ord.*", *LEVELS)
    assert (ran.code, ran.out.splitlines()[0]) == (0, "2 partitions: all are compliant")


def test_check_table_starts_with_the_worst_partition_and_counts_omitted_rows(rackspan, snapshot):
    bad = cluster(topic("mild", *([0, 3, 5],) * 30), topic("worst", [0, 1, 3], [1, 0, 5]))
    drained = ("--drain-broker", 0, "--drain-broker", 1)
    ran = rackspan("check", "--snapshot", snapshot(bad), *LEVELS, *drained)
    lines = [line.split() for line in ran.out.splitlines()]
    assert ran.out.startswith("32 of 32 partitions are out of compliance; ")
    assert next(line for line in lines if line and line[0] in ("mild", "worst"))[0] == "worst"
    assert "broker 1 is drained" in ran.out
    assert "… and 12 more partitions (--all prints them)" in ran.out
    everything = rackspan("check", "--snapshot", "prod.json", *LEVELS, *drained, "--all")
    assert sum(line.lstrip().startswith(("mild", "worst")) for line in everything.out.splitlines()) == 32


def test_check_counts_one_omitted_row_in_the_singular(rackspan, snapshot):
    bad = snapshot(cluster(topic("unfair", *([0, 1],) * 21)))
    assert "… and 1 more partition (--all prints it)" in rackspan("check", "--snapshot", bad, *LEVELS).out


@pytest.mark.parametrize(("racks", "warns"), [([None, None], True), (["/eu/a/r1", None], False)])
def test_check_and_scan_warn_if_no_broker_has_a_rack(rackspan, snapshot, racks, warns):
    file = snapshot(cluster(topic("a", [0, 1]), racks=dict(enumerate(racks))))
    warning = "prod.json: no broker has a rack, so no loss of a rack is checked: set broker.rack, or use a RackTopology"
    ran = rackspan("check", "--snapshot", file, "--missing-rack-policy", "ignore")
    assert ran.err == (f"warning: {warning}\n" if warns else "")
    scanned = rackspan("scan", "--snapshot", file, *([] if warns else LEVELS))
    assert (warning.replace("prod.json", "prod") in scanned.err) is warns


def test_check_judges_no_partition_if_levels_are_named_and_no_broker_has_a_rack(rackspan, snapshot):
    file = snapshot(cluster(topic("a", [0, 1]), racks={0: None, 1: None}))
    ran = rackspan("check", "--snapshot", file, "--levels", "zone")
    assert ran.code == 1
    assert ran.out.startswith("1 partition: 1 cannot be judged\n")
    assert rackspan("check", "--snapshot", file, "--levels", "zone", "--missing-rack-policy", "ignore").code == 0


def test_check_accepts_a_missing_broker_with_replicas_as_drained(rackspan, snapshot):
    ran = rackspan("check", "--snapshot", snapshot(cluster(topic("a", [0, 9]))), "--drain-broker", 9, "-o", "json")
    assert ran.code == 1
    assert [(one["topic"], one["broker"], one["rule"]) for one in ran.json["findings"]] == [(None, 9, "BrokerOffline")]


def test_snapshot_with_a_missing_broker_can_be_checked_but_not_planned(rackspan, snapshot):
    file = snapshot(
        cluster(topic("a", [0, 3], [1, 4]), racks={broker: RACKS[broker] for broker in RACKS if broker != 4})
    )
    ran = rackspan("check", "--snapshot", file, "-o", "json")
    assert ran.code == 1
    assert ran.err == "warning: prod.json: broker 4 holds replicas and is not among the brokers\n"
    assert {(one["partition"], one["rule"], one["broker"]) for one in ran.json["findings"]} >= {
        (None, "BrokerOffline", 4)
    }
    assert rackspan("what-if", "--snapshot", file).code == 0
    refused = rackspan("plan", "--snapshot", file)
    assert (refused.code, refused.out) == (2, "")
    assert refused.error == "broker 4 holds replicas and is not among the brokers"
    assert refused.hint == "wait until it is back, or pass --drain-broker 4 if it is gone for good"


def test_offline_broker_is_one_finding_and_its_fix_is_a_plan_that_drains_it(rackspan, snapshot):
    racks = {broker: f"/{broker}" for broker in (0, 1, 2)}
    topics = [topic(f"topic-{at}", [3, at % 3], isr=[at % 3], leader=at % 3) for at in range(14)]
    file = snapshot(cluster(*topics, racks=racks))
    ran = rackspan("check", "--snapshot", file)
    assert ran.code == 1
    assert "14 of 14 partitions are out of compliance; 14 moves would fix them" in ran.out
    assert "1 other finding:" in ran.out
    assert "topic-" not in ran.out.split("acknowledged", maxsplit=1)[0]
    (found,) = rackspan("check", "--snapshot", file, "-o", "json").json["findings"]
    assert (found["broker"], found["excess"], found["moves"]) == (3, 14, 14)
    assert found["message"] == "broker 3 is not online: 14 partitions have a replica there"
    assert "rackspan plan --drain-broker 3" in found["fix"]


@pytest.mark.parametrize(
    "options",
    [
        ("--drain-broker", "3"),
        ("--drain-broker", "3", "--drain-broker", "1"),
        ("--drain-rack", "/us/*/r1"),
        ("--drain-broker", "1", "--drain-rack", "/us/us-1a", "--drain-rack", "/eu/eu-1a/r2"),
    ],
)
def test_fix_of_a_drain_finding_is_the_command_that_plans_the_same_drain(rackspan, snapshot, options):
    file = snapshot(cluster(topic("orders", [0, 1, 3], [2, 4, 5]), topic("fine", [1, 3])))
    fixes = {one["fix"] for one in rackspan("check", "--snapshot", file, *options, "-o", "json").json["findings"]}
    commands = {re.match(r"rackspan plan(.*): \d+ replicas? to copy", one)[1] for one in fixes if "plan" in one}
    (advised,) = commands
    plan = ("plan", "--snapshot", file, "-o", "json")
    assert rackspan(*plan, *shlex.split(advised)) == rackspan(*plan, *options)


def test_fix_of_an_offline_broker_keeps_the_other_options_of_check(rackspan, snapshot):
    file = snapshot(cluster(topic("orders", [0, 9]), racks={0: "/a", 1: "/b", 2: None}))
    options = ("--missing-rack-policy", "ignore", "--drain-broker", "9,1")
    found = rackspan("check", "--snapshot", file, *options, "-o", "json").json["findings"]
    advised = "rackspan plan --missing-rack-policy ignore --drain-broker 1 --drain-broker 9, or spec.drainBrokers"
    assert [advised in one["fix"] for one in found if one["rule"] == "BrokerOffline"] == [True]
    assert advised in rackspan("check", "--snapshot", file, *options).out


@pytest.mark.parametrize("options", [(), ("--drain-broker", 8), ("--topic", "a"), ("--drain-broker", "8,9")])
def test_fix_of_one_of_several_offline_brokers_drains_all_of_them_and_can_be_planned(rackspan, snapshot, options):
    file = snapshot(cluster(topic("a", [0, 8], [0, 3]), topic("b", [0, 9])))
    found = rackspan("check", "--snapshot", file, *options, "-o", "json").json["findings"]
    fixes = {one["fix"] for one in found if one["rule"] == "BrokerOffline"}
    advised = "if brokers 8, 9 are gone for good: rackspan plan --drain-broker 8,9, or spec.drainBrokers"
    assert [advised in one for one in fixes] == [True]
    assert rackspan("plan", "--snapshot", file, "--drain-broker", "8,9").code == 0


def test_fix_of_many_offline_brokers_refers_to_the_plan_which_names_them(rackspan, snapshot):
    file = snapshot(cluster(topic("a", *([0, broker] for broker in range(6, 17)))))
    found = rackspan("check", "--snapshot", file, "-o", "json").json["findings"]
    fixes = [one["fix"] for one in found if one["rule"] == "BrokerOffline"]
    told = "bring it back; if all 11 brokers that are away are gone for good: rackspan plan says how to drain them"
    assert fixes == [told] * 11
    assert "--drain-broker 6,7,8,9,10,11,12,13,14,15,16 " in rackspan("plan", "--snapshot", file).hint


def test_plan_with_missing_brokers_fails_and_names_all_of_them(rackspan, snapshot):
    refused = rackspan("plan", "--snapshot", snapshot(cluster(topic("a", [0, 8], [0, 9]))))
    assert (refused.code, refused.error) == (2, "brokers 8, 9 hold replicas and are not among the brokers")
    assert refused.hint == "wait until they are back, or pass --drain-broker 8,9 if they are gone for good"


def test_drain_broker_accepts_ids_with_commas_or_in_repeated_options(rackspan, prod):
    commas = rackspan("plan", "--snapshot", prod, "--drain-broker", "1, 4", "-o", "json").json
    assert commas["moves"]
    assert commas == rackspan("plan", "--snapshot", prod, "--drain-broker", 1, "--drain-broker", 4, "-o", "json").json


def test_check_ignores_racks_if_missing_rack_policy_is_ignore(rackspan, snapshot):
    file = snapshot(cluster(UNFAIR, racks={0: "/eu/a/r", 1: None, 2: "/eu", 3: "/us", 4: "/us"}))
    ran = rackspan("check", "--snapshot", file, "--missing-rack-policy", "ignore", "-o", "json")
    assert (ran.code, ran.json["summary"]["unfair"]) == (0, {})


# -- what-if ---------------------------------------------------------------------------------------------------------


def test_what_if_simulates_the_loss_of_each_domain_of_each_level_once(rackspan, prod):
    ran = rackspan("what-if", "--snapshot", prod, *LEVELS, "-o", "json")
    assert ran.code == 0
    assert ran.json["partitions"] == 5
    assert ran.json["now"] == {"offline": 0, "notWritable": 0, "lastReplica": 0, "replicas": 0, "bytes": 0}
    rows = {(row["level"], row["domain"]): row for row in ran.json["losses"]}
    assert [level for level, _ in rows] == ["region"] * 2 + ["zone"] * 4 + ["rack"] * 6 + ["broker"] * 6
    assert rows["region", "/eu"] == {
        "level": "region",
        "domain": "/eu",
        "brokers": 3,
        "offline": 1,
        "notWritable": 3,
        "lastReplica": 4,
        "replicas": 8,
        "bytes": 2060,
    }
    assert ran.json["losses"][0]["domain"] == "/eu"  # the worst of its level is first


def test_what_if_simulates_the_common_loss_of_several_domains(rackspan, prod):
    ran = rackspan("what-if", "--snapshot", prod, *LEVELS, "--lose", "/eu/eu-1a", "--lose", "us", "-o", "json")
    (row,) = ran.json["losses"]
    assert (row["domain"], row["brokers"], row["offline"]) == ("/eu/eu-1a + /us", 5, 2)


def test_what_if_accepts_broker_ids_in_lose(rackspan, prod):
    def lost(*given):
        options = [word for one in given for word in ("--lose", one)]
        return rackspan("what-if", "--snapshot", prod, *LEVELS, *options, "-o", "json").json["losses"]

    each = {row["domain"]: row for row in rackspan("what-if", "--snapshot", prod, *LEVELS, "-o", "json").json["losses"]}
    assert lost("3") == [each["3"]]
    assert lost("3", " 3") == lost("3")
    (zone,) = lost("/us/us-1a")
    (both,) = lost("3,4")
    assert both == {**zone, "level": "together", "domain": "3 + 4"}
    assert lost("3", "4") == [both]
    (more,) = lost("/us/us-1a", "4")
    assert more == {**zone, "level": "together", "domain": "/us/us-1a + 4"}


def test_what_if_reads_a_number_as_a_broker_id_and_a_path_as_a_rack(rackspan, snapshot):
    file = snapshot(cluster(topic("a", [4, 5]), racks={4: "/5", 5: "/4"}))
    (broker,) = rackspan("what-if", "--snapshot", file, "--lose", "4", "-o", "json").json["losses"]
    (rack,) = rackspan("what-if", "--snapshot", file, "--lose", "/4", "-o", "json").json["losses"]
    assert (broker["level"], broker["domain"]) == ("broker", "4")
    assert (rack["level"], rack["domain"]) == ("rack", "/4")


@pytest.mark.parametrize("again", ["/us", "us"])
def test_what_if_counts_a_domain_once_that_lose_names_twice(rackspan, prod, again):
    once = rackspan("what-if", "--snapshot", prod, *LEVELS, "--lose", "/us", "-o", "json")
    assert once.json["losses"][0]["level"] == "region"
    assert rackspan("what-if", "--snapshot", prod, *LEVELS, "--lose", "/us", "--lose", again, "-o", "json") == once


def test_what_if_shows_unknown_bytes_if_no_size_is_known(rackspan, snapshot):
    file = snapshot(cluster(topic("a", [0, 3])))
    rows = rackspan("what-if", "--snapshot", file, "-o", "json").json["losses"]
    assert {row["bytes"] for row in rows} == {None}
    assert "?" in rackspan("what-if", "--snapshot", file).out


def test_what_if_shows_unknown_bytes_only_for_domains_with_replicas_of_unknown_size(rackspan, snapshot):
    file = snapshot(cluster(topic("a", [0, 3]), topic("b", [1], sizeBytes=5)))
    rows = rackspan("what-if", "--snapshot", file, "-o", "json").json["losses"]
    told = {row["domain"]: row["bytes"] for row in rows if row["level"] == "broker"}
    assert told == {"0": None, "3": None, "1": 5, "2": 0, "4": 0, "5": 0}
    assert rackspan("what-if", "--snapshot", file, "--lose", "/us", "-o", "json").json["losses"][0]["bytes"] is None
    scanned = rackspan("scan", "--snapshot", file, "-o", "json").json["brokers"]
    assert {str(row["id"]): row["whatIf"]["bytes"] for row in scanned} == told


def test_what_if_counts_one_partition_on_its_last_replica_in_the_singular(rackspan, snapshot):
    file = snapshot(cluster(topic("a", [0]), topic("b", [1, 2])))
    told = rackspan("what-if", "--snapshot", file).out.splitlines()[0]
    assert told == "2 partitions; without a loss 0 are offline, 0 not writable, 1 on its last replica"


# -- place -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("racks", "arguments", "expected"),
    [
        (
            KIP_36,
            ["--partitions", 12, "--replication-factor", 3, "--placer", "Striped", "--start-index", 0, "--shift", 0],
            "0,3,1 3,1,5 1,5,4 5,4,2 4,2,0 2,0,3 0,4,2 3,2,0 1,0,3 5,3,1 4,1,5 2,5,4",
        ),
        (
            {0: "rack1", 1: "rack2", 2: "rack2"},
            ["--partitions", 3, "--replication-factor", 2, "--placer", "Striped", "--start-index", 0, "--shift", 0],
            "0,1 1,0 2,0",
        ),
        (
            dict.fromkeys(range(3)),
            ["--partitions", 6, "--replication-factor", 3, "--placer", "Simple", "--start-index", 2, "--shift", 2],
            "2,0,1 0,1,2 1,2,0 2,1,0 0,2,1 1,0,2",
        ),
        (
            {0: "/dc1/r1", 1: "/dc2/r1", 2: "/dc2/r2"},
            ["--partitions", 4, "--replication-factor", 3, "--placer", "Rings", "--start-index", 0],
            "0,1,2 1,2,0 2,0,1 0,1,2",
        ),
    ],
    ids=["KIP-36 six brokers", "KIP-36 three brokers", "the article", "KIP-879 repaired"],
)
def test_place_reproduces_published_examples_exactly(rackspan, snapshot, racks, arguments, expected):
    ran = rackspan("place", "--snapshot", snapshot(cluster(racks=racks)), *arguments, "-o", "json")
    assert " ".join(",".join(map(str, row)) for row in ran.json["placement"]) == expected


def test_placement_is_reproducible_and_changes_with_the_seed(rackspan, prod):
    command = ("place", "--snapshot", prod, "--partitions", 24, "--replication-factor", 3, "-o", "json", *LEVELS)
    first, again, other = rackspan(*command), rackspan(*command), rackspan(*command, "--seed", 7)
    assert first.out == again.out
    assert (first.json["placer"], first.json["seed"], other.json["seed"]) == ("MultiLevel", 0, 7)
    assert first.json["placement"] != other.json["placement"]


def test_placement_considers_the_existing_replicas_of_brokers(rackspan, snapshot):
    file = snapshot(cluster(topic("a", *([0],) * 50), racks={0: "/a", 1: "/b"}))
    placed = rackspan("place", "--snapshot", file, "--partitions", 10, "--replication-factor", 1, "-o", "json")
    assert {broker for row in placed.json["placement"] for broker in row} == {1}


def test_place_table_shows_one_number_if_all_domains_have_the_same_count(rackspan, prod):
    shown = rackspan("place", "--snapshot", prod, "--partitions", 12, "--replication-factor", 2, *LEVELS).out
    (line,) = [line.split() for line in shown.splitlines() if line.split()[:1] == ["region"]]
    assert line[:3] == ["region", "2", "12"]


def test_place_has_the_same_verdict_in_text_and_in_json(rackspan, prod):
    command = (
        "place",
        "--snapshot",
        prod,
        "--partitions",
        12,
        "--replication-factor",
        2,
        "--placer",
        "Simple",
        *LEVELS,
    )
    ran, text = rackspan(*command, "-o", "json").json, rackspan(*command).out
    assert ran["nonCompliant"] > 0
    assert f"{ran['nonCompliant']} partitions out of compliance" in text
    assert [one["level"] for one in ran["levels"]] == ["region", "zone", "rack", "broker"]
    assert ran["levels"][0]["replicas"] == {"min": 12, "max": 12}
    assert ran["levels"][0].keys() == {"level", "replicas", "leaders"}


def test_place_uses_only_named_brokers_and_no_drained_brokers(rackspan, prod):
    command = ("place", "--snapshot", prod, "--partitions", 6, "--replication-factor", 2, "-o", "json")
    named = rackspan(*command, "--brokers", "1, 3,5")
    assert {broker for row in named.json["placement"] for broker in row} == {1, 3, 5}
    drained = rackspan(*command, "--drain-rack", "/us/us-1a", "--drain-broker", 2)
    assert {broker for row in drained.json["placement"] for broker in row} <= {0, 1, 5}


def test_place_does_not_use_a_cordoned_broker_and_what_if_does_not_change(rackspan, snapshot):
    open_, closed = cluster(FAIR), cluster(FAIR)
    closed["brokers"][3]["cordoned"] = True
    command = ("place", "--partitions", 6, "--replication-factor", 2, "-o", "json", *LEVELS, "--snapshot")
    used = [
        {broker for row in rackspan(*command, snapshot(one)).json["placement"] for broker in row}
        for one in (open_, closed)
    ]
    assert used == [{*RACKS}, {*RACKS} - {3}]
    losses = [rackspan("what-if", *LEVELS, "-o", "json", "--snapshot", snapshot(one)).json for one in (open_, closed)]
    assert losses[0]["losses"] == losses[1]["losses"]


def test_placer_without_rack_awareness_accepts_a_broker_without_a_rack(rackspan, snapshot):
    file = snapshot(cluster(racks={0: "/a", 1: None}))
    command = ("place", "--snapshot", file, "--partitions", 1, "--replication-factor", 2, "-o", "json")
    assert rackspan(*command, "--placer", "Simple").code == 0
    assert rackspan(*command).code == 2
    assert rackspan(*command, "--missing-rack-policy", "ignore").code == 0


# -- plan ------------------------------------------------------------------------------------------------------------


def test_json_plan_has_lower_bound_compliance_and_only_changed_partitions(rackspan, prod):
    ran = rackspan("plan", "--snapshot", prod, *LEVELS, "-o", "json")
    assert ran.code == 0
    plan = ran.json
    assert list(plan) == [
        *("hash", "feasible", "moves", "lowerBound", "gap", "reorders", "removals", "bytes", "removedBytes"),
        *("before", "after", "partitions"),
    ]
    assert (plan["feasible"], plan["moves"], plan["lowerBound"], plan["gap"]) == (True, 2, 2, 0)
    assert plan["bytes"] == 20
    assert (plan["before"]["nonCompliant"], plan["after"]["nonCompliant"]) == (2, 0)
    assert [level["level"] for level in plan["after"]["levels"]] == ["region", "zone", "rack", "broker"]
    assert plan["after"]["levels"][-1]["replicas"].keys() == {"min", "max"}
    assert [(one["topic"], one["partition"], one["from"]) for one in plan["partitions"]] == [
        ("payments", 0, [0, 1, 3]),
        ("payments", 1, [1, 0, 2]),
    ]
    assert yaml.safe_load(rackspan("plan", "--snapshot", prod, *LEVELS, "-o", "yaml").out) == plan


def after(document, plan):
    """Return the cluster after the plan is carried out."""
    changed = {(one["topic"], one["partition"]): one["replicas"] for one in plan["partitions"]}
    for one in document["topics"]:
        for partition in one["partitions"]:
            partition["replicas"] = changed.get((one["name"], partition["partition"]), partition["replicas"])
    return document


@pytest.mark.parametrize("wishes", [[], ["--drain-broker", 2], ["--drain-rack", "/us/us-1a"], ["--rebalance"]])
def test_plan_is_empty_and_check_passes_after_the_first_plan_is_carried_out(rackspan, snapshot, wishes):
    document = cluster(FAIR, UNFAIR)
    plan = rackspan("plan", "--snapshot", snapshot(document), *LEVELS, *wishes, "-o", "json").json
    assert plan["partitions"]
    done = snapshot(after(json.loads(json.dumps(document)), plan))
    again = rackspan("plan", "--snapshot", done, *LEVELS, *wishes, "-o", "json").json
    assert (again["moves"], again["partitions"]) == (0, [])
    drains = [] if wishes == ["--rebalance"] else wishes
    assert rackspan("check", "--snapshot", done, *LEVELS, *drains).code == 0


def test_reassignment_output_has_the_format_of_kafka_s_tool_and_no_new_partitions(rackspan, prod):
    wishes = ("--partitions", "orders=3", "--replication-factor", "orders=3")
    ran = rackspan("plan", "--snapshot", prod, *LEVELS, "--topic", "orders", *wishes, "-o", "reassignment")
    assert ran.json.keys() == {"version", "partitions"}
    assert ran.json["version"] == 1
    assert [one.keys() for one in ran.json["partitions"]] == [{"topic", "partition", "replicas"}] * 2
    assert [len(one["replicas"]) for one in ran.json["partitions"]] == [3, 3]
    assert "kafka-topics.sh --bootstrap-server HOST:PORT --alter --topic orders --partitions 3" in ran.err
    assert ran.code == 0


def test_infeasible_plan_has_no_reassignment_output_and_names_the_smallest_change(rackspan, prod):
    wishes = ("--replication-factor", "orders=9")
    ran = rackspan("plan", "--snapshot", prod, *LEVELS, *wishes, "-o", "reassignment")
    assert (ran.code, ran.out) == (2, "")
    plan = rackspan("plan", "--snapshot", prod, *LEVELS, *wishes, "-o", "json").json
    assert plan["feasible"] is False
    assert plan["problems"] == [
        {
            "topics": ["orders"],
            "reason": "replicationFactor 9 needs 9 eligible brokers, there are 6",
            "smallestChange": "lower it to 6 or add 3 brokers",
        }
    ]


def test_markdown_plan_starts_with_the_lower_bound_and_folds_the_details(rackspan, prod):
    text = rackspan("plan", "--snapshot", prod, *LEVELS, "-o", "markdown").out
    assert text.startswith("## Kafka reassignment plan `")
    certificate, topics, details = (
        text.index(part) for part in ("| lower bound | 2 |", "| `payments` | 2 |", "<details>")
    )
    assert certificate < topics < details < text.index("</details>")


def test_markdown_plan_escapes_mentions_and_links_in_level_names(rackspan, snapshot):
    file = snapshot(cluster(topic("orders", [0, 1], [1, 0])))
    ran = rackspan("plan", "--snapshot", file, "--levels", "@org/team,www.evil,a|b", "-o", "markdown")
    assert r"| @&#8203;org/team |" in ran.out
    assert r"| www\.evil |" in ran.out
    assert r"| a\|b |" in ran.out


def test_plan_states_removed_replicas_and_their_bytes_if_all_sizes_are_known(rackspan, snapshot):
    topics = [topic("a", [0, 1, 2], sizeBytes=1024), topic("b", [0, 1, 2])]
    for name, number, words in (("a", 1024, "1 replica removed (1.0 KiB)"), ("b", None, "1 replica removed")):
        options = ("plan", "--snapshot", snapshot(cluster(*topics)), "--replication-factor", f"{name}=2")
        assert f"; {words}  (plan" in rackspan(*options).out
        plan = rackspan(*options, "-o", "json").json
        assert (plan["removals"], plan["removedBytes"]) == (1, number)
        markdown = rackspan(*options, "-o", "markdown").out
        assert f"| bytes removed | {'not known' if number is None else '1.0 KiB'} |" in markdown
        assert f"| `{name}` | 1 | 1 | 1 |" in markdown, "the fair spread needs one copy"


def test_plan_warns_if_it_shrinks_partitions_below_min_insync_replicas(rackspan, prod, tmp_path):
    wishes = ("--snapshot", prod, *LEVELS, "--topic", "orders")
    less = ("--replication-factor", "orders=1")
    sentence = (
        "topic orders: 2 partitions shrink to 1 replica, below min.insync.replicas 2, so that a write acknowledged "
        "with acks=all is then on 1 broker at most"
    )
    text = rackspan("plan", *wishes, *less).out
    assert "0 moves, the fewest there can be (lower bound 0); 2 replicas removed" in text
    assert sentence in " ".join(text.split())
    plan = rackspan("plan", *wishes, *less, "-o", "json").json
    assert (plan["moves"], plan["removals"]) == (0, 2)
    assert plan["belowMinInsync"] == [{"topic": "orders", "partitions": 2, "replicas": 1, "minInsyncReplicas": 2}]
    markdown = rackspan("plan", *wishes, *less, "-o", "markdown").out
    assert "> [!WARNING]\n> topic orders: 2 partitions shrink to 1 replica, below" in markdown
    assert "| replicas removed | 2 |" in markdown
    spec = {**TOPIC["spec"], "partitions": 2, "replicationFactor": 1}
    for config, found in (({}, ["orders"]), ({"min.insync.replicas": 1}, [])):
        (tmp_path / "orders.yaml").write_text(yaml.safe_dump({**TOPIC, "spec": {**spec, "config": config}}))
        plan = rackspan("plan", *wishes, "-f", "orders.yaml", "-o", "json").json
        assert [one["topic"] for one in plan.get("belowMinInsync", [])] == found
    assert "belowMinInsync" not in rackspan("plan", *wishes, "--replication-factor", "orders=2", "-o", "json").json


def test_plan_as_text_shows_compliance_moves_and_changes(rackspan, prod):
    text = rackspan("plan", "--snapshot", prod, *LEVELS).out
    assert "2 of 5 partitions are out of compliance now, 0 afterwards" in text
    assert "2 moves, the fewest there can be (lower bound 2); 20 B to copy" in text
    assert "0 1 3" in text
    assert rackspan("plan", "--snapshot", prod, *LEVELS, "--topic", "orders").out.startswith("nothing to do: ")


def test_plan_of_new_topics_only_has_nothing_to_move(rackspan, prod, tmp_path):
    """The output lists the created topics above that line."""
    (tmp_path / "new.yaml").write_text(yaml.safe_dump({**TOPIC, "metadata": {"name": "fresh"}}))
    files = ("plan", "--snapshot", prod, *LEVELS, "-f", "new.yaml")
    assert "\nnothing to move: no partition exists yet  (plan " in rackspan(*files).out
    assert "**Nothing to move.** No partition exists yet." in rackspan(*files, "-o", "markdown").out


# -- all -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["snapshot", "place", "plan", "check", "what-if"])
def test_help_has_examples_and_exit_codes(rackspan, command):
    ran = rackspan(command, "--help")
    assert ran.code == 0
    assert f"$ rackspan {command}" in ran.out
    assert "Exit codes: 0 fine, 1 not compliant" in ran.out


@pytest.mark.parametrize("command", ["scan", "status", "drain"])
def test_help_lists_all_exit_codes_and_names_the_command(rackspan, command):
    told = " ".join(rackspan(command, "--help").out.split()).partition("Exit codes: ")[2]
    codes = {int(number) for number in re.findall(r"(?:^|, | or )(\d+) ", told)}
    assert codes == set(ExitCode)
    assert command in told


@pytest.mark.parametrize(
    "line",
    [
        *("check", "plan", "what-if", "locality", "apply", "watch", "scan", "snapshot"),
        *("import cluster --topology-ref main", "place --partitions 1 --replication-factor 1"),
    ],
)
def test_command_without_a_cluster_names_all_its_options_for_one(rackspan, line):
    ran = rackspan(*line.split())
    assert (ran.code, ran.error) == (2, "the cluster is missing")
    shown = rackspan(*line.partition(" --")[0].split(), "--help").out
    for option in ("--snapshot", "--bootstrap-server", "--topology "):
        assert (option in f"{ran.hint} ") == (option in shown), option


def test_help_of_an_option_says_instead_only_if_the_command_has_another_option_for_the_same(rackspan):
    for name in ("drain", "apply", "watch", "locality"):
        assert "instead" not in rackspan(name, "--help").out
    assert "With --wait" in rackspan("drain", "--help").out.partition("--bootstrap-server")[2]


@pytest.mark.parametrize("words", ["", "status", "report", "report open", "import cluster", "rack-id"])
def test_help_has_a_short_option(rackspan, words):
    assert rackspan(*words.split(), "-h").out == rackspan(*words.split(), "--help").out != ""


@pytest.mark.parametrize("words", ["report", "history", "import", "release"])
def test_help_of_each_group_has_an_example_and_the_exit_codes(rackspan, words):
    told = rackspan(words, "--help").out
    assert f"$ rackspan {words} " in told
    assert "Exit codes: 0 fine" in told


def test_absent_broker_that_a_plan_refuses_is_named_in_one_sentence(rackspan, snapshot):
    file = snapshot(cluster(topic("orders", [0, 9])))
    sentence = "broker 9 holds replicas and is not among the brokers"
    assert rackspan("plan", "--snapshot", file).err.count(sentence) == 1
    assert rackspan("check", "--snapshot", file).err == f"warning: prod.json: {sentence}\n"


def test_unexpected_exception_is_reported_in_one_line_with_exit_code_70(rackspan, prod, monkeypatch):
    def broken(*_):
        raise RuntimeError("out of\nluck")

    monkeypatch.setattr("rackspan.cli.actions.checking_clusters.examine", broken)
    ran = rackspan("check", "--snapshot", prod)
    assert (ran.code, ran.error) == (70, "a defect of rackspan: RuntimeError: out of\\nluck")
    assert ran.hint == "RACKSPAN_DEBUG=1 shows where; please report it"


@pytest.mark.parametrize(
    ("program", "shown"),
    [("/usr/bin/kubectl-rackspan", "kubectl rackspan"), ("/usr/bin/rackspan", "rackspan"), ("__main__.py", "rackspan")],
)
def test_usage_shows_the_name_of_the_called_program(monkeypatch, program, shown):
    from rackspan.cli.shared.command_errors import called_as

    monkeypatch.setattr("sys.argv", [program])
    assert called_as() == shown


def test_plan_counts_pinned_unfair_partitions_separately_and_states_the_moves_to_fix_them(rackspan, snapshot, tmp_path):
    """The assignment of the KafkaTopic puts both replicas of a partition in one zone."""
    lists = [[0, 1], [2, 3]]
    there = ("--snapshot", str(snapshot(cluster(topic("orders", *lists)))))
    spec = {**TOPIC["spec"], "partitions": 2, "replicationFactor": 2, "placement": {"assignment": lists}}
    (tmp_path / "orders.json").write_text(json.dumps({**TOPIC, "spec": spec}))
    arguments = ("plan", *there, "-f", str(tmp_path / "orders.json"))
    planned = rackspan(*arguments, "-o", "json").json
    assert [(planned[at]["pinned"], planned[at]["nonCompliant"]) for at in ("before", "after")] == [(1, 0)] * 2
    assert "1 partition is pinned and unfair: 1 move would fix that without the assignment" in rackspan(*arguments).out
    assert "| pinned and unfair | 1 |" in rackspan(*arguments, "-o", "markdown").out


def test_plan_reports_a_pinned_assignment_that_makes_a_partition_unfair(rackspan, snapshot, tmp_path):
    there = ("--snapshot", str(snapshot(cluster(topic("orders", [0, 2], [2, 3])))))
    spec = {**TOPIC["spec"], "partitions": 2, "replicationFactor": 2, "placement": {"assignment": [[0, 1], [2, 3]]}}
    (tmp_path / "orders.json").write_text(json.dumps({**TOPIC, "spec": spec}))
    planned = rackspan("plan", *there, "-f", str(tmp_path / "orders.json")).out
    assert "1 partition is pinned and unfair afterwards, 0 now: 1 move would fix that" in planned


def test_check_of_a_topology_does_not_call_partitions_compliant_whose_brokers_have_no_known_rack(capsys):
    rows = partitions(([1, 3, 4],), ([1, 3, 6],))
    snapshot = Snapshot("c", (), rows, ({},))
    gap = locations(b4={"rack": None})
    checked = checking_clusters._checked(snapshot, gap, rows, ClusterRequirements(), TopologyOptions(), "kafka/prod")
    checking_clusters._print(checked, None, 9)
    assert capsys.readouterr().out.startswith("2 partitions: 1 cannot be judged, all others are compliant\n")

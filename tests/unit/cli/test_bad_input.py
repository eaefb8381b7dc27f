"""Each invalid input gives one error message, a hint if the user can correct it, and exit code 2.

docs/reference/bad-input.md lists the messages.
"""

import json
from pathlib import Path

import pytest
from tests.support.command import RACKS, cluster, partition, topic

from rackspan.cli.shared import selection

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "bad-input.md").read_text()
FINE = cluster(topic("orders", [0, 3], [1, 4]), topic("payments", [2, 5]))
LEVELS = ("--levels", "region,zone,rack")
NO_BROKER_3 = ("--drain-broker 3: the cluster has no broker 3", "its broker is 4")


def without_rack(*brokers):
    return cluster(*FINE["topics"], racks={broker: None if broker in brokers else RACKS[broker] for broker in RACKS})


def one(*partitions, **more):
    return cluster({"name": "orders", "partitions": list(partitions), **more})


FILES = {
    "empty": (b"", "prod.json: is empty"),
    "white space": (b" \n", "prod.json: is empty"),
    "truncated": (json.dumps(FINE)[:200], "prod.json: ends too early: the file was cut off after 200 bytes"),
    "no JSON": (b"Topic: orders", "prod.json: is not JSON: invalid character at byte 0"),
    "UTF-16": (json.dumps(FINE).encode("utf-16"), "prod.json: is UTF-16, not UTF-8; write it with another encoding"),
    "no UTF-8": (
        json.dumps(FINE).encode().replace(b"payments", b"pay\xffents"),
        "prod.json: $.topics[1]: holds text that is not UTF-8",
    ),
    "a list": ([FINE], "prod.json: $: expected an object, got an array"),
    "another document": ({"version": 1, "partitions": []}, 'prod.json: $: unknown field "version"'),
    "a field is missing": ({"brokers": [{"id": 0}]}, 'prod.json: $: the field "topics" is missing'),
    "an unknown field": (
        one(partition(0, 0, 3, observers=[1])),
        'prod.json: $.topics[0].partitions[0]: unknown field "observers"',
    ),
    "a wrong type": (
        one(partition(0, "0", 3)),
        "prod.json: $.topics[0].partitions[0].replicas[0]: expected an integer, got a string",
    ),
    "a negative broker": (one(partition(0, -1)), "prod.json: $.topics[0].partitions[0].replicas[0]: must be 0 or more"),
    "a negative size": (
        one(partition(0, 0, sizeBytes=-1)),
        "prod.json: $.topics[0].partitions[0].sizeBytes: must be 0 or more",
    ),
    "an id beyond int32": (
        one(partition(0, 2**31)),
        "prod.json: $.topics[0].partitions[0].replicas[0]: must be 2147483647 or less",
    ),
    "no brokers": ({"brokers": [], "topics": []}, "prod.json: $.brokers: is empty; a cluster has at least one broker"),
    "a broker twice": (
        {**FINE, "brokers": [*FINE["brokers"], {"id": 2}]},
        "prod.json: $.brokers[6].id: broker 2 is listed twice, first at $.brokers[2]",
    ),
    "an empty step": (
        cluster(*FINE["topics"], racks=RACKS | {4: "/us//r2"}),
        'prod.json: $.brokers[4].rack: rack id "/us//r2": step 2 is empty (after "/us")',
    ),
    "a topic twice": (
        cluster(topic("orders", [0]), topic("orders", [1])),
        'prod.json: $.topics[1].name: topic "orders" is listed twice, first at $.topics[0]',
    ),
    "no name of a topic": (
        cluster(topic("a b", [0])),
        'prod.json: $.topics[0].name: "a b" is not a valid topic name',
    ),
    "a topic without partitions": (
        one(),
        "prod.json: $.topics[0].partitions: is empty; a topic has at least one partition",
    ),
    "a partition twice": (
        one(partition(0, 0), partition(0, 1)),
        "prod.json: $.topics[0].partitions[1].partition: partition 0 is listed twice",
    ),
    "a gap": (
        one(partition(0, 0), partition(2, 1)),
        "prod.json: $.topics[0].partitions[1].partition: is 2, but the topic's 2 partitions are numbered 0 to 1",
    ),
    "no replicas": (
        one(partition(0)),
        "prod.json: $.topics[0].partitions[0].replicas: is empty; a partition has at least one replica",
    ),
    "a replica twice": (
        one(partition(0, 0, 3, 0)),
        "prod.json: $.topics[0].partitions[0].replicas[2]: broker 0 is listed twice",
    ),
    "more replicas than there can be": (
        one(partition(0, *range(300))),
        "prod.json: $.topics[0].partitions[0].replicas: names 300 brokers; a partition has at most 256 replicas",
    ),
    "a key twice": (
        json.dumps(FINE).replace('"replicas": [2, 5]', '"replicas": [2, 5], "replicas": [0, 1]'),
        'prod.json: $.topics[1]: the key "replicas" is given twice in one object',
    ),
    "a key of a broker twice": (
        json.dumps(FINE).replace('"id": 2', '"id": 2, "id": 6'),
        'prod.json: $: the key "id" is given twice in one object',
    ),
    "an ISR that is no replica": (
        one(partition(0, 0, 3, isr=[0, 1])),
        "prod.json: $.topics[0].partitions[0].isr[1]: broker 1 is not a replica of this partition",
    ),
    "an eligible leader that is no replica": (
        one(partition(0, 0, 3, isr=[], elr=[0, 1])),
        "prod.json: $.topics[0].partitions[0].elr[1]: broker 1 is not a replica of this partition",
    ),
    "an eligible leader that is in sync": (
        one(partition(0, 0, 3, isr=[3], elr=[0, 3])),
        "prod.json: $.topics[0].partitions[0].elr[1]: broker 3 is in the ISR",
    ),
    "a leader that is no replica": (
        one(partition(0, 0, 3, leader=1)),
        "prod.json: $.topics[0].partitions[0].leader: broker 1 is not a replica of this partition",
    ),
    "no number of replicas": (
        one(partition(0, 0), config={"min.insync.replicas": "two"}),
        'prod.json: $.topics[0].config["min.insync.replicas"]: "two" is not a number of replicas',
    ),
}
COMMANDS = (
    ("snapshot",),
    ("check",),
    ("plan",),
    ("what-if",),
    ("place", "--partitions", "1", "--replication-factor", "1"),
)


@pytest.mark.parametrize(("text", "sentence"), FILES.values(), ids=FILES)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_every_command_rejects_an_invalid_snapshot_with_the_position_of_the_error(
    rackspan, snapshot, command, text, sentence
):
    ran = rackspan(*command, "--snapshot", snapshot(text))
    assert (ran.error, ran.code, ran.out) == (sentence, 2, "")


@pytest.mark.parametrize("sentence", [sentence for _, sentence in FILES.values()], ids=FILES)
def test_documentation_lists_every_error_message_about_a_snapshot(sentence):
    assert f"`{sentence}`" in PAGE


@pytest.mark.parametrize(
    ("document", "arguments", "sentence", "hint"),
    [
        (cluster(), ["check"], "prod.json: holds no topics, so there is nothing to check", ""),
        (cluster(), ["plan"], "prod.json: holds no topics, so there is nothing to plan", ""),
        (cluster(), ["what-if"], "prod.json: holds no topics, so there is nothing to lose", ""),
        *(
            (
                without_rack(2),
                [*command],
                "broker 2 has no rack id while others have one",
                "give broker 2 a rack id, or pass --missing-rack-policy ignore to place without racks",
            )
            for command in (
                ["check"],
                ["plan"],
                ["what-if"],
                ["place", "--partitions", 1, "--replication-factor", 1],
                ["place", "--partitions", 1, "--replication-factor", 1, "--placer", "Striped"],
            )
        ),
        (
            FINE,
            ["place", "--partitions", 3, "--replication-factor", 7],
            "--replication-factor 7 needs 7 eligible brokers, there are 6",
            "lower it to 6 or add 1 broker",
        ),
        (
            FINE,
            ["place", "--partitions", 3, "--replication-factor", 2, "--brokers", "1"],
            "--replication-factor 2 needs 2 eligible brokers, there is 1",
            "lower it to 1 or add 1 broker",
        ),
        (
            FINE,
            ["plan", "--replication-factor", "orders=7"],
            "topic orders: replicationFactor 7 needs 7 eligible brokers, there are 6",
            "lower it to 6 or add 1 broker",
        ),
        (
            FINE,
            ["plan", "--partitions", "orders=1"],
            "topic orders: the topic has 2 partitions and 1 is asked for; Kafka removes none",
            "raise partitions to 2",
        ),
        *(
            (
                FINE,
                [*command, "--drain-rack", "/eu", "--drain-rack", "/us"],
                "all 6 brokers are drained, none is left to hold replicas",
                "drain fewer brokers",
            )
            for command in (["check"], ["plan"], ["place", "--partitions", 3, "--replication-factor", 1])
        ),
        *(
            (
                FINE,
                [command, "--topic", "payment"],
                '--topic "payment": matches no topic',
                "the nearest is payments",
            )
            for command in ("check", "plan", "what-if")
        ),
        (
            cluster(*(topic(name, [0, 3]) for name in ("a", "b", "c", "d", "e"))),
            ["check", "--topic", "payments"],
            '--topic "payments": matches no topic',
            "there are a, b, c and 2 more",
        ),
        (
            FINE,
            ["check", "--topic", "pay("],
            '--topic "pay(": is not a regular expression: missing ), unterminated subpattern at position 3',
            "",
        ),
        (
            FINE,
            ["check", "--topic", "x{9999999999}"],
            '--topic "x{9999999999}": is not a regular expression: the repetition number is too large',
            "",
        ),
        (
            FINE,
            ["plan", "--drain-rack", "/eu//r1"],
            '--drain-rack: rack id "/eu//r1": step 2 is empty (after "/eu")',
            "",
        ),
        (
            FINE,
            ["plan", "--drain-rack", "/eu/eu-1c"],
            "--drain-rack /eu/eu-1c: the cluster has no such rack",
            "the nearest are /eu/eu-1b, /eu/eu-1a, /eu/eu-1b/r1",
        ),
        *(
            (
                cluster(topic("orders", [0, 1]), racks={0: "/eu", 1: "/us/a"}),
                [command, option, "/eu/<unnamed>"],
                f"{option} /eu/<unnamed>: the cluster has no such rack",
                "there are /eu, /us, /us/a",
            )
            for command, option in (("plan", "--drain-rack"), ("what-if", "--lose"))
        ),
        *(
            (FINE, ["plan", *given], f"{given[0]} is for --filename with --topology", "name both, or leave it out")
            for given in (["--dry-run=server"], ["--namespace", "kafka"])
        ),
        (FINE, ["what-if", "--lose", "/eu//r1"], '--lose: rack id "/eu//r1": step 2 is empty (after "/eu")', ""),
        (
            FINE,
            ["what-if", "--lose", "77"],
            "--lose 77: the cluster has no broker 77",
            "its brokers are 0, 1, 2, 3, 4, 5",
        ),
        (FINE, ["what-if", "--lose", "3,"], '--lose "3,": "" is not a broker id', "write ids such as 1,2,3"),
        (
            FINE,
            ["plan", "--drain-broker", 77],
            "--drain-broker 77: the cluster has no broker 77",
            "its brokers are 0, 1, 2, 3, 4, 5",
        ),
        (cluster(topic("orders", [4]), racks={4: "/eu"}), ["check", "--drain-broker", 3], *NO_BROKER_3),
        (
            FINE,
            ["plan", "--replication-factor", "order=2"],
            '--replication-factor "order=2": there is no topic order',
            "the nearest is orders",
        ),
        (FINE, ["plan", "--partitions", "orders"], '--partitions "orders": write it as TOPIC=NUMBER', ""),
        (
            FINE,
            ["plan", "--partitions", "orders=many"],
            '--partitions "orders=many": "many" is not a number from 1 to 1,000,000',
            "",
        ),
        (
            FINE,
            ["plan", "--replication-factor", "orders=0"],
            '--replication-factor "orders=0": "0" is not a number from 1 to 32,767',
            "",
        ),
        (
            FINE,
            ["plan", "--topic", "payments", "--replication-factor", "orders=2"],
            '--replication-factor "orders=2": --topic leaves orders out',
            "widen --topic, or leave it out",
        ),
        (
            FINE,
            ["check", "--levels", "region,zone"],
            "broker 0 has the rack /eu/eu-1a/r1 of 3 steps, the topology has 2 levels",
            "name as many --levels as the longest rack id has steps",
        ),
        (FINE, ["check", "--levels", "region,,rack"], '--levels "region,,rack": name 2 is empty', ""),
        (FINE, ["check", "--levels", "a,a,b"], '--levels "a,a,b": "a" is named twice', ""),
        (
            FINE,
            ["place", "--partitions", 3, "--replication-factor", 2, "--placer", "Random"],
            '--placer "Random": no such placer is installed',
            "there are MultiLevel, Rings, Simple, Striped",
        ),
        (
            FINE,
            ["place", "--partitions", 3, "--replication-factor", 2, "--start-index", 0],
            "--start-index is for Simple, Striped and Rings; MultiLevel does not use it",
            "vary --seed instead",
        ),
        (
            FINE,
            ["place", "--partitions", 3, "--replication-factor", 2, "--placer", "Simple", "--shift", 0, "--seed", 1],
            "--shift and --seed exclude each other",
            "leave one of them out",
        ),
        (
            FINE,
            ["place", "--partitions", 3, "--replication-factor", 2, "--brokers", "1,x"],
            '--brokers "1,x": "x" is not a broker id',
            "write ids such as 1,2,3",
        ),
        *(
            (
                FINE,
                [command, "--drain-broker", text],
                f'--drain-broker "{text}": "{wrong}" is not a broker id',
                "write ids such as 1,2,3",
            )
            for command in ("check", "plan")
            for text, wrong in (
                ("one", "one"),
                ("1,", ""),
                ("-1", "-1"),
                ("0,4294967296", "4294967296"),
                ("1-3", "1-3"),
            )
        ),
        (
            FINE,
            ["place", "--partitions", 3, "--replication-factor", 2, "--brokers", "1,99"],
            "--brokers 99: the cluster has no broker 99",
            "its brokers are 0, 1, 2, 3, 4, 5",
        ),
        (
            FINE,
            ["check", "--bootstrap-server", "kafka:9092"],
            "only one of --snapshot and --bootstrap-server can be used",
            "pass --snapshot FILE, --bootstrap-server HOST:PORT or --topology NAMESPACE/NAME",
        ),
        (
            FINE,
            ["check", "--command-config", "client.properties"],
            "--command-config is for --bootstrap-server",
            "leave it out with a snapshot file",
        ),
    ],
)
def test_impossible_request_is_rejected_with_a_message_and_a_hint(
    rackspan, snapshot, document, arguments, sentence, hint
):
    ran = rackspan(*arguments, "-o", "json", "--snapshot", snapshot(document))
    assert (ran.error, ran.hint, ran.code) == (sentence, hint, 2)
    if arguments[0] != "plan" or "topic orders" not in sentence:  # -o json prints an infeasible plan, too
        assert ran.out == ""


@pytest.mark.parametrize(
    ("arguments", "sentence", "hint"),
    [
        (
            ["check"],
            "the cluster is missing",
            "pass --snapshot FILE, --bootstrap-server HOST:PORT or --topology NAMESPACE/NAME",
        ),
        *(
            (["check", "--bootstrap-server", text], f'--bootstrap-server "{text}": {wrong}', "write HOST:PORT")
            for text, wrong in (
                ("", "a server is empty"),
                ("kafka:9092,", "a server is empty"),
                ("http://kafka:9092", '"http://kafka:9092" is a URL'),
                ("kafka", '"kafka" has no port'),
                (":9092", '"" is not a host name'),
                ("kafka:99999", '"99999" is not a port from 1 to 65535'),
                ("kafka:0", '"0" is not a port from 1 to 65535'),
                ("kafka:abc", '"abc" is not a port from 1 to 65535'),
                ("ka fka:9092", '"ka fka" is not a host name'),
            )
        ),
        *(
            ([command, "--topology", text], f'--topology "{text}" is not NAMESPACE/NAME', "")
            for command in ("plan", "check", "what-if")
            for text in ("", "prod", "a/b/c", "/prod")
        ),
        *(
            (
                [*command, "--topology", "kafka/prod"],
                f"{command[1]} is not for --topology",
                "the RackTopology and its KafkaTopics say it",
            )
            for command in (
                ["plan", "--snapshot", "prod.json"],
                ["plan", "--partitions", "orders=2"],
                ["plan", "--topic", "orders"],
                ["check", "--levels", "zone"],
                ["check", "--bootstrap-server", "kafka:9092"],
                ["what-if", "--missing-rack-policy", "ignore"],
                ["what-if", "--missing-rack-policy", "fail"],
                ["check", "--levels", ""],
            )
        ),
        *(
            (
                [command, "--topology", "kafka/prod", *drain],
                f"{drain[0]} is not for --topology",
                "the RackTopology and its KafkaTopics say it; rackspan drain --dry-run=client shows what a drain costs",
            )
            for command, drain in (("plan", ["--drain-broker", "1"]), ("check", ["--drain-rack", "/eu"]))
        ),
        (["scan", "--timeout", "60", "--snapshot", "prod.json"], "--timeout is for --watch", ""),
        (["locality", "--bootstrap-server", "kafka:1", "--currency", "USD"], "--currency is for --price-per-gb", ""),
        (
            ["watch", "--topology", "kafka/prod", "--bootstrap-server", "kafka:1"],
            "--bootstrap-server is not for --topology",
            "the RackTopology and its KafkaTopics say it",
        ),
        (
            ["watch", "--topology", "kafka/prod", "--command-config", "x"],
            "--command-config is not for --topology",
            "the RackTopology and its KafkaTopics say it",
        ),
        (["import", "strimzi", ""], '"": there is no such file', ""),
        (["report", "open", ""], '"": there is no such file', ""),
        (["report", "fleet", ""], '"": there is no such file', ""),
        (["history", "migrate", "", "new"], 'history "": is not a usable location', ""),
        *(
            (arguments, f"Invalid value for '{arguments[-2]}': the path is empty", f"see rackspan {command} --help")
            for command, arguments in (
                ("check", ["check", "--bootstrap-server", "kafka:9092", "--command-config", ""]),
                ("import cluster", ["import", "cluster", "--topology-ref", "a", "--output-dir", ""]),
                ("report fleet", ["report", "fleet", "scan.json", "--pages", ""]),
            )
        ),
        *(
            (arguments, "standard input can be read once only", "name a file in place of one -")
            for arguments in (
                ["plan", "--snapshot", "-", "-f", "-"],
                ["plan", "--snapshot", "-", "--log-dirs", "-"],
                ["plan", "--snapshot", "prod.json", "-f", "-", "-f", "-"],
                ["what-if", "--snapshot", "-", "--log-dirs", "-"],
                ["apply", "--bootstrap-server", "kafka:9092", "-f", "-", "-f", "-"],
                ["import", "strimzi", "-", "-"],
                ["import", "topicctl", "-", "--snapshot", "-"],
                ["report", "fleet", "-", "-"],
            )
        ),
        (["scan", "--snapshot", ""], '"": there is no such file', ""),
        (["check", "--snapshot", ""], '"": there is no such file', ""),
        (
            ["scan", "--synthetic", "1", "--history", ""],
            '"": is not a usable location: give a path without %, or a URI',
            "",
        ),
        *(
            (
                ["scan", "--synthetic", "1", option, path],
                f"Invalid value for '{option}': file '{path}' is a directory",
                "see rackspan scan --help",
            )
            for option in ("--report", "--page")
            for path in ("", ".")
        ),
        *(
            (
                ["scan", "--synthetic", "1", option, "none/scan"],
                "none/scan: there is no folder none",
                "",
            )
            for option in ("--report", "--page")
        ),
        (
            ["scan", "--synthetic", "1", "--report", "scan", "--page", "scan"],
            "--report and --page name the same file",
            "give each a file of its own",
        ),
        (
            ["report", "export", "scan.json", "--page", ""],
            "Invalid value for '--page': file '' is a directory",
            "see rackspan report export --help",
        ),
        (
            ["release", "--operator", ""],
            "Invalid value for --operator: must be NAMESPACE/NAME",
            "see rackspan release --help",
        ),
        *(
            (
                [*command, option, "99999999999999999999"],
                f"{option} takes a number up to {most}",
                f"see rackspan {command[0]} --help",
            )
            for command, option, most in (
                (["place", "--partitions", "1", "--replication-factor", "1"], "--start-index", 2**31 - 1),
                (["place", "--partitions", "1", "--replication-factor", "1"], "--shift", 2**31 - 1),
                (["scan"], "--synthetic", 10**9),
                (["scan", "--synthetic", "1"], "--slices", 100_000),
            )
        ),
        *(
            (
                ["place", "--replication-factor", "1", "--partitions", text],
                f"--partitions takes {words}",
                "see rackspan place --help",
            )
            for text, words in (
                ("x", "a whole number"),
                ("1.5", "a whole number"),
                ("0", "a number from 1 on"),
                ("9" * 5000, "a whole number with fewer digits"),
            )
        ),
        (["locality", "--price-per-gb", "x"], "--price-per-gb takes a number", "see rackspan locality --help"),
        (["drain", "4", "--dry-run"], "Option '--dry-run' requires an argument", "see rackspan drain --help"),
        (["apply", "--dry-run=client"], "Option '--dry-run' does not take a value", "see rackspan apply --help"),
        (
            ["import", "cluster", "--topology-ref"],
            "Option '--topology-ref' requires an argument",
            "see rackspan import cluster --help",
        ),
        (
            ["locality", "--price-per-gb", "inf"],
            "--price-per-gb takes a number up to 1000000",
            "see rackspan locality --help",
        ),
        *(
            (
                ["scan", "--engine", "local", *given, "--synthetic", "1"],
                f"{given[0]} is not for --engine local",
                "leave one of them out",
            )
            for given in (["--master", "local[1]"], ["--driver-memory", "2g"], ["--slices", "2"])
        ),
        *(
            (
                ["scan", "--topology", "kafka/prod", "--watch", *given],
                f"{given[0]} is not for --watch",
                "the operator scans, as the RackTopology says; without --watch this command does",
            )
            for given in (
                ["--history", "history"],
                ["--report", "scan.json"],
                ["--page", "scan.html"],
                ["--scan-id", "one"],
                ["--producers", "/eu"],
                ["--engine", "spark"],
                ["--slices", "2"],
            )
        ),
        (
            ["scan", "--synthetic", "1", "--levels", "region,zone,rack"],
            "--levels is not for --synthetic: its levels have names",
            "",
        ),
        (
            ["scan", "--snapshot", "-"],
            "--snapshot -: a scan reads files, and calls a cluster by the name of its file",
            "write standard input to a file such as prod.json, and scan that",
        ),
        (["check", "--snapshot", "nowhere.json"], "nowhere.json: there is no such file", ""),
        (["check", "--snapshot", "."], ".: is a directory, not a file", ""),
        (["chekc"], "No such command 'chekc'. Did you mean 'check'?", "see rackspan --help"),
        (
            ["check", "--snapshots", "x"],
            "No such option: --snapshots (Possible options: --snapshot)",
            "see rackspan check --help",
        ),
        (["place"], "Missing option '--partitions'", "see rackspan place --help"),
        (
            ["plan", "-o", "xml"],
            (
                "Invalid value for '--output' / '-o': 'xml' is not one of 'table', 'json', 'yaml', 'reassignment', "
                "'markdown'"
            ),
            "see rackspan plan --help",
        ),
    ],
)
def test_wrong_usage_gives_a_one_line_error_and_no_output(rackspan, snapshot, arguments, sentence, hint):
    ran = rackspan(*arguments)
    assert (ran.error, ran.hint, ran.code, ran.out) == (sentence, hint, 2, "")


KAFKATOPIC = """\
---
apiVersion: rackspan.dev/v1alpha1
kind: KafkaTopic
metadata: {name: %s}
spec: {topologyRef: {name: main}, partitions: 2, %s}
"""
THREE = "replicationFactor: 3"
IMPOSSIBLE = (
    ("new", "replicationFactor: 9"),
    ("orders", "replicationFactor: 2, config: {min.insync.replicas: 3}"),
    ("other", f"{THREE}, durability: {{minDomains: {{region: 3}}}}"),
    ("unknown", f"{THREE}, colour: red"),
)
"""tests/unit/cli/test_pull_requests.py checks the error of each."""


def test_plan_reports_all_kafkatopics_that_break_a_rule_in_one_run(rackspan, snapshot, tmp_path):
    prod = snapshot(cluster(topic("orders", [0, 3], [1, 4])))
    (tmp_path / "wish.yaml").write_text("".join(KAFKATOPIC % topics for topics in IMPOSSIBLE))
    ran = rackspan("plan", "-f", "wish.yaml", "--snapshot", prod, *LEVELS)
    assert (ran.code, len(ran.errors)) == (2, 2)  # errors of the rules come first, without a look at the cluster


def test_plan_rejects_new_kafkatopics_whose_names_collide_in_metrics(rackspan, snapshot, tmp_path):
    prod = snapshot(cluster(topic("orders", [0, 3], [1, 4])))
    (tmp_path / "wish.yaml").write_text(KAFKATOPIC % ("a.b", THREE) + KAFKATOPIC % ("c", f"{THREE}, topicName: a_b"))
    ran = rackspan("plan", "-f", "wish.yaml", "--snapshot", prod, *LEVELS)
    assert ran.error == (
        "wish.yaml:10: KafkaTopic c: topic a_b collides with topic a.b in Kafka's metrics, where . is _: "
        "name it otherwise"
    )


def test_plan_skips_a_kafkatopic_of_another_api_group_with_a_note(rackspan, snapshot, tmp_path):
    prod = snapshot(cluster(topic("orders", [0, 3], [1, 4])))
    other = (KAFKATOPIC % ("other", THREE)).replace("rackspan.dev/v1alpha1", "kafka.strimzi.io/v1")
    (tmp_path / "wish.yaml").write_text(other + KAFKATOPIC % ("orders", "replicationFactor: 2"))
    ran = rackspan("plan", "-f", "wish.yaml", "--snapshot", prod, *LEVELS)
    assert ran.code == 0
    told = "KafkaTopic other: skipped: it is a KafkaTopic of kafka.strimzi.io/v1, not of rackspan.dev/v1alpha1"
    assert f"note: wish.yaml:2: {told}" in ran.err


@pytest.mark.parametrize("command", ["check", "plan", "what-if"])
def test_topic_pattern_that_takes_too_long_to_match_is_rejected(rackspan, snapshot, monkeypatch, command):
    monkeypatch.setattr(selection, "_MATCHING_SECONDS", 0.05)
    prod = snapshot(cluster(topic("a" * 249, [0, 3])))
    ran = rackspan(command, "--snapshot", prod, "--topic", "(a+)+b")
    assert (ran.code, ran.error) == (2, '--topic "(a+)+b": takes more than 0.05 s to match 1 topic')
    assert ran.hint == "write it without repetition within repetition, such as (a+)+"


def test_plan_with_many_problems_prints_five_of_them_and_counts_the_others(rackspan, snapshot):
    file = snapshot(cluster(*(topic(f"topic-{at}", [0, 3]) for at in range(9))))
    wishes = [f"--replication-factor=topic-{at}={7 + at}" for at in range(9)]
    ran = rackspan("plan", "--snapshot", file, *wishes)
    errors = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 6
    assert errors[-1] == "error: and 4 more like that"
    assert ran.code == 2

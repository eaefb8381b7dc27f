"""The command line against real Kafka, and Kafka's own tools with the output of the command line."""

import secrets
import shlex

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from dev.waiting import eventually
from tests.support.command import cli
from tests.support.processes import run_in_process
from tests.support.waiting import until

from rackspan.core.text import size

LEVELS = ("--levels", "region,zone,rack")


def create(kafka, *assignments, config=None):
    """Create a topic with these replica lists and a random name. Wait until every broker knows it: any may respond."""
    name = f"cli-{secrets.token_hex(4)}"
    new = NewTopic(name, len(assignments), replica_assignment=[list(row) for row in assignments], config=config or {})
    admin = kafka.admin()
    admin.create_topics([new])[name].result(120)
    until(lambda: all(name in kafka.known_to(broker).topics for broker in kafka.racks), f"topic {name}")
    return name


@pytest.fixture
def unfair(kafka):
    """A topic with all replicas of two partitions in /eu, though /us has brokers too, and one compliant partition."""
    return create(kafka, [0, 1, 2], [1, 2, 0], [0, 2, 3], config={"min.insync.replicas": "2", "retention.ms": "60000"})


def test_snapshot_contains_brokers_topics_and_configs_of_kafka(kafka, unfair):
    ran = cli("snapshot", "--bootstrap-server", kafka.bootstrap())
    assert ran.code == 0
    assert ran.json["clusterId"] == kafka.cluster_id
    assert {broker["id"]: broker["rack"] for broker in ran.json["brokers"]} == kafka.racks
    topic = next(topic for topic in ran.json["topics"] if topic["name"] == unfair)
    assert topic["config"] == {"min.insync.replicas": "2", "retention.ms": "60000"}
    first = topic["partitions"][0]
    assert (first["partition"], first["replicas"], first["leader"]) == (0, [0, 1, 2], 0)
    assert sorted(first["isr"]) == [0, 1, 2]
    assert first["sizeBytes"] is None


def test_commands_give_the_same_summary_for_a_snapshot_file_and_the_live_cluster(kafka, unfair, tmp_path):
    file = tmp_path / "kafka.json"
    file.write_text(cli("snapshot", "--bootstrap-server", kafka.bootstrap()).out)
    for command in (["check"], ["what-if"], ["plan"]):
        arguments = (*command, "--topic", unfair, *LEVELS, "-o", "json")
        live = cli(*arguments, "--bootstrap-server", kafka.bootstrap())
        from_file = cli(*arguments, "--snapshot", file)
        from_stdin = cli(*arguments, "--snapshot", "-", stdin=file.read_text())
        told = [ran.json.get("summary", {}) | {"bytes": None} for ran in (live, from_file)]
        assert told[0] == told[1], "the summaries differ in more than bytes, which a file does not have"
        assert live.code == from_file.code == from_stdin.code
        assert from_file.out == from_stdin.out


def test_kafka_reassignment_tool_executes_a_plan_and_the_next_plan_is_empty(kafka, unfair, tmp_path):
    cluster = ("--bootstrap-server", kafka.bootstrap(), "--topic", unfair, *LEVELS)
    before = cli("check", *cluster, "-o", "json")
    assert before.code == 1
    assert before.json["summary"]["nonCompliant"] == 2
    assert {(finding["partition"], finding["level"]) for finding in before.json["findings"]} >= {
        (0, "region"),
        (1, "region"),
    }
    plan = cli("plan", *cluster, "-o", "json").json
    assert (plan["moves"], plan["lowerBound"], plan["gap"]) == (2, 2, 0)

    file = tmp_path / "moves.json"
    file.write_text(cli("plan", *cluster, "-o", "reassignment").out)
    reassign = ("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", "--reassignment-json-file", str(file))
    assert "Successfully started" in kafka.tool(*reassign, "--execute")
    eventually(lambda: kafka.tool(*reassign, "--verify").count("is completed") == 2, "the reassignment", interval=1)

    again = until(
        lambda: (ran := cli("plan", *cluster, "-o", "json").json)["partitions"] == [] and ran, "nothing left to plan"
    )
    assert (again["moves"], again["reorders"]) == (0, 0)
    kafka.wait_until_agreed()
    after = cli("check", *cluster, "-o", "json")
    assert (after.code, after.json["summary"]["nonCompliant"]) == (0, 0)
    # Kafka's tool keeps a remaining replica as leader. That needs no copy, and is reported as LeaderNotPreferred.
    assert {one["rule"] for one in after.json["findings"]} <= {"LeaderNotPreferred"}


def test_kafka_topics_command_of_a_plan_creates_the_planned_partitions(kafka):
    topic = create(kafka, [0, 3], [4, 2])
    cluster = ("--bootstrap-server", kafka.bootstrap(), "--topic", topic, *LEVELS)
    wishes = ("--partitions", f"{topic}=6")
    plan = cli("plan", *cluster, *wishes, "-o", "json").json
    created = {one["partition"]: one["replicas"] for one in plan["partitions"] if not one["from"]}
    assert sorted(created) == [2, 3, 4, 5]

    noted = cli("plan", *cluster, *wishes, "-o", "reassignment")
    (command,) = (line for line in noted.err.splitlines() if "kafka-topics.sh" in line)
    words = shlex.split(command.partition("kafka-topics.sh")[2])
    assert words[:2] == ["--bootstrap-server", "HOST:PORT"]
    kafka.tool("TopicCommand", *words[2:])

    def grown():
        partitions = kafka.admin().list_topics(topic, timeout=300).topics[topic].partitions
        return partitions if len(partitions) == 6 else None

    found = until(grown, "6 partitions")
    assert {number: found[number].replicas for number in created} == created
    assert cli("check", *cluster).code == 0


def produce(kafka, topic, size):
    producer = Producer(kafka.client_config())
    producer.produce(topic, secrets.token_bytes(size), partition=0)
    assert producer.flush(300) == 0


def test_check_plan_what_if_and_scan_report_bytes_to_copy_from_brokers(kafka):
    topic = create(kafka, [0, 1], [0, 3])
    produce(kafka, topic, 50_000)
    cluster = ("--bootstrap-server", kafka.bootstrap(), "--topic", topic, *LEVELS)

    def told(command, *arguments):
        return cli(command, *arguments, "-o", "json").json

    # Commands leave out the sizes of brokers that answer late.
    summary = until(lambda: (seen := told("check", *cluster)["summary"])["bytes"] and seen, "check to report bytes")
    moved = summary["bytes"]
    assert summary["moves"] == 1
    assert 50_000 < moved < 60_000
    expected = {("/eu", 2 * moved), ("/us", 0)}
    until(lambda: expected <= {(row["domain"], row["bytes"]) for row in told("what-if", *cluster)["losses"]}, "what-if")
    until(lambda: told("plan", *cluster)["bytes"] == moved, "plan to report the same bytes")

    def scanned():
        seen = told("scan", *cluster[:2], *LEVELS)
        own = [row["bytes"] for row in seen["topics"] if row["name"] == topic]
        return own == [2 * moved] and (seen["summary"]["moveBytes"] or 0) >= moved

    until(scanned, "scan to report the same bytes")
    words = f"{size(moved)} to copy"
    for command in ("check", "plan"):
        until(lambda asked=command: words in " ".join(cli(asked, *cluster).out.split()), words)


def test_log_dirs_option_reads_sizes_from_the_output_of_the_kafka_tool(kafka, tmp_path):
    topic = create(kafka, [0, 3])
    produce(kafka, topic, 50_000)
    output = tmp_path / "dirs.txt"
    output.write_text(kafka.tool("LogDirsCommand", "--describe"))
    cluster = ("--bootstrap-server", kafka.bootstrap(), "--log-dirs", output)
    topics = cli("snapshot", *cluster).json["topics"]
    told = next(one["partitions"][0]["sizeBytes"] for one in topics if one["name"] == topic)
    assert 50_000 < told < 60_000
    losses = cli("what-if", *cluster, "--topic", topic, *LEVELS, "-o", "json").json["losses"]
    assert {row["domain"]: row["bytes"] for row in losses if row["level"] == "region"} == {"/eu": told, "/us": told}


def properties(path, **values):
    path.write_text("".join(f"{key.replace('_', '.')}={value}\n" for key, value in values.items()))
    return path


def jaas(module, password):
    return f'org.apache.kafka.common.security.{module} required username="rackspan" password="{password}";'


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("SCRAM-SHA-512", "scram.ScramLoginModule"), ("PLAIN", "plain.PlainLoginModule")],
)
def test_command_config_file_logs_in_and_a_wrong_password_is_an_error(secure_kafka, tmp_path, mechanism, module):
    password = secure_kafka.client_config("SASL_SSL")["sasl.password"]
    values = {
        "security_protocol": "SASL_SSL",
        "ssl_truststore_type": "PEM",
        "ssl_truststore_location": secure_kafka.ca.cert,
        "sasl_mechanism": mechanism,
    }
    server = ("--bootstrap-server", secure_kafka.bootstrap("SASL_SSL"))
    right = properties(tmp_path / "right.properties", **values, sasl_jaas_config=jaas(module, password))
    ran = cli("snapshot", *server, "--command-config", right)
    assert ran.code == 0, ran.err
    assert len(ran.json["brokers"]) == 3

    wrong = properties(tmp_path / "wrong.properties", **values, sasl_jaas_config=jaas(module, "wrong"))
    ran = run_in_process(tmp_path, "snapshot", *server, "--command-config", wrong)
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("error: Kafka refuses the log-in: ")


def test_client_certificate_of_a_pem_keystore_is_sent_to_kafka(secure_kafka, tmp_path):
    values = {
        "security_protocol": "SSL",
        "ssl_truststore_type": "PEM",
        "ssl_truststore_location": secure_kafka.ca.cert,
    }
    server = ("--bootstrap-server", secure_kafka.bootstrap("SSL"))
    keystore = {"ssl_keystore_type": "PEM", "ssl_keystore_location": secure_kafka.client_certificate.bundle}
    with_key = properties(tmp_path / "key.properties", **values, **keystore)
    assert cli("snapshot", *server, "--command-config", with_key).code == 0
    without = properties(tmp_path / "no-key.properties", **values)

    def says_what_is_missing():
        """Return whether the error is the broker's alert. A write may fail first: the broker closes the connection."""
        ran = cli("snapshot", *server, "--command-config", without)
        assert ran.code == 3
        return ran.error.startswith("ssl.keystore.location: no TLS connection to Kafka: the brokers want a client")

    until(says_what_is_missing, "the error about the missing client certificate")


def test_check_reports_a_refused_connection(tmp_path):
    ran = run_in_process(tmp_path, "check", "--bootstrap-server", "127.0.0.1:1")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err == "error: no broker of 127.0.0.1:1 can be reached: Connection refused\n"

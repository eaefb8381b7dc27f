"""The built-in rules for Kafka's topic configs, compared with the responses of brokers."""

import asyncio

from tests.support.command import cli
from tests.support.pull_requests import manifest

from rackspan.kafka.admin import ConfluentAdmin, client
from rackspan.reconcile.ports import NewTopic
from rackspan.reconcile.specs.topic_configs import KNOWN, refused_configs

OPERATORS = {"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}
VALUES = (
    *(
        "",
        "true",
        " FALSE ",
        "yes",
        "a week",
        "1e3",
        "+5",
        "007",
        "1_0",
        "0x5",
        "compact",
        "compact, delete",
        "compact,",
    ),
    *("Compact", "gzip", "lz5", "CreateTime", "createtime", "0.5", "0.5f", "-0", "1.01", "-0.1", "NaN", "-Infinity"),
    *("-3", "-2", "-1", "0", "1", "3", "4", "9", "10", "17", "18", "22", "23", "-131072", "-131073"),
    *("1048575", "1048576", "2147483639", "2147483640", "2147483647", "2147483648"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809"),
)
SEVERAL = ("compaction.lag", "local.retention", "remote.", "segment", "retention.")
"""Configs that Kafka validates in combination with others. The built-in rules may accept what Kafka refuses."""


def test_known_config_rules_agree_with_the_validation_by_brokers(kafka, topics, namespace):
    name = f"{namespace}.configs"
    topics.create(name, [[0]])
    kafka.wait_until_agreed()
    admin = ConfluentAdmin({"bootstrap.servers": kafka.bootstrap()})
    resource = client.ConfigResource(client.ResourceType.TOPIC, name)
    asking = kafka.admin()
    (answer,) = asking.describe_configs([resource]).values()
    there = set(answer.result())
    assert there - OPERATORS <= set(KNOWN)

    asked = [(key, value) for key in sorted(there - OPERATORS) for value in VALUES]
    wanted = [NewTopic(f"{namespace}.{number}", 1, 1, None, {key: value}) for number, (key, value) in enumerate(asked)]

    async def answers():
        try:
            return await admin.validate_topics(wanted)
        finally:
            await admin.close()

    said = asyncio.run(answers())
    for one, (key, value) in zip(wanted, asked, strict=True):
        known, told = [*refused_configs({key: value}, ())], said[one.name]
        if known or not any(one in key for one in SEVERAL):
            assert bool(known) == (told is not None), (key, value, known, told)


def test_plan_of_files_reports_configs_that_the_live_cluster_refuses(kafka, tmp_path, namespace):
    lags = manifest("config:", "  min.compaction.lag.ms: 10", "  max.compaction.lag.ms: 5", name=f"{namespace}.lags")
    (tmp_path / "topics.yaml").write_text(lags)
    ran = cli("plan", "-f", tmp_path / "topics.yaml", "--bootstrap-server", kafka.bootstrap())
    assert ran.code == 2
    assert f"topics.yaml:10: KafkaTopic {namespace}.lags: Kafka says INVALID_CONFIG: " in ran.error

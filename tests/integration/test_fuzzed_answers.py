"""Randomly corrupted responses of real brokers, read by worker processes.

`RACKSPAN_TEST_FUZZ_MINUTES` sets how long the test runs after the first seeds. `pytest -s` shows the counts.
"""

import asyncio
import itertools
import os
import resource
import time
from collections import Counter

import pytest
from tests.support.hostile_kafka import FuzzedKafkas

from rackspan.api.meta import ObjectKey
from rackspan.api.racktopology import KafkaSpec
from rackspan.api.reasons import Reason
from rackspan.core.partitions import Setting, SettingKind, TopicPartition
from rackspan.kafka.worker.calls import ClientKind
from rackspan.kafka.worker.places import WorkerLimits
from rackspan.kafka.worker.workers import WorkerConnector, Workers
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.ports import AlwaysPermitted, Credentials

SEEDS = 24
AT_A_TIME = 6
MINUTES = float(os.environ.get("RACKSPAN_TEST_FUZZ_MINUTES", "0"))
MOST_MEBIBYTES = 128
"""The limit for the memory growth of this process, which runs the operator's side of all calls."""
SETTINGS = [
    Setting(SettingKind.BROKER, "0", "leader.replication.throttled.rate"),
    Setting(SettingKind.TOPIC, "__cluster_metadata", "retention.ms"),
]


def calls(client, kind, topic):
    yield client.cluster
    if kind is ClientKind.TOPICS:
        yield client.replica_counts
        yield client.assignments
        yield lambda: client.remaining_replicas([0, 1])
        yield lambda: client.hosted(0)
        yield lambda: client.topics([topic, "absent"])
        yield lambda: client.configs([topic])
        yield lambda: client.default_min_insync([0])
        yield lambda: client.cordoned([0, 1])
    else:
        yield client.topic_names
        yield lambda: client.partitions([topic])
        yield lambda: client.min_insync([topic])
        yield lambda: client.disks([0, 1])
        yield lambda: client.sizes({TopicPartition(topic, 0): [0, 1]})
        yield lambda: client.settings(SETTINGS)


async def fuzzed(workers, seed, address, topic, told):
    kind = ClientKind.REASSIGNMENTS if seed % 3 == 0 else ClientKind.TOPICS
    owner = ObjectKey(f"tenant-{seed % AT_A_TIME}", f"seed-{seed}")
    connector = WorkerConnector(workers, kind, AlwaysPermitted())
    client = None
    try:
        client = await connector.connect(owner, KafkaSpec(address), Credentials())
        for call in calls(client, kind, topic):
            try:
                await call()
                told["calls answered"] += 1
            except FailureError as error:
                told[f"calls failed: {error.failure.reason}"] += 1
    except FailureError as error:
        told[f"connections failed: {error.failure.reason}"] += 1
    finally:
        if client is not None:
            await client.close()


@pytest.mark.timeout(900 + MINUTES * 60)
async def test_corrupted_responses_do_not_end_or_bloat_the_calling_process(kafka, topics, namespace, monkeypatch):
    monkeypatch.setattr("rackspan.kafka.worker.places._FIRST_PAUSE", 0.0)
    monkeypatch.setattr("rackspan.kafka.worker.places._LONGEST_PAUSE", 0.0)
    monkeypatch.setattr("rackspan.kafka.worker.workers._CALL_SECONDS", 12.0)
    topic = f"{namespace}-fuzzed"
    topics.create(topic, [[0, 1], [1, 2], [2, 0]])
    told, until, seeds = Counter(), time.monotonic() + MINUTES * 60, itertools.count()
    workers = Workers(WorkerLimits(most_untrusted=AT_A_TIME))
    failed = workers._failed

    def counted(worker, failure, suspects):
        told["worker processes ended"] += 1
        assert failure.reason is Reason.KAFKA_CLIENT_FAILED
        failed(worker, failure, suspects)

    monkeypatch.setattr(workers, "_failed", counted)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    async def one_after_the_other():
        while (seed := next(seeds)) < SEEDS or time.monotonic() < until:
            await fuzzed(workers, seed, await asyncio.to_thread(kafkas.open, seed), topic, told)
            answered, spoiled = await asyncio.to_thread(kafkas.close, seed)
            told["answers"] += answered
            told["answers spoiled"] += spoiled

    try:
        with FuzzedKafkas(kafka.bootstrap(), share=0.3) as kafkas:
            async with asyncio.TaskGroup() as group:
                for _ in range(AT_A_TIME):
                    group.create_task(one_after_the_other())
    finally:
        await workers.close()
        topics.admin.delete_topics([topic])[topic].result(120)
    told["MiB more at the peak"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    print(*(f"{what}: {number}" for what, number in sorted(told.items())), sep="\n")  # noqa: T201
    assert told["answers spoiled"] > SEEDS
    assert told["MiB more at the peak"] < MOST_MEBIBYTES

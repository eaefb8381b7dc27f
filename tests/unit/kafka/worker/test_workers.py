import asyncio
import contextlib
import errno
import os
import signal

import pytest
from confluent_kafka import KafkaError
from prometheus_client import REGISTRY
from tests.support.hostile_kafka import NOT_UTF8, HostileKafka, spoiling

from rackspan.api.meta import ObjectKey
from rackspan.api.racktopology import KafkaSpec
from rackspan.api.reasons import Reason
from rackspan.core.partitions import ListChange, ListOperation, Setting, SettingKind, TopicPartition
from rackspan.kafka.worker.calls import ClientKind
from rackspan.kafka.worker.places import WorkerLimits
from rackspan.kafka.worker.workers import WorkerConnector, Workers
from rackspan.metrics import forget_topology, serve_topology
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import AlwaysPermitted, ConfigChange, Credentials, NewTopic
from rackspan.reconcile.runtime.namespaces import NamespaceSet
from rackspan.reconcile.runtime.waiting import Liveness

TENANT, NEIGHBOUR, OURS = ObjectKey("tenant", "own"), ObjectKey("neighbour", "own"), ObjectKey("rackspan", "main")
CRASHES = {
    "a null cluster id": spoiling("Metadata", "cluster_id", None),
    "a cluster id that is not UTF-8": spoiling("Metadata", "cluster_id", NOT_UTF8),
    "a rack that is not UTF-8": spoiling("Metadata", "brokers.rack", NOT_UTF8),
    "a host that is not UTF-8": spoiling("Metadata", "brokers.host", NOT_UTF8),
    "a topic name that is not UTF-8": spoiling("Metadata", "topics.name", NOT_UTF8),
    "a config name that is not UTF-8": spoiling("DescribeConfigs", "results.configs.name", NOT_UTF8),
    "a config value that is not UTF-8": spoiling("DescribeConfigs", "results.configs.value", NOT_UTF8),
    "a null config name": spoiling("DescribeConfigs", "results.configs.name", None),
}


@contextlib.asynccontextmanager
async def started(**limits):
    workers = Workers(WorkerLimits(trusted=NamespaceSet((OURS.namespace,)), **limits))
    try:
        yield workers
    finally:
        await workers.close()


def connect(workers, owner, kafka, kind=ClientKind.TOPICS, permit=None):
    connector = WorkerConnector(workers, kind, permit or AlwaysPermitted())
    return connector.connect(owner, KafkaSpec(kafka.address), Credentials())


def process(client):
    return client._worker._process.pid


async def all_calls(client):
    await client.cluster()
    await client.replica_counts()
    await client.assignments()
    await client.topics(["orders"])
    await client.configs(["orders"])
    await client.default_min_insync([0])


async def test_topics_client_reads_and_changes_through_its_worker():
    with HostileKafka() as kafka:
        async with started() as workers:
            client = await connect(workers, TENANT, kafka)
            assert process(client) != os.getpid()
            seen = await client.cluster()
            assert (seen.cluster_id, [one.rack for one in seen.brokers]) == ("hostile", ["/a", "/b", "/c"])
            counts = await client.replica_counts()
            assert (dict(counts.replicas), dict(counts.leaders)) == ({0: 2, 1: 2, 2: 2}, {0: 1, 1: 1})
            assert not (await client.replica_counts(["orders"])).replicas
            assert await client.assignments() == {"orders": ((0, 1, 2), (1, 2, 0))}
            found = await client.topics(["orders", "absent"])
            assert found["orders"].replicas == ((0, 1, 2), (1, 2, 0))
            assert found["absent"] is None
            assert (await client.configs(["orders"]))["orders"].min_insync == 1
            assert await client.default_min_insync([0]) == 1
            assert [one.partition for one in await client.hosted(2)] == [0, 1]
            assert (await client.remaining_replicas([1])).replicas == {1: {"orders": 2}}
            assert await client.create_topics([NewTopic("new", 1, 1, None, {})]) == {"new": None}
            assert await client.alter_configs([ConfigChange("orders", {"retention.ms": "1"})]) == {"orders": None}
            assert await client.delete_topics({"orders": "id"}) == {"orders": None}


async def test_configuration_that_may_not_be_read_is_a_failure_of_its_topic():
    with HostileKafka(
        spoiling("DescribeConfigs", "results.error_code", KafkaError.TOPIC_AUTHORIZATION_FAILED)
    ) as kafka:
        async with started() as workers:
            client = await connect(workers, TENANT, kafka)
            (failure,) = (await client.configs(["orders"])).values()
            assert (failure.reason, failure.remedy) == (Reason.NOT_AUTHORIZED, Remedy.ACCESS)


async def test_reassignments_client_reads_and_changes_through_its_worker():
    at, rate = TopicPartition("orders", 0), Setting(SettingKind.BROKER, "0", "leader.replication.throttled.rate")
    with HostileKafka() as kafka:
        async with started() as workers:
            client = await connect(workers, OURS, kafka, ClientKind.REASSIGNMENTS)
            states = await client.partitions(["orders"])
            assert (states[at].replicas, states[at].in_sync, states[at].leader) == ((0, 1, 2), frozenset({0, 1, 2}), 0)
            assert await client.topic_names() == ["orders"]
            assert await client.min_insync(["orders"]) == {"orders": 1}
            assert await client.sizes({at: [0, 1]}) == {}
            assert await client.disks([0]) == {}
            assert await client.settings([rate]) == {rate: None}
            for change in ("1000", None, ListChange(ListOperation.APPEND, "0:1")):
                assert await client.set_settings({rate: change}) == {rate: None}


@pytest.mark.parametrize("spoiled", CRASHES.values(), ids=CRASHES)
async def test_response_that_crashes_the_client_fails_only_its_own_topology(spoiled):
    with HostileKafka(spoiled) as hostile, HostileKafka() as good:
        async with started() as workers:
            neighbour, ours = await connect(workers, NEIGHBOUR, good), await connect(workers, OURS, good)
            with pytest.raises(FailureError) as error:
                await all_calls(await connect(workers, TENANT, hostile))
            assert error.value.failure.reason in {Reason.KAFKA_CLIENT_FAILED, Reason.KAFKA_UNREACHABLE}
            assert error.value.failure.remedy is Remedy.RETRY
            await all_calls(neighbour)
            await all_calls(ours)


async def test_failed_worker_is_not_restarted_during_the_pause(monkeypatch):
    monkeypatch.setattr("rackspan.kafka.worker.places._FIRST_PAUSE", 60.0)
    with HostileKafka(CRASHES["a null cluster id"]) as kafka:
        async with started() as workers:
            with pytest.raises(FailureError) as first:
                await connect(workers, TENANT, kafka)
            kafka.answered.clear()
            with pytest.raises(FailureError) as second:
                await connect(workers, TENANT, kafka)
            assert not kafka.answered
            assert first.value.failure == second.value.failure
            assert "may use 128 MiB of memory, was ended by SIGSEGV" in first.value.failure.message


async def test_trusted_topology_that_crashes_the_shared_worker_does_not_crash_it_again():
    other = ObjectKey("rackspan", "old")
    with HostileKafka() as kafka, HostileKafka() as old:
        async with started() as workers:
            ours, theirs = await connect(workers, OURS, kafka), await connect(workers, other, old)
            assert process(ours) == process(theirs)
            old.mutate = CRASHES["a null cluster id"]
            with pytest.raises(FailureError):
                await theirs.cluster()
            await asyncio.sleep(1.1)  # the pause after a first failure
            ours = await connect(workers, OURS, kafka)
            with pytest.raises(FailureError):
                await connect(workers, other, old)
            await all_calls(ours)


async def test_worker_that_hangs_during_close_is_killed(monkeypatch):
    monkeypatch.setattr("rackspan.kafka.worker.workers._CLOSE_SECONDS", 0.5)
    with HostileKafka() as kafka:
        async with started() as workers:
            client = await connect(workers, TENANT, kafka)
            os.kill(process(client), signal.SIGSTOP)
            await client.close()
            await client._worker.wait()
            assert client._worker._process.returncode == -signal.SIGKILL
            with pytest.raises(FailureError) as error:
                await connect(workers, TENANT, kafka)
            assert error.value.failure.reason is Reason.KAFKA_CLIENT_FAILED
            assert "did not answer in time" in error.value.failure.message


@pytest.mark.parametrize("deleted", [False, True])
async def test_worker_failure_is_counted_unless_the_last_topology_of_its_namespace_is_deleted(deleted):
    name, labels = "rackspan_kafka_client_failures_total", {"boundary": TENANT.namespace}
    serve_topology(str(TENANT))
    with HostileKafka() as kafka:
        async with started() as workers:
            client = await connect(workers, TENANT, kafka)
            if deleted:
                forget_topology(str(TENANT))
            os.kill(process(client), signal.SIGKILL)
            await client._worker.wait()
    assert REGISTRY.get_sample_value(name, labels) == (None if deleted else 1)
    forget_topology(str(TENANT))


async def test_default_min_insync_is_none_if_the_response_has_no_results():
    with HostileKafka(spoiling("DescribeConfigs", "results", [])) as kafka:
        async with started() as workers:
            client = await connect(workers, TENANT, kafka)
            assert await client.default_min_insync([0]) is None


async def test_step_that_waits_for_kafka_does_not_count_as_stalled():
    now = [0.0]
    liveness = Liveness(lambda: now[0])
    with HostileKafka() as kafka:
        async with started() as workers:
            client = await connect(workers, TENANT, kafka)
            kafka.mutate = lambda _: None

            async def step():
                with liveness.track("look at tenant/own"):
                    await client.cluster()

            task = asyncio.create_task(step())
            await asyncio.sleep(0.2)
            now[0] = 1000.0
            assert liveness.stalled(300) == {}
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_connect_fails_if_the_cluster_claims_10000_brokers():
    def many(answer):
        if answer.name in {"MetadataResponse", "DescribeClusterResponse"}:
            answer.brokers = [
                type(one)(**{**one.to_dict(), "version": answer.version, _id(answer): number})
                for number, one in enumerate(answer.brokers[:1] * 10_000)
            ]
        return answer

    def _id(answer):
        return "node_id" if answer.name == "MetadataResponse" else "broker_id"

    with HostileKafka(many) as kafka:
        async with started() as workers:
            with pytest.raises(FailureError) as error:
                await connect(workers, TENANT, kafka)
            assert error.value.failure.reason in {Reason.KAFKA_CLIENT_FAILED, Reason.KAFKA_UNREACHABLE}


async def test_worker_fails_if_the_claimed_partitions_exceed_its_memory_limit():
    with HostileKafka(topics={"orders": [[0]]}) as kafka:
        async with started(untrusted_memory=64 << 20) as workers:
            client = await connect(workers, TENANT, kafka)
            claimed = kafka.claiming({"orders": [[0]] * 100_000})
            kafka.mutate = lambda answer: claimed if answer.name == "MetadataResponse" else answer
            with pytest.raises(FailureError) as error:
                await client.replica_counts()
            assert error.value.failure.reason is Reason.KAFKA_CLIENT_FAILED


async def test_result_larger_than_the_limit_is_a_failure_with_the_limit():
    with HostileKafka(topics={f"{number:0240}": [[0]] for number in range(5_000)}) as kafka:
        async with started(untrusted_memory=64 << 20) as workers:
            client = await connect(workers, TENANT, kafka)
            with pytest.raises(FailureError) as error:
                await client.assignments()
            assert error.value.failure.reason is Reason.KAFKA_CLIENT_FAILED
            assert "at most 1,048,576 are read" in error.value.failure.message


async def test_change_without_the_permit_or_after_its_time_is_not_sent():
    class Lost:
        change_timeout_seconds = 10.0

        def check(self):
            raise FailureError(Failure(Reason.LEASE_NOT_HELD, "no", Remedy.RETRY))

    class Late(AlwaysPermitted):
        change_timeout_seconds = -1.0

    with HostileKafka() as kafka:
        async with started() as workers:
            for permit in (Lost(), Late()):
                client = await connect(workers, TENANT, kafka, permit=permit)
                with pytest.raises(FailureError) as error:
                    await client.delete_topics({"orders": "id"})
                assert error.value.failure.reason is Reason.LEASE_NOT_HELD
            assert not kafka.answered["DeleteTopics"]


async def test_worker_without_clients_ends(monkeypatch):
    monkeypatch.setattr("rackspan.kafka.worker.workers._LINGER_SECONDS", 0.05)
    with HostileKafka() as kafka:
        async with started() as workers:
            client = await connect(workers, TENANT, kafka)
            await client.close()
            await client._worker.wait()
            again = await connect(workers, TENANT, kafka)
            assert process(again) != process(client)


async def test_worker_ends_if_the_close_of_its_last_client_is_cancelled(monkeypatch):
    monkeypatch.setattr("rackspan.kafka.worker.workers._LINGER_SECONDS", 0.05)
    with HostileKafka() as kafka:
        async with started() as workers:
            client = await connect(workers, TENANT, kafka)
            closing = asyncio.create_task(client.close())
            await asyncio.sleep(0)
            closing.cancel()
            await asyncio.wait_for(client._worker.wait(), 30)


async def test_worker_that_cannot_start_frees_its_place_and_its_file(monkeypatch):
    files = []

    def refuse(*_, stderr, **__):
        files.append(stderr)
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    async with started(most_untrusted=1) as workers:
        with monkeypatch.context() as short_of_processes:
            short_of_processes.setattr("rackspan.kafka.worker.workers.subprocess.Popen", refuse)
            with pytest.raises(FailureError, match="cannot be started: Resource temporarily unavailable") as error:
                workers.of(TENANT)
            assert error.value.failure.reason is Reason.KAFKA_CLIENT_FAILED
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(*files)
        workers.of(NEIGHBOUR)


async def test_namespaces_take_turns_if_there_are_more_than_places(monkeypatch):
    with HostileKafka() as kafka:
        async with started(most_untrusted=1) as workers:
            first = await connect(workers, TENANT, kafka)
            with pytest.raises(FailureError) as error:
                await connect(workers, NEIGHBOUR, kafka)
            assert error.value.failure.reason is Reason.KAFKA_CLIENT_WAITING
            monkeypatch.setattr("rackspan.kafka.worker.places.TURN", 0.0)
            await all_calls(await connect(workers, NEIGHBOUR, kafka))
            with pytest.raises(FailureError) as error:
                await first.cluster()
            assert error.value.failure.reason is Reason.KAFKA_CLIENT_WAITING


async def test_log_of_the_client_is_in_the_log_of_the_operator_at_debug_level(caplog):
    with HostileKafka() as kafka, caplog.at_level("DEBUG", logger="rackspan.kafka"):
        async with started() as workers:
            connector = WorkerConnector(workers, ClientKind.TOPICS, AlwaysPermitted())
            spec = KafkaSpec(kafka.address, properties={"debug": "broker"})
            await connector.connect(TENANT, spec, Credentials())
            async with asyncio.timeout(300):
                while not any("rdkafka" in line for line in caplog.messages):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)

"""The executor of plans on real brokers: crashes at any call, changes by other clients, cordoned and dead brokers."""

import asyncio
import contextlib
from dataclasses import replace

import pytest
from dev.stack.kafka_cluster import KafkaCluster
from dev.traffic import Traffic
from tests.support.moves import SLOW, ask, filled, moved_topic, throttles
from tests.support.passes import is_complete
from tests.support.topics import Topics
from tests.support.waiting import until

from rackspan.core.planning import Change
from rackspan.core.reassignment import Limits, TopicPartition, WaitReason
from rackspan.kafka.kafka_reassignments import KafkaReassignments
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.plans.executor import Executor
from rackspan.reconcile.ports import BrokerDescription, Record


@pytest.fixture
def topic(topics):
    with moved_topic(topics, [[0, 1], [1, 2]]) as name:
        yield name


@pytest.fixture(scope="module")
def _own_kafka(processes, kafka_distribution):
    racks = ["/a/1", "/b/1", "/c/1", "/d/1"]
    cluster = KafkaCluster.start(processes.directory / "executor-kafka", processes, kafka_distribution, racks)
    yield cluster
    cluster.destroy()


@pytest.fixture
def own_kafka(_own_kafka):
    """Four brokers that a test may kill. All of them run at the start of each test."""
    _own_kafka.resume()
    return _own_kafka


class Crashed(Exception):  # noqa: N818
    """The simulated end of the executor."""


class Fragile:
    """A proxy of an admin or a journal that calls `ends`, which may raise, before and after each changing call."""

    def __init__(self, inner, ends):
        self._inner = inner
        self._ends = ends

    def __getattr__(self, name):
        call = getattr(self._inner, name)
        if name not in ("alter", "elect", "set_settings", "write"):
            return call

        async def fragile(*arguments):
            self._ends()
            answer = await call(*arguments)
            self._ends()
            return answer

        return fragile


class Kept:
    """A journal that remains after the end of its executor."""

    record = None

    async def write(self, record):
        self.record = record


async def passes_until(executor, condition, one_pass=Executor.advance):
    """Run passes until one meets the condition and return it. Retry failures, as the command does, for ten minutes."""
    seen = None
    async with asyncio.timeout(600):
        while seen is None or not condition(seen):
            await asyncio.sleep(0.1)
            with contextlib.suppress(FailureError):
                seen = await one_pass(executor)
    return seen


@contextlib.asynccontextmanager
async def executing(kafka, topic, before, planned, throttle=None, admin=KafkaReassignments, started=()):
    """Yield an executor of a plan for one topic in its current state, with one move at a time."""
    client, kept = admin(kafka.client_config()), Kept()
    try:
        async with asyncio.timeout(300):
            while len(states := await client.partitions([topic])) < len(before):  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.1)
        changes = tuple(Change(topic, n, new, old) for n, (new, old) in enumerate(zip(planned, before, strict=True)))
        racks = {broker: tuple(rack.strip("/").split("/")) for broker, rack in kafka.racks.items()}
        ids = {at.topic: one.topic_id for at, one in states.items()}
        kept.record = Record(kafka.cluster_id, "plan", changes, racks, kafka.racks, dict(started), topic_ids=ids)
        yield Executor(client, kept, kept.record, Limits(1, 1), throttle)
    finally:
        await client.close()


async def test_executor_resumes_after_a_crash_before_or_after_any_changing_call(kafka, topics, topic):
    before = topics.replicas(topic, 2)
    planned = ((3, 1, 4), (2, 5))
    changes = tuple(Change(topic, number, planned[number], old) for number, old in enumerate(before))
    racks = {broker: tuple(rack.strip("/").split("/")) for broker, rack in kafka.racks.items()}
    kept = Kept()
    kept.record = Record(kafka.cluster_id, "plan", changes, racks, kafka.racks)
    admin = KafkaReassignments(kafka.client_config())
    crashes, asked = 0, []
    original = admin.alter

    async def counted(targets, same_size=()):
        asked.extend((at, broker) for at, replicas in targets.items() for broker in replicas or ())
        return await original(targets, same_size)

    admin.alter = counted
    try:
        for attempt in range(200):
            calls = iter(range(attempt % 8))  # crash at one of the first eight points

            def ends(calls=calls):
                if next(calls, None) is None:
                    raise Crashed

            try:
                executor = Executor(Fragile(admin, ends), Fragile(kept, ends), kept.record, Limits(2, 2), 50_000_000)
                done = await passes_until(executor, lambda seen: seen.finished)
                break
            except Crashed:
                crashes += 1
        assert is_complete(done)
        assert crashes >= 6
        await asyncio.to_thread(until, lambda: topics.replicas(topic, 2) == planned)
        allowed = {(TopicPartition(topic, n), b) for n in range(2) for b in (*before[n], *planned[n])}
        assert set(asked) <= allowed
    finally:
        await admin.close()
    await asyncio.to_thread(until, lambda: not throttles(kafka, topic))


class OneMore(KafkaReassignments):
    """An admin that lists an unknown broker as online, like a client with old metadata about a removed broker."""

    async def cluster(self):
        found = await super().cluster()
        return replace(found, brokers=(*found.brokers, BrokerDescription(77, "", "/a/77")))


async def test_executor_reports_the_error_of_kafka_for_a_refused_move_and_finishes(kafka, topics, topic):
    before, planned = topics.replicas(topic, 2), ((0, 77), (1, 3))
    async with executing(kafka, topic, before, planned, admin=OneMore) as executor:
        done = await passes_until(executor, lambda seen: seen.finished)
    (left,) = done.waiting
    assert (left.partition, left.reason, left.brokers) == (TopicPartition(topic, 0), WaitReason.REFUSED, (77,))
    assert "Kafka says InvalidReplica" in left.answer
    assert "broker 77" in left.answer
    await asyncio.to_thread(until, lambda: topics.replicas(topic, 2) == (before[0], planned[1]))


async def test_topic_recreated_during_a_plan_keeps_its_replicas(kafka, topics, topic):
    before = topics.replicas(topic, 2)
    await asyncio.to_thread(filled, kafka, topic, 2)
    async with executing(kafka, topic, before, ((0, 3), (1, 3)), 1_000) as executor:
        await passes_until(executor, lambda seen: seen.copying)
        await asyncio.to_thread(topics.admin.delete_topics([topic])[topic].result, 300)
        await asyncio.to_thread(topics.create, topic, [[0, 1, 2], [1, 2, 3]])
        done = await passes_until(executor, lambda seen: seen.finished and not seen.throttles)
    assert {(one.partition.topic, one.reason) for one in done.waiting} == {(topic, WaitReason.RECREATED)}
    assert await asyncio.to_thread(topics.replicas, topic, 2) == ((0, 1, 2), (1, 2, 3))
    await asyncio.to_thread(until, lambda: not throttles(kafka, topic))


async def test_executor_gives_up_a_copy_that_another_client_cancels_and_continues(kafka, topics, topic):
    before, planned = topics.replicas(topic, 2), ((0, 3), (1, 3))
    await asyncio.to_thread(filled, kafka, topic, 2, SLOW)
    async with executing(kafka, topic, before, planned, 1_000) as executor:
        for _ in range(2):  # the second pass sees the copy that the first one started
            await passes_until(executor, lambda seen: seen.copying)
        (at,) = executor.record.started
        somebody_else = KafkaReassignments(kafka.client_config())
        try:
            assert await somebody_else.alter({at: None}) == {at: None}
        finally:
            await somebody_else.close()
        executor.adjust(Limits(1, 1), 50_000_000)
        done = await passes_until(executor, lambda seen: seen.finished)
    assert [(one.partition, one.reason) for one in done.waiting] == [(at, WaitReason.CHANGED_BY_OTHERS)]
    wanted = tuple(before[n] if n == at.partition else planned[n] for n in range(2))
    await asyncio.to_thread(until, lambda: topics.replicas(topic, 2) == wanted)
    await asyncio.to_thread(until, lambda: not throttles(kafka, topic))


async def test_take_back_restores_the_replica_list_in_its_old_order(kafka, topics, topic):
    before = topics.replicas(topic, 2)
    await asyncio.to_thread(filled, kafka, topic, 2, SLOW)
    async with executing(kafka, topic, before, ((1, 0, 3), (2, 1, 3)), 1_000) as executor:
        await passes_until(executor, lambda seen: seen.copying)
        await passes_until(executor, lambda seen: seen.finished, Executor.take_back)
    await asyncio.to_thread(until, lambda: topics.replicas(topic, 2) == before)
    await asyncio.to_thread(until, lambda: not throttles(kafka, topic))


@pytest.mark.usefixtures("cordons")
async def test_broker_cordoned_during_a_plan_gets_no_replicas_until_it_is_uncordoned(kafka, topics, topic):
    def cordon(*change):
        kafka.tool("ConfigCommand", "--alter", "--entity-type", "brokers", "--entity-name", "3", *change)

    before = topics.replicas(topic, 2)
    async with executing(kafka, topic, before, ((0, 3), (2, 3))) as executor:
        await asyncio.to_thread(cordon, "--add-config", "cordoned.log.dirs=*")
        try:
            await asyncio.to_thread(until, lambda: ask(kafka, lambda admin: admin.cordoned([3])) == {3: True})
            seen = await passes_until(executor, lambda seen: len(seen.waiting) == 2 and not seen.copying)
            assert {(one.reason, one.brokers) for one in seen.waiting} == {(WaitReason.CORDONED, (3,))}
            assert topics.replicas(topic, 2) == before
        finally:
            await asyncio.to_thread(cordon, "--delete-config", "cordoned.log.dirs")
        done = await passes_until(executor, lambda seen: seen.finished)
    assert is_complete(done)
    await asyncio.to_thread(until, lambda: topics.replicas(topic, 2) == ((0, 3), (2, 3)))


@pytest.mark.usefixtures("cordons")
def test_remaining_replica_on_a_cordoned_broker_blocks_only_its_own_partition(kafka, topics, topic, kafka_distribution):
    def cordon(*change):
        kafka.tool("ConfigCommand", "--alter", "--entity-type", "brokers", "--entity-name", "0", *change)

    before = topics.replicas(topic, 2)
    cordon("--add-config", "cordoned.log.dirs=*")
    try:
        done = asyncio.run(_carried_out(kafka, topic, before, ((0, 3), (3, 2))))
    finally:
        cordon("--delete-config", "cordoned.log.dirs")
    until(lambda: topics.replicas(topic, 2)[1] == (3, 2), "the other partition")
    if kafka_distribution.version.startswith("4.3"):  # accepts these lists
        assert is_complete(done)
        return
    (left,) = done.waiting
    assert (left.partition, left.reason) == (TopicPartition(topic, 0), WaitReason.REFUSED)
    assert "delete cordoned.log.dirs of broker 0" in left.details
    assert (done.progress.moved, done.progress.moves) == (1, 2)
    assert topics.replicas(topic, 2)[0] == (0, 1)


async def _carried_out(kafka, topic, before, planned):
    async with executing(kafka, topic, before, planned) as executor:
        return await passes_until(executor, lambda seen: seen.finished)


class Asks(KafkaReassignments):
    """An admin that counts its change requests to Kafka."""

    asked = 0

    async def alter(self, *arguments):
        Asks.asked += 1
        return await super().alter(*arguments)

    async def elect(self, *arguments):
        Asks.asked += 1
        return await super().elect(*arguments)


def test_moves_that_wait_for_dead_brokers_name_them_and_send_no_changes_to_kafka(own_kafka):
    """One partition moves to broker 2 alone. In the other one only broker 1, its preferred leader, is in sync."""
    cluster, topic = own_kafka, "waiting"
    topics = Topics(cluster.admin())
    before, planned = ((1, 2), (2, 1)), ((2,), (1, 2))
    topics.create(topic, before, config={"min.insync.replicas": "1"})
    filled(cluster, topic, 2)
    lists = {TopicPartition(topic, number): replicas for number, replicas in enumerate(planned)}

    def until_seen(condition, what):
        def seen():
            with contextlib.suppress(FailureError):  # the request may go to a dead broker
                return all(map(condition, ask(cluster, lambda admin: admin.partitions([topic])).values()))

        until(seen, what)

    cluster.kill_broker(2)
    until_seen(lambda one: one.in_sync == {1}, "broker 1 alone in sync")
    assert set(ask(cluster, lambda admin: admin.alter(lists)).values()) == {None}
    cluster.kill_broker(1)
    until_seen(lambda one: one.leader is None, "no leader")

    async def waits():
        async with executing(cluster, topic, before, planned, admin=Asks, started=lists) as executor:
            for _ in range(5):
                seen = await passes_until(executor, lambda seen: len(seen.waiting) == 2)
                assert {one.reason for one in seen.waiting} == {WaitReason.BROKER_OFFLINE}
                assert all(1 in one.brokers for one in seen.waiting)
            await asyncio.to_thread(cluster.start_broker, 1)
            left = [(TopicPartition(topic, 0), WaitReason.NOT_IN_SYNC, (2,))]
            await passes_until(
                executor, lambda seen: [(one.partition, one.reason, one.brokers) for one in seen.waiting] == left
            )
            await asyncio.to_thread(cluster.start_broker, 2)
            return await passes_until(executor, lambda seen: seen.finished)

    assert is_complete(asyncio.run(waits()))
    assert Asks.asked == 0
    until(lambda: topics.replicas(topic, 2) == planned, "every broker to show the planned replicas")


def test_broker_that_dies_during_a_plan_delays_only_its_own_move(own_kafka):
    topics, topic = Topics(own_kafka.admin()), "half-moved"
    topics.create(topic, [[0, 1], [1, 0]], config={"min.insync.replicas": "1"})
    filled(own_kafka, topic, 2, SLOW)
    asyncio.run(_killed_in_the_middle(own_kafka, topic, ((2, 1), (3, 0))))


async def _killed_in_the_middle(cluster, topic, moves):
    changes = tuple(
        Change(topic, n, new, old) for n, (new, old) in enumerate(zip(moves, [(0, 1), (1, 0)], strict=True))
    )
    racks = {broker: tuple(rack.strip("/").split("/")) for broker, rack in cluster.racks.items()}
    kept, admin = Kept(), KafkaReassignments(cluster.client_config())
    kept.record = Record(cluster.cluster_id, "plan", changes, racks, cluster.racks)
    executor = Executor(admin, kept, kept.record, Limits(), 1_000)
    try:
        with Traffic(cluster.client_config(), topic, 2) as traffic:
            await passes_until(executor, lambda seen: seen.copying == 2)
            await asyncio.to_thread(cluster.kill_broker, 2)
            executor = Executor(admin, kept, kept.record, Limits(), 50_000_000)
            # The other partition takes several passes and may wait. `admin` sends no requests to the dead broker.
            at, replicas = TopicPartition(topic, 1), ()
            while replicas != moves[1]:
                await passes_until(
                    executor,
                    lambda seen: seen.progress.moved == 1 and {one.brokers for one in seen.waiting} == {(2,)},
                )
                with contextlib.suppress(FailureError):
                    replicas = (await admin.partitions([topic]))[at].replicas
        assert await asyncio.to_thread(traffic.check) > 100
    finally:
        await admin.close()

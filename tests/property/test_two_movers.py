"""Two executors move replicas in one cluster while users set throttles. They share nothing but Kafka.

Calls of the executors follow each other in any order, each executor may be killed at any call, and users change
throttles in between. At the end, the throttles are those that users have set. Kafka has no conditional write: a rate
that a user sets between the read of an executor and the write that follows is overwritten. This case is left out here.
"""

import types
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.passes import is_complete
from tests.support.simulated_kafka import CLUSTER_ID, SimulatedKafka

from rackspan.core.planning import Change
from rackspan.core.reassignment import Limits, Setting, SettingKind, TopicPartition
from rackspan.core.reassignment.throttles import FOLLOWERS, LEADERS, RATES
from rackspan.reconcile.plans.executor import Executor
from rackspan.reconcile.ports import Record

BROKERS = range(4)
RACKS = {broker: ("eu", f"z{broker}") for broker in BROKERS}
CALLS_IN_ALL = 500
CALLS = ("settings", "set_settings", "alter", "elect")


@types.coroutine
def turn(call):
    """Let the other executor run before a call."""
    yield call


class InTurn:
    """A Kafka that several executors share; implements `ReassignmentAdmin`."""

    def __init__(self, kafka):
        self._kafka = kafka

    def __getattr__(self, name):
        call = getattr(self._kafka, name)

        async def in_turn(*arguments):
            if name in CALLS:
                await turn(name)
            return await call(*arguments)

        return in_turn


class Mover:
    """An executor that makes one call at a time, and continues from its journal after a kill."""

    def __init__(self, kafka, changes, rate):
        self._kafka = kafka
        racks = {broker: "/".join(("", *rack)) for broker, rack in RACKS.items()}
        self.record = Record(CLUSTER_ID, "hash", changes, RACKS, racks)
        self.rate = rate
        self.kill()

    async def write(self, record):
        await turn("write")
        self.record = replace(record)

    def kill(self):
        self._pass, self._calls, self.last = None, [], None
        self._executor = Executor(InTurn(self._kafka), self, self.record, Limits(5, 5), self.rate)

    def change_rate(self, rate):
        self.rate = rate
        self._executor.adjust(Limits(5, 5), rate)

    def step(self, name="advance"):
        """Continue to the next call of the pass, or start a pass."""
        if self._pass is None:
            self._pass = getattr(self._executor, name)()
        try:
            self._calls.append(self._pass.send(None))
        except StopIteration as ended:
            self._pass, self._calls, self.last = None, [], ended.value

    def passes(self, name="advance"):
        """Continue to the end of the pass, and run another one."""
        for _ in range(2):
            self.step(name)
            while self._pass is not None:
                self.step()
        return self.last

    @property
    def is_done(self):
        return self._pass is None and self.last is not None and is_complete(self.last)

    @property
    def is_about_to_write(self):
        return self._calls[-2:] == ["settings", "set_settings"]


def world(ours, theirs, rates=(5_000, 7_000), configs=()):
    """Return a Kafka and two movers, each with its own partitions."""
    lists = dict.fromkeys((*ours, *theirs), (0, 1))
    planned = dict.fromkeys(lists, (2, 1))
    kafka = SimulatedKafka(RACKS, lists, planned, configs=dict(configs))
    changes = [[Change(at.topic, at.partition, planned[at], lists[at]) for at in some] for some in (ours, theirs)]
    return kafka, [Mover(kafka, some, rate) for some, rate in zip(changes, rates, strict=True)]


def ended(kafka, movers):
    """Run the movers to their end, one call of each in turn."""
    for _ in range(CALLS_IN_ALL):
        kafka.catch_up_all()
        left = [mover for mover in movers if not mover.is_done]
        if not left:
            return
        for mover in left:
            mover.step()
    raise AssertionError(f"not ended: {[mover.last for mover in movers]}")


MOVERS = st.integers(0, 1)
PARTITIONS = [TopicPartition(topic, number) for topic in ("orders", "users") for number in range(2)]
NAMES = st.sampled_from([str(broker) for broker in BROKERS])
RATE = st.builds(Setting, st.just(SettingKind.BROKER), NAMES, st.sampled_from(RATES))
LIST = st.builds(
    Setting, st.just(SettingKind.TOPIC), st.sampled_from(["orders", "users"]), st.sampled_from([LEADERS, FOLLOWERS])
)
EVENTS = st.one_of(
    st.tuples(st.just("step"), MOVERS, st.integers(1, 12), st.sampled_from(["advance", "advance", "pause"])),
    st.tuples(st.just("step"), MOVERS, st.integers(1, 3), st.just("advance")),
    st.tuples(st.just("kill"), MOVERS),
    st.tuples(st.just("change rate"), MOVERS, st.sampled_from([5_000, 7_000, 9_000, None])),
    st.tuples(st.just("wish"), RATE, st.sampled_from([None, "111", "222"])),
    st.tuples(st.just("wish"), LIST, st.sampled_from([None, "*", "8:8", "9:9,8:8"])),
    st.tuples(st.just("catch up"), st.sampled_from(PARTITIONS), st.sampled_from(BROKERS)),
)


def happens(kafka, movers, event):
    match event:
        case "step", which, number, name:
            for _ in range(number):
                movers[which].step(name)
        case "kill", which:
            movers[which].kill()
        case "change rate", which, rate:
            movers[which].change_rate(rate)
        case "catch up", at, broker:
            kafka.catch_up(at, broker)
        case "wish", setting, value:
            for mover in movers:
                if mover.is_about_to_write:
                    mover.step()
            if value is not None or setting in kafka.configs:
                kafka.change_config(setting, value)


@given(
    st.permutations(PARTITIONS),
    st.tuples(st.sampled_from([5_000, 7_000]), st.just(5_000)),
    st.dictionaries(RATE, st.just("333"), max_size=2),
    st.dictionaries(LIST, st.sampled_from(["*", "0:2,9:9"]), max_size=2),
    st.lists(EVENTS, max_size=50),
)
def test_throttles_set_by_users_remain_after_two_executors_have_ended(order, rates, before, listed, events):
    before |= listed
    kafka, movers = world(order[:2], order[2:], rates, before)
    for event in events:
        happens(kafka, movers, event)
    ended(kafka, movers)
    wished = before | {event[1]: event[2] for event in events if event[0] == "wish"}
    assert kafka.configs == {setting: value for setting, value in wished.items() if value is not None}
    assert not any(mover.record.throttles for mover in movers)


A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
FIRST = Setting(SettingKind.BROKER, "1", RATES[0])
LISTED = Setting(SettingKind.TOPIC, "orders", FOLLOWERS)


def rates(kafka):
    return {value for setting, value in kafka.configs.items() if setting.key in RATES}


def test_second_executor_sets_its_rate_only_after_the_first_has_removed_its_own():
    kafka, (first, second) = world([A], [B])
    first.passes()
    assert not first.last.left_alone
    second.passes()
    assert rates(kafka) == {"5000"}
    assert set(kafka.configs[LISTED].split(",")) == {"0:2", "1:2"}
    assert "broker 0 follower.replication.throttled.rate 5000, and 5 more" in second.last.others
    kafka.catch_up(A, 2)
    while not is_complete(first.passes()):
        pass
    assert not rates(kafka)
    second.passes()
    assert rates(kafka) == {"7000"}
    assert kafka.configs[LISTED] == "1:2"
    assert not second.last.others
    ended(kafka, [second])
    assert not kafka.configs


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("rate", [5_000, 6_000])
def test_rate_set_by_a_user_is_reported_and_neither_overwritten_nor_deleted(restarts, rate):
    kafka, (mover, _) = world([A], [])
    mover.passes()
    kafka.configs[FIRST] = "111"
    if restarts:
        mover.kill()
    mover.change_rate(rate)
    for _ in range(3):
        mover.passes()
    assert kafka.configs[FIRST] == "111"
    assert mover.last.others == (
        "throttles that others have set are left alone: broker 1 leader.replication.throttled.rate 111"
    )
    assert rates(kafka) == {"111", str(rate)}
    ended(kafka, [mover])
    assert kafka.configs == {FIRST: "111"}
    assert "broker 1 leader.replication.throttled.rate 111" in mover.last.others

"""Execution of plans under faults: brokers fail, the executor is killed, other clients reassign."""

import asyncio
from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.passes import is_complete
from tests.support.simulated_kafka import (
    CLUSTER_ID,
    CORDONED,
    CrashError,
    MemoryJournal,
    SimulatedKafka,
    SimulatedPartition,
)

from rackspan.api.reasons import Reason
from rackspan.core.planning import Change
from rackspan.core.reassignment import (
    Adaptive,
    Disk,
    Limits,
    Setting,
    SettingKind,
    TopicPartition,
    WaitReason,
    throttles,
)
from rackspan.core.reassignment.throttles import FOLLOWERS, RATES
from rackspan.reconcile.failures import Failure, Remedy
from rackspan.reconcile.plans.executor import Executor
from rackspan.reconcile.ports import Record

_PASSES = 300
_REFUSALS = 3
"""The number of refusals after which the executor gives up a list."""


def _ends(least, before, planned):
    """Return whether no partition shrinks below min.insync.replicas. Such a move waits until a user lowers it."""
    return all(len(planned[at]) >= min(least, len(row)) for at, row in before.items())


@st.composite
def situations(draw, *, ends=True):
    """Draw a Kafka, a plan and events. With `ends`, nothing keeps the plan from its end once all faults have ended."""
    brokers = list(range(draw(st.integers(3, 7))))
    racks = {b: (draw(st.sampled_from("xy")), draw(st.sampled_from("abc"))) for b in brokers}
    before, planned = {}, {}
    for number in range(draw(st.integers(1, 5))):
        at = TopicPartition(draw(st.sampled_from(["orders", "users"])), number)
        sizes = st.integers(1, min(4, len(brokers)))
        before[at] = tuple(draw(st.permutations(brokers))[: draw(sizes)])
        planned[at] = tuple(draw(st.permutations(brokers))[: draw(sizes)])
    configs = {}
    for setting in (
        Setting(SettingKind.BROKER, "0", RATES[0]),
        Setting(SettingKind.TOPIC, "orders", FOLLOWERS),
    ):
        value = draw(st.sampled_from([None, "1234"] if setting.kind is SettingKind.BROKER else [None, "*", "0:9"]))
        if value is not None:
            configs[setting] = value
    kafka = SimulatedKafka(
        racks,
        before,
        planned,
        min_insync_replicas=draw(st.integers(1, 5).filter(lambda least: not ends or _ends(least, before, planned))),
        free={} if ends else draw(st.dictionaries(st.sampled_from(brokers), st.sampled_from([0, 900]))),
        limits=Limits(draw(st.integers(1, 3)), draw(st.integers(1, 2))),
        rate=draw(st.sampled_from([None, 50_000_000])),
        configs=configs,
        window=draw(st.sampled_from([1, 2, 1_000])),
    )
    kafka.longest = draw(st.sampled_from([30_000, 12]))
    broker, partition = st.sampled_from(brokers), st.sampled_from(sorted(before))
    events = st.one_of(
        st.tuples(st.just("pass")),
        st.tuples(st.just("pass")),
        st.tuples(st.just("catch up"), partition, broker),
        st.tuples(st.just("catch up"), partition, broker),
        st.tuples(st.just("kill"), broker),
        st.tuples(st.just("revive"), broker),
        st.tuples(st.just("cordon"), broker),
        st.tuples(st.just("release"), broker),
        st.tuples(st.just("crash"), st.integers(1, 12)),
        st.tuples(st.just("dies"), st.integers(1, 6), broker),
    )
    lag = st.one_of(st.tuples(st.just("remember")), st.tuples(st.just("behind"), st.integers(1, 2)))
    foreign = st.one_of(
        st.tuples(st.just("others"), partition, st.permutations(brokers), st.integers(1, 3)),
        st.tuples(st.just("others cancel"), partition),
    )
    is_shared = draw(st.booleans())
    # With stale metadata from before another client's reassignment, the executor cannot respect that reassignment.
    steps = draw(st.lists(events if is_shared else st.one_of(events, lag), max_size=40))
    if is_shared:
        steps.insert(draw(st.integers(0, len(steps))), draw(foreign))
    return kafka, steps


class World:
    """A simulated Kafka, and an executor that restarts after each crash with the record of its journal."""

    def __init__(self, kafka):
        changes = [
            Change(at.topic, at.partition, kafka.planned[at], before) for at, before in sorted(kafka.lists.items())
        ]
        racks = {broker: "/".join(("", *rack)) for broker, rack in kafka.racks.items()}
        self.kafka = kafka
        self.journal = MemoryJournal(kafka, Record(CLUSTER_ID, "hash", changes, kafka.racks, racks))
        self.start()

    def start(self):
        kafka, record = self.kafka, self.journal.record
        self.executor = Executor(kafka, self.journal, record, kafka.limits, kafka.rate, window=kafka.window)

    def call(self, name):
        try:
            return asyncio.run(getattr(self.executor, name)())
        except CrashError:
            self.kafka.crash_at = None
            self.start()
            return None

    def happens(self, event, *details):
        match event:
            case "pass":
                self.call("advance")
            case "catch up":
                self.kafka.catch_up(*details)
            case "kill" | "revive" | "cordon" | "release" | "remember":
                getattr(self.kafka, event)(*details)
            case "crash":
                self.kafka.crash_at = self.kafka.calls + details[0]
            case "dies":
                self.kafka.dies_at = self.kafka.calls + details[0], details[1]
            case "behind":
                self.kafka.behind = details[0]
            case "others":
                at, brokers, size = details
                self.kafka.reassigned_by_others(at, brokers[:size])
            case "cancel":
                self.kafka.planned = self.kafka.lists  # the checks then require the spread of the original lists
            case "others cancel":
                self.kafka.cancelled_by_others(*details)

    def all_well(self):
        """End all faults. From now on, only Kafka itself acts."""
        for broker in self.kafka.racks:
            self.kafka.revive(broker)
        self.kafka.cordons.clear()
        self.kafka.crash_at = self.kafka.dies_at = None

    def run(self, name):
        for _ in range(_PASSES):
            self.kafka.catch_up_all()
            done = self.call(name)
            if done is not None and done.finished:
                return done
        raise AssertionError(f"not finished: {done}")


def after(kafka, events):
    """Return the world after these events and the end of all faults."""
    world = World(kafka)
    for event in events:
        world.happens(*event)
    world.all_well()
    return world


def restart_and_run(kafka, events, name):
    """Run to the end. `kafka.longest` is the maximum length of a list of throttled replicas."""
    initial = dict(kafka.configs)
    with patch.object(throttles, "_LONGEST", getattr(kafka, "longest", 30_000)):
        world = after(kafka, events)
        done = world.run(name)
    assert kafka.configs == initial
    return done


@given(situations())
def test_every_plan_completes_without_extra_copies_and_without_left_over_throttles(situation):
    kafka, events = situation
    done = restart_and_run(kafka, events, "advance")
    left = {one.partition for one in done.waiting if one.reason is WaitReason.REFUSED}
    assert all(kafka.refused_by_cordon[at] >= _REFUSALS for at in left)
    own = set(kafka.state) - kafka.touched_by_others - left
    for at in own:
        one = kafka.state[at]
        assert (one.replicas, one.adding, one.removing) == (kafka.planned[at], frozenset(), frozenset())
        # After a leader has failed, Kafka itself or its administrator elects the preferred leader again.
        if kafka.planned[at][0] not in {kafka.lists[at][0], *kafka.killed}:
            assert one.leader == kafka.planned[at][0]
    copies = [copy for copy in kafka.copies if copy[0] in own]
    assert sorted(copies) == sorted((at, b) for at in own for b in set(kafka.planned[at]) - set(kafka.lists[at]))
    assert {one.partition for one in done.waiting} <= kafka.touched_by_others | left
    if not kafka.touched_by_others:
        assert done.finished
        assert done.progress.moves - done.progress.moved == sum(
            len(set(kafka.planned[at]) - set(kafka.lists[at]) - kafka.state[at].isr) for at in left
        )


@given(situations())
def test_wind_down_starts_no_copy_and_the_remaining_moves_complete_later(situation):
    kafka, events = situation
    initial = dict(kafka.configs)
    world = after(kafka, events)
    begun = list(kafka.copies)
    for _ in range(_PASSES):
        kafka.catch_up_all()
        done = world.call("wind_down")
        if not done.copying:
            break
    assert not done.copying
    assert kafka.copies == begun
    world.call("pause")
    assert kafka.configs == initial
    done = world.run("advance")
    left = {one.partition for one in done.waiting if one.reason is WaitReason.REFUSED}
    assert all(kafka.refused_by_cordon[at] >= _REFUSALS for at in left)
    assert is_complete(done) or kafka.touched_by_others or left == {one.partition for one in done.waiting}


@given(situations())
def test_cancelled_plan_leaves_no_ongoing_reassignment_and_no_throttle(situation):
    kafka, events = situation
    planned = dict(kafka.planned)
    restart_and_run(kafka, [*events, ("cancel",)], "take_back")
    for at in set(kafka.state) - kafka.touched_by_others:
        one = kafka.state[at]
        assert (one.adding, one.removing) == (frozenset(), frozenset())
        assert set(one.replicas) <= {*kafka.lists[at], *planned[at]}
        assert len(one.replicas) <= max(len(kafka.lists[at]), len(planned[at]))
        if {*one.replicas} == {*kafka.lists[at]} != {*planned[at]}:
            assert one.replicas == tuple(kafka.lists[at])


@settings(max_examples=settings.default.max_examples // 3)  # each example runs many passes
@given(situations(ends=False))
def test_only_moves_to_full_disks_or_below_min_insync_wait_and_all_others_complete(situation):
    kafka, events = situation
    least = kafka.min_insync_replicas
    world = after(kafka, events)
    for _ in range(70):
        kafka.catch_up_all()
        done = world.call("advance")
    waiting = {one.partition: one.reason for one in done.waiting}
    for at in set(kafka.state) - kafka.touched_by_others:
        one, before, planned = kafka.state[at], kafka.lists[at], kafka.planned[at]
        reasons = {WaitReason.REFUSED} if kafka.refused_by_cordon[at] >= _REFUSALS else set()
        if any(kafka.free.get(broker) == 0 for broker in set(planned) - set(before)):
            reasons.add(WaitReason.DISK_FULL)
        if len(planned) < min(least, len(before)):
            reasons.add(WaitReason.MIN_INSYNC)
        if at in waiting:
            assert waiting[at] in reasons
        else:
            assert (one.replicas, one.adding, one.removing) == (planned, frozenset(), frozenset())


def two_moves():
    """Return a Kafka with two moves, one after the other. The first partition is as planned after four passes."""
    ats = [TopicPartition("orders", number) for number in range(2)]
    planned = dict.fromkeys(ats, (0, 2))
    return SimulatedKafka(dict.fromkeys(range(3), ("x", "a")), dict.fromkeys(ats, (0, 1)), planned, limits=Limits(1, 1))


def test_settled_partition_is_not_copied_back_if_metadata_is_stale_after_a_restart():
    kafka = two_moves()
    world = World(kafka)
    kafka.remember()
    for _ in range(4):
        world.call("advance")
        kafka.catch_up_all()
    assert kafka.state[TopicPartition("orders", 0)].replicas == (0, 2)
    world.start()
    kafka.behind = 2
    assert is_complete(world.run("advance"))
    assert sorted(kafka.copies) == [(at, 2) for at in sorted(kafka.planned)]


def test_list_that_is_requested_again_and_refused_is_still_cancelled():
    """Metadata is stale, and a broker of the list was cordoned in the meantime."""
    at = TopicPartition("orders", 0)
    kafka = SimulatedKafka(dict.fromkeys(range(3), ("x", "a")), {at: (0, 1)}, {at: (0, 2)}, limits=Limits())
    restart_and_run(kafka, [("pass",), ("cordon", 0), ("behind", 1), ("pass",), ("cancel",)], "take_back")
    assert kafka.state[at].replicas == (0, 1)


def test_cancellation_restores_the_order_and_does_not_end_while_metadata_is_stale():
    at = TopicPartition("orders", 0)
    kafka = SimulatedKafka(dict.fromkeys(range(3), ("x", "a")), {at: (1, 2)}, {at: (2, 1, 0)}, limits=Limits())
    world = World(kafka)
    world.call("advance")
    kafka.behind = 2
    for _ in range(9):
        done = world.call("take_back")
        if done.finished:
            break
    assert done.finished
    one = kafka.state[at]
    assert (one.replicas, one.adding, one.leader) == ((1, 2), frozenset(), 1)


def test_cancellation_removes_the_new_replica_that_the_spread_does_not_need():
    """Broker 4, alone in its rack, has left the list. Broker 0 adds a rack again; broker 2 shares the rack of 1."""
    at = TopicPartition("users", 0)
    racks = {0: ("y", "b"), 1: ("y", "a"), 2: ("y", "a"), 3: ("x", "a"), 4: ("y", "c")}
    kafka = SimulatedKafka(racks, {at: (4, 1, 3)}, {at: (2, 0, 3)}, limits=Limits())
    world = World(kafka)
    kafka.kill(4)
    for list_asked_for in ((4, 1, 3, 2), (1, 3, 2), (1, 3, 2, 0)):
        world.call("advance")
        assert kafka.state[at].replicas == list_asked_for
        kafka.catch_up_all()
    kafka.planned = dict(kafka.lists)
    world.all_well()
    assert world.run("take_back").finished
    assert kafka.state[at].replicas == (1, 3, 0)


def test_cancellation_removes_the_throttle_of_in_sync_replicas_before_it_changes_their_list():
    at = TopicPartition("orders", 2)
    kafka = SimulatedKafka(dict.fromkeys(range(6), ("x", "a")), {at: (0,)}, {at: (2, 5)}, limits=Limits(), rate=5000)
    world = World(kafka)
    world.call("advance")
    kafka.catch_up_all()
    kafka.kill(kafka.state[at].replicas[-1])
    world.call("advance")
    assert {*kafka.state[at].replicas} == {0, 2, 5}
    kafka.planned = dict(kafka.lists)
    world.all_well()
    assert world.run("take_back").finished
    assert not kafka.configs


@pytest.mark.parametrize("longest", [30_000, 20])
def test_in_sync_replicas_are_not_throttled_however_long_the_list_may_be(longest):
    ats = [TopicPartition("orders", number) for number in range(12)]
    planned = {at: (0, 2 + at.partition % 2) for at in ats}
    racks = dict.fromkeys(range(4), ("x", "a"))
    kafka = SimulatedKafka(racks, dict.fromkeys(ats, (0, 1)), planned, limits=Limits(2, 2), rate=5000)
    world, followers = World(kafka), Setting(SettingKind.TOPIC, "orders", FOLLOWERS)
    with patch.object(throttles, "_LONGEST", longest):
        for number in range(_PASSES):
            done = world.call("advance")
            listed = set(kafka.configs.get(followers, "").split(","))
            copied = {at: kafka.state[at].adding - kafka.seen[at].in_sync for at in ats}
            assert listed.issuperset(f"{at.partition}:{broker}" for at in ats for broker in copied[at])
            assert listed.isdisjoint(f"{at.partition}:{broker}" for at in ats for broker in kafka.seen[at].in_sync)
            assert "*" not in listed
            if done.finished:
                break
            if number % 2:
                kafka.catch_up_all()
    assert done.finished
    assert not kafka.configs


class WithoutRight(SimulatedKafka):
    """A Kafka that does not allow throttles."""

    async def set_settings(self, changes):
        return dict.fromkeys(changes, Failure(Reason.NOT_AUTHORIZED, "no AlterConfigs", Remedy.ACCESS))


@pytest.mark.parametrize("name", ["take_back", "pause"])
def test_denied_throttles_do_not_block_pause_or_cancellation(name):
    at = TopicPartition("orders", 0)
    racks = dict.fromkeys(range(3), ("x", "a"))
    kafka = WithoutRight(racks, {at: (0,)}, {at: (2,)}, limits=Limits(), rate=5000)
    world = World(kafka)
    assert world.call("advance").failures
    assert not kafka.copies, "nothing is copied without its throttle"
    assert not world.journal.record.throttles
    world.start()
    assert not world.call(name).throttles


class KeepsSizes(SimulatedKafka):
    """A Kafka that records for each list whether the request keeps the number of replicas."""

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.kept = []

    async def alter(self, targets, same_size=()):
        self.kept += [(replicas, at in same_size) for at, replicas in targets.items()]
        return await super().alter(targets, same_size)


def test_step_with_an_unchanged_replica_count_asks_kafka_to_keep_the_count():
    at = TopicPartition("orders", 0)
    kafka = KeepsSizes(dict.fromkeys(range(3), ("x", "a")), {at: (0, 1)}, {at: (1, 2)}, limits=Limits())
    assert is_complete(World(kafka).run("advance"))
    assert kafka.kept == [((0, 1, 2), False), ((1, 2), False)]
    reordered = KeepsSizes(dict.fromkeys(range(3), ("x", "a")), {at: (0, 1)}, {at: (1, 0)}, limits=Limits())
    assert is_complete(World(reordered).run("advance"))
    assert reordered.kept == [((1, 0), True)]


class LosesADirectory(SimulatedKafka):
    """Broker 2 has lost a log directory and the copy in it, and metadata does not show this, as with Kafka 4.4."""

    lost = 1

    async def disks(self, brokers):
        return {broker: Disk(1000, 500, self.lost if broker == 2 else 0) for broker in brokers}

    async def sizes(self, partitions):
        found = await super().sizes(partitions)
        return {(at, broker): size for (at, broker), size in found.items() if broker != 2 or not self.lost}


def test_copy_in_a_lost_log_directory_waits_until_the_directory_is_back():
    at = TopicPartition("orders", 0)
    kafka = LosesADirectory(dict.fromkeys(range(3), ("x", "a")), {at: (0, 1)}, {at: (2, 1)}, limits=Limits())
    world = World(kafka)
    passes = [world.call("advance") for _ in range(20)]
    assert not any(seen.finished for seen in passes)
    for seen in passes[10:]:
        assert (seen.copying, [(one.reason, one.brokers) for one in seen.waiting]) == (
            0,
            [(WaitReason.DISK_OFFLINE, (2,))],
        )
    kafka.lost = 0
    assert is_complete(world.run("advance"))
    assert kafka.copies == [(at, 2)]


@given(situations(), st.sets(st.integers(0, 6), min_size=1, max_size=3))
def test_executor_sends_no_repeated_changes_while_brokers_stay_offline(situation, away):
    kafka, events = situation
    world = after(kafka, events)
    for broker in away & set(kafka.racks):
        kafka.kill(broker)
    for _ in range(40 * len(kafka.lists)):
        kafka.catch_up_all()
        done = world.call("advance")
    changes = kafka.changes
    for _ in range(3):
        kafka.catch_up_all()
        world.call("advance")
    assert kafka.changes == changes
    assert not done.copying
    waits = {WaitReason.BROKER_OFFLINE, WaitReason.NOT_IN_SYNC}
    own = [one for one in done.waiting if one.reason in waits and one.partition not in kafka.touched_by_others]
    assert all(one.brokers for one in own)
    world.all_well()
    world.run("advance")


@given(situations(), st.sets(st.integers(0, 6), min_size=1, max_size=3))
def test_replicas_leave_cordoned_brokers_and_only_moves_that_need_them_wait(situation, cordoned):
    kafka, events = situation
    world = after(kafka, events)
    for broker in cordoned & set(kafka.racks):
        kafka.cordon(broker)
    world.start()
    kafka.refused_by_cordon.clear()
    for _ in range(40 * len(kafka.lists)):
        kafka.catch_up_all()
        done = world.call("advance")
    assert not done.copying
    waiting = {one.partition: one for one in done.waiting}
    assert all(number <= _REFUSALS for number in kafka.refused_by_cordon.values()), "the list is given up"
    for at in set(kafka.state) - kafka.touched_by_others:
        one, planned = kafka.state[at], kafka.planned[at]
        kept, to_come = kafka.cordons.intersection(one.replicas, planned), set(planned).difference(one.replicas)
        match waiting.get(at):
            case None:
                assert one.replicas == planned
            case found if found.reason is WaitReason.CORDONED:
                assert found.brokers
                assert to_come & kafka.cordons >= set(found.brokers)
            case found:
                assert found.reason is WaitReason.REFUSED
                assert f"{CORDONED}; Kafka 4.4 refuses lists" in found.answer
                assert all(f" {broker}" in found.answer.partition("of broker")[2] for broker in kept)
                assert kept
    world.all_well()
    world.run("advance")


def test_two_replicas_on_cordoned_brokers_are_replaced_in_one_step_despite_the_limit():
    one, two = TopicPartition("one", 0), TopicPartition("two", 0)
    lists, planned = {one: (0, 1), two: (2, 3)}, {one: (4, 5), two: (2, 4)}
    racks = dict.fromkeys(range(6), ("x", "a"))
    kafka = SimulatedKafka(racks, lists, planned, limits=Limits(1, 1), rate=5_000, min_insync_replicas=2)
    kafka.cordon(0)
    kafka.cordon(1)
    done = World(kafka).run("advance")
    assert is_complete(done)
    assert (done.progress.moved, kafka.refused_by_cordon) == (3, {})
    assert {at: one.replicas for at, one in kafka.state.items()} == planned
    assert not kafka.configs


def test_replacement_whose_call_was_lost_is_requested_again_after_the_uncordon():
    at = TopicPartition("orders", 0)
    kafka = SimulatedKafka(dict.fromkeys(range(3), ("x", "a")), {at: (0, 1)}, {at: (0, 2)}, limits=Limits())
    kafka.cordon(1)
    world = World(kafka)
    kafka.crash_at = 3  # the record is written, and the call is not made
    assert world.call("advance") is None
    assert (world.journal.record.started, kafka.asked) == ({at: (0, 2)}, {})
    kafka.release(1)
    assert is_complete(world.run("advance"))
    assert kafka.state[at].replicas == (0, 2)


@pytest.mark.parametrize("is_known", [True, False])
def test_recreated_topic_and_its_throttles_do_not_change_if_the_record_has_topic_ids(is_known):
    again, other = [TopicPartition("again", number) for number in range(3)], TopicPartition("other", 0)
    lists = dict.fromkeys([*again, other], (0, 1))
    planned = dict.fromkeys(lists, (1, 3))
    kafka = SimulatedKafka(dict.fromkeys(range(4), ("x", "a")), lists, planned, limits=Limits(1, 1), rate=5_000)
    for one in kafka.state.values():
        one.topic_id = "first"
    world = World(kafka)
    topic_ids = {"again": "first", "other": "first"} if is_known else {}
    world.journal.record = replace(world.journal.record, topic_ids=topic_ids)
    world.start()
    world.call("advance")
    throttled = {one: value for one, value in kafka.configs.items() if one.name == "again"}
    assert throttled
    kafka.state |= {at: SimulatedPartition((0, 1), {0, 1}, 0, topic_id="second") for at in again}
    world.start()
    done = world.run("advance")
    assert kafka.state[other].replicas == (1, 3)
    if not is_known:  # a record of an older version
        assert is_complete(done)
        return
    assert {(one.partition, one.reason) for one in done.waiting} == {(at, WaitReason.RECREATED) for at in again}
    assert {kafka.state[at].replicas for at in again} == {(0, 1)}
    assert kafka.configs == throttled
    assert world.call("take_back").finished
    assert kafka.configs == throttled


class Refusing(SimulatedKafka):
    """A Kafka that refuses the replica lists with one broker, or of one partition."""

    refuses = frozenset()

    async def alter(self, targets, same_size=()):
        text = Failure(Reason.KAFKA_REFUSED, "Kafka says InvalidReplicaAssignment: cordoned", Remedy.RETRY)
        refused = {at: text for at, new in targets.items() if self.refuses & {at, *(new or ())}}
        return refused | await super().alter({at: new for at, new in targets.items() if at not in refused}, same_size)


@pytest.mark.parametrize("refuses", ["broker", "partition"])
def test_refused_list_is_not_under_way_and_ends_with_the_answer_of_kafka(refuses):
    one, two = TopicPartition("one", 0), TopicPartition("two", 0)
    # A broker that accepts no replica, or a list that needs no copy.
    planned = {one: (3, 1) if refuses == "broker" else (1, 0), two: (1, 2)}
    kafka = Refusing(dict.fromkeys(range(4), ("x", "a")), dict.fromkeys(planned, (0, 1)), planned, limits=Limits(5, 5))
    kafka.refuses = frozenset({3} if refuses == "broker" else {one})
    world = World(kafka)
    first = world.call("advance")
    assert first.copying == 1
    assert first.failures == ["one 0: Kafka says InvalidReplicaAssignment: cordoned"]
    done = world.run("advance")
    (left,) = done.waiting
    assert (left.partition, left.reason) == (one, WaitReason.REFUSED)
    assert "Kafka says InvalidReplicaAssignment: cordoned" in left.details
    assert kafka.state[one].replicas == (0, 1)
    assert kafka.state[two].replicas == (1, 2)


def test_move_that_is_refused_for_a_cordoned_broker_does_not_block_other_moves():
    one, two = TopicPartition("one", 0), TopicPartition("two", 0)
    lists, planned = {one: (0, 1), two: (1, 2)}, {one: (0, 3), two: (1, 3)}
    kafka = SimulatedKafka(dict.fromkeys(range(4), ("x", "a")), lists, planned, limits=Limits(1, 1))
    kafka.cordon(0)
    done = World(kafka).run("advance")
    (left,) = done.waiting
    assert (left.partition, left.reason) == (one, WaitReason.REFUSED)
    assert CORDONED in left.details
    assert "broker 0" in left.details
    assert kafka.state[two].replicas == (1, 3)
    assert (done.progress.moved, done.progress.moves) == (1, 2)


class Counted(SimulatedKafka):
    """A Kafka that records how many topics each pass has read."""

    async def partitions(self, topics):
        self.read.append(len(topics))
        return await super().partitions(topics)


def many(topics, window):
    """Return a Kafka with a plan for many topics of one partition each, of which two may move at a time."""
    before = {TopicPartition(f"t{number:03}", 0): (number % 4,) for number in range(topics)}
    planned = {at: ((one + 1) % 4,) for at, (one,) in before.items()}
    kafka = Counted(dict.fromkeys(range(4), ("x", "a")), before, planned, limits=Limits(2, 2), window=window)
    kafka.read = []
    return kafka


def test_most_passes_read_only_the_current_and_the_next_topics():
    kafka = many(100, window=10)
    assert is_complete(World(kafka).run("advance"))
    whole = [number for number in kafka.read if number > 10 + 2 * 2]
    assert len(whole) <= len(kafka.read) / 20 + 1
    # The limits are always used up: two partitions move in each pair of passes, one pass to add, one to remove.
    assert len(kafka.read) <= 100 + 10


def test_waiting_plan_reads_few_topics_and_continues_when_the_brokers_are_back():
    kafka = many(100, window=10)
    for broker in (1, 2, 3):
        kafka.kill(broker)
    world = World(kafka)
    for _ in range(40):
        done = world.call("advance")
    assert len(done.waiting) == 100
    assert sum(kafka.read) <= 3 * 100 + 40 * 10
    world.all_well()
    assert is_complete(world.run("advance"))


def rates(kafka):
    return {value for setting, value in kafka.configs.items() if setting.key in RATES}


def slow_copies(throttle, clock=lambda: 0):
    """Return a Kafka with ten copies that do not end without help, its world, and a partition outside the plan."""
    kafka = many(10, window=1_000)
    kafka.limits = Limits(10, 10)
    outside = TopicPartition("outside", 0)
    kafka.state[outside] = SimulatedPartition((0, 1, 2), {0, 1, 2}, 0)
    world = World(kafka)
    record = world.journal.record
    world.executor = Executor(kafka, world.journal, record, kafka.limits, throttle, clock=clock)
    return kafka, world, outside


def test_adaptive_throttle_slows_down_while_other_replicas_are_behind_and_then_recovers():
    now = 0
    kafka, world, outside = slow_copies(Adaptive(1_000, 21_000), lambda: now)
    seen = []
    for second in range(0, 100, 10):
        now = second
        if second == 50:
            kafka.state[outside].isr.discard(2)
        if second == 70:
            kafka.state[outside].isr.add(2)
        seen.append(world.call("advance").rate)
        assert rates(kafka) == {str(seen[-1])}
    assert seen == [1000, 1000, 2000, 3000, 4000, 2000, 2000, 3000, 4000, 5000]
    assert is_complete(world.run("advance"))
    assert not rates(kafka)


def test_throttle_can_be_changed_and_removed_while_copies_are_under_way():
    kafka, world, _ = slow_copies(5_000)
    for throttle, there in ((5_000, {"5000"}), (7_000, {"7000"}), (Adaptive(10, 20), {"10"}), (None, set())):
        world.executor.adjust(kafka.limits, throttle)
        assert world.call("advance").copying == 10
        assert rates(kafka) == there
    assert is_complete(world.run("advance"))

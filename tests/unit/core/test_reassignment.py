"""The next calls of a reassignment, case by case. tests/property checks the general properties."""

from dataclasses import replace

import pytest

from rackspan.core.planning import Change
from rackspan.core.reassignment import (
    Disk,
    Limits,
    ListChange,
    ListOperation,
    Observed,
    PartitionState,
    Racks,
    SetThrottle,
    Setting,
    SettingKind,
    Tally,
    ThrottledReplicas,
    TopicPartition,
    WaitReason,
    cancel,
    decide,
    wanted_throttles,
)
from rackspan.core.reassignment.throttles import FOLLOWERS, LEADERS, RATES, wanted_lists

AT = TopicPartition("orders", 0)
ZONES = Racks({broker: ("abc"[broker % 3],) for broker in range(9)})


def state(*replicas, in_sync=None, leader=None, adding=(), removing=(), offline=()):
    isr, led = frozenset(replicas if in_sync is None else in_sync), replicas[0] if leader is None else leader
    return PartitionState(replicas, isr, led, frozenset(adding), frozenset(removing), frozenset(offline))


def change(before, after, at=AT):
    return Change(at.topic, at.partition, tuple(after), tuple(before), 100)


def decided(changes, states, started=None, limits=None, **observed):
    observed.setdefault("online", frozenset(range(9)))
    changes = changes if isinstance(changes, list) else [changes]
    states = states if isinstance(states, dict) else {AT: states}
    return decide(changes, Observed(states, **observed), started or {}, limits or Limits(), ZONES)


def waiting(decision):
    return [(one.reason, one.brokers) for one in decision.waiting]


def test_move_adds_the_new_replica_and_removes_the_old_one_when_the_new_one_is_in_sync():
    move = change([0, 1, 2], [3, 1, 2])
    assert decided(move, state(0, 1, 2)).alter == {AT: (0, 1, 2, 3)}
    copying = decided(move, state(0, 1, 2, 3, in_sync=[0, 1, 2], adding=[3]), {AT: (0, 1, 2, 3)})
    assert (copying.alter, copying.copying) == ({}, {AT: frozenset({3})})
    assert decided(move, state(0, 1, 2, 3), {AT: (0, 1, 2, 3)}).alter == {AT: (3, 1, 2)}
    assert decided(move, state(3, 1, 2, leader=1), {AT: (3, 1, 2)}).elect == (AT,)
    assert decided(move, state(3, 1, 2)).idle


def test_old_replica_stays_while_another_replica_is_out_of_sync():
    held = decided(change([0, 1, 2], [3, 1, 2]), state(0, 1, 2, 3, in_sync=[0, 1, 3]))
    assert waiting(held) == [(WaitReason.NOT_IN_SYNC, (2,))]


def test_replica_that_writes_may_need_is_not_removed_while_min_insync_is_unknown():
    held = decided(change([0, 1, 2], [0]), state(0, 1, 2))
    assert (held.alter, waiting(held)) == ({}, [(WaitReason.MIN_INSYNC, ())])
    assert held.waiting[0].min_insync is None, "the unknown value may be low enough"
    assert decided(change([0, 1, 2], [3, 1, 2]), state(0, 1, 2, 3), {AT: (0, 1, 2, 3)}).alter == {AT: (3, 1, 2)}


def test_removal_below_min_insync_waits():
    held = decided(change([0, 1], [0]), state(0, 1), min_insync={"orders": 2})
    assert waiting(held) == [(WaitReason.MIN_INSYNC, ())]
    told = " (lower min.insync.replicas to 1, in spec.config of its KafkaTopic if it has one)"
    assert held.waiting[0].details == told
    asked = decided(change([0, 1], [0]), state(0, 1), {AT: (0,)}, min_insync={"orders": 2})
    assert asked.waiting == held.waiting
    behind = decided(change([0, 1, 2, 3], [0, 1]), state(0, 1, 2, in_sync=[0, 2]), min_insync={"orders": 2})
    assert behind.waiting[0].details == " (broker 1)"


def test_min_insync_that_the_partition_can_never_meet_does_not_block():
    moved = decided(change([0], [1]), state(0, 1), {AT: (0, 1)}, min_insync={"orders": 2})
    assert moved.alter == {AT: (1,)}
    back = cancel(
        [change([0], [1])], Observed({AT: state(0, 1)}, frozenset(range(9)), {"orders": 2}), {AT: (0, 1)}, ZONES
    )
    assert back.alter == {AT: (0,)}
    grown = decided(change([0], [1, 2]), state(0, 1, 2), {AT: (0, 1, 2)}, min_insync={"orders": 3})
    assert grown.alter == {AT: (1, 2)}


def test_cancellation_reports_why_it_waits():
    for now, held in (
        (state(0, 1, 2, 3, in_sync=[0, 3]), (WaitReason.NOT_IN_SYNC, (1, 2))),
        (replace(state(0, 1, 2, 3, in_sync=[2]), leader=None), (WaitReason.BROKER_OFFLINE, (2,))),
    ):
        seen = Observed({AT: now}, frozenset({0, 1, 2}), {"orders": 2})
        back = cancel([change([0, 1, 2], [0, 1, 3])], seen, {AT: (0, 1, 2, 3)}, ZONES)
        assert waiting(back) == [held]


@pytest.mark.parametrize(
    ("now", "online", "held"),
    [
        (state(0, 1, 2, 3, in_sync=[0, 1, 3]), {0, 1, 3}, (WaitReason.NOT_TAKEN_BACK, (2,))),
        (state(0, 1, 2, 3, in_sync=[0, 3]), {0, 3}, (WaitReason.NOT_TAKEN_BACK, (1, 2))),
        (state(0, 1, 2, 3, in_sync=[0, 1, 3], offline=[2]), {0, 1, 2, 3}, (WaitReason.NOT_TAKEN_BACK, (2,))),
        (state(0, 1, 2, 3, in_sync=[0, 3]), {0, 1, 3}, (WaitReason.NOT_IN_SYNC, (1, 2))),
        (replace(state(0, 1, 2, 3, in_sync=[3]), leader=None), {0, 1, 2}, (WaitReason.NOT_TAKEN_BACK, (3,))),
        (state(0, 1, 2, 4, in_sync=[0, 1, 2], adding=[4]), {0, 1, 2}, (WaitReason.CHANGED_BY_OTHERS, ())),
    ],
)
def test_cancellation_does_not_wait_for_offline_brokers_or_other_clients(now, online, held):
    seen = Observed({AT: now}, frozenset(online), {"orders": 2})
    back = cancel([change([0, 1, 2], [3, 1, 2])], seen, {AT: (0, 1, 2, 3)}, ZONES)
    assert (back.alter, waiting(back)) == ({}, [held])
    assert back.waiting[0].reason.final == (held[0] is not WaitReason.NOT_IN_SYNC)


@pytest.mark.parametrize(
    ("now", "asked", "held"),
    [
        (state(0, 1, 2, 3, in_sync=[], offline=[3]), (0, 1, 2, 3), (WaitReason.NOT_TAKEN_BACK, (3,))),
        (state(0, 1, 2, 3, in_sync=[], adding=[3]), (0, 1, 2, 3), (WaitReason.BROKER_OFFLINE, (3,))),
        (state(1, 2, 3, 0, in_sync=[], removing=[0]), (1, 2, 3), (WaitReason.BROKER_OFFLINE, (3,))),
        (state(1, 2, 0, in_sync=[]), (1, 2, 0), (WaitReason.BROKER_OFFLINE, (0, 1, 2))),
    ],
)
def test_cancellation_does_not_change_a_partition_without_a_leader(now, asked, held):
    """Kafka then reports no ISR, and lists the eligible leaders (KIP-966) separately: the new replica may be one."""
    seen = Observed({AT: replace(now, leader=None)}, frozenset({0, 1, 2}))
    back = cancel([change([0, 1, 2], [3, 1, 2])], seen, {AT: asked}, ZONES)
    assert (back.alter, waiting(back)) == ({}, [held])


def test_cancellation_changes_at_most_1000_lists_at_once():
    ats = [TopicPartition("orders", number) for number in range(1_002)]
    moves = [change([0, 1, 2], [3, 1, 2], at) for at in ats]
    begun = [state(0, 1, 2, 3), state(0, 1, 2, 3, in_sync=[0, 1, 2], adding=[3])]
    seen = Observed({at: begun[at.partition % 2] for at in ats}, frozenset(range(9)))
    back = cancel(moves, seen, dict.fromkeys(ats, (0, 1, 2, 3)), ZONES)
    assert (list(back.alter), list(back.postponed), back.idle) == (ats[:1_000], ats[1_000:], False)


def test_cancellation_skips_a_partition_whose_replicas_another_client_changed():
    seen = Observed({AT: state(0, 1, 2)}, frozenset(range(9)))
    back = cancel([change([3, 1], [0])], seen, {AT: (3, 1, 0)}, ZONES)
    assert (back.alter, back.settled) == ({}, {AT})


def test_copy_keeps_the_original_order_until_it_is_complete():
    grown = change([1, 2], [2, 1, 3])
    assert decided(grown, state(1, 2)).alter == {AT: (1, 2, 3)}
    assert decided(grown, state(1, 2, 3), {AT: (1, 2, 3)}).alter == {AT: (2, 1, 3)}


def test_cancelled_removal_restores_the_original_order():
    shrunk = change([0, 1, 2], [1, 0])
    # In the first case, Kafka has already applied the requested order.
    for now, alter in ((state(1, 0, 2), {AT: (0, 1, 2)}), (state(0, 1, 2), {})):
        back = cancel([shrunk], Observed({AT: now}, frozenset(range(9))), {AT: (1, 0)}, ZONES)
        assert back.alter == alter


def test_partition_without_a_leader_waits_for_the_brokers_that_may_lead():
    lists = {AT: (0, 1, 2, 3)}
    alive, move = frozenset(range(1, 9)), change([0, 1, 2], [3, 1, 2])
    for now, held in (
        (state(0, 1, 2, 3, in_sync=[0], adding=[3]), (WaitReason.BROKER_OFFLINE, (0,))),
        (state(0, 1, 2, 3, in_sync=[0]), (WaitReason.BROKER_OFFLINE, (0,))),
        (state(0, 1, 2, 3, in_sync=[]), (WaitReason.BROKER_OFFLINE, (0,))),
        (state(0, 1, 2, 3, in_sync=[1], offline=[1]), (WaitReason.DISK_OFFLINE, (1,))),
        (state(0, 1, 2, 3, in_sync=[2]), (WaitReason.BROKER_OFFLINE, (2,))),
    ):
        seen = decided(move, replace(now, leader=None), lists, online=alive)
        assert (waiting(seen), seen.idle) == ([held], True)


def test_replica_that_another_client_removed_is_not_copied_back():
    held = decided(change([0, 1, 2], [0, 3]), state(0), {AT: (0, 1)})
    assert (held.alter, waiting(held)) == ({}, [(WaitReason.CHANGED_BY_OTHERS, ())])


def test_reassignment_waits_for_an_offline_planned_leader_that_is_last_in_the_isr():
    dead = replace(state(3, 1, 2, in_sync=[3]), leader=None)
    held = decided(change([0, 1, 2], [3, 1, 2]), dead, {AT: (3, 1, 2)}, online=frozenset({0, 1, 2}))
    assert (held.idle, waiting(held)) == (True, [(WaitReason.BROKER_OFFLINE, (3,))])


def test_removal_that_kafka_cannot_complete_reports_the_brokers_it_waits_for():
    stuck = state(1, 0, 2, in_sync=[2], leader=2, removing=[2])
    held = decided(change([0, 1, 2], [1, 0]), stuck, {AT: (1, 0)})
    assert (held.copying, waiting(held)) == ({}, [(WaitReason.NOT_IN_SYNC, (0, 1))])
    goes = decided(change([0, 1, 2], [1, 0]), replace(stuck, in_sync=frozenset({0, 2})), {AT: (1, 0)})
    assert (goes.copying, waiting(goes)) == ({AT: frozenset()}, [])


def test_reorder_copies_nothing_and_ends_with_an_election():
    reorder = change([0, 1, 2], [1, 0, 2])
    assert decided(reorder, state(0, 1, 2)).alter == {AT: (1, 0, 2)}
    assert decided(reorder, state(1, 0, 2, leader=0)).elect == (AT,)


def test_partition_that_another_client_reassigns_does_not_change():
    move = change([0, 1, 2], [3, 1, 2])
    theirs = decided(move, state(0, 1, 2, 4, in_sync=[0, 1, 2], adding=[4]), {AT: (0, 1, 2, 3)})
    assert (theirs.alter, waiting(theirs)) == ({}, [(WaitReason.REASSIGNED_BY_OTHERS, ())])
    assert waiting(decided(move, state(0, 1, 5))) == [(WaitReason.CHANGED_BY_OTHERS, ())]
    assert waiting(decided(move, state(0, 1))) == [(WaitReason.CHANGED_BY_OTHERS, ())]
    assert waiting(decided(move, {})) == [(WaitReason.GONE, ())]


def test_lost_call_or_stale_metadata_repeats_the_same_call():
    two = change([0, 1], [3, 4])
    assert decided(two, state(0, 1, 3), {AT: (1, 3)}).alter == {AT: (1, 3)}
    assert decided(two, state(0, 1), {AT: (0, 1, 3)}).alter == {AT: (0, 1, 3)}


def test_requested_copy_comes_first_because_metadata_may_be_stale():
    other = TopicPartition("orders", 1)
    moves = [change([0, 3, 6], [0, 4, 6]), change([0, 1], [0, 2], other)]
    states = {AT: state(0, 3, 6), other: state(0, 1)}  # the first is worse off: all its replicas are in one zone
    assert decided(moves, states, limits=Limits(moves=1)).alter == {AT: (0, 3, 6, 4)}
    asked = decided(moves, states, {other: (0, 1, 2)}, limits=Limits(moves=1))
    assert asked.alter == {other: (0, 1, 2)}
    assert waiting(asked) == [(WaitReason.LIMIT, ())]


def test_move_limits_prefer_the_partitions_with_the_worst_spread():
    ats = [TopicPartition("orders", number) for number in range(4)]
    changes = [change([0, 1], [0, 5], ats[0]), change([0, 3], [0, 4], ats[1]), change([6, 1], [6, 2], ats[2])]
    states = {ats[0]: state(0, 1), ats[1]: state(0, 3), ats[2]: state(6, 1)}
    one = decided(changes, states, limits=Limits(moves=1))
    assert one.alter == {ats[1]: (0, 3, 4)}, "both of its replicas are in zone a"
    assert {each.reason for each in one.waiting} == {WaitReason.LIMIT}
    per_broker = decided(changes, states, limits=Limits(moves=9, moves_per_broker=1))
    assert per_broker.alter.keys() == {ats[1], ats[2]}, "broker 0 leads two of them"


def test_copy_waits_for_an_offline_disk_of_an_online_broker():
    move, started = change([0, 1, 2], [3, 1, 2]), {AT: (0, 1, 2, 3)}
    begun = state(0, 1, 2, 3, in_sync=[0, 1, 2], adding=[3], offline=[3])
    lost = decided(move, begun, started)
    assert (lost.alter, lost.copying, waiting(lost)) == ({}, {}, [(WaitReason.DISK_OFFLINE, (3,))])
    away = decided(move, begun, started, online=frozenset({0, 1, 2}))
    assert waiting(away) == [(WaitReason.BROKER_OFFLINE, (3,))]


def test_offline_full_or_cordoned_broker_blocks_only_its_own_copies():
    ats = [TopicPartition("orders", number) for number in range(2)]
    changes = [change([0, 1], [0, 5], ats[0]), change([0, 1], [0, 4], ats[1])]
    states = {at: state(0, 1) for at in ats}
    away = decided(changes, states, online=frozenset({0, 1, 4}))
    assert (away.alter, waiting(away)) == ({ats[1]: (0, 1, 4)}, [(WaitReason.BROKER_OFFLINE, (5,))])
    full = decided(changes, states, disks={5: Disk(1000, 120)}, sizes={ats[0]: 100})
    assert (full.alter, waiting(full)) == ({ats[1]: (0, 1, 4)}, [(WaitReason.DISK_FULL, (5,))])
    shut = decided(changes, states, cordoned=frozenset({5}))
    assert (shut.alter, waiting(shut)) == ({ats[1]: (0, 1, 4)}, [(WaitReason.CORDONED, (5,))])
    stuck = state(0, 1, 5, in_sync=[0, 1], adding=[5])
    later = decided(
        changes, {ats[0]: stuck, ats[1]: state(0, 1)}, {ats[0]: (0, 1, 5)}, Limits(moves=1), online={0, 1, 4}
    )
    assert later.alter == {ats[1]: (0, 1, 4)}


def test_replica_leaves_a_cordoned_broker_in_the_step_that_adds_its_replacement():
    """ZONES: brokers 0, 3, 6 are in one zone, 1, 4, 7 in the next."""
    move, shut = change([0, 1, 2], [4, 3, 2]), frozenset({0})
    replaced = decided(move, state(0, 1, 2), cordoned=shut)
    assert (replaced.alter, replaced.copying) == ({AT: (1, 2, 3)}, {AT: frozenset({3})}), "4 is in another zone than 0"
    begun = state(1, 2, 3, 0, in_sync=[0, 1, 2], leader=0, adding=[3], removing=[0])
    assert decided(move, begun, {AT: (1, 2, 3)}, cordoned=shut).copying == {AT: frozenset({3})}
    assert decided(move, state(1, 2, 3), {AT: (1, 2, 3)}, cordoned=shut).alter == {AT: (1, 2, 3, 4)}
    assert waiting(decided(move, state(0, 1, 2), cordoned=shut, online=frozenset({0, 1, 2, 4}))) == [
        (WaitReason.BROKER_OFFLINE, (3,))
    ]
    refused = decided(move, state(0, 1, 2), cordoned=shut, refused=frozenset({3}))
    assert waiting(refused) == [(WaitReason.REFUSED, (3,))]
    behind = decided(change([0, 1, 3], [4, 3, 2]), state(0, 1, 3, in_sync=[0, 1]), cordoned=shut)
    assert behind.alter == {AT: (1, 3, 2)}, "the old replicas are in two zones"
    lagging = decided(change([0, 3], [3, 4]), state(0, 3, in_sync=[0]), cordoned=shut, min_insync={"orders": 1})
    assert lagging.alter == {AT: (3, 4)}


def test_surplus_replica_on_a_cordoned_broker_is_removed_first():
    shut = frozenset({0})
    known = {"orders": 1}
    few = decided(change([0, 1, 2, 3], [1, 4]), state(0, 1, 2, 3), cordoned=shut, min_insync=known)
    assert few.alter == {AT: (1, 2)}
    fewer = change([0, 1, 2], [1, 2])
    assert decided(fewer, state(0, 1, 2), cordoned=shut, min_insync=known).alter == {AT: (1, 2)}
    needed = decided(fewer, state(0, 1, 2, in_sync=[0, 1]), cordoned=shut, min_insync=known)
    assert waiting(needed) == [(WaitReason.NOT_IN_SYNC, (2,))]


def test_replacement_is_repeated_unless_another_client_reverted_it():
    move, asked = change([0, 1], [2, 1]), {AT: (1, 2)}
    again = decided(move, state(0, 1), asked, replaced=frozenset({0}))
    assert again.alter == {AT: (1, 2)}
    held = decided(move, state(0, 1), asked)
    assert waiting(held) == [(WaitReason.CHANGED_BY_OTHERS, ())]


def test_cancelled_replacement_keeps_the_current_order_while_the_broker_is_cordoned():
    move, started = change([0, 1], [2, 1]), {AT: (1, 2)}
    begun = state(1, 2, 0, in_sync=[0, 1], leader=0, adding=[2], removing=[0])
    for now, shut, alter in (
        (begun, frozenset({0}), {AT: None}),
        (state(1, 0), frozenset({0}), {}),
        (state(1, 0), frozenset(), {AT: (0, 1)}),
    ):
        seen = Observed({AT: now}, frozenset(range(9)), cordoned=shut)
        assert cancel([move], seen, started, ZONES).alter == alter


def test_tally_counts_the_remaining_copies_of_unknown_size():
    other, last = TopicPartition("orders", 1), TopicPartition("orders", 2)
    sizes = {last: 0}
    moves = [replace(change([0, 1], [2, 3], at), size_bytes=None) for at in (AT, other, last)]
    tally = Tally(moves, sizes)
    assert tally.progress.unsized == 4
    tally.see({AT: state(0, 1, 2)})
    tally.settle([other])
    assert tally.progress.unsized == 1
    sizes[AT] = 7
    tally.see({AT: state(0, 1, 2)})
    assert (tally.progress.unsized, tally.progress.bytes) == (0, 14)


def test_throttles_cover_only_brokers_and_topics_that_take_part():
    moves = [change([0, 1], [0, 4]), change([2, 1], [2, 5], TopicPartition("users", 7))]
    observed = Observed({AT: state(0, 1, 4, in_sync=[0, 1], adding=[4])}, frozenset({0, 4}))
    wanted = wanted_throttles(ThrottledReplicas(moves), {AT: frozenset({4})}, (), observed, 1000)
    assert wanted == {
        **{Setting(SettingKind.BROKER, str(broker), key): "1000" for broker in (0, 4) for key in RATES},
        Setting(SettingKind.TOPIC, "orders", LEADERS): "0:0,0:1,0:4",
        Setting(SettingKind.TOPIC, "orders", FOLLOWERS): "0:4",
    }


def test_in_sync_replicas_are_not_on_the_list_of_throttled_followers():
    moves = [change([0, 1], [4, 5]), change([0, 1], [0, 3], TopicPartition("orders", 1))]
    replicas, key = ThrottledReplicas(moves), Setting(SettingKind.TOPIC, "orders", FOLLOWERS)

    def listed(*in_sync):
        observed = Observed({AT: state(0, 1, 4, 5, in_sync=in_sync)}, frozenset(range(9)))
        replicas.learn(moves, observed)
        return wanted_throttles(replicas, {}, ["orders"], observed, 1000).get(key)

    assert listed(0, 1) == "0:4,0:5,1:3"
    assert listed(0, 1, 4) == "0:5,1:3"
    assert listed(0, 1) == "0:4,0:5,1:3"
    replicas.learn(moves, Observed({TopicPartition("orders", 1): state(0, 1, 3)}, frozenset(range(9))))
    assert not replicas.is_empty(key)
    assert listed(4, 5) is None
    assert replicas.is_empty(key)


def test_throttle_list_that_is_too_long_for_kafka_has_only_the_partitions_that_move_now():
    ats = [TopicPartition("orders", number) for number in range(12_000)]
    moves = [change([0, 1], [0, 4], at) for at in ats]
    replicas, observed = ThrottledReplicas(moves), Observed({}, frozenset({4}))

    def listed(moving):
        replicas.move(moving)
        wanted = wanted_lists(replicas, ["orders"])
        return [wanted.get(Setting(SettingKind.TOPIC, "orders", key)) for key in (LEADERS, FOLLOWERS)]

    assert listed(ats[7:9]) == ["7:0,7:1,7:4,8:0,8:1,8:4", "7:4,8:4"]
    assert listed(()) == [None, None]
    assert replicas.is_empty(Setting(SettingKind.TOPIC, "orders", FOLLOWERS))
    assert listed(ats) == ["*", "*"]
    caught_up = {at: state(0, 1, 4) for at in ats[20:]}
    replicas.learn(moves[20:], Observed(caught_up, observed.online))
    assert listed(())[1] == ",".join(f"{at.partition}:4" for at in ats[:20]), "a list that fits has all replicas"


RATE, LISTED = Setting(SettingKind.BROKER, "1", RATES[0]), Setting(SettingKind.TOPIC, "orders", FOLLOWERS)


def append(names):
    return ListChange(ListOperation.APPEND, names)


def subtract(names):
    return ListChange(ListOperation.SUBTRACT, names)


@pytest.mark.parametrize(
    ("ours", "seen", "recorded", "changes"),
    [
        ((), None, ("7",), ("7",)),
        ((), "9", (), ()),
        ((), "7", (), ()),
        (("5",), "5", ("5", "7"), ("7",)),
        (("5",), "9", ("5",), ()),
        (("5",), None, ("5", "7"), ("7",)),
        (("7",), "7", ("7",), ()),
        (("7",), None, ("7",), ("7",)),
        (("3", "5"), "3", ("3", "5", "7"), ("7",)),
        (("3", "5"), "5", ("5", "7"), ("7",)),
        (("7", "5"), "5", ("5", "7"), ("7",)),
    ],
)
def test_throttle_rate_is_set_if_it_is_unset_or_was_set_by_the_operator(ours, seen, recorded, changes):
    known = SetThrottle(None, ours).to_set(RATE, "7", seen)
    assert known.ours == recorded
    assert known.changes(RATE, "7", seen) == changes


@pytest.mark.parametrize(
    ("ours", "wanted", "seen", "recorded", "changes"),
    [
        ("", "0:4,0:5", None, "0:4,0:5", (append("0:4,0:5"),)),
        ("", "0:4,0:5", "0:5,9:9", "0:4", (append("0:4"),)),
        ("", "0:4", "*", "", ()),
        ("0:4,0:5", "0:5", "0:4,0:5", "0:4,0:5", (subtract("0:4"),)),
        ("0:4", "0:5", "9:9,0:4", "0:4,0:5", (subtract("0:4"), append("0:5"))),
        ("0:4,0:5", "0:5", "0:5", "0:4,0:5", (subtract("0:4"),)),
        ("", "*", None, "*", ("*",)),
        ("", "*", "9:9", "", ()),
        ("0:4", "*", "0:4", "*,0:4", ("*",)),
        ("*", "0:4", "*", "*,0:4", ("0:4",)),
        ("*", "0:4", "9:9", "*,0:4", (subtract("*"), append("0:4"))),
    ],
)
def test_throttle_list_keeps_the_entries_of_other_clients(ours, wanted, seen, recorded, changes):
    known = SetThrottle(None, (ours,) if ours else ()).to_set(LISTED, wanted, seen)
    assert ",".join(known.ours) == recorded
    assert known.changes(LISTED, wanted, seen) == changes


def test_throttles_recorded_by_an_older_version_are_reverted():
    known = SetThrottle("9:9", ("9:9,0:4", "9:9,0:4,0:5"))
    assert known.names == {"0:4", "0:5"}
    assert known.taken_off(LISTED, "9:9,0:4") == (subtract("0:4,0:5"),)
    assert known.is_all_there_is(LISTED, "9:9")
    assert SetThrottle("1234", ("5",)).is_all_there_is(RATE, "5")
    assert not SetThrottle("1234", ("5",)).is_all_there_is(RATE, "6")


def test_domains_are_counted_once_and_not_for_each_replica_that_may_be_removed(monkeypatch):
    spread, counts = Racks.spread, []
    monkeypatch.setattr(Racks, "spread", lambda racks, brokers: counts.append(brokers) or spread(racks, brokers))
    assert decided(change(range(9), [0]), state(*range(9)), min_insync={AT.topic: 1}).alter == {AT: (0,)}
    assert len(counts) < 9

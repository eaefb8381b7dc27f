"""Throttles are set and cleared, even if brokers report stale values, refuse changes or do not respond in time."""

import pytest

from rackspan.api.reasons import Reason
from rackspan.core.reassignment import Observed, SetThrottle, Setting, SettingKind
from rackspan.core.reassignment.pacing import Adaptive
from rackspan.reconcile.failures import Failure, Remedy
from rackspan.reconcile.plans.throttling import Pacer, Throttles
from rackspan.reconcile.ports import Record

RATE = Setting(SettingKind.BROKER, "1", "leader.replication.throttled.rate")


class Brokers:
    """Brokers that report `says` for each setting, and record in `told` the changes that they receive."""

    def __init__(self, says):
        self.says = says
        self.told = []

    async def settings(self, settings):
        return dict.fromkeys(settings, self.says)

    async def set_settings(self, values):
        self.told.append(dict(values))
        return dict.fromkeys(values)


async def cleared(says, before):
    saved = []

    async def save(record):
        saved.append(record)

    brokers = Brokers(says)
    record = Record("kafka-1", "0123456789abcdef", (), {}, {}, throttles={RATE: SetThrottle(before, ("5000000",))})
    record, failed = await Throttles(brokers, save).clear(record, [RATE], {1})
    assert (record.throttles, failed, saved) == ({}, {}, [record])
    return brokers.told


@pytest.mark.parametrize("before", [None, "7000000"])
@pytest.mark.parametrize("stale", [True, False])
async def test_clear_restores_the_previous_rate_even_if_the_broker_already_reports_it(before, stale):
    assert await cleared(before if stale else "5000000", before) == [{RATE: before}]


async def test_clear_keeps_a_rate_that_another_client_has_set_meanwhile():
    assert await cleared("9000000", None) == []


async def test_set_without_a_response_fails_unless_the_same_rate_was_set_before():
    async def save(record):
        pass

    brokers, record = Brokers(None), Record("kafka-1", "0123456789abcdef", (), {}, {})
    busy = Failure(Reason.KAFKA_UNREACHABLE, "no answer in time", Remedy.RETRY)
    throttles = Throttles(brokers, save)
    record, failed = await throttles.set(record, {RATE: "5"})
    assert (failed, brokers.told) == ({}, [{RATE: "5"}])
    brokers.says = busy
    assert await throttles.set(record, {RATE: "5"}) == (record, {})
    assert await throttles.set(record, {RATE: "6"}) == (record, {RATE: busy})
    again = Throttles(brokers, save)
    assert await again.set(record, {RATE: "5"}) == (record, {RATE: busy})
    assert (await throttles.clear(record, [RATE], {1}))[1] == {RATE: busy}
    assert brokers.told == [{RATE: "5"}]


async def test_set_does_not_change_a_list_that_another_client_changes_on_each_read():
    listed = Setting(SettingKind.TOPIC, "orders", "follower.replication.throttled.replicas")

    class Restless(Brokers):
        async def settings(self, settings):
            self.says, _, _ = self.says.rpartition(",")
            return await super().settings(settings)

    async def save(record):
        pass

    brokers, record = Restless("0:1,0:2,0:3,0:4,9:9"), Record("kafka-1", "0123456789abcdef", (), {}, {})
    record, failed = await Throttles(brokers, save).set(record, {listed: "0:1,0:2,0:3,0:4,0:5"})
    assert brokers.told == []
    assert failed[listed].message == "another client changes it all the time"
    assert record.throttles[listed].names == {"0:3", "0:4", "0:5"}


@pytest.mark.parametrize(("bounds", "rate"), [((10, 20), 20), ((60, 90), 60), ((40, 90), 50)])
async def test_rate_of_an_adaptive_throttle_is_within_new_bounds_before_the_next_check(bounds, rate):
    class Admin:
        async def topic_names(self):
            return ()

    pacer = Pacer(Admin(), Adaptive(50, 100), lambda: 0.0)
    await pacer.look(Observed({}, frozenset({1})))
    assert pacer.rate == 50
    pacer.adjust(Adaptive(*bounds))
    assert pacer.rate == rate


REFUSED = Failure(Reason.NOT_AUTHORIZED, "no AlterConfigs", Remedy.ACCESS)
LOST = Failure(Reason.KAFKA_UNREACHABLE, "no answer in time", Remedy.RETRY)
FOLLOWERS = Setting(SettingKind.TOPIC, "orders", "follower.replication.throttled.replicas")


class Saved:
    """All versions of the record that were saved, the first included."""

    def __init__(self, throttles):
        self.all = [Record("kafka-1", "0123456789abcdef", (), {}, {}, throttles=throttles)]

    async def save(self, record):
        self.all.append(record)


@pytest.mark.parametrize(("answer", "kept"), [(REFUSED, ("5",)), (LOST, ("5", "6"))])
@pytest.mark.parametrize("had", [True, False])
async def test_record_drops_a_refused_rate_and_keeps_a_rate_without_a_response(answer, kept, had):
    class Refusing(Brokers):
        async def set_settings(self, values):
            return dict.fromkeys(values, answer)

    saved = Saved({RATE: SetThrottle(None, ("5",))} if had else {})
    kept = kept if had else kept[1:]
    record, failed = await Throttles(Refusing("5" if had else None), saved.save).set(saved.all[0], {RATE: "6"})
    assert (record, failed) == (saved.all[-1], {RATE: answer})
    assert saved.all[1].throttles[RATE].ours[-1] == "6", "the rate is recorded before the request"
    assert record.throttles == ({RATE: SetThrottle(None, kept)} if kept else {})


@pytest.mark.parametrize("refused", ["subtract", "append"])
async def test_record_drops_refused_list_entries_and_keeps_the_earlier_ones(refused):
    class Refusing(Brokers):
        async def set_settings(self, values):
            await super().set_settings(values)
            return {one: REFUSED if change.operation == refused else None for one, change in values.items()}

    before = {FOLLOWERS: SetThrottle(None, ("0:1",))}
    brokers, saved = Refusing("0:1"), Saved(before)
    record, failed = await Throttles(brokers, saved.save).set(saved.all[0], {FOLLOWERS: "0:2"})
    assert (record.throttles, failed) == (before, {FOLLOWERS: REFUSED})
    assert len(brokers.told) == (1 if refused == "subtract" else 2), "no request follows a refused one"

"""Throttles are given back as they were, whatever a broker that has just started says of them."""

import pytest

from rackspan.core.reassignment import Setting, SettingKind
from rackspan.reconcile.reassignments.ports import Record, SetThrottle
from rackspan.reconcile.reassignments.throttling import Throttles

RATE = Setting(SettingKind.BROKER, "1", "leader.replication.throttled.rate")


class Brokers:
    """What broker 1 says of its rate, and what it was told."""

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
async def test_what_was_there_before_comes_back_also_where_it_seems_to_be_there(before, stale):
    assert await cleared(before if stale else "5000000", before) == [{RATE: before}]


async def test_what_somebody_else_has_set_meanwhile_stays():
    assert await cleared("9000000", None) == []

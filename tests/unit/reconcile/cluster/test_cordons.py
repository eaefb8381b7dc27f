"""Drained brokers are cordoned in Kafka after they are empty, and released at the end. Others' cordons stay."""

import itertools
import logging
from dataclasses import replace
from unittest.mock import AsyncMock, MagicMock

import pytest
from msgspec import structs
from tests.unit.reconcile.examples import state, topology
from tests.unit.reconcile.kube_memory import MemoryCluster

from rackspan.api.racktopology import DrainSpec
from rackspan.api.reasons import Reason
from rackspan.reconcile import audit_log
from rackspan.reconcile.cluster import cordons as module
from rackspan.reconcile.cluster.cordons import Cordons, cordon_changes, release_cordons
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import ClusterDescription

REFUSED = Failure(Reason.NOT_AUTHORIZED, "not authorized", Remedy.ACCESS)
AWAY = Failure(Reason.KAFKA_CLIENT_FAILED, "no broker answers", Remedy.RETRY)
BROKERS = frozenset(range(6))


def view(drained=(), offline=(), cordoned=()):
    racks = state().racks
    rows = [
        replace(row, draining=row.id in drained, online=row.id not in offline, cordoned=row.id in cordoned)
        for row in racks.rows
    ]
    return replace(racks, rows=tuple(rows))


def about(*, cordon=True, recorded=(), deleting=False):
    found = topology()
    meta = structs.replace(found.meta, deletion_timestamp="2026-01-01T00:00:00Z" if deleting else None)
    spec = structs.replace(found.spec, drain=DrainSpec(cordon))
    return structs.replace(found, meta=meta, spec=spec, status=structs.replace(found.status, cordons=tuple(recorded)))


@pytest.mark.parametrize("drains", [{"drain_brokers": (77,)}, {"drain_racks": ("/eu",)}, {}])
@pytest.mark.parametrize("deleting", [True, False])
def test_cordon_of_an_empty_offline_broker_stays_recorded(drains, deleting):
    found = about(recorded=[77], deleting=deleting)
    found = structs.replace(found, spec=structs.replace(found.spec, **drains))
    changes = cordon_changes(found, {77}, view(), {77}, {77}, ())
    assert 77 not in {row.id for row in view().rows}
    assert changes.recorded == {77}
    assert not changes.cordon | changes.release


@pytest.mark.parametrize("cordon", [True, False])
@pytest.mark.parametrize("deleting", [True, False])
def test_cordon_changes_for_one_broker_in_every_combination_of_states(cordon, deleting):
    for facts in itertools.product((False, True), repeat=6):
        drained, offline, cordoned, ours, able, empty = facts
        sets = [{1} if fact else set() for fact in (drained, offline, cordoned)]
        changes = cordon_changes(
            about(cordon=cordon, deleting=deleting),
            {1} if ours else (),
            view(*sets),
            {1} if able else (),
            {1} if empty else (),
            (),
        )
        wanted = drained and cordon and not deleting
        due = wanted and empty and not offline and not cordoned
        assert changes.cordon == ({1} if due and able else set()), facts
        assert changes.unable == ({1} if due and not able else set()), facts
        assert changes.release == ({1} if ours and not wanted and not offline else set()), facts
        assert changes.recorded == ({1} if ours or changes.cordon else set()), (
            "only the operator's cordons are recorded"
        )


def test_broker_that_returns_after_its_drain_was_removed_is_released():
    """It was stopped during the drain and started again later."""
    changes = cordon_changes(about(), {1, 77}, view(), BROKERS, BROKERS, ())
    assert (changes.recorded, changes.release) == ({1, 77}, {1})
    back = replace(view(), rows=(*view().rows, replace(view().rows[0], id=77)))
    assert cordon_changes(about(), {77}, back, BROKERS, BROKERS, ()).release == {77}


@pytest.mark.parametrize(
    ("spec", "released"),
    [
        ({"drain_racks": ("/eu",)}, False),
        ({"drain_brokers": (2,)}, True),
        ({"drain_racks": ("/eu",), "drain": DrainSpec(cordon=False)}, True),
    ],
)
def test_broker_with_unknown_rack_keeps_its_cordon_while_racks_are_drained(spec, released):
    found = about(recorded=[1])
    found = structs.replace(found, spec=structs.replace(found.spec, **spec))
    seen = view(cordoned={1})
    seen = replace(seen, rows=tuple(replace(row, rack=None if row.id == 1 else row.rack) for row in seen.rows))
    assert cordon_changes(found, {1}, seen, BROKERS, BROKERS, ()).release == ({1} if released else set())


@pytest.mark.parametrize("spec", [{"drain_racks": ("/eu",)}, {"drain_brokers": (1,)}])
@pytest.mark.parametrize("draining", [True, False])
def test_rack_drain_changes_no_cordon_of_a_broker_with_an_unproven_rack(spec, draining):
    waits = "drain_racks" in spec
    found = about(recorded=[] if draining else [1])
    found = structs.replace(found, spec=structs.replace(found.spec, **spec))
    seen, known = view(drained={1} if draining else (), cordoned=() if draining else {1}), found.status.cordons
    changes = cordon_changes(found, known, seen, BROKERS, BROKERS, unproven={1, 2})
    assert changes.cordon == ({1} if draining and not waits else set())
    assert changes.release == ({1} if not draining and not waits else set())
    assert changes.recorded == ({1} if not (draining and waits) else set())
    later = cordon_changes(found, known, seen, BROKERS, BROKERS, unproven={2})
    assert later.cordon | later.release == {1}


class Kafka:
    """The cordons of brokers. Each must be recorded before it is set."""

    def __init__(self, *, cordoned=(), refuses=(), dies=()):
        self.set, self.refuses, self.dies = set(cordoned), set(refuses), dies
        self.recorded, self.asked = (), []

    async def cordoned(self, brokers):
        return {broker: broker in self.set for broker in brokers}

    async def cordon(self, brokers):
        self.asked += brokers
        assert set(brokers) <= set(self.recorded)
        if "cordon" in self.dies:
            raise FailureError(AWAY)
        self.set |= set(brokers) - self.refuses
        return {broker: REFUSED if broker in self.refuses else None for broker in brokers}

    async def uncordon(self, brokers):
        if "uncordon" in self.dies:
            raise FailureError(AWAY)
        self.set -= set(brokers) - self.refuses
        return {broker: REFUSED if broker in self.refuses else None for broker in brokers}


async def reconcile(cordons, kafka, found, drained=(), offline=(), seen=None):
    """Run one pass that has `seen` these brokers cordoned. Return whether Kafka changed, and the object as recorded."""

    async def record():
        kafka.recorded = cordons.shown(found.status).cordons
        return True

    changed = await cordons.reconcile(
        found, view(drained, offline, kafka.set if seen is None else seen), BROKERS, BROKERS, kafka, record, ()
    )
    return changed, structs.replace(found, status=cordons.shown(found.status))


async def test_drained_brokers_are_cordoned_and_released_but_cordons_of_other_clients_stay():
    cordons, kafka = Cordons(), Kafka(cordoned={2, 5})
    changed, found = await reconcile(cordons, kafka, about(), drained={1, 2})
    assert (changed, kafka.set, found.status.cordons) == (True, {1, 2, 5}, (1,))
    assert (await reconcile(cordons, kafka, found, drained={1, 2}))[0] is False
    changed, found = await reconcile(cordons, kafka, found)
    assert (changed, kafka.set, found.status.cordons) == (True, {2, 5}, ())


async def test_cordon_set_by_another_client_since_the_last_observation_is_not_recorded():
    cordons, kafka = Cordons(), Kafka(cordoned={2})
    _, found = await reconcile(cordons, kafka, about(), drained={1, 2}, seen=())
    assert (kafka.asked, found.status.cordons) == ([1], (1,))
    assert (await reconcile(cordons, kafka, found, drained={1, 2}, seen=()))[1].status.cordons == (1,)


async def test_cordons_are_known_after_the_operator_was_killed_during_the_call():
    dying = Kafka(dies={"cordon"})
    changed, found = await reconcile(Cordons(), dying, about(), drained={1})
    assert (changed, found.status.cordons) == (False, (1,))
    kafka = Kafka()
    kafka.recorded = (1,)
    _, found = await reconcile(Cordons(), kafka, found, drained={1})
    assert (kafka.set, found.status.cordons) == ({1}, (1,))
    _, found = await reconcile(Cordons(), kafka, found)
    assert (kafka.set, found.status.cordons) == (set(), ())


async def test_broker_offline_at_the_end_of_its_drain_is_released_when_it_returns():
    kafka = Kafka(cordoned={1})
    _, found = await reconcile(Cordons(), kafka, about(recorded={1}), offline={1})
    assert (kafka.set, found.status.cordons) == ({1}, (1,))
    _, found = await reconcile(Cordons(), kafka, found)
    assert (kafka.set, found.status.cordons) == (set(), ())


async def test_refused_cordon_is_reported_and_retried_after_a_minute(monkeypatch):
    cordons, kafka = Cordons(), Kafka(refuses={1})
    changed, found = await reconcile(cordons, kafka, about(), drained={1, 2})
    assert (changed, kafka.set, cordons.problem) == (True, {2}, f"broker 1: {REFUSED.message}")
    assert found.status.cordons == (2,), "a refused cordon is not recorded"
    await reconcile(cordons, kafka, found, drained={1, 2})
    asked = len(kafka.asked)
    assert await reconcile(cordons, kafka, found, drained={1, 2}) == (False, found)
    assert (len(kafka.asked), cordons.problem) == (asked, f"broker 1: {REFUSED.message}")
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.0)
    kafka.refuses = set()
    await reconcile(cordons, kafka, found, drained={1, 2})
    assert (kafka.set, cordons.problem) == ({1, 2}, None)


@pytest.mark.parametrize(
    ("dies", "drained", "lines", "after"),
    [
        ((), {2, 3}, {"1 UncordonBroker": "ok", "2 CordonBroker": "ok", "3 CordonBroker": "NotAuthorized"}, (2,)),
        (
            {"uncordon"},
            {2, 3},
            {"1 UncordonBroker": "KafkaClientFailed", "2 CordonBroker": "ok", "3 CordonBroker": "NotAuthorized"},
            (1, 2),
        ),
        ({"cordon"}, {2, 3}, {"2 CordonBroker": "KafkaClientFailed", "3 CordonBroker": "KafkaClientFailed"}, (1, 2, 3)),
        ({"uncordon"}, (), {"1 UncordonBroker": "KafkaClientFailed"}, (1,)),
    ],
)
async def test_audit_log_has_each_cordon_change_even_if_another_fails(dies, drained, lines, after, caplog):
    caplog.set_level(logging.INFO, audit_log.LOGGER)
    cordons, kafka = Cordons(), Kafka(cordoned={1}, dies=dies, refuses={3})
    changed, found = await reconcile(cordons, kafka, about(recorded=(1,)), drained=drained)
    entries = [one.audit for one in caplog.records if one.name == audit_log.LOGGER]
    assert {f"{one['broker']} {one['operation']}": one["answer"] for one in entries} == lines
    assert len(entries) == len(lines)
    assert changed is ("ok" in lines.values())
    assert found.status.cordons == after
    assert cordons.problem == (AWAY.message if dies else f"broker 3: {REFUSED.message}")


async def test_drained_brokers_that_do_not_report_cordons_are_named_in_the_problem():
    cordons, kafka = Cordons(), Kafka()
    kafka.recorded = (1, 2)
    for able, told in (((2,), True), ((1, 2), False)):
        await cordons.reconcile(about(recorded={2}), view({1, 2}, cordoned={2}), able, BROKERS, kafka, AsyncMock(), ())
        assert (cordons.problem or "").startswith("broker 1: cordoned.log.dirs cannot be read") is told


@pytest.mark.parametrize(
    ("cluster_id", "refuses", "left"), [("kafka-1", (), ()), ("kafka-1", {1}, (1,)), ("kafka-2", (), None)]
)
async def test_cordons_are_released_when_the_operator_is_removed(cluster_id, refuses, left):
    kafka = Kafka(cordoned={1, 2, 5}, refuses=refuses)
    admin = MagicMock(
        uncordon=kafka.uncordon, close=AsyncMock(), cluster=AsyncMock(return_value=ClusterDescription(cluster_id, ()))
    )
    spec = {"kafka": {"bootstrapServers": "kafka:9092"}, "levels": [{"name": "zone"}]}
    kube = MemoryCluster()
    kube.there["RackTopology"] = [
        {
            "metadata": {"namespace": "kafka", "name": name, "uid": name},
            "spec": spec,
            "status": {"clusterId": "kafka-1", "cordons": cordons},
        }
        for name, cordons in (("prod", [1, 2]), ("calm", []))
    ]
    await release_cordons(kube, MagicMock(connect=AsyncMock(return_value=admin)))
    assert kafka.set == ({1, 2, 5} if left is None else {5, *left}), "cordons of other clients stay"
    written = {name: tuple(status.get("cordons", ())) for name, status in kube.statuses.items()}
    assert written == ({} if left is None else {"prod": left})


async def test_topology_with_a_refused_status_does_not_block_the_release_for_others():
    kafka = Kafka(cordoned={1})
    admin = MagicMock(
        uncordon=kafka.uncordon, close=AsyncMock(), cluster=AsyncMock(return_value=ClusterDescription("kafka-1", ()))
    )
    kube = MemoryCluster(refusing={("replace_status", "theirs"): FailureError(REFUSED)})
    kube.there["RackTopology"] = [
        {
            "metadata": {"namespace": name, "name": name, "uid": name},
            "spec": {"kafka": {"bootstrapServers": "kafka:9092"}, "levels": [{"name": "zone"}]},
            "status": {"clusterId": "kafka-1", "cordons": [1]},
        }
        for name in ("theirs", "mine")
    ]
    kept = await release_cordons(kube, MagicMock(connect=AsyncMock(return_value=admin)))
    assert {name: tuple(status.get("cordons", ())) for name, status in kube.statuses.items()} == {"mine": ()}
    assert {key.name: brokers for key, brokers in kept.items()} == {"mine": (), "theirs": ()}, "Kafka has released all"


@pytest.mark.parametrize("restarted", [True, False])
async def test_cordons_left_in_another_cluster_are_an_event_and_not_released_in_this_one(restarted):
    first, second = Cordons(), Kafka(cordoned={1, 5})
    found = about()
    assert first.leave(found, "kafka-1") is None
    _, found = await reconcile(first, Kafka(), found, drained={1})
    found = structs.replace(found, status=structs.replace(found.status, cluster_id="kafka-1"))
    cordons = Cordons() if restarted else first
    assert cordons.leave(found, "kafka-1") is None
    event = cordons.leave(found, "kafka-2")
    assert (event.reason, event.warning) == (Reason.CORDONS_LEFT, True)
    assert event.message.startswith("the cordon of broker 1 is left in Kafka cluster kafka-1, ")
    assert cordons.leave(found, "kafka-2") is None, "one Event only"
    assert cordons.shown(found.status).cordons == ()
    _, found = await reconcile(cordons, second, found)
    assert (second.set, found.status.cordons) == ({1, 5}, ())


async def test_no_broker_is_cordoned_if_the_status_cannot_be_written():
    async def record():
        return False

    kafka = Kafka()
    assert await Cordons().reconcile(about(), view(drained={1}), BROKERS, BROKERS, kafka, record, ()) is False
    assert kafka.asked == []


@pytest.mark.parametrize("lost", [True, False])
async def test_cordon_set_by_another_client_after_a_failed_record_is_not_released(lost):
    async def record():
        if lost:
            raise FailureError(AWAY)
        return False

    cordons, kafka, found = Cordons(), Kafka(cordoned={2}), about(recorded=[2])
    await cordons.reconcile(found, view(drained={1, 2}, cordoned={2}), BROKERS, BROKERS, kafka, record, ())
    assert cordons.problem == (AWAY.message if lost else None)
    assert (kafka.asked, cordons.held(found)) == ([], (2,))
    kafka.set.add(1)
    _, found = await reconcile(cordons, kafka, found)
    assert (kafka.set, found.status.cordons) == ({1}, ())


async def test_drain_that_is_added_again_after_a_failed_record_cordons_at_once():
    async def record():
        return False

    cordons, kafka = Cordons(), Kafka()
    await cordons.reconcile(about(), view(drained={1}), BROKERS, BROKERS, kafka, record, ())
    await reconcile(cordons, kafka, about(), drained={1})
    assert kafka.set == {1}


async def test_topology_does_not_wait_for_cordoned_brokers_that_no_longer_exist():
    cordons, kafka = Cordons(), Kafka()
    found = about(recorded=[1], deleting=True)
    assert cordons.releases(found), "before the first attempt"
    gone = replace(view(), rows=tuple(row for row in view().rows if row.id != 1))
    await cordons.reconcile(found, gone, BROKERS, (), kafka, AsyncMock(return_value=True), ())
    assert not cordons.releases(found)
    assert cordons.held(found) == (1,), "for the Event CordonsLeft"

"""Drifted brokers are restarted one at a time, only while Kafka can spare them, and not again without effect."""

import itertools
from types import SimpleNamespace

import pytest
from msgspec import structs
from prometheus_client import REGISTRY
from tests.support.simulated_restarts import AWAY, RESTART, world
from tests.unit.reconcile.examples import CLUSTER, NOON

from rackspan import metrics
from rackspan.api.labels import BROKER_PODS_FOR, RESTARTS_FOR
from rackspan.api.racktopology import NotMended, RestartingBroker, RestartsStatus
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import PodFacts
from rackspan.reconcile.racks import restart
from rackspan.reconcile.racks.restart_decision import (
    BACK,
    GRACE,
    RestartCandidate,
    RestartHold,
    choose,
    progress_of,
    still_not_mended,
)
from rackspan.reconcile.runtime.namespaces import NamespaceQuota, NamespaceSet


def told(one):
    condition = one.condition()
    return condition and (condition.status.value, condition.reason)


def message(one):
    return one.condition().message


async def test_without_drift_there_is_no_restart_and_no_condition():
    one = world()
    await one.run(60)
    assert one.evicted == []
    assert told(one) is None
    assert one.topology.status.restarts is None


async def test_drifted_brokers_are_restarted_one_at_a_time_until_they_report_their_racks():
    one = world(4)
    for id_ in (1, 3):
        one.relabel(id_, "moved")
    await one.step()
    assert one.evicted == [(1, "moved")]
    current = one.topology.status.restarts.current
    assert (current.broker, current.pod, current.rack, current.since) == (1, "kafka-1", "moved", NOON)
    assert told(one) == ("True", "Restarting")
    await one.run(300)
    assert one.evicted == [(1, "moved"), (3, "moved")]
    assert (one.drifted, one.wrong) == (set(), [])
    assert told(one) is None
    assert one.topology.status.restarts is None
    assert [event.reason for event in one.told] == ["Restarting", "Restarted"] * 2
    assert one.told[0].message == "pod kafka-1 of broker 1 was evicted, so that it reports moved"
    assert one.told[1].message == "broker 1 is back in all ISRs and reports moved"


async def test_nothing_is_restarted_if_the_spec_or_the_chart_does_not_allow_it():
    quiet = world()
    quiet.change(restart="Never")
    quiet.relabel(1, "moved")
    await quiet.run(60)
    assert (quiet.evicted, told(quiet)) == ([], None)
    refused = world(allowed=NamespaceSet(("elsewhere",)))
    refused.relabel(1, "moved")
    await refused.run(60)
    assert (refused.evicted, told(refused)) == ([], ("False", "RestartNotAllowed"))
    assert (
        message(refused) == "the operator may not evict pods of namespace kafka: name it in racks.restart of the chart"
    )


@pytest.mark.parametrize("consent", [{}, {BROKER_PODS_FOR: "kafka"}, {RESTARTS_FOR: "stranger"}])
async def test_pods_of_another_namespace_without_consent_are_not_restarted(consent):
    one = world(allowed=NamespaceSet(("*",)))
    one.change(namespace="elsewhere")
    one.cache.namespaces["elsewhere"] = consent
    one.relabel(1, "moved")
    await one.run(60)
    assert (one.evicted, told(one)) == ([], ("False", "RestartNotAllowed"))
    assert message(one).endswith("restart its pods: label it rackspan.dev/restarts-for=kafka")


async def test_pods_of_another_namespace_are_restarted_if_it_consents_and_the_release_allows_it():
    consent = {BROKER_PODS_FOR: "kafka", RESTARTS_FOR: "kafka"}
    refused = world(allowed=NamespaceSet(("kafka",)))
    allowed = world(allowed=NamespaceSet(("elsewhere",)))
    for one in (refused, allowed):
        one.change(namespace="elsewhere")
        one.cache.namespaces["elsewhere"] = consent
        one.relabel(1, "moved")
        await one.run(120)
    assert (refused.evicted, told(refused)) == ([], ("False", "RestartNotAllowed"))
    assert (allowed.evicted, allowed.drifted) == ([(1, "moved")], set())


async def test_restart_waits_until_the_published_file_has_the_new_rack():
    one = world()
    one.relabel(1, "moved", published=False)
    await one.run(60)
    assert (one.evicted, told(one)) == ([], ("False", "RestartWaiting"))
    assert "a restart would not give it moved, since the published racks say z1 of node n1" in message(one)
    one.published[1] = "moved"
    await one.run(120)
    assert one.drifted == set()


async def test_broker_needed_for_min_insync_replicas_is_not_restarted():
    one = world(3, min_insync=2)
    one.crash(2, returns=False)
    await one.run(15)
    one.relabel(1, "moved")
    await one.run(60)
    assert (one.evicted, told(one)) == ([], ("False", "RestartWaiting"))
    sentence = "broker 1 cannot be spared now: without it orders-0 has 1 in sync of min.insync.replicas 2, orders-1 has"
    assert message(one).startswith(sentence)
    one.brokers[2].returns = True
    await one.run(200)
    assert (one.drifted, one.wrong) == (set(), [])


NO_SPARE = [(1, [("alone", (1,))]), (2, [("pair", (1, 2))]), (3, [("all", (0, 1, 2))])]


@pytest.mark.parametrize(("min_insync", "partitions"), NO_SPARE)
async def test_topics_without_spare_replica_do_not_block_a_restart_and_are_reported(min_insync, partitions):
    one = world(3, min_insync=min_insync, partitions=partitions)
    one.relabel(1, "moved")
    await one.run(120)
    assert (one.evicted, one.drifted) == ([(1, "moved")], set())
    ((name, _),) = partitions
    assert one.told[0].message == (
        "pod kafka-1 of broker 1 was evicted, so that it reports moved; until it is back, 1 partition without a spare "
        f"replica is below its min.insync.replicas: {name}-0 has {min_insync - 1} in sync of min.insync.replicas "
        f"{min_insync}"
    )


@pytest.mark.parametrize(("min_insync", "partitions"), NO_SPARE)
async def test_topics_without_spare_replica_block_restarts_with_the_setting_hold(min_insync, partitions):
    one = world(3, min_insync=min_insync, partitions=partitions)
    one.change(topicsWithoutSpareReplica="Hold")
    one.relabel(1, "moved")
    await one.run(120)
    assert (one.evicted, told(one)) == ([], ("False", "RestartWaiting"))
    assert f"-0 has {min_insync - 1} in sync of min.insync.replicas {min_insync}" in message(one)
    assert message(one).endswith("; no waiting helps: add replicas, or set brokers.topicsWithoutSpareReplica to Report")
    one.change()
    await one.run(120)
    assert (one.evicted, one.drifted) == ([(1, "moved")], set())


async def test_restart_waits_for_an_out_of_sync_replica_even_without_spare_replicas():
    one = world(3, min_insync=3)
    one.crash(2, returns=False)
    await one.run(15)
    one.relabel(1, "moved")
    await one.run(120)
    assert (one.evicted, told(one)) == ([], ("False", "RestartWaiting"))
    one.brokers[2].returns = True
    await one.run(200)
    assert (one.evicted, one.drifted, one.wrong) == ([(1, "moved")], set(), [])


async def test_broker_that_cannot_be_spared_does_not_block_others():
    one = world(5, min_insync=1, partitions=[("alone", (0,)), ("orders", (1, 2, 3))])
    one.change(topicsWithoutSpareReplica="Hold")
    for id_ in (0, 1, 2):
        one.relabel(id_, "moved")
    await one.run(400)
    assert (one.evicted, one.drifted) == ([(1, "moved"), (2, "moved")], {0})


async def test_restart_waits_for_the_pod_disruption_budget_and_records_nothing():
    one = world(budget=False)
    one.relabel(1, "moved")
    await one.run(60)
    assert (one.evicted, told(one)) == ([], ("False", "RestartWaiting"))
    assert message(one) == "pod kafka-1 of broker 1 waits for its PodDisruptionBudget"
    assert one.topology.status.restarts is None
    one.budget = True
    await one.run(120)
    assert one.drifted == set()


async def test_pod_without_controller_is_not_evicted():
    one = world(controller=False)
    one.relabel(1, "moved")
    await one.run(60)
    assert (one.evicted, told(one)) == ([], ("False", "RestartNotAllowed"))


async def test_restart_without_effect_is_reported_and_not_repeated():
    one = world(4)
    one.brokers[1].takes_rack = False
    for id_ in (1, 2):
        one.relabel(id_, "moved")
    await one.run(1200)
    assert one.evicted == [(1, "moved"), (2, "moved")]
    assert one.topology.status.restarts == RestartsStatus(None, (NotMended(1, "moved", "kafka-1", "z1"),))
    assert told(one) == ("False", "RestartDidNotMend")
    assert "does not take broker.rack from the published racks, and is not evicted again" in message(one)
    one.restart_operator()
    await one.run(600)
    assert len(one.evicted) == 2
    one.relabel(1, "again")
    await one.run(600)
    assert one.evicted[2:] == [(1, "again")], "another rack allows another restart"
    one.relabel(1, "z1")
    await one.run(10)
    assert (told(one), one.topology.status.restarts) == (None, None)


@pytest.mark.parametrize("mends", [True, False])
async def test_restart_is_judged_by_its_target_rack_if_the_node_has_no_rack_afterwards(mends):
    one = world(4)
    one.brokers[1].takes_rack = mends
    one.relabel(1, "moved")
    await one.step()
    one.zones[1] = ""
    await one.run(300)
    assert [event.reason for event in one.told[1:]] == ["Restarted" if mends else "RestartDidNotMend"]
    restarts = one.topology.status.restarts
    assert restarts == (None if mends else RestartsStatus(None, (NotMended(1, "moved", "kafka-1", "z1"),)))
    if not mends:
        assert one.told[1].message == "broker 1 is back, and still reports z1 where its node was in moved"


@pytest.mark.parametrize(
    ("facts", "was_for", "ends"),
    [
        ({"rack": None, "reported": "a"}, None, True),
        ({"rack": None, "reported": "b"}, "b", True),
        ({"rack": None, "reported": None}, "b", False),
        ({"rack": "a"}, "b", True),
        ({"rack": "c", "reported": "b", "drift": True}, "b", True),
        ({"rack": "c", "drift": True}, "b", False),
        ({"rack": None, "drift": True}, None, True),
    ],
)
def test_restart_is_judged_if_the_rack_is_unknown_or_has_changed_since(facts, was_for, ends):
    current = RestartingBroker(1, "k-1", "old", NOON, was_for, None)
    pod = PodFacts("new", "n", deleting=False, ready=True, has_controller=True)
    for ready_for, at_last in ((BACK, False), (GRACE, True)):
        found = progress_of(current, broker(1, **{"drift": False} | facts), pod, 0, NOON + GRACE, ready_for)
        if not (ends or at_last):
            assert isinstance(found, RestartHold)
        else:
            assert (found.not_mended and found.not_mended.rack) == (None if ends else "b")


async def test_second_broker_waits_while_the_first_is_offline():
    one = world(5, min_insync=1)
    one.brokers[1].returns = False
    for id_ in (1, 3):
        one.relabel(id_, "moved")
    await one.run(3600)
    assert one.evicted == [(1, "moved")]
    assert (told(one), message(one)) == (
        ("True", "Restarting"),
        "broker 1: pod kafka-1 was evicted, and the next one is not there yet",
    )


async def test_broker_counts_as_back_if_its_new_pod_has_another_name():
    one = world(5, renames=True)
    one.brokers[1].takes_rack = False
    for id_ in (1, 3):
        one.relabel(id_, "moved")
    await one.run(600)
    assert (one.evicted, one.drifted, one.wrong) == ([(1, "moved"), (3, "moved")], {1}, [])
    assert one.topology.status.restarts.not_mended[0].pod == "kafka-0-1", "the evicted pod"


SKEWS = pytest.mark.parametrize("skew", [0, -3 * 86400])
"""By how many seconds the wall clock is set forward after a restart has begun."""


async def refused_during_a_restart(skew):
    """Return a world in which evictions become forbidden, and the wall clock changes, while a broker restarts."""
    one = world(4)
    for id_ in (1, 3):
        one.relabel(id_, "moved")
    await one.step()
    one.skew = skew
    one.allowed = NamespaceSet(("elsewhere",))
    one.restart_operator()

    async def forbidden(_):
        raise FailureError(Failure("NotAuthorized", "pods is forbidden", Remedy.ACCESS))

    one.get = forbidden
    return one


@SKEWS
async def test_restart_whose_pod_cannot_be_read_ends_when_kafka_shows_the_new_rack(skew):
    one = await refused_during_a_restart(skew)
    await one.run(115)
    assert told(one) == ("True", "RestartNotAllowed"), (
        "the old pod may still be terminating: Kafka alone does not show that"
    )
    await one.run(60)
    assert [event.reason for event in one.told] == ["Restarting", "Restarted"]
    assert one.topology.status.restarts is None
    assert (one.evicted, told(one)) == ([(1, "moved")], ("False", "RestartNotAllowed"))


@SKEWS
@pytest.mark.parametrize("how", [{"returns": False}, {"takes_rack": False}, {"hidden": True}])
async def test_restart_whose_pod_cannot_be_read_is_abandoned_if_kafka_does_not_show_the_new_rack(how, skew):
    one = await refused_during_a_restart(skew)
    for name, value in how.items():
        setattr(one if name == "hidden" else one.brokers[1], name, value)
    await one.run(840)
    assert one.topology.status.restarts.current.broker == 1
    await one.run(120)
    assert (one.topology.status.restarts, told(one)) == (None, ("False", "RestartNotAllowed"))
    assert [event.reason for event in one.told] == ["Restarting"], "it is unknown whether the restart had an effect"


async def test_new_operator_continues_with_the_restarting_broker():
    one = world(5)
    for id_ in (1, 3):
        one.relabel(id_, "moved")
    await one.step()
    one.restart_operator()
    await one.run(20)
    assert one.evicted == [(1, "moved")]
    await one.run(300)
    assert (one.drifted, one.wrong, len(one.evicted)) == (set(), [], 2)


@pytest.mark.parametrize("skew", [-600, 600])
async def test_change_of_the_wall_clock_neither_delays_nor_shortens_a_restart(skew):
    one, stays = world(), "broker 1 is back, and has to stay for 20 seconds"
    one.partitions = []
    one.relabel(1, "moved")
    await one.run(20)
    assert message(one) == stays
    one.skew = skew
    await one.step()
    assert message(one) == stays
    await one.run(30)
    assert told(one) is None


@pytest.mark.parametrize("returns", [True, False])
@pytest.mark.parametrize("restarted", ["before", "after", "never"])
async def test_restart_is_forgotten_when_the_topology_connects_to_another_cluster(restarted, returns):
    one = world(5, min_insync=1)
    one.relabel(1, "moved")
    one.brokers[1].returns = returns
    await one.step()
    assert one.topology.status.restarts.current.broker == 1
    one.cluster_id, one.brokers[1].reported = "kafka-2", "moved"
    if restarted == "before":
        one.restart_operator()
    await one.write_status(one.key)
    assert (one.topology.status.restarts, told(one)) == (None, None)
    if restarted == "after":
        one.restart_operator()
    one.relabel(3, "moved")
    await one.step()
    assert one.evicted == [(1, "moved"), (3, "moved")]
    await one.run(300)
    assert [event.message.split(" and ")[0] for event in one.told if event.reason == "Restarted"] == [
        "broker 3 is back in all ISRs"
    ]


async def test_nothing_is_evicted_if_the_restart_cannot_be_recorded():
    one = world(failing={"write"})
    one.relabel(1, "moved")
    await one.step()
    assert one.evicted == []


@pytest.mark.parametrize(("fails_at", "edit_at"), [(2, None), (3, 2)])
async def test_recorded_restart_without_an_eviction_does_not_block_other_brokers(fails_at, edit_at):
    one = world(5, min_insync=1)
    for id_ in (1, 3):
        one.relabel(id_, "moved")
    hosted, asked = one.hosted, []

    async def failing(id_):
        asked.append(id_)
        if len(asked) == edit_at:
            one.relabel(1, "z1")
        if len(asked) == fails_at:
            raise AWAY
        return await hosted(id_)

    one.hosted = failing
    await one.step()
    assert (one.evicted, asked[0], len(asked)) == ([], 1, fails_at)
    assert one.topology.status.restarts is None
    assert told(one) == ("False", AWAY.failure.reason)
    await one.run(10)
    assert one.evicted == [(3, "moved")]


@SKEWS
@pytest.mark.parametrize("lost", ["evict", "refuse"])
async def test_eviction_without_response_is_awaited_before_another_broker_restarts(lost, skew):
    one = world(5, failing={lost})
    for id_ in (1, 3):
        one.relabel(id_, "moved")
    await one.step()
    one.skew = skew
    await one.run(600)
    assert (sorted(one.evicted), one.drifted, one.wrong) == ([(1, "moved"), (3, "moved")], set(), [])


def off(one):
    one.change(restart="Never")


def deleted(one):
    meta = structs.replace(one.topology.meta, deletion_timestamp=NOON)
    one.cache.topologies[one.key] = structs.replace(one.topology, meta=meta)


def gone(one):
    del one.cache.topologies[one.key]


def elsewhere(one):
    one.change(namespace="elsewhere", annotations=one.topology.meta.annotations)


def held(one):
    one.change(topicsWithoutSpareReplica="Hold", annotations=one.topology.meta.annotations)


async def kept_through(one, edit):
    """Run one pass with `edit` during the last request to Kafka, after the restart is recorded. No pod is evicted."""
    hosted, asked = one.hosted, []

    async def edited(id_):
        asked.append(id_)
        if len(asked) == 2:
            assert one.topology.status.restarts.current is not None
            edit(one)
        return await hosted(id_)

    one.hosted = edited
    await one.loop.reconcile()
    assert (one.evicted, len(asked)) == ([], 2)
    assert one.loop._facts[one.key].restarts.current is None


@pytest.mark.parametrize("requested", [False, True])
@pytest.mark.parametrize("edit", [off, deleted, gone, elsewhere, held])
async def test_pod_is_not_evicted_if_the_topology_changes_during_the_last_request_to_kafka(edit, requested):
    one = world(3, min_insync=3, allowed=NamespaceSet(("kafka",)))
    if requested:
        one.change(restart="Never", annotations={RESTART: "1"})
    else:
        one.relabel(1, "moved")
    await kept_through(one, edit)


def mended(one):
    one.relabel(1, "z1")


def moved_on(one):
    one.relabel(1, "elsewhere")


def unpublished(one):
    one.published[1] = "z1"


def hidden(one):
    one.hidden = True


@pytest.mark.parametrize("edit", [mended, moved_on, unpublished, hidden])
async def test_pod_is_not_evicted_if_its_rack_changes_during_the_last_request_to_kafka(edit):
    one = world(3)
    one.relabel(1, "moved")
    await kept_through(one, edit)


async def test_topology_over_the_quota_of_its_namespace_restarts_nothing():
    one = world(3)
    one.relabel(1, "moved")
    one.cache.quota = NamespaceQuota(0)
    one.cache.quota.put(one.topology)
    await one.run(60)
    assert one.evicted == []
    assert one.loop._facts[one.topology.key].hold.reason == "TooManyTopologies"


@pytest.mark.parametrize("deleted", [False, True])
async def test_restart_is_counted_unless_its_topology_is_deleted_during_the_eviction(deleted):
    one = world(4)
    one.relabel(1, "moved")
    metrics.serve_topology(str(one.key))
    evict = one.evict

    async def edited(key, uid, *, rehearse):
        if deleted and not rehearse:
            metrics.forget_topology(str(one.key))
        return await evict(key, uid, rehearse=rehearse)

    one.evict = edited
    await one.loop.reconcile()
    assert one.evicted == [(1, "moved")]
    labels = {"topology": str(one.key), "result": "started"}
    assert REGISTRY.get_sample_value("rackspan_broker_restarts_total", labels) == (None if deleted else 1)
    metrics.forget_topology(str(one.key))


async def test_observation_of_an_earlier_spec_restarts_nothing():
    one = world()
    one.relabel(1, "moved")
    seen = one.state
    one.change(podSelector={"matchLabels": {"app": "another-kafka"}})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(one, "cluster", lambda _: SimpleNamespace(state=seen, admin=one), raising=False)
        await one.run(10)
        assert (one.evicted, told(one)) == ([], None)
    one.change()
    await one.run(10)
    assert one.evicted == [(1, "moved")]


async def test_restart_waits_while_the_rack_is_unproven():
    one = world()
    one.relabel(1, "moved")
    one.unproven = frozenset({1})
    await one.run(30)
    assert (one.evicted, told(one)) == ([], ("False", "RestartWaiting"))
    assert message(one) == "the rack of broker 1 has not lasted yet"
    one.unproven = frozenset({2})
    await one.run(30)
    assert one.evicted == [(1, "moved")]


@pytest.mark.parametrize("request_", ["2", "kafka-2"])
async def test_annotation_restarts_one_broker_once(request_):
    one = world()
    one.change(restart="Never", annotations={RESTART: request_})
    await one.run(300)
    assert [id_ for id_, _ in one.evicted] == [2]
    assert RESTART not in one.topology.meta.annotations
    assert told(one) is None
    assert one.told[0].message == "pod kafka-2 of broker 2 was evicted, asked for by rackspan.dev/restart"


@pytest.mark.parametrize(("edit", "left"), [("status", None), ("3", "3")])
async def test_requested_restart_ends_even_if_the_topology_is_written_during_requests_to_kafka(edit, left):
    one = world(4)
    one.change(restart="Never", annotations={RESTART: "2"})
    hosted, remove, written = one.hosted, one.set_annotation, itertools.count(1)

    def write(annotations):
        meta = structs.replace(one.topology.meta, resource_version=str(next(written)), annotations=annotations)
        one.cache.topologies[one.key] = structs.replace(one.topology, meta=meta)

    async def busy(id_):
        found = await hosted(id_)
        write({RESTART: "3"} if edit == "3" and one.evicted else one.topology.meta.annotations)
        return found

    async def remove_if_unchanged(ref, name, value, version):
        return await remove(ref, name, value, version) if version == one.topology.meta.resource_version else None

    one.hosted, one.set_annotation = busy, remove_if_unchanged
    while not (ended := [event for event in one.told if event.reason == "Restarted"]) and one.now < 300:
        await one.step()
    assert len(ended) == 1
    assert one.evicted == [(2, "z2")]
    assert one.topology.meta.annotations.get(RESTART) == left


async def test_requested_restart_before_publication_does_not_count_as_without_effect():
    one = world()
    one.relabel(2, "moved", published=False)
    one.change(annotations={RESTART: "2"})
    await one.run(120)
    assert (one.evicted, [event.reason for event in one.told]) == ([(2, "moved")], ["Restarting", "Restarted"])
    one.published[2] = "moved"
    await one.run(120)
    assert (one.evicted[1:], one.drifted) == ([(2, "moved")], set())


async def test_requested_restart_waits_until_the_broker_can_be_spared():
    one = world(min_insync=3)
    one.change(restart="Never", topicsWithoutSpareReplica="Hold", annotations={RESTART: "2"})
    await one.run(300)
    assert (one.evicted, told(one)) == ([], ("False", "RestartWaiting"))
    assert one.topology.meta.annotations[RESTART] == "2", "the request stays until a user removes it"


async def test_restart_request_for_an_unknown_pod_is_reported():
    one = world()
    one.change(annotations={RESTART: "kafka-17\x1b[2J"})
    await one.run(10)
    assert (one.evicted, told(one)) == ([], ("False", "InvalidAnnotation"))
    assert message(one).endswith(r"is 'kafka-17\\x1b[2J'")


async def test_nothing_is_restarted_while_kafka_is_unreachable():
    one = world(hidden=True)
    one.relabel(1, "moved")
    await one.run(60)
    assert (one.evicted, told(one)) == ([], ("False", "RestartWaiting"))


async def beside(namespace, *, shared_with=(), trusts=()):
    """Return a world with drift, in which a topology of `namespace` and the same cluster restarts a broker."""
    first, one = world(4), world(4)
    first.relabel(1, "moved")
    await first.step()
    meta = structs.replace(first.topology.meta, namespace=namespace, name="other", uid="rt-2")
    spec = structs.replace(first.topology.spec, shared_with=tuple(shared_with))
    status = structs.replace(first.topology.status, cluster_id=CLUSTER)
    other = structs.replace(first.topology, meta=meta, spec=spec, status=status)
    one.cache.topologies[other.key] = other
    one.cache.set_cluster_id(one.key, CLUSTER)
    mine = structs.replace(one.topology.spec, shared_with=tuple(trusts))
    one.cache.topologies[one.key] = structs.replace(one.topology, spec=mine)
    one.relabel(3, "moved")
    return one


@pytest.mark.parametrize("where", [{"namespace": "kafka"}, {"namespace": "bank", "shared_with": ["kafka"]}])
async def test_restart_waits_while_another_topology_of_the_shared_cluster_restarts_a_broker(where):
    one = await beside(**where, trusts=["bank"])
    await one.step()
    assert one.evicted == []
    assert message(one) == f"RackTopology {where['namespace']}/other of the same Kafka cluster restarts a broker"


@pytest.mark.parametrize("consent", [{}, {"shared_with": ["kafka"]}, {"trusts": ["stranger"]}])
async def test_topology_without_mutual_consent_does_not_block_a_restart_and_is_not_named(consent):
    one = await beside("stranger", **consent)
    await one.step()
    assert one.evicted == [(3, "moved")]
    assert "stranger" not in message(one)


async def test_topology_with_unresponsive_kafka_does_not_block_restarts_of_another(monkeypatch):
    monkeypatch.setattr(restart, "_PATIENCE_SECONDS", 0.01)
    one = world(4, allowed=NamespaceSet(("*",)))
    meta = structs.replace(one.topology.meta, namespace="bank", uid="rt-2", creation_timestamp=NOON)
    older = structs.replace(one.topology, meta=meta)
    one.cache.topologies[older.key] = older
    one.silent.add(older.key)
    for id_ in (1, 3):
        one.relabel(id_, "moved")
    await one.run(300)
    assert (sorted(one.evicted), one.drifted) == ([(1, "moved"), (3, "moved")], set())
    for step in one.loop._steps.values():
        step.cancel()


def broker(id_, **facts):
    defaults = {"pod": f"k-{id_}", "node": "n", "rack": "b", "published": "b", "reported": "a"}
    return RestartCandidate(id_, **{**defaults, "online": True, "drift": True, **facts})


@pytest.mark.parametrize(
    ("facts", "kept"),
    [
        ({}, True),
        ({"online": False, "drift": False}, True),
        ({"rack": None, "drift": False}, True),
        ({"rack": None, "drift": True}, True),
        ({"drift": False, "reported": "b"}, False),
        ({"rack": "c"}, False),
    ],
)
def test_restart_without_effect_is_remembered_while_the_rack_is_unchanged_or_unknown(facts, kept):
    known = NotMended(1, "b")
    assert still_not_mended([known], [broker(1, **facts)]) == ((known,) if kept else ())


async def test_brief_loss_of_a_node_label_does_not_repeat_a_restart_without_effect():
    one = world(4)
    one.brokers[1].takes_rack = False
    one.relabel(1, "moved")
    await one.run(300)
    one.zones[1] = ""
    await one.step()
    one.zones[1] = "moved"
    await one.run(300)
    assert (one.evicted, told(one)) == ([(1, "moved")], ("False", "RestartDidNotMend"))


def test_choose_prefers_restarts_then_waiting_brokers_then_restarts_without_effect():
    known = [NotMended(0, "b")]
    begins = choose([broker(2), broker(0), broker(1)], known, None, on_drift=True)
    assert [one.broker.id for one in begins] == [1, 2]
    for facts in ({"rack": None}, {"pod": None}, {"published": "a"}):
        hold = choose([broker(0), broker(1, **facts)], known, None, on_drift=True)
        assert isinstance(hold, RestartHold)
        assert hold.reason == "RestartWaiting"
    assert choose([broker(0)], known, None, on_drift=True).reason == "RestartDidNotMend"
    assert choose([broker(0, drift=False)], (), None, on_drift=True) is None


async def test_unexpected_error_is_reported_in_the_condition_and_later_passes_continue(caplog):
    one = world()
    one.relabel(1, "moved")
    published = one.published.pop(1)
    await one.step()
    assert (one.evicted, told(one)) == ([], ("False", "UnexpectedError"))
    assert message(one) == "KeyError, see the operator's log"
    assert "topology kafka/prod: unexpected error" in caplog.text
    one.published[1] = published
    await one.run(300)
    assert one.evicted == [(1, "moved")]
    assert told(one) is None

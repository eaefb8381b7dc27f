"""Placement, min.insync.replicas and the compliance of existing replicas, computed from a spec."""

from dataclasses import replace

import pytest
from tests.unit.reconcile.examples import EVEN, SIX, state, topic

from rackspan.core.placement import Placement
from rackspan.core.placement.multilevel import ATTEMPTS
from rackspan.core.placement.rings import Rings
from rackspan.core.placement.simple import Simple
from rackspan.core.placement.striped import Striped
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.specs.placement import cost, judged, managed_config, place

FAIR = ((0, 1, 2), (1, 2, 3), (5, 4, 3))  # replicas on the brokers of EVEN


def placed(spec, where, partitions=3, current=()):
    return place("orders", topic(**spec).spec, partitions, current, where)


def refused(spec, where, call=placed):
    with pytest.raises(FailureError) as caught:
        call(spec, where)
    return caught.value.failure


def test_the_same_input_gives_the_same_placement():
    assert placed({}, state()) == placed({}, state())
    assert placed({"placement": {"seed": 1}}, state()) != placed({"placement": {"seed": 2}}, state())


def test_earlier_placements_count_as_load():
    where = state(EVEN)
    where.load.add("other", [(0,)] * 50 + [(3,)] * 50)  # all of zone 0
    rows = placed({"replicationFactor": 1, "partitions": 8}, where, 8)
    assert not {0, 3}.intersection(broker for row in rows for broker in row)


def test_explicit_assignment_of_new_replicas_to_cordoned_brokers_is_refused():
    where = state()
    rows = tuple(replace(row, cordoned=row.id == 1) for row in where.racks.rows)
    where = replace(where, racks=replace(where.racks, rows=rows))
    spec = {"partitions": 2, "replicationFactor": 2, "placement": {"assignment": [[0, 1], [2, 1]]}}
    failure = refused(spec, where, lambda spec, where: placed(spec, where, 2, ((0, 1),)))
    assert (failure.reason, "cordoned in Kafka: 1;" in failure.message) == ("Infeasible", True)
    assert placed({**spec, "placement": {"assignment": [[0, 1], [2, 3]]}}, where, 2, ((0, 1),))[1] == (2, 3)


def test_a_topic_that_prefers_leaders_costs_as_much_as_all_its_attempts():
    preferring = topic(placement={"leaders": ["/eu"]})
    assert cost(preferring, None, state()) == ATTEMPTS * cost(topic(), None, state())


def test_placer_of_the_topology_is_the_default():
    simple = state(defaults={"placer": "Simple"})
    assert placed({"placement": {"placer": "Simple", "seed": 1}}, state()) == placed({"placement": {"seed": 1}}, simple)


@pytest.mark.parametrize("placer", [Simple(), Striped(), Rings()], ids=lambda placer: type(placer).__name__)
def test_leaders_and_an_impossible_spread_are_refused_by_the_default_placer(placer):
    name, spread = type(placer).__name__, [{"level": "region"}]
    where = replace(state(defaults={"placer": name}), placers={name: placer})
    failure = refused({"placement": {"leaders": ["/eu"]}}, where)
    assert (failure.reason, failure.message) == (
        "Infeasible",
        f"the placer {name} ignores the domains preferred for leaders: remove leaders, or choose MultiLevel",
    )
    few = {"spread": spread, "brokers": {"include": ["2", "/us"]}}
    failure = refused({"replicationFactor": 4, "placement": few}, where)
    assert (failure.reason, "add 1 broker in /eu" in failure.message) == ("Infeasible", True)
    assert len(placed({"placement": {"spread": spread}}, where)) == 3


@pytest.mark.parametrize(
    ("spec", "racks", "reason", "sentence"),
    [
        ({"placement": {"placer": "Nearest"}}, SIX, "UnknownPlacer", "installed are: MultiLevel, Simple"),
        (
            {"placement": {"spread": [{"level": "cell"}]}},
            SIX,
            "UnknownLevel",
            "names level 'cell'; topology kafka/prod has: region, zone, rack",
        ),
        ({"replicationFactor": 7}, SIX, "Infeasible", "lower it to 6 or add 1 broker"),
        ({"placement": {"leaders": ["/eu/\U0001fae8"]}}, SIX, "Infeasible", "in the domains preferred for leaders"),
        ({"placement": {"brokers": {"include": ["/eu/\u0378"]}}}, SIX, "Infeasible", "names no broker of the cluster"),
        ({}, {**SIX, 6: None}, "MissingRacks", "broker 6 has no rack id while others have one"),
        ({}, dict.fromkeys(SIX), "MissingRacks", "no broker's rack is known; broker 0: Kafka reports no broker.rack"),
        (
            {"partitions": 1, "replicationFactor": 2, "placement": {"assignment": [[0, 9]]}},
            SIX,
            "Infeasible",
            "brokers that are not in the cluster: 9; there are 0, 1, 2, 3, 4, 5",
        ),
        (
            {"partitions": 1, "replicationFactor": 1, "placement": {"assignment": [[9]]}},
            {3: SIX[3]},
            "Infeasible",
            "brokers that are not in the cluster: 9; there is 3",
        ),
    ],
)
def test_failed_placement_has_a_reason_and_a_message(spec, racks, reason, sentence):
    failure = refused(spec, state(racks))
    assert (failure.reason, failure.remedy) == (reason, "spec")
    assert sentence in failure.message


def test_topic_is_placed_without_any_racks_if_missing_racks_are_ignored():
    rows = placed({}, state(dict.fromkeys(range(3)), missingRackPolicy="Ignore"))
    assert all(sorted(row) == [0, 1, 2] for row in rows)


class Raises:
    def place(self, spec, cluster):
        raise KeyError("x")


class TooMany:
    def place(self, spec, cluster):
        return Placement([[0]] * (spec.partitions + 1))


class Nonsense:
    def place(self, spec, cluster):
        return "no placement"


@pytest.mark.parametrize("placer", [Raises(), TooMany(), Nonsense()], ids=lambda placer: type(placer).__name__)
def test_error_of_a_placer_is_a_failure_of_the_topic(placer):
    failure = refused({}, state(placers={"MultiLevel": placer}))
    assert failure.reason == "PlacerFailed"
    assert "'MultiLevel'" in failure.message


# -- min.insync.replicas ---------------------------------------------------------------------------------------------


def config(spec, where=None, replicas=FAIR):
    return managed_config(topic(**spec).spec, replicas, where or state(EVEN)).values


def test_only_configs_of_the_spec_are_managed_without_durability():
    assert config({"config": {"retention.ms": 5}}) == {"retention.ms": "5"}


def test_min_insync_replicas_is_derived_from_the_durability():
    assert config({"durability": {"minDomains": {"zone": 2}}})["min.insync.replicas"] == "2"
    assert config({"durability": {"tolerate": {"zone": 1}}})["min.insync.replicas"] == "2"


def test_durability_of_the_topology_is_the_default_and_an_empty_one_disables_it():
    where = state(EVEN, defaults={"durability": {"minDomains": {"zone": 2}}})
    assert config({}, where) == {"min.insync.replicas": "2"}
    assert config({"durability": {}}, where) == {}


def test_non_compliant_partitions_do_not_lower_min_insync_replicas():
    spec = {"durability": {"minDomains": {"zone": 2}}}
    assert config(spec, replicas=(*FAIR, (0, 3, 1)))["min.insync.replicas"] == "2"
    assert config(spec, replicas=((0, 3, 1),)) == {}, "nothing is derived if no partition is compliant"
    assert config(spec, replicas=((0, 1),)) == {}, "nothing is derived if no partition has the replication factor"
    assert config(spec, replicas=()) == {}, "nothing is derived if Kafka chooses the replicas"


def test_min_insync_replicas_is_not_set_before_every_partition_has_all_replicas():
    spec = {"durability": {"tolerate": {"zone": 1}}}
    assert config(spec, replicas=FAIR) == {"min.insync.replicas": "2"}
    assert config(spec, replicas=(*FAIR[1:], FAIR[0][:2])) == {}


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"durability": {"minDomains": {"zone": 3}}, "config": {"min.insync.replicas": 2}}, "raise it to 3"),
        ({"durability": {"tolerate": {"zone": 1}}, "config": {"min.insync.replicas": 3}}, "lower it to 2"),
        ({"durability": {"minDomains": {"zone": 4}}}, "needs replicas in 4 domains"),
    ],
)
def test_contradiction_in_the_durability_is_reported_with_a_fix(spec, sentence):
    failure = refused(spec, state(EVEN), call=config)
    assert failure.reason == "DurabilityUnsatisfiable"
    assert sentence in failure.message


def test_durability_with_an_unknown_level_is_refused():
    assert refused({"durability": {"tolerate": {"cell": 1}}}, state(EVEN), call=config).reason == "UnknownLevel"


def test_durability_with_any_level_is_refused_while_missing_racks_are_ignored():
    where = state({**EVEN, 6: None}, missingRackPolicy="Ignore")
    failure = refused({"durability": {"tolerate": {"zone": 1}}}, where, call=config)
    assert (failure.reason, failure.remedy) == ("UnknownLevel", "spec")
    assert "has: none, while a broker has no rack (its spec.missingRackPolicy is Ignore)" in failure.message


# -- compliance ------------------------------------------------------------------------------------------------------


def test_unknown_rack_affects_only_partitions_on_that_broker():
    where = state({**EVEN, 6: None})
    assert judged(topic().spec, FAIR, where).compliance.compliant
    assert judged(topic().spec, (*FAIR, (0, 1, 6)), where).compliance.unknown.tolist() == [False, False, False, True]


def test_compliance_is_unknown_while_no_rack_is_known():
    found = judged(topic().spec, FAIR, state(dict.fromkeys(EVEN))).compliance
    assert found.reason == "MissingRacks"
    assert "no broker's rack is known; broker 0" in found.message


def test_min_insync_replicas_is_not_set_until_all_partitions_can_be_judged():
    where = state({**EVEN, 6: None})
    wanted = topic(durability={"minDomains": {"zone": 2}}).spec
    assert managed_config(wanted, FAIR, where).values == {"min.insync.replicas": "2"}
    assert managed_config(wanted, (*FAIR, (0, 1, 6)), where).values == {}


def test_patterns_of_a_topic_count_as_computing_time():
    patterns = topic(placement={"brokers": {"include": ["/eu/*/*"] * 100, "exclude": ["/*/*/r9"] * 100}})
    assert cost(patterns, None, state()) == cost(topic(), None, state()) + 200 * 6 // 15

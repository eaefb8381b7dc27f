"""From a spec to a placement, to min.insync.replicas, and to the judgement of what Kafka holds."""

from dataclasses import replace

import pytest
from tests.unit.reconcile.examples import EVEN, SIX, state, topic

from rackspan.core.placement import Placement
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.specs.placement import judged, managed_config, place

FAIR = ((0, 1, 2), (1, 2, 3), (5, 4, 3))  # of EVEN


def placed(spec, where, partitions=3, current=()):
    return place("orders", topic(**spec).spec, partitions, current, where)


def refused(spec, where, call=placed):
    with pytest.raises(FailureError) as caught:
        call(spec, where)
    return caught.value.failure


def test_the_same_input_gives_the_same_placement():
    assert placed({}, state()) == placed({}, state())
    assert placed({"placement": {"seed": 1}}, state()) != placed({"placement": {"seed": 2}}, state())


def test_load_that_was_placed_before_counts():
    where = state(EVEN)
    where.load.add("other", [(0,)] * 50 + [(3,)] * 50)  # all of zone 0
    rows = placed({"replicationFactor": 1, "partitions": 8}, where, 8)
    assert not {0, 3}.intersection(broker for row in rows for broker in row)


def test_an_assignment_gives_cordoned_brokers_nothing_new():
    where = state()
    rows = tuple(replace(row, cordoned=row.id == 1) for row in where.racks.rows)
    where = replace(where, racks=replace(where.racks, rows=rows))
    spec = {"partitions": 2, "replicationFactor": 2, "placement": {"assignment": [[0, 1], [2, 1]]}}
    failure = refused(spec, where, lambda spec, where: placed(spec, where, 2, ((0, 1),)))
    assert (failure.reason, "cordoned in Kafka: 1;" in failure.message) == ("Infeasible", True)
    assert placed({**spec, "placement": {"assignment": [[0, 1], [2, 3]]}}, where, 2, ((0, 1),))[1] == (2, 3)


def test_the_topology_s_placer_is_the_default():
    simple = state(defaults={"placer": "Simple"})
    assert placed({"placement": {"placer": "Simple", "seed": 1}}, state()) == placed({"placement": {"seed": 1}}, simple)


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
def test_what_cannot_be_placed_is_told_why(spec, racks, reason, sentence):
    failure = refused(spec, state(racks))
    assert (failure.reason, failure.remedy) == (reason, "spec")
    assert sentence in failure.message


def test_racks_that_are_to_be_ignored_may_all_be_missing():
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
def test_a_placer_s_defect_is_a_failure_of_the_topic(placer):
    failure = refused({}, state(placers={"MultiLevel": placer}))
    assert failure.reason == "PlacerFailed"
    assert "'MultiLevel'" in failure.message


# -- min.insync.replicas ---------------------------------------------------------------------------------------------


def config(spec, where=None, replicas=FAIR):
    return managed_config(topic(**spec).spec, replicas, where or state(EVEN)).values


def test_without_durability_only_what_the_spec_says_is_managed():
    assert config({"config": {"retention.ms": 5}}) == {"retention.ms": "5"}


def test_min_insync_replicas_is_derived_from_the_placement():
    assert config({"durability": {"minDomains": {"zone": 2}}})["min.insync.replicas"] == "2"
    assert config({"durability": {"tolerate": {"zone": 1}}})["min.insync.replicas"] == "2"


def test_the_topology_s_durability_is_the_default_and_an_empty_one_opts_out():
    where = state(EVEN, defaults={"durability": {"minDomains": {"zone": 2}}})
    assert config({}, where) == {"min.insync.replicas": "2"}
    assert config({"durability": {}}, where) == {}


def test_partitions_out_of_place_do_not_weaken_the_promise():
    spec = {"durability": {"minDomains": {"zone": 2}}}
    assert config(spec, replicas=(*FAIR, (0, 3, 1)))["min.insync.replicas"] == "2"
    assert config(spec, replicas=((0, 3, 1),)) == {}, "where none is in place nothing can be derived"
    assert config(spec, replicas=((0, 1),)) == {}, "nor where none has the size that was asked for"
    assert config(spec, replicas=()) == {}, "nor where Kafka is left to choose"


def test_min_insync_replicas_is_not_raised_before_every_partition_has_its_new_replica():
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
def test_a_contradiction_is_told(spec, sentence):
    failure = refused(spec, state(EVEN), call=config)
    assert failure.reason == "DurabilityUnsatisfiable"
    assert sentence in failure.message


def test_durability_over_a_level_that_is_not_there_is_told():
    assert refused({"durability": {"tolerate": {"cell": 1}}}, state(EVEN), call=config).reason == "UnknownLevel"


def test_no_level_is_there_while_missing_racks_are_ignored():
    where = state({**EVEN, 6: None}, missingRackPolicy="Ignore")
    failure = refused({"durability": {"tolerate": {"zone": 1}}}, where, call=config)
    assert (failure.reason, failure.remedy) == ("UnknownLevel", "spec")
    assert "has: none, while a broker has no rack (its spec.missingRackPolicy is Ignore)" in failure.message


# -- judging ---------------------------------------------------------------------------------------------------------


def test_a_rack_that_is_not_known_leaves_open_only_what_depends_on_it():
    where = state({**EVEN, 6: None})
    assert judged(topic().spec, FAIR, where).compliance.compliant
    assert judged(topic().spec, (*FAIR, (0, 1, 6)), where).compliance.unknown.tolist() == [False, False, False, True]


def test_nothing_can_be_judged_while_no_rack_is_known():
    found = judged(topic().spec, FAIR, state(dict.fromkeys(EVEN))).compliance
    assert found.reason == "MissingRacks"
    assert "no broker's rack is known; broker 0" in found.message


def test_min_insync_waits_until_all_partitions_can_be_judged():
    where = state({**EVEN, 6: None})
    wanted = topic(durability={"minDomains": {"zone": 2}}).spec
    assert managed_config(wanted, FAIR, where).values == {"min.insync.replicas": "2"}
    assert managed_config(wanted, (*FAIR, (0, 1, 6)), where).values == {}

"""The report of drift: its brokers, and the topics that it makes non-compliant."""

from dataclasses import replace

from msgspec import structs
from tests.support.rack_views import rack_view
from tests.unit.reconcile.examples import NOON, known, seen, state, status_inputs, topic, topology

from rackspan.api.conditions import find_condition
from rackspan.api.racktopology import KIND
from rackspan.api.reasons import Reason
from rackspan.reconcile.cache import BrokerPod
from rackspan.reconcile.cluster.broker_events import drift_events
from rackspan.reconcile.cluster.state import Settling
from rackspan.reconcile.cluster.topology_status import topology_status
from rackspan.reconcile.failures import Failure, Remedy
from rackspan.reconcile.plans.topology_plan import TopologyPlan
from rackspan.reconcile.ports import BrokerDescription, ObjectRef
from rackspan.reconcile.topics.topic_decision import Outcome
from rackspan.reconcile.topics.topic_events import condition_events
from rackspan.reconcile.topics.topic_status import topic_status

SPREAD = {0: "a", 1: "b", 2: "c"}
ABOUT = topology(rackSource="Nodes", levels=[{"name": "zone", "nodeLabel": "zone"}], brokers={"podSelector": {}})
REF = ObjectRef(KIND, ABOUT.key, ABOUT.meta.uid)


def cluster(runs, reports=SPREAD):
    """Return the state in which brokers run in the zones of `runs` and report the zones of `reports`."""
    nodes = {f"n{id_}": {"zone": zone} for id_, zone in runs.items()}
    pods = [BrokerPod("kafka", f"kafka-{id_}", {}, {}, f"n{id_}") for id_ in runs]
    brokers = [BrokerDescription(id_, "h", zone) for id_, zone in reports.items()]
    return replace(state(reports), racks=rack_view(ABOUT, nodes, pods, brokers))


def judged(name, where, *rows):
    found = Outcome(topic(name, replicationFactor=2, partitions=len(rows), status=known()), seen(*rows, name=name))
    found.config = None
    return structs.replace(found.topic, status=topic_status(found, where, NOON))


def status(where, topics=(), before=ABOUT.status):
    return topology_status(structs.replace(ABOUT, status=before), status_inputs(where, where.racks, topics), NOON)


def sentence(status):
    return find_condition(status.conditions, "RacksInSync").message


def test_topic_counts_partitions_that_are_non_compliant_only_because_of_drift():
    moved = cluster({**SPREAD, 1: "a"})
    one = judged("orders", moved, (0, 1), (1, 2), (0, 2))
    assert (one.status.compliance.non_compliant, one.status.compliance.drifted) == (1, 1)
    told = find_condition(one.status.conditions, "Compliant").message
    assert told.endswith("; 1 of them only because brokers run elsewhere than they report")


def test_partitions_that_are_non_compliant_without_drift_are_not_counted_as_drifted():
    reports = {0: "a", 1: "a", 2: "b", 3: "c"}
    one = judged("orders", cluster({**reports, 3: "a"}, reports), (0, 1), (0, 3))
    assert (one.status.compliance.non_compliant, one.status.compliance.drifted) == (2, 1)
    assert judged("orders", cluster(reports, reports), (0, 1)).status.compliance.drifted is None


def test_topology_counts_drifted_topics_and_names_the_first_ten():
    moved = cluster({**SPREAD, 1: "a"})
    topics = [judged(f"t{number:02}", moved, (0, 1)) for number in range(12)] + [judged("good", moved, (0, 2))]
    found = status(moved, topics)
    assert (found.drift.count, found.drift.brokers, found.drift.topics.count) == (1, (1,), 12)
    assert found.drift.topics.samples == tuple(f"shop/t{number:02}" for number in range(10))
    assert "broker 1 reports b and runs in a; that makes 12 topics not compliant: shop/t00, " in sentence(found)
    assert sentence(found).endswith(
        ", shop/t09 and 2 others; if label zone of node n1 is wrong, correct it: no replica has to move then; if it is "
        "right, broker 1 reports a after its next restart; where the nodes are right, the topics need the moves of "
        "the plan"
    )
    over = status(cluster(SPREAD), topics)
    assert (over.drift.count, over.drift.topics) == (0, None)


def test_drift_message_without_affected_topics_names_no_moves():
    assert sentence(status(cluster({**SPREAD, 1: "a"}))).endswith("broker 1 reports a after its next restart")


LEVELS = ABOUT.spec.levels[0].name, "rack"
DEEP = topology(
    rackSource="Nodes", levels=[{"name": name, "nodeLabel": name} for name in LEVELS], brokers={"podSelector": {}}
)


def deep(*reports, nodes=("r1", "r2"), aliases=None):
    """Return the message if brokers 0, 1, ... run in racks r1, r2, r1, ... of zone eu and report these racks."""
    about = structs.replace(DEEP, spec=structs.replace(DEEP.spec, rack_aliases=aliases or {}))
    racks = [nodes[at % 2] for at in range(len(reports))]
    labels = {f"n{at}": {"zone": "eu", **({"rack": rack} if rack else {})} for at, rack in enumerate(racks)}
    pods = [BrokerPod("kafka", f"kafka-{at}", {}, {}, f"n{at}") for at in range(len(reports))]
    brokers = [BrokerDescription(at, "h", rack) for at, rack in enumerate(reports)]
    where = replace(state(), racks=rack_view(about, labels, pods, brokers))
    return sentence(topology_status(about, status_inputs(where, where.racks, ()), NOON)).split("; ", 1)[1]


def test_drift_message_for_a_flat_rack_names_the_alias_that_fixes_it():
    flat = "broker.rack eu-1c is not a path of 2 levels"
    alias = f'{flat}; if it names the same place, set spec.rackAliases: {{"eu-1c": "/eu/r1"}}'
    assert deep("eu-1c") == alias
    assert deep("eu-1c", "/eu/r2", "eu-1c") == alias
    assert deep("eu-1c", "eu-1c") == (
        f"{flat}, and brokers of several racks report it; set broker.rack to the whole path, such as /eu/r1"
    )
    assert deep("/eu/r2").startswith("if label rack of node n0 is wrong, correct it: ")


def test_alias_in_the_message_is_quoted_and_omitted_for_control_characters():
    assert deep('1: "x"').endswith(r'set spec.rackAliases: {"1: \"x\"": "/eu/r1"}')
    assert deep("a\x1b[2J").endswith("; set broker.rack to /eu/r1"), "no user types such an alias"


def test_drift_message_for_a_missing_node_label_asks_for_the_label():
    assert deep("/eu/r1", nodes=(None, "r2")).startswith(
        "if node n0 has lost label rack, set it again: no replica has "
    )


def test_drift_message_for_a_wrong_alias_asks_for_its_correction():
    assert deep("eu-1c", aliases={"eu-1c": "/eu/r2"}) == (
        "spec.rackAliases says that eu-1c is /eu/r2, and broker 0 runs in /eu/r1: correct the alias, or the labels of "
        "its node"
    )


def test_drift_message_for_a_broker_without_rack_names_the_rack_of_its_node():
    assert deep(None) == "broker 0 has no broker.rack: set it to /eu/r1, and restart the broker"
    several = "brokers 0, 1 have no broker.rack: set it, such as to /eu/r1 for broker 0, and restart them"
    assert deep(None, None) == several


def test_drift_message_has_each_cause_once_and_the_cheapest_fix_first():
    told = deep(None, "eu-1c", "/eu/r2", "/eu/r1", "/eu/r2")
    assert told.split("; ") == [
        "if label rack of node n2 is wrong, correct it: no replica has to move then",
        "if it is right, broker 2 reports /eu/r1 after its next restart",
        "broker.rack eu-1c is not a path of 2 levels",
        'if it names the same place, set spec.rackAliases: {"eu-1c": "/eu/r2"}',
        "broker 0 has no broker.rack: set it to /eu/r1, and restart the broker",
    ]


def test_drift_ends_only_after_the_broker_returns_with_the_rack_of_its_node():
    drifts = status(cluster({**SPREAD, 1: "a"}))
    away = cluster({**SPREAD, 1: "a"}, {0: "a", 2: "c"})
    waits = status(away, before=drifts)
    assert find_condition(waits.conditions, "RacksInSync").status.value == "False"
    assert sentence(waits).startswith("broker 1 is offline or in no known rack, so drift there may last; ")
    fixed = status(cluster({**SPREAD, 1: "a"}, {**SPREAD, 1: "a"}), before=waits)
    assert find_condition(fixed.conditions, "RacksInSync").status.value == "True"
    assert sentence(fixed) == "every broker reports the rack that its node has"


def test_drift_does_not_end_while_the_rack_of_the_broker_is_unknown():
    before = status(cluster({**SPREAD, 1: "a"}))
    for without_pod_or_label in (cluster({0: "a", 2: "c"}, SPREAD), cluster({**SPREAD, 1: ""})):
        waits = status(without_pod_or_label, before=before)
        assert find_condition(waits.conditions, "RacksInSync").status.value == "False"
        events = condition_events(REF, before.conditions, waits.conditions)
        assert "RacksInSync" not in {event.reason for event in events}
    fresh = status(cluster({**SPREAD, 1: ""}), before=status(cluster(SPREAD)))
    assert sentence(fresh) == "every broker that is online and in a known rack reports the rack that its node has"


def test_offline_broker_without_earlier_drift_is_no_drift():
    away = status(cluster(SPREAD, {0: "a", 2: "c"}), before=status(cluster(SPREAD)))
    assert find_condition(away.conditions, "RacksInSync").status.value == "True"
    assert sentence(away) == "every broker that is online and in a known rack reports the rack that its node has"


def test_racks_in_sync_is_unknown_while_kafka_is_unreachable_and_earlier_drift_lasts():
    unreachable = Failure(Reason.KAFKA_UNREACHABLE, "no broker answers", Remedy.RETRY)

    def status_without_kafka(before):
        asked = status_inputs(unreachable, cluster(SPREAD).racks, ())
        return topology_status(structs.replace(topology(), status=before), asked, NOON)

    calm, drifts = status(cluster(SPREAD)), status(cluster({**SPREAD, 1: "a"}))
    away = status_without_kafka(calm)
    found = find_condition(away.conditions, "RacksInSync")
    assert (found.status.value, found.reason) == ("Unknown", "KafkaUnreachable")
    assert find_condition(status(cluster(SPREAD), before=away).conditions, "RacksInSync").status.value == "True"
    still = find_condition(status_without_kafka(drifts).conditions, "RacksInSync")
    assert (still.status.value, still.reason) == ("False", "RackDrift")


def test_each_additional_drifting_broker_and_the_affected_topics_have_an_event():
    calm, one, two = cluster(SPREAD), cluster({**SPREAD, 1: "a"}), cluster({0: "b", 1: "a", 2: "c"})
    first, drifted, worse = status(calm), status(one), status(two)
    assert not list(drift_events(REF, first, drifted)), "the condition has its own Event"
    assert [event.message for event in drift_events(REF, drifted, worse)] == ["broker 0 reports a and runs in b"]
    told = status(one, [judged("orders", one, (0, 1))])
    (event,) = drift_events(REF, drifted, told)
    sentence = "1 broker reports another rack than its node has; that makes 1 topic not compliant: shop/orders"
    assert (event.reason, event.message, event.warning) == ("RackDrift", sentence, True)
    assert not list(drift_events(REF, told, told))
    assert not list(drift_events(REF, told, first))


async def plan_and_status(where, plans, *rows):
    one = topic("orders", replicationFactor=2, partitions=len(rows), status=known())
    found = Outcome(one, seen(*rows))
    found.plan = (await plans.of([(one, found.seen)], where.for_plans)).get(one.key)
    return found.plan, topic_status(found, where, NOON)


async def test_flapping_label_changes_compliance_but_starts_no_plan():
    settling, plans = Settling(), TopologyPlan()

    def observed(runs, now):
        where = cluster(runs)
        settled = settling.settled(ABOUT, where.racks, now)
        return replace(where, settled=None if settled is where.racks else settled)

    for turn in range(20):
        where = observed({**SPREAD, 1: "ab"[turn % 2]} if turn else SPREAD, now=10.0 * turn)
        plan, told = await plan_and_status(where, plans, (0, 1), (1, 2))
        assert plan.empty, turn
        flapped = turn > 0 and turn % 2 == 0
        assert told.compliance.non_compliant == told.compliance.moves == flapped
        ready = find_condition(told.conditions, "Ready")
        assert ready.reason == ("RacksSettling" if flapped else "InSync")
        assert (find_condition(told.conditions, "Reconciling") is not None) == flapped
    where = observed({**SPREAD, 1: "a"}, now=300.0)
    where = observed({**SPREAD, 1: "a"}, now=320.0)
    plan, told = await plan_and_status(where, plans, (0, 1), (1, 2))
    assert plan.moves == told.compliance.moves == 1
    assert find_condition(told.conditions, "Ready").reason == "PlanPending"


def test_state_with_unsettled_racks_plans_with_the_settled_racks():
    where = cluster({**SPREAD, 1: "a"})
    unsettled = replace(where, settled=cluster(SPREAD).racks)
    assert unsettled != where
    assert unsettled.for_plans.racks == unsettled.settled
    assert where.for_plans is where

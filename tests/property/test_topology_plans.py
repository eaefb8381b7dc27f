"""The plan that the operator keeps for a topology: its lower bound stays true while parts come, change and go."""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, replace
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from tests.property import oracle
from tests.property.cases import counted
from tests.property.strategies import sites, topic_rows, trees
from tests.support.rack_views import rack_view

from rackspan.api.kafkatopic import KafkaTopic
from rackspan.api.plans import is_unmanaged
from rackspan.api.racktopology import RackTopology
from rackspan.core.rack_path import domain_name, format_rack
from rackspan.reconcile.cluster.state import BrokerLoad, ClusterState
from rackspan.reconcile.plans import topology_plan
from rackspan.reconcile.plans.topology_plan import TopologyPlan
from rackspan.reconcile.ports import BrokerDescription, ReplicaCounts, TopicDescription

MANAGED, UNMANAGED = ("a", "b", "c"), ("x", "y")
GONE = 90
"""A broker that replica lists name but that does not exist."""


@dataclass(frozen=True)
class World:
    """All inputs of the plan: brokers with their racks, replicas in Kafka, and specs of objects."""

    levels: tuple
    racks: dict
    unlabelled: frozenset
    offline: frozenset
    cordoned: frozenset
    topology: dict
    replicas: dict
    specs: dict
    above_quota: frozenset

    @property
    def prod(self):
        """The RackTopology, with the brokers in its status."""
        spec = {
            "kafka": {"bootstrapServers": "kafka:9092"},
            "levels": [{"name": level} for level in self.levels],
            "rackSource": "Broker",
            "allowedNamespaces": {"from": "All"},
            **self.topology,
        }
        brokers = [
            {
                "id": broker,
                "rack": None if broker in self.unlabelled else domain_name(path),
                "online": broker not in self.offline,
                "cordoned": broker in self.cordoned,
            }
            for broker, path in self.racks.items()
        ]
        meta = {"namespace": "kafka", "name": "prod", "uid": "1"}
        return RackTopology.from_object({"metadata": meta, "spec": spec, "status": {"brokers": brokers}})

    @property
    def state(self):
        prod = self.prod
        racks = {broker: None if broker in self.unlabelled else path for broker, path in self.racks.items()}
        online = [
            BrokerDescription(broker, "", path and format_rack(path))
            for broker, path in racks.items()
            if broker not in self.offline
        ]
        last = {broker: racks[broker] for broker in self.offline}
        view = rack_view(prod, {}, [], online, last, cordoned=self.cordoned)
        rows = [row for lists in self.replicas.values() for row in lists]
        held = ReplicaCounts(Counter(b for row in rows for b in row), Counter(row[0] for row in rows))
        return ClusterState(prod.key, prod.spec, "cluster", view, BrokerLoad(held), {})

    def seen(self, names):
        """Yield KafkaTopics and their topics in Kafka. `a` and `b` share a namespace."""
        for name in names:
            meta = {"namespace": "one" if name in "ab" else "two", "name": name, "uid": name}
            spec = {"topologyRef": {"namespace": "kafka", "name": "prod"}, **self.specs[name]}
            topic = KafkaTopic.from_object({"metadata": meta, "spec": spec})
            yield topic, TopicDescription(name, name, self.replicas[name])


@st.composite
def worlds(draw):
    tree = draw(trees(least=3, most=6))
    ids = [broker.id for broker in tree.brokers]
    some = st.sets(st.sampled_from(ids), max_size=2)
    racks = {broker.id: broker.rack for broker in tree.brokers}
    old = draw(st.just(ids) | st.sets(st.sampled_from(ids), min_size=1).map(sorted))  # all others are new
    known = [*old, GONE] if draw(st.integers(0, 3)) == 0 else old
    names = [*MANAGED[: draw(st.integers(1, 3))], *UNMANAGED[: draw(st.integers(0, 2))]]
    replicas = {name: draw(topic_rows(known, most=min(len(old), 3), partitions=6)) for name in names}
    return World(
        tree.levels,
        racks,
        frozenset(draw(some) if draw(st.integers(0, 7)) == 0 else ()),
        frozenset(draw(st.just(set()) | some)),
        frozenset(draw(st.just(set()) | some)),
        draw(topologies(racks)),
        replicas,
        {name: draw(specs(tree, replicas[name])) for name in MANAGED if name in replicas},
        frozenset(),
    )


@st.composite
def topologies(draw, racks):
    """Draw the fields of a RackTopology that affect plans."""
    ids = sorted(racks)
    spec = {
        "drainBrokers": sorted(draw(st.just(()) | st.sets(st.sampled_from(ids), max_size=2))),
        "rebalance": draw(st.sampled_from(["Never", "OnNewBrokers"])),
        "unmanagedTopics": draw(st.sampled_from(["Report", "Repair"])),
        "missingRackPolicy": draw(st.sampled_from(["Fail", "Ignore"])),
    }
    if draw(st.integers(0, 7)) == 0:
        spec["drainRacks"] = [domain_name(racks[draw(st.sampled_from(ids))])]
    return spec


@st.composite
def specs(draw, tree, lists):
    """Draw the spec of a KafkaTopic whose topic has these replica lists."""
    ids = [broker.id for broker in tree.brokers]
    size = draw(st.just(len(lists[0])) | st.just(len(lists[0])) | st.integers(1, 4))
    spec = {"partitions": len(lists) + draw(st.integers(0, 2)), "replicationFactor": size}
    if draw(st.booleans()):
        spec["config"] = {"min.insync.replicas": draw(st.integers(1, 5))}
    if size <= len(ids) and draw(st.integers(0, 3)) == 0:
        row = st.permutations(ids).map(lambda order: order[:size])
        spec["placement"] = {"assignment": [draw(row) for _ in range(spec["partitions"])]}
        return spec
    patterns = [*map(str, ids), *sorted({domain_name(broker.rack[:1]) for broker in tree.brokers})]
    chosen = st.sets(st.sampled_from(patterns), max_size=2).map(sorted)
    placement = {}
    if draw(st.integers(0, 3)) == 0:
        placement["brokers"] = {draw(st.sampled_from(["include", "exclude"])): draw(chosen)}
    if draw(st.integers(0, 3)) == 0:
        placement["leaders"] = [domain_name(draw(st.sampled_from(tree.brokers)).rack[:1])]
    if draw(st.integers(0, 7)) == 0:
        spread = {"level": draw(st.sampled_from([*tree.levels, "planet"])), "maxSkew": draw(st.integers(1, 3))}
        placement["spread"] = [spread | {"whenUnsatisfiable": draw(st.sampled_from(["Refuse", "Best"]))}]
    return spec | {"placement": placement}


@st.composite
def changes(draw, world):
    """Draw the same world after a change, and the KafkaTopics that the operator processes next."""
    ids = sorted(world.racks)
    some = st.sets(st.sampled_from(ids), max_size=2).map(frozenset)
    managed = sorted(world.specs)
    chosen = draw(st.sets(st.sampled_from(managed))) if managed else set()
    match draw(st.integers(0, 7)):
        case 0:
            return replace(world, topology=draw(topologies(world.racks))), managed
        case 1:
            return replace(world, offline=draw(some), cordoned=draw(some)), managed
        case 2:
            moved = {name: draw(topic_rows(ids, most=min(len(ids), 3))) for name in sorted(chosen)}
            return replace(world, replicas=world.replicas | moved), sorted(chosen)
        case 3:
            left = {name: spec for name, spec in world.specs.items() if name not in chosen}
            return replace(world, specs=left), []
        case 4:
            return replace(world, above_quota=frozenset(chosen)), managed
        case 5:
            return replace(world, replicas={n: rows for n, rows in world.replicas.items() if n in world.specs}), []
        case 6:
            sizes = {name: (len(rows), len(rows[0])) for name, rows in world.replicas.items()}
            adopted = {name: {"partitions": size[0], "replicationFactor": size[1]} for name, size in sizes.items()}
            return replace(world, specs=adopted | world.specs), sorted(adopted)
    return world, sorted(chosen)


def refuse_unexpected_errors(message, *about):
    """Fail the test if the planner fails. The operator only logs such errors, and continues without a plan."""
    raise AssertionError(message % about)


@given(st.data())
def test_lower_bound_of_the_plan_of_the_operator_never_exceeds_its_moves(data):
    with patch.object(topology_plan._log, "exception", refuse_unexpected_errors):
        asyncio.run(_live(data))


async def _live(data):
    world, plans = data.draw(worlds()), TopologyPlan()
    looked = data.draw(st.permutations(sorted(world.specs)))
    batches = [looked] if data.draw(st.booleans()) else [[name] for name in looked]
    for names in batches:
        await _look(plans, world, names)
    for _ in range(data.draw(st.integers(0, 4))):
        if data.draw(st.booleans()):
            plans.make_anew()
            await plans.of((), world.state.for_plans)
            _no_false_bound(plans.whole)
        world, names = data.draw(changes(world))
        _forget_deleted(plans, world)
        await _look(plans, world, names)
    # After the changes, the operator processes all topics, and then makes one plan for all of them.
    await _look(plans, world, sorted(world.specs))
    plans.make_anew()
    state = world.state
    await plans.of((), state.for_plans)
    _certified(plans.whole, plans._known, world, state)


@given(st.data())
def test_plan_is_true_if_topics_and_brokers_change_while_it_is_computed(data):
    chance, sleep = random.Random(data.draw(st.integers(0, 2**32))), asyncio.sleep

    async def pause(_=0.0):
        for _ in range(chance.randrange(4)):
            await sleep(0)

    async def compute(work, *args):
        await pause()
        made = work(*args)
        await pause()
        return made

    with (
        patch.object(topology_plan._log, "exception", refuse_unexpected_errors),
        patch.object(topology_plan, "in_planner_thread", compute),
        patch.object(topology_plan.asyncio, "sleep", pause),
    ):
        asyncio.run(_concurrent(data, pause))


async def _concurrent(data, pause):
    """Change the world while two batches with different topics are processed, as in the operator."""
    history, plans = [data.draw(worlds())], TopologyPlan()
    batches, made_anew = [sorted(history[0].specs)], [data.draw(st.booleans())]
    for _ in range(data.draw(st.integers(1, 4))):
        world, names = data.draw(changes(history[-1]))
        history.append(world)
        batches.append(names)
        made_anew.append(data.draw(st.booleans()))
    now, at_work, together = [], set(), data.draw(st.booleans())
    free, unmanaged = asyncio.Semaphore(2), asyncio.Lock()

    async def process(names):
        async with free:
            current = now[-1]
            mine = [name for name in names if name in current.specs and name not in at_work]
            at_work.update(mine)
            try:
                if not unmanaged.locked():
                    async with unmanaged:
                        await _look_for_unmanaged(plans, current)
                await _look_at(plans, current, mine)
            finally:
                at_work.difference_update(mine)
                _forget_deleted(plans, now[-1])

    async with asyncio.TaskGroup() as group:
        for world, names, anew in zip(history, batches, made_anew, strict=True):
            now.append(world)
            _forget_deleted(plans, world)
            if anew:
                plans.make_anew()
            for batch in [names] if together else [[name] for name in names]:
                group.create_task(process(batch))
            await pause()
            _no_false_bound(plans.whole)
    await _look(plans, world, sorted(world.specs))
    plans.make_anew()
    await plans.of((), world.state.for_plans)
    _certified(plans.whole, plans._known, world, world.state)


def _forget_deleted(plans, world):
    for key in [key for key in plans._known if not is_unmanaged(key) and key.name not in world.specs]:
        plans.forget(key)
        _no_false_bound(plans.whole)


async def _look(plans, world, names):
    """Do what the operator does when it processes some topics."""
    await _look_for_unmanaged(plans, world)
    await _look_at(plans, world, names)


async def _look_for_unmanaged(plans, world):
    state = world.state
    repaired = {name: rows for name, rows in world.replicas.items() if name not in world.specs}
    await plans.of_unmanaged(repaired if state.spec.repairs_unmanaged else {}, state.for_plans)
    _no_false_bound(plans.whole)


async def _look_at(plans, world, names):
    state, seen = world.state, list(world.seen(names))
    quota = {topic.key for topic, _ in seen if topic.topic_name in world.above_quota}
    await plans.of(seen, state.for_plans, quota)
    _no_false_bound(plans.whole)


def _no_false_bound(whole):
    assert whole.lower_bound <= sum(part.moves for part in whole.parts.values())
    assert all(part.lower_bound <= part.moves for part in whole.parts.values())


def _certified(whole, known, world, state):
    """Check that the bound of a plan for all topics matches the oracle, and is reached without a loosened spread."""
    _no_false_bound(whole)
    tree = state.racks.tree
    shut = {broker.id for broker in tree.brokers if broker.cordoned or not broker.online}
    drained = {broker.id for broker in tree.brokers if not broker.eligible}
    for key, inputs in known.items():
        wish, part = inputs.requirements, whole.parts.get(key)
        assert inputs.tree == tree
        for change in part.changes if part is not None else ():
            assert change.before == inputs.replicas[change.partition]
            assert wish.assignment or not shut.intersection(set(change.replicas) - set(change.before))
            assert wish.assignment or not drained.intersection(change.replicas)
        if not wish.spread and not wish.leaders and not tree.missing_racks:
            assert (part.lower_bound if part is not None else 0) == _fewest(tree, wish, inputs.replicas, shut)
    moves = sum(part.moves for part in whole.parts.values())
    assert sum(part.lower_bound for part in whole.parts.values()) <= whole.lower_bound
    assert whole.lower_bound == moves or any(inputs.requirements.spread for inputs in known.values())
    assert {key.name for key in whole.parts if is_unmanaged(key)} <= world.replicas.keys() - world.specs.keys()
    counted(bool(whole.parts))


def _fewest(tree, wish, lists, shut):
    """Return the fewest replicas that must be copied for a topic, 0 if its requirements are infeasible."""
    if wish.assignment:
        if len(wish.assignment) < len(lists):
            return 0
        pairs = list(zip(wish.assignment, lists, strict=True))
        refused = any(set(tree.cordoned).intersection(new).difference(old) for new, old in pairs)
        return 0 if refused else sum(len(set(new) - set(old)) for new, old in pairs)
    if not all(tree.matches(pattern) for pattern in (*wish.include, *wish.exclude)):
        return 0
    here = sites(tree.selected(wish.include, wish.exclude))
    return sum(_fewest_of_one(here, row, wish.replication_factor or len(row), shut) for row in lists)


def _fewest_of_one(here, row, size, shut):
    if len(here) < size:
        return 0
    usable = [len(new - set(row)) for new in oracle.placements(here, size) if not shut.intersection(new - set(row))]
    return min(usable, default=0)

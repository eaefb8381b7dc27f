"""Quotas of namespaces: the oldest topics keep what they have, and topics above the quota wait with a message."""

import random

import pytest
from msgspec import structs
from tests.unit.reconcile import examples
from tests.unit.reconcile.examples import topology
from tests.unit.reconcile.plans.test_approvals import World

from rackspan.api.kafkatopic import KafkaTopicStatus
from rackspan.api.labels import FINALIZER
from rackspan.api.reasons import Reason
from rackspan.reconcile.specs import topic_quotas
from rackspan.reconcile.specs.topic_quotas import Demand, above_quotas
from rackspan.reconcile.topics.topics_reconciler import TopicsReconciler


class Tenants(World):
    """A world whose objects get the statuses that are written, as in the API server."""

    def __init__(self, quota, **spec):
        super().__init__(**{"allowedNamespaces": {"from": "All", "quota": quota}, "adoption": "Allowed"} | spec)
        self.made = 0
        self.kube.replace_status = self._replace_status

    async def _replace_status(self, ref, status):
        self.kube.statuses[ref.key.name] = status
        return ref, status

    def _answered(self, body):
        ref, status = body
        if ref.key not in self.cache.topics:
            return None
        known = self.cache.topics[ref.key]
        return self.cache.keep_topic(structs.replace(known, status=KafkaTopicStatus.from_dict(status)))

    def ask(self, name, *, namespace="shop", **spec):
        """Add a KafkaTopic without a topic. Each is a minute younger than the previous one."""
        self.made += 1
        one = examples.topic(
            name, namespace=namespace, finalizers=(FINALIZER,), created=f"2026-01-01T00:{self.made:02}:00Z", **spec
        )
        self.cache.keep_topic(one)
        return one

    def edit(self, name, **spec):
        """Give the object another spec and keep its status."""
        (known,) = (topic for topic in self.cache.topics.values() if topic.meta.name == name)
        made = examples.topic(
            name,
            namespace=known.meta.namespace,
            finalizers=(FINALIZER,),
            created=known.meta.age[0],
            generation=known.meta.generation + 1,
            status=known.status.to_dict(),
            **spec,
        )
        self.cache.keep_topic(made)
        self.loop.add([made.key])

    def delete(self, name):
        """Delete the object and its topic."""
        (known,) = (topic for topic in self.cache.topics.values() if topic.meta.name == name)
        self.cache.drop_topic(known.key)
        self.kafka.replicas.pop(known.topic_name, None)
        self.loop.drop(known.key)

    def restart(self):
        """Start a new operator process, which knows only the objects."""
        self.loop = TopicsReconciler(topology().key, self.observer, self.dependencies, None)
        self.loop.add(self.cache.topics)

    async def look(self, *names):
        self.loop.add(topic.key for topic in self.cache.topics.values() if not names or topic.meta.name in names)
        await self.work()

    @property
    def there(self):
        return {name: (len(rows), len(rows[0])) for name, rows in self.kafka.replicas.items()}


def above(where, topics):
    return above_quotas(where, map(Demand.of, topics))


def quota(topics=100, partitions=100, replicas=300):
    return {"topics": topics, "partitions": partitions, "replicas": replicas}


@pytest.mark.parametrize("most", [quota(topics=2), quota(partitions=7), quota(replicas=20)])
async def test_oldest_topics_fit_and_others_wait_with_a_message_about_the_quota(most):
    world = Tenants(most)
    for name in ("first", "second", "third"):
        world.ask(name)
    await world.look("third", "second", "first")
    assert world.there.keys() == {"first", "second"}
    ready = world.ready("third")
    assert (ready["reason"], world.kube.condition("third", "Stalled")["reason"]) == ("QuotaExceeded", "QuotaExceeded")
    assert ready["message"] == (
        "topic third asks for 1 topic, 3 partitions, 9 replicas more; namespace shop has 2 topics, 6 partitions, "
        "18 replicas in topology kafka/prod with what older topics ask for, and may have "
        f"{most['topics']} topics, {most['partitions']} partitions, {most['replicas']} replicas (its "
        "spec.allowedNamespaces.quota): ask for less, delete topics, or have the quota raised"
    )
    assert Reason.QUOTA_EXCEEDED in [event.reason for event in world.kube.announced]


async def test_each_namespace_has_its_own_quota_except_the_namespace_of_the_topology():
    world = Tenants(quota(topics=1))
    for number, namespace in enumerate(("kafka", "kafka", "shop", "bank")):
        world.ask(f"t{number}", namespace=namespace)
    await world.look()
    assert len(world.there) == 4


async def test_default_quota_applies_without_a_quota_in_the_spec():
    world = World()
    large = examples.topic("large", finalizers=(FINALIZER,), partitions=100_000, replicationFactor=1)
    world.cache.keep_topic(large)
    world.loop.add([large.key])
    await world.work()
    assert not world.kafka.replicas
    assert "may have 500 topics, 2,000 partitions, 6,000 replicas" in world.ready("large")["message"]


async def test_partitions_above_the_quota_wait_but_config_changes_do_not():
    world = Tenants(quota(partitions=8))
    world.ask("one")
    await world.look()
    world.edit("one", partitions=9, config={"retention.ms": 5})
    await world.work()
    assert world.there == {"one": (3, 3)}
    assert world.kafka.own["one"]["retention.ms"] == "5"
    assert "asks for 6 partitions, 18 replicas more" in world.ready("one")["message"]
    world.edit("one", partitions=8)
    await world.work()
    assert world.there == {"one": (8, 3)}


async def test_replicas_above_the_quota_wait_but_moves_are_planned():
    world = Tenants(quota(replicas=10), reassignment={"topicApproval": "Allowed"})
    one = world.ask("one")
    await world.look()
    world.kafka.replicas["one"] = ((0, 3, 1), *world.kafka.replicas["one"][1:])
    world.edit("one", replicationFactor=4)
    await world.work()
    assert "asks for 3 replicas more" in world.ready("one")["message"]
    assert {len(change.replicas) for change in world.plan.parts[one.key].changes} == {3}
    world.topology(allowedNamespaces={"from": "All", "quota": quota(replicas=12)})
    await world.look()
    assert {len(change.replicas) for change in world.plan.parts[one.key].changes} == {4}


async def test_plan_for_more_replicas_does_not_start_after_the_quota_is_lowered():
    world = Tenants(quota(replicas=12))
    world.ask("one")
    await world.look()
    world.edit("one", replicationFactor=4)
    await world.work()
    approved = world.plan.hash
    spec = {"allowedNamespaces": {"from": "All", "quota": quota(replicas=9)}}
    world.topology(approved, **spec)
    await world.loop.approvals.reconcile()
    assert not world.begun.plans


async def test_existing_topics_stay_ready_if_the_quota_is_lowered():
    world = Tenants(quota())
    for name in ("one", "two"):
        world.ask(name)
    await world.look()
    before = dict(world.kafka.replicas)
    world.topology(allowedNamespaces={"from": "All", "quota": quota(topics=1, partitions=1, replicas=1)})
    await world.look()
    assert world.kafka.replicas == before
    assert {world.ready(name)["status"] for name in ("one", "two")} == {"True"}


@pytest.mark.parametrize("how", ["deleted", "fewer replicas", "a higher quota"])
async def test_waiting_topic_is_created_when_the_quota_has_room(how):
    world = Tenants(quota(replicas=18))
    for name in ("first", "second", "third"):
        world.ask(name)
    await world.look()
    assert world.there.keys() == {"first", "second"}
    if how == "deleted":
        world.delete("first")
    elif how == "fewer replicas":
        world.kafka.replicas["first"] = tuple(row[:1] for row in world.kafka.replicas["first"])
        world.kafka.replicas["second"] = tuple(row[:2] for row in world.kafka.replicas["second"])
        world.edit("first", replicationFactor=1)
        world.edit("second", replicationFactor=2)
    else:
        world.topology(allowedNamespaces={"from": "All", "quota": quota(replicas=27)})
        world.loop.add(world.cache.topics)
    await world.work()
    assert "third" in world.there
    assert world.ready("third")["status"] == "True"


async def test_restart_does_not_change_which_topics_fit():
    world = Tenants(quota(topics=3, partitions=12))
    for name, partitions in (("a", 4), ("b", 9), ("c", 4), ("d", 5), ("e", 2)):
        world.ask(name, partitions=partitions)
    await world.look("e", "c", "b")
    fits, told = dict(world.there), {name: world.ready(name)["reason"] for name in "bcd" if world.ready(name)}
    for _ in range(2):
        world.restart()
        await world.work()
    assert {name: world.there[name] for name in fits} == fits
    assert {name: world.ready(name)["reason"] for name in told} == told
    assert world.there.keys() == {"a", "c", "e"}, "b and d do not fit with a and c"


async def test_topic_with_a_creation_claim_counts_for_the_quota():
    quota_of_one = topology(allowedNamespaces={"from": "All", "quota": quota(topics=1)})
    old, young = (examples.topic(name, created=f"2026-01-0{day}T00:00:00Z") for name, day in (("old", 1), ("young", 2)))
    claimed = examples.topic("young", created="2026-01-02T00:00:00Z", status={"creating": True})
    assert above(quota_of_one, [old, young]).keys() == {young.key}
    assert above(quota_of_one, [old, claimed]).keys() == {old.key}


async def test_concurrent_batches_do_not_exceed_the_quota():
    world = Tenants(quota(topics=1))
    old, young = world.ask("old"), world.ask("young")
    ledger = world.loop._quotas
    world.cache.drop_topic(old.key)
    assert not ledger.take([young])
    world.cache.keep_topic(old)
    assert ledger.take([old]).keys() == {old.key}, "the younger topic is being created, although no status shows it yet"


async def test_namespace_rests_after_an_expensive_quota_check_and_others_do_not(monkeypatch):
    monkeypatch.setattr(topic_quotas, "_REST", 1e9)
    world = Tenants(quota(topics=1))
    for name, namespace in (("first", "shop"), ("other", "bank"), ("own", "kafka")):
        world.ask(name, namespace=namespace)
        await world.look(name)
        assert name in world.there
    world.edit("first", partitions=4)
    world.edit("own", partitions=4)
    await world.work()
    assert (world.there["own"], world.there["first"]) == ((4, 3), (3, 3))
    monkeypatch.setattr(topic_quotas, "_REST", 0.0)
    world.loop._quotas._rested_at.clear()
    world.loop.add(world.cache.topics)
    await world.work()
    assert world.there["first"] == (4, 3)


async def test_topic_refused_for_another_reason_does_not_count_for_the_quota():
    world = Tenants(
        quota(topics=1), allowedNamespaces={"from": "All", "topicPrefixes": ["$(namespace)."], "quota": quota(topics=1)}
    )
    world.ask("wrong", topicName="bank.orders")
    world.ask("right", topicName="shop.orders")
    await world.look()
    assert world.there.keys() == {"shop.orders"}


def test_quota_is_never_exceeded_and_does_not_depend_on_the_order_of_objects():
    chance = random.Random(1)
    for _ in range(300):
        most = {name: chance.randint(1, 30) for name in ("topics", "partitions", "replicas")}
        prod = topology(allowedNamespaces={"from": "All", "quota": most})
        topics = []
        for number in range(chance.randint(1, 8)):
            have, size = chance.randint(1, 5), chance.randint(1, 4)
            status = {"topicId": f"id-{number}", "partitions": have, "replicationFactor": size}
            topics.append(
                examples.topic(
                    f"t{number}",
                    created=f"2026-01-01T00:00:{chance.randint(0, 5):02}Z",
                    status=chance.choice([{}, status, {"creating": True}]),
                    partitions=chance.randint(1, 6),
                    replicationFactor=chance.randint(1, 4),
                )
            )
        waits = above(prod, topics)
        held = _total(map(_held, topics))
        then = _total((_held if topic.key in waits else _most)(topic) for topic in topics)
        for name, now, before in zip(("topics", "partitions", "replicas"), then, held, strict=True):
            assert now <= max(most[name], before)
        chance.shuffle(topics)
        assert above(prod, topics) == waits


def _held(topic):
    have = topic.status.partitions
    if have is None:
        return (1, *_wish(topic)[1:]) if topic.status.creating else (0, 0, 0)
    return 1, have, have * topic.status.replication_factor


def _wish(topic):
    return 1, topic.spec.partitions, topic.spec.partitions * topic.spec.replication_factor


def _most(topic):
    return tuple(map(max, _held(topic), _wish(topic)))


def _total(uses):
    return tuple(map(sum, zip(*uses, strict=True)))

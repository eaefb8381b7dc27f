"""A claim makes a created topic the object's own, even if the operator crashes before it records the topic id."""

import copy
import dataclasses
from dataclasses import dataclass, field

import pytest
from tests.unit.reconcile import examples
from tests.unit.reconcile.examples import CLUSTER, known, state
from tests.unit.reconcile.kube_memory import REFUSED, MemoryCluster
from tests.unit.reconcile.memory import MemoryKafka
from tests.unit.reconcile.topics.test_reconciler import World

from rackspan.api.kafkatopic import KIND
from rackspan.api.labels import CREATED_FOR, FINALIZER
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.failures import Failure, Remedy
from rackspan.reconcile.topics.creation_claims import must_claim, with_known_claim

UID = "uid-of-orders"
CLAIMED = {CREATED_FOR: f"{UID}/{CLUSTER}"}
BY_AN_EARLIER_VERSION = {CREATED_FOR: UID}


def topic(**given):
    return examples.topic("orders", **{"uid": UID, **given})


@dataclass
class Stored(MemoryCluster):
    """One KafkaTopic as the API server stores it, and its writes. If `away`, it refuses statuses with conditions."""

    body: dict = field(default_factory=dict)
    writes: list[str] = field(default_factory=list)
    away: bool = False

    async def replace_status(self, ref, status):
        if self.away and status.get("conditions"):
            raise REFUSED
        await super().replace_status(ref, status)
        return self._write("status", status=status)

    async def set_finalizers(self, ref, finalizers, version, annotations):
        if version != self.body["metadata"]["resourceVersion"]:
            return None
        metadata = self.body["metadata"]
        merged = {**metadata["annotations"], **annotations}
        return self._write("metadata", metadata={**metadata, "finalizers": list(finalizers), "annotations": merged})

    def _write(self, what, **parts):
        self.writes.append(what)
        self.body = copy.deepcopy({**self.body, **parts})
        self.body["metadata"]["resourceVersion"] = str(1 + len(self.writes))
        return copy.deepcopy(self.body)


def body_of(found):
    """Return the fields that a reconciler reads, as JSON."""
    meta = found.meta
    return {
        "metadata": {
            "namespace": meta.namespace,
            "name": meta.name,
            "uid": meta.uid,
            "generation": meta.generation,
            "resourceVersion": meta.resource_version,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": dict(meta.annotations),
            "finalizers": list(meta.finalizers),
        },
        "spec": {
            "topologyRef": {"namespace": "kafka", "name": "prod"},
            "partitions": found.spec.partitions,
            "replicationFactor": 3,
            "deletionPolicy": str(found.spec.deletion_policy),
        },
        "status": found.status.to_dict(),
    }


def started(kube, kafka, adoption, cluster_id=CLUSTER):
    """Return an operator that has just started and knows the object."""
    world = World(kube, kafka, Cache())
    seen = state(allowedNamespaces={"from": "All"}, adoption=adoption)
    world.observer.state = dataclasses.replace(seen, cluster_id=cluster_id)
    world.topology(world.observer.state)
    tell(world)
    return world


async def reconciled(kube, kafka, adoption, cluster_id=CLUSTER):
    """Run one pass of a new operator and return the status of the object."""
    await started(kube, kafka, adoption, cluster_id).work()
    return kube.body.get("status", {})


def tell(world):
    """Deliver the stored object, as a watch does."""
    body = copy.deepcopy(world.kube.body)
    world.cache.versions.record(KIND, body)
    world.add(world.cache.put_topic(body))


CASES = [
    ("Allowed", "Retain", ["metadata"]),
    ("Allowed", "Delete", ["metadata"]),
    ("Own", "Retain", ["metadata", "status"]),
    ("Never", "Delete", ["metadata", "status"]),
]


@pytest.mark.parametrize(("adoption", "policy", "before"), CASES)
async def test_topic_created_before_a_crash_is_adopted_only_if_no_claim_was_required(adoption, policy, before):
    kube, kafka = Stored(body=body_of(topic(deletionPolicy=policy)), away=True), MemoryKafka()
    await reconciled(kube, kafka, adoption)
    assert kube.writes == before, "a claim costs at most one write more than the finalizer"
    assert "orders" in kafka.replicas, "the topic was created before the API server became unreachable"
    kube.away = False
    status = await reconciled(kube, kafka, adoption)
    assert status["topicId"] == "id-of-orders"
    assert status.get("adopted") == (
        None if must_claim(topic(deletionPolicy=policy), state(adoption=adoption)) else True
    )
    assert kube.writes == [*before, "status"]


@pytest.mark.parametrize(("adoption", "policy"), [("Allowed", "Delete"), ("Own", "Retain"), ("Never", "Delete")])
@pytest.mark.parametrize("away", [True, False], ids=["a crash", "no answer"])
async def test_claim_for_one_cluster_does_not_apply_in_another_cluster(adoption, policy, away):
    kube, old = Stored(body=body_of(topic(deletionPolicy=policy)), away=away), MemoryKafka()
    old.broken["create_topics"] = Failure("KafkaUnreachable", "no answer", Remedy.RETRY)
    await reconciled(kube, old, adoption)
    kube.away = False
    new = MemoryKafka({"orders": ((0, 2, 4),) * 3}, {"orders": {}}, ids="somebody-else-s".format)
    status = await reconciled(kube, new, adoption, "kafka-2")
    assert (status.get("topicId"), status["clusterId"]) == (None, CLUSTER)
    assert kube.condition("orders", "Ready")["reason"] == "ClusterIdMismatch"
    old.broken.clear()
    status = await reconciled(kube, old, adoption)
    assert (status["topicId"], status.get("adopted")) == ("id-of-orders", None), (
        "in the first cluster the topic is the object's own"
    )


@pytest.mark.parametrize(
    ("adoption", "policy", "claims"),
    [("Allowed", "Retain", False), ("Allowed", "Delete", True), ("Own", "Retain", True), ("Never", "Retain", True)],
)
def test_claim_is_required_if_adoption_is_not_allowed_or_the_policy_is_delete(adoption, policy, claims):
    where = state(adoption=adoption)
    assert must_claim(topic(deletionPolicy=policy), where) == claims
    assert not must_claim(topic(deletionPolicy=policy, status={"creating": True}), where)


@pytest.mark.parametrize(
    ("adoption", "namespace", "counts"),
    [("Allowed", "shop", True), ("Own", "kafka", True), ("Own", "shop", False), ("Never", "kafka", False)],
)
def test_claim_annotation_counts_only_for_objects_that_may_adopt(adoption, namespace, counts):
    """Tenants can write the annotation."""
    claimed = with_known_claim(topic(namespace=namespace, annotations=CLAIMED), state(adoption=adoption))
    assert bool(claimed.status.creating) is counts


@pytest.mark.parametrize(
    "given",
    [
        {"annotations": {CREATED_FOR: "uid-of-another"}},
        {"annotations": {CREATED_FOR: "true"}},
        {"annotations": CLAIMED, "status": {"creating": False}},
        {"annotations": CLAIMED, "status": known()},
    ],
    ids=["of an object that this is a copy of", "by hand", "used up", "there was a topic since"],
)
async def test_claim_annotation_of_another_or_a_finished_creation_does_not_count(given):
    assert not with_known_claim(topic(**given), state(adoption="Allowed")).status.creating


async def test_claim_annotation_of_an_earlier_version_counts_in_any_cluster():
    for cluster_id in (CLUSTER, "kafka-2"):
        body = body_of(topic(deletionPolicy="Delete", annotations=BY_AN_EARLIER_VERSION, finalizers=[FINALIZER]))
        kafka = MemoryKafka({"orders": ((0, 2, 4),) * 3}, {"orders": {}})
        status = await reconciled(Stored(body=body), kafka, "Allowed", cluster_id)
        assert (status["topicId"], status.get("adopted"), status["clusterId"]) == ("id-of-orders", None, cluster_id)


async def test_topic_refused_by_one_cluster_can_be_created_in_another_cluster():
    kube, old, new = Stored(body=body_of(topic())), MemoryKafka(), MemoryKafka()
    old.refusing["orders"] = Failure("InvalidConfig", "Kafka says INVALID_CONFIG", Remedy.SPEC)
    status = await reconciled(kube, old, "Never")
    assert (status.get("creating"), status.get("clusterId")) == (None, None)
    status = await reconciled(kube, new, "Never", "kafka-2")
    assert (status["topicId"], status["clusterId"]) == ("id-of-orders", "kafka-2")


async def test_claim_ends_when_kafka_refuses_the_creation():
    """A topic of that name that another client creates later is an adoption."""
    kube, kafka = Stored(body=body_of(topic(deletionPolicy="Delete"))), MemoryKafka()
    kafka.refusing["orders"] = Failure("KafkaRefused", "Kafka says TOPIC_ALREADY_EXISTS", Remedy.RETRY)
    status = await reconciled(kube, kafka, "Allowed")
    assert (status["creating"], kube.body["metadata"]["annotations"]) == (False, CLAIMED)
    kafka.refusing.clear()
    kafka.replicas["orders"], kafka.own["orders"] = ((0, 2, 4),) * 3, {}
    status = await reconciled(kube, kafka, "Allowed")
    assert status["adopted"]


async def test_recreated_topic_is_claimed_in_the_status():
    """The annotation is about the first creation."""
    lost = topic(
        deletionPolicy="Delete", onTopicLoss="Recreate", annotations=CLAIMED, finalizers=[FINALIZER], status=known()
    )
    body = body_of(lost)
    body["spec"]["onTopicLoss"] = "Recreate"
    body["status"]["conditions"] = []
    kube, kafka = Stored(body=body), MemoryKafka()
    world = started(kube, kafka, "Allowed")
    world.loop._is_debounced = lambda *_: False
    await world.work()
    assert (kube.body["status"].get("topicId"), kube.body["status"]["creating"]) == (None, False)
    kube.writes.clear()
    status = await reconciled(kube, kafka, "Allowed")
    assert kube.writes == ["status", "status"], "the claim, then the result"
    assert (status["topicId"], status.get("adopted")) == ("id-of-orders", None)


async def test_nothing_is_created_for_an_object_that_has_changed():
    kube, kafka = Stored(body=body_of(topic(deletionPolicy="Delete"))), MemoryKafka()
    world = started(kube, kafka, "Allowed")
    kube.body["metadata"]["resourceVersion"] = "2"
    await world.work()
    assert (kafka.replicas, kube.writes) == ({}, [])

"""Hundreds of damaged manifests: each is refused or gets a status with a reason, and no other object is affected."""

import copy
import random
from collections import Counter

from confluent_kafka import KafkaError
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from tests.support.manifests import ASSIGNED_TOPIC, FULL_TOPIC, FULL_TOPOLOGY, TOPIC, TOPOLOGY
from tests.support.mutations import mutated
from tests.support.objects import GROUP, PLURALS, VERSION
from tests.support.objects import TOPOLOGY as SHARED
from tests.support.waiting import until

SEED = 879
ROUNDS = 2
ROUND = 200


def test_damaged_manifests_are_refused_or_get_a_status_and_harm_no_other_topic(shop, topics, kafka, operator):
    there = topics.create(shop.kafka_name("there"), partitions=3, config={"retention.ms": "86400000"})
    shop.create_topic("managed", config={"retention.ms": 86_400_000})
    managed = shop.until_ready("managed")
    names = [shop.kafka_name("there"), shop.kafka_name("managed")]
    replicas = [topics.replicas(name) for name in names]

    seen = len(operator.log)
    chance = random.Random(SEED)
    bases = _bases(shop, kafka)
    codes, accepted = Counter(), 0
    for turn in range(ROUNDS):
        made = []
        for number in range(ROUND):
            manifest = mutated(chance.choice(bases), chance)
            manifest["metadata"] = {"namespace": shop.namespace, "name": f"damaged-{turn}-{number}"}
            try:
                made.append(shop.create(manifest))
            except ApiException as error:
                codes[error.status] += 1
        until(lambda made=made: not _untold(shop, made), "every object to get a status")
        accepted += len(made)
        for manifest in made:
            shop.delete(manifest["kind"], manifest["metadata"]["name"])
        until(lambda made=made: not _left(shop, made), "every damaged object to be gone")
        litter = [name for name in topics.admin.list_topics(timeout=300).topics if name.startswith("damaged-")]
        for answer in topics.admin.delete_topics(litter).values() if litter else ():
            refused = answer.exception(120)  # the operator may have deleted it in the meantime
            assert refused is None or refused.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART, refused
    assert accepted + codes.total() == ROUNDS * ROUND
    assert codes.keys() <= {400, 422}, codes
    assert accepted >= 50, "too few manifests were accepted"
    assert codes.total() >= 50, "too few manifests were refused"

    # kopf asks again for what a busy API server did not answer.
    new = [line for line in operator.log[seen:] if "failed; will retry: " not in line["message"]]
    assert [line for line in new if line["severity"] in ("error", "critical") or "unexpected" in str(line)] == []
    assert topics.id(shop.kafka_name("there")) == there
    assert shop.topic("managed")["status"]["topicId"] == managed["status"]["topicId"]
    for name, before in zip(names, replicas, strict=True):
        assert topics.replicas(name)[: len(before)] == before, f"{name}: a replica was moved"
        assert "retention.ms" in topics.config(name)
    shop.create_topic("afterwards")
    shop.until_ready("afterwards")


def _bases(shop, kafka):
    """Return valid manifests: topics of the shared topology, some with the same name, and topologies of its Kafka."""
    found = []
    for topic in (TOPIC, FULL_TOPIC, ASSIGNED_TOPIC):
        for name in ("there", "managed", None):
            base = copy.deepcopy(topic)
            base["spec"]["topologyRef"] = {"name": SHARED, "namespace": shop.topology_namespace}
            if name:
                base["spec"] |= {"topicName": shop.kafka_name(name), "deletionPolicy": "Retain"}
            else:
                base["spec"].pop("topicName", None)
            found.append(base)
    for topology in (TOPOLOGY, FULL_TOPOLOGY):
        base = copy.deepcopy(topology)
        base["spec"]["kafka"]["bootstrapServers"] = kafka.bootstrap()
        found.append(base)
    without_login = copy.deepcopy(found[-1])
    without_login["spec"]["kafka"] = {"bootstrapServers": kafka.bootstrap()}
    return [*found, without_login]


def _untold(shop, made):
    now = {(obj["kind"], obj["metadata"]["name"]): obj for obj in _all(shop)}
    return [
        manifest
        for manifest in made
        if not _told(now.get((manifest["kind"], manifest["metadata"]["name"]), {"metadata": {}}))
    ]


def _told(obj):
    status = obj.get("status", {})
    return status.get("observedGeneration") == obj["metadata"].get("generation") and any(
        condition["type"] == "Ready" for condition in status.get("conditions", ())
    )


def _left(shop, made):
    gone = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in made}
    return [obj for obj in _all(shop) if (obj["kind"], obj["metadata"]["name"]) in gone]


def _all(shop):
    listed = client.CustomObjectsApi(shop.api).list_namespaced_custom_object
    return [
        obj
        for kind, plural in PLURALS.items()
        for obj in ({"kind": kind, **item} for item in listed(GROUP, VERSION, shop.namespace, plural)["items"])
    ]

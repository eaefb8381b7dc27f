"""A hostile tenant that is admin of its namespace and runs attacks that cost other tenants time or memory.

    .venv/bin/python -m benchmarks.hostile KUBECONFIG [ATTACK ...]

It runs until SIGTERM, and then prints the number of tries of each attack. Without names, all attacks run in parallel.
"""

import argparse
import asyncio
import base64
import contextlib
import itertools
import signal
import time
import zlib
from collections import defaultdict
from pathlib import Path

from dev.stack.nodes import BROKER_LABELS, broker_pod
from tests.support.hostile_kafka import NOT_UTF8, HostileKafka, spoiling

from benchmarks.topics import NAMESPACE
from rackspan.core.planning import Change
from rackspan.kube.rest import Rest, connect
from rackspan.reconcile.plans.plan_documents import document, packed
from rackspan.reconcile.ports import Record

GROUP = "/apis/rackspan.dev/v1alpha1/namespaces"
HOSTILE = "hostile"
PATIENCE_SECONDS = 240.0
RESTARTED = 6
"""The broker that restarts repeatedly. The topics of the owner and of the quiet tenant have no replica on it."""


def silent(_answer):
    return None


def of_many_brokers(answer):
    if answer.name == "MetadataResponse":
        one = answer.brokers[0]
        kind = type(one)
        answer.brokers = [
            kind(version=answer.version, node_id=number, host=one.host, port=one.port, rack=one.rack)
            for number in range(10_000)
        ]
    return answer


KAFKAS = {
    "null-cluster-id": spoiling("Metadata", "cluster_id", None),
    "no-utf8-rack": spoiling("Metadata", "brokers.rack", NOT_UTF8),
    "null-config": spoiling("DescribeConfigs", "results.configs.name", None),
    "no-results": spoiling("DescribeConfigs", "results", []),
    "many-brokers": of_many_brokers,
    "silent": silent,
}


class Objects:
    """The objects of one namespace."""

    def __init__(self, rest: Rest, namespace: str) -> None:
        self.rest, self.namespace = rest, namespace

    def path(self, plural, name=""):
        return f"{GROUP}/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    @property
    def pods(self):
        return f"/api/v1/namespaces/{self.namespace}/pods"

    async def make(self, kind, plural, name, spec, annotations=None):
        metadata = {"name": name, "namespace": self.namespace, "annotations": annotations or {}}
        body = {"apiVersion": "rackspan.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
        await self.rest.post("bench", self.path(plural), body)

    async def topic(self, name, annotations=None, **spec):
        reference = {"name": "bench", "namespace": NAMESPACE}
        spec = {"topologyRef": reference, "partitions": 3, "replicationFactor": 3, "deletionPolicy": "Delete", **spec}
        spec["topicName"] = f"{self.namespace}.{name}"
        await self.make("KafkaTopic", "kafkatopics", name, spec, annotations)

    async def change(self, name, spec):
        await self.rest.merge_patch("bench", self.path("kafkatopics", name), {"spec": spec})

    async def delete(self, plural, name):
        await self.rest.delete("bench", self.path(plural, name), {})

    async def clear(self):
        """Delete all objects of the namespace, and wait until the operator has removed its finalizers.

        The topics in Kafka are kept, because so many deletions need a confirmation.
        """
        for topic in (await self.rest.get("bench", self.path("kafkatopics")))["items"]:
            await self.change(topic["metadata"]["name"], {"deletionPolicy": "Retain"})
        paths = [self.pods, *map(self.path, ("kafkatopics", "reassignments", "racktopologies"))]
        for path in paths:
            await self.rest.delete("bench", path, {})
        deadline = time.monotonic() + PATIENCE_SECONDS
        while any([(await self.rest.get("bench", path))["items"] for path in paths]):
            if time.monotonic() > deadline:
                raise TimeoutError(f"objects of {self.namespace} are not deleted")
            await asyncio.sleep(1)

    async def get(self, plural, name):
        with contextlib.suppress(Exception):
            return await self.rest.get("bench", self.path(plural, name))
        return None

    async def until(self, name, reached):
        """Return the seconds until `reached` is true for a KafkaTopic, which is None after its deletion."""
        started = time.perf_counter()
        while not reached(await self.get("kafkatopics", name)):
            if time.perf_counter() - started > PATIENCE_SECONDS:
                raise TimeoutError(f"{self.namespace}/{name}: {await self.get('kafkatopics', name)}")
            await asyncio.sleep(0.05)
        return time.perf_counter() - started


async def attack(kubeconfig, names, told):
    """Run all attacks with these names in parallel until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    rest = Rest(await connect(kubeconfig))
    objects = Objects(rest, HOSTILE)
    kafkas = KAFKAS if "paused" in names else {name: KAFKAS[name] for name in KAFKAS if name in names}
    with contextlib.ExitStack() as stack:
        for name, mutate in kafkas.items():
            kafka = stack.enter_context(HostileKafka(mutate))
            spec = {
                "kafka": {"bootstrapServers": kafka.address},
                "rackSource": "Broker",
                "levels": [{"name": "zone", "nodeLabel": "topology.kubernetes.io/zone"}],
            }
            await objects.make("RackTopology", "racktopologies", name, spec)
        kinds = [kind for name, kind in KINDS.items() if name in names]
        await asyncio.gather(stop.wait(), *(repeat(one, objects, told, stop) for one in kinds))
    await rest.close()


async def repeat(what, objects, told, stop):
    for number in itertools.count():
        if stop.is_set():
            return
        try:
            await what(objects, number)
            told[what.__name__] += 1
        except Exception as error:  # some attacks are expected to be rejected
            told[f"{what.__name__}: {type(error).__name__}"] += 1
            await asyncio.sleep(1)


async def flip(objects, number):
    """Change the replication factor every two seconds."""
    if not number:
        await objects.topic("flip", partitions=9)
    await objects.change("flip", {"replicationFactor": 2 + number % 2})
    await asyncio.sleep(2)


async def large(objects, number):
    """Request 30 moves of one topic, repeatedly. This is more than maxMoves."""
    rows = [[number % 3, 3 + (number + one) % 3] for one in range(30)]
    if not number:
        await objects.topic("large", partitions=30, replicationFactor=2, placement={"assignment": rows})
    await objects.change("large", {"placement": {"assignment": rows}})
    await asyncio.sleep(20)


async def burst(objects, number):
    """Delete 45 topics at once. This is more than the topology allows per minute."""
    names = [f"burst-{number}-{one}" for one in range(45)]
    for name in names:
        await objects.topic(name, partitions=1)
    await asyncio.sleep(10)
    for name in names:
        await objects.delete("kafkatopics", name)
    await asyncio.sleep(10)


async def fat(objects, number):
    """Create up to 600 objects with annotations of 248 kB."""
    if number < 600:
        await objects.topic(f"fat-{number}", {"example.com/fat": "x" * 248_000}, partitions=1)
    await asyncio.sleep(0.3)


async def pods(objects, number):
    """Create up to 400 pods with the labels of brokers and annotations of 248 kB."""
    if number < 400:
        pod = broker_pod(f"pod-{number}", "node-0", BROKER_LABELS, {"example.com/fat": "x" * 248_000})
        await objects.rest.post("bench", objects.pods, pod)
    await asyncio.sleep(0.1)


async def bombs(objects, number):
    """Create up to 50 plans of 43 kB that unpack to 32 MiB."""
    if number < 50:
        plan = base64.b64encode(zlib.compress(b"[" + b"{}," * (32 << 20 >> 2) + b"{}]", 9)).decode()
        spec = {"topologyRef": {"name": "null-cluster-id"}, "planHash": f"{number:032x}", "plan": plan}
        await objects.make("Reassignment", "reassignments", f"bomb-{number}", spec)
    await asyncio.sleep(5)


async def paused(objects, number):
    """Create up to 60 paused Reassignments."""
    if number < 60:
        record = Record("none", f"{number:032x}", [Change("t", 0, (1, 2), (1, 3), None)], {}, {})
        spec = {
            "topologyRef": {"name": list(KAFKAS)[number % len(KAFKAS)]},
            "planHash": record.plan_hash,
            "plan": packed(document(record), 10_000),
            "paused": True,
        }
        await objects.make("Reassignment", "reassignments", f"p-{number}", spec)
    await asyncio.sleep(1)


async def single(objects, number):
    """Create topics with one replica, on the broker that restarts."""
    if number < 20:
        await objects.topic(
            f"single-{number}", partitions=1, replicationFactor=1, placement={"assignment": [[RESTARTED]]}
        )
    await asyncio.sleep(5)


async def huge(objects, number):
    """Create topics with 100,000 partitions."""
    if number < 20:
        await objects.topic(f"huge-{number}", partitions=100_000)
    await asyncio.sleep(10)


KINDS = {one.__name__: one for one in (flip, large, burst, fat, pods, bombs, huge, paused, single)}
ATTACKS = (*KAFKAS, *KINDS)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hostile", description=__doc__)
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=f"of {', '.join(ATTACKS)} (default: all)")
    arguments = parser.parse_args()
    if unknown := set(arguments.attacks) - set(ATTACKS):
        parser.error(f"unknown attacks: {', '.join(sorted(unknown))}")
    told = defaultdict(int)
    asyncio.run(attack(arguments.kubeconfig, arguments.attacks or ATTACKS, told))
    print(dict(told))


if __name__ == "__main__":
    main()

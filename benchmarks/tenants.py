"""
What one hostile tenant costs others: an owner's topics, alone and then beside a namespace that tries everything.

    .venv/bin/python -m benchmarks tenants [--minutes 10] [--alone 3]

The operator has the rights that the chart gives it, and its memory limit, in a cgroup where this machine has cgroups
(v1). The hostile tenant is admin of its namespace.
"""

import argparse
import asyncio
import base64
import contextlib
import itertools
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections import defaultdict
from pathlib import Path

import yaml
from dev.paths import REPOSITORY
from dev.stack.assets import ensure_helm
from dev.stack.nodes import create_broker_pod, sites
from dev.waiting import eventually
from kubernetes import client
from tests.support.helm import Helm
from tests.support.hostile_kafka import NOT_UTF8, HostileKafka, spoiling

from benchmarks.machine import describe
from benchmarks.topics import NAMESPACE, Operator, Stack, fresh_stack
from rackspan.api.labels import RESTART
from rackspan.core.planning import Change
from rackspan.kube.rest import Rest, connect
from rackspan.reconcile.reassignments.documents import document, packed
from rackspan.reconcile.reassignments.ports import Record

GROUP = "/apis/rackspan.dev/v1alpha1/namespaces"
HOSTILE, QUIET = "hostile", "quiet"
RACKS = ("/eu/a/r1", "/eu/b/r1", "/eu/c/r1", "/eu/a/r2", "/eu/b/r2", "/eu/c/r2", "/eu/a/r3")
RESTARTED = 6
"""The broker that restarts again and again. No topic of the owner or of the quiet tenant has a replica on it."""
PLACED = {"assignment": [[0, 1, 2], [1, 2, 0], [2, 0, 1]]}
SYSTEM = "rackspan"
VALUES = {"racks": {"restart": [NAMESPACE]}, "kafka": {"trustedNamespaces": [NAMESPACE]}}
RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
PATIENCE_SECONDS = 240.0
MEMORY = Path("/sys/fs/cgroup/memory")
LEAST_SECONDS = 4.0
"""Of a round: an operator that rests for a moment between two changes is no faster for it."""


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
    """Objects of one namespace."""

    def __init__(self, rest: Rest, namespace: str) -> None:
        self.rest, self.namespace = rest, namespace

    def path(self, plural, name=""):
        return f"{GROUP}/{self.namespace}/{plural}" + (f"/{name}" if name else "")

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

    async def get(self, plural, name):
        with contextlib.suppress(Exception):
            return await self.rest.get("bench", self.path(plural, name))
        return None

    async def until(self, name, reached):
        """Seconds until a KafkaTopic, None once it is gone, is so."""
        started = time.perf_counter()
        while not reached(await self.get("kafkatopics", name)):
            if time.perf_counter() - started > PATIENCE_SECONDS:
                raise TimeoutError(f"{self.namespace}/{name}: {await self.get('kafkatopics', name)}")
            await asyncio.sleep(0.05)
        return time.perf_counter() - started


def ready(topic):
    if not topic:
        return False
    conditions = {one["type"]: one for one in topic.get("status", {}).get("conditions", ())}
    found = conditions.get("Ready", {})
    return found.get("status") == "True" and found.get("observedGeneration") == topic["metadata"]["generation"]


async def change(objects, number, told):
    """Make a topic, set a config, delete the topic; the seconds of each."""
    name = f"t{number}"
    await objects.topic(name, placement=PLACED)
    told["create"].append(await objects.until(name, ready))
    await objects.change(name, {"config": {"retention.ms": 1_000_000 + number}})
    told["config"].append(await objects.until(name, ready))
    await objects.delete("kafkatopics", name)
    told["delete"].append(await objects.until(name, lambda found: found is None))


async def move(objects, number, told):
    """Make a topic, and move three of its replicas; the seconds of that."""
    name = f"m{number}"
    await objects.topic(name, placement=PLACED)
    await objects.until(name, ready)
    await objects.change(name, {"placement": {"assignment": [[3, 1, 2], [1, 5, 0], [2, 0, 4]]}})
    told["plan and moves"].append(await objects.until(name, ready))
    await objects.delete("kafkatopics", name)


async def rounds(what, objects, numbers, until, told):
    while time.monotonic() < until:
        began = time.monotonic()
        await what(objects, next(numbers), told)
        await asyncio.sleep(max(0, LEAST_SECONDS - (time.monotonic() - began)))


class RestartedBroker:
    """The pod of a broker, which its owner makes again after an eviction, as a StatefulSet and a kubelet would."""

    def __init__(self, stack: Stack, core: client.CoreV1Api) -> None:
        self._stack, self._core, self._site = stack, core, sites(*RACKS)[RESTARTED]
        body = {"metadata": {"name": "brokers"}}
        self._controller = core.create_namespaced_config_map(NAMESPACE, body).metadata.uid
        self._own()

    def _own(self):
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "brokers", "uid": self._controller}
        metadata = {"ownerReferences": [{**owner, "controller": True}]}
        self._core.patch_namespaced_pod(self._site.pod, NAMESPACE, {"metadata": metadata})

    def _is_gone(self):
        try:
            self._core.read_namespaced_pod(self._site.pod, NAMESPACE)
        except client.ApiException as error:
            return error.status == 404
        return False

    def start_again(self):
        """Once it is evicted."""
        eventually(self._is_gone, "the eviction of the broker's pod", timeout=PATIENCE_SECONDS)
        self._stack.kafka.restart_broker(RESTARTED, {})
        create_broker_pod(self._core, NAMESPACE, self._site.pod, self._site.node)
        self._own()


async def restarts(objects, broker, until, told):
    """Have a broker restarted, again and again; the seconds from the annotation until the operator takes it off."""
    path = objects.path("racktopologies", "bench")
    while time.monotonic() < until:
        began = time.perf_counter()
        await objects.rest.merge_patch("bench", path, {"metadata": {"annotations": {RESTART: str(RESTARTED)}}})
        await asyncio.to_thread(broker.start_again)
        while RESTART in ((await objects.rest.get("bench", path))["metadata"].get("annotations") or {}):
            if time.perf_counter() - began > PATIENCE_SECONDS:
                raise TimeoutError("the restart of a broker does not end")
            await asyncio.sleep(0.2)
        told["restart"].append(time.perf_counter() - began)


async def attack(kubeconfig, told):
    """All at once, until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    rest = Rest(await connect(kubeconfig))
    objects = Objects(rest, HOSTILE)
    with contextlib.ExitStack() as stack:
        for name, mutate in KAFKAS.items():
            kafka = stack.enter_context(HostileKafka(mutate))
            spec = {
                "kafka": {"bootstrapServers": kafka.address},
                "rackSource": "Broker",
                "levels": [{"name": "zone", "nodeLabel": "topology.kubernetes.io/zone"}],
            }
            await objects.make("RackTopology", "racktopologies", name, spec)
        kinds = (flip, large, burst, fat, bombs, huge, paused, single)
        await asyncio.gather(*(repeat(one, objects, told, stop) for one in kinds))
    await rest.close()


async def repeat(what, objects, told, stop):
    for number in itertools.count():
        if stop.is_set():
            return
        try:
            await what(objects, number)
            told[what.__name__] += 1
        except Exception as error:  # refused: that is what shall happen to some of it
            told[f"{what.__name__}: {type(error).__name__}"] += 1
            await asyncio.sleep(1)


async def flip(objects, number):
    """The replication factor, every two seconds."""
    if not number:
        await objects.topic("flip", partitions=9)
    await objects.change("flip", {"replicationFactor": 2 + number % 2})
    await asyncio.sleep(2)


async def large(objects, number):
    """30 moves of one topic, again and again: more than maxMoves."""
    rows = [[number % 3, 3 + (number + one) % 3] for one in range(30)]
    if not number:
        await objects.topic("large", partitions=30, replicationFactor=2, placement={"assignment": rows})
    await objects.change("large", {"placement": {"assignment": rows}})
    await asyncio.sleep(20)


async def burst(objects, number):
    """45 deletions at once: more than the topology lets go in a minute."""
    names = [f"burst-{number}-{one}" for one in range(45)]
    for name in names:
        await objects.topic(name, partitions=1)
    await asyncio.sleep(10)
    for name in names:
        await objects.delete("kafkatopics", name)
    await asyncio.sleep(10)


async def fat(objects, number):
    """Up to 600 objects with annotations of 248 kB."""
    if number < 600:
        await objects.topic(f"fat-{number}", {"example.com/fat": "x" * 248_000}, partitions=1)
    await asyncio.sleep(0.3)


async def bombs(objects, number):
    """Up to 50 plans of 43 kB that claim to be 32 MiB."""
    if number < 50:
        plan = base64.b64encode(zlib.compress(b"[" + b"{}," * (32 << 20 >> 2) + b"{}]", 9)).decode()
        spec = {"topologyRef": {"name": "null-cluster-id"}, "planHash": f"{number:032x}", "plan": plan}
        await objects.make("Reassignment", "reassignments", f"bomb-{number}", spec)
    await asyncio.sleep(5)


async def paused(objects, number):
    """Up to 60 Reassignments that hold their place and do not run."""
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
    """Topics of one replica, on the broker that restarts."""
    if number < 20:
        await objects.topic(
            f"single-{number}", partitions=1, replicationFactor=1, placement={"assignment": [[RESTARTED]]}
        )
    await asyncio.sleep(5)


async def huge(objects, number):
    """Topics of 100,000 partitions."""
    if number < 20:
        await objects.topic(f"huge-{number}", partitions=100_000)
    await asyncio.sleep(10)


async def measure(stack: Stack, broker: RestartedBroker, hostile: Path, alone: float, minutes: float):
    rest, found = Rest(await connect(stack.kubeconfig)), {}
    owner, quiet = (Objects(rest, name) for name in (NAMESPACE, QUIET))
    try:
        numbers = itertools.count()
        for what, lasts, attacked in (("alone", alone, False), ("attacked", minutes, True)):
            found[what] = {}
            # At the lowest priority: the tenant's Kafkas would not be on the operator's machine.
            command = [
                "nice",
                "-n",
                "19",
                sys.executable,
                "-m",
                "benchmarks.tenants",
                "--attack",
                str(hostile),
            ]
            process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE) if attacked else None
            until = time.monotonic() + 60 * lasts
            async with asyncio.TaskGroup() as group:
                for objects in (owner, quiet):
                    told = found[what][objects.namespace] = defaultdict(list)
                    for one in (change, move):
                        group.create_task(rounds(one, objects, numbers, until, told))
                group.create_task(restarts(owner, broker, until, found[what][NAMESPACE]))
            if process is not None:
                process.terminate()
                found["tries"] = (await process.communicate())[0].decode().strip()
        return found
    finally:
        await rest.close()


@contextlib.contextmanager
def limited(operator: Operator, limit: str):
    """The operator within a limit on memory; gives the group's folder, None where there are no cgroups."""
    folder = MEMORY / f"rackspan-{operator.pid}"
    if not (MEMORY / "cgroup.procs").exists():
        yield None
        return
    folder.mkdir()
    try:
        (folder / "memory.limit_in_bytes").write_text(limit)
        (folder / "cgroup.procs").write_text(str(operator.pid))
        yield folder
    finally:
        operator.stop()
        folder.rmdir()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks tenants", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="beside the hostile tenant (default 10)")
    parser.add_argument("--alone", type=float, default=3, help="minutes without it (default 3)")
    parser.add_argument("--attack", type=Path, metavar="KUBECONFIG", help="only be the hostile tenant, until SIGTERM")
    arguments = parser.parse_args()
    if arguments.attack:
        tries = defaultdict(int)
        asyncio.run(attack(arguments.attack, tries))
        print(dict(tries))
        return
    print(f"{describe()}\n")
    values = yaml.safe_load((REPOSITORY / "charts/rackspan/values.yaml").read_text())
    limit = values["resources"]["limits"]["memory"].removesuffix("i")
    with fresh_stack("256m", RACKS) as stack, tempfile.TemporaryDirectory() as folder:
        for name in (QUIET, HOSTILE, SYSTEM):
            stack.plane.kubectl("create", "namespace", name)
        kubectl = stack.plane.kubectl
        kubectl("create", "serviceaccount", "attacker", f"--namespace={HOSTILE}")
        account = f"--serviceaccount={HOSTILE}:attacker"
        kubectl("create", "rolebinding", "attacker", "--clusterrole=admin", account, f"--namespace={HOSTILE}")
        rights = [one for one in Helm(ensure_helm()).objects(VALUES) if one["kind"] in RIGHTS]
        kubectl.apply(*rights)
        service_account = next(one["metadata"]["name"] for one in rights if one["kind"] == "ServiceAccount")
        ours, hostile = (
            stack.plane.cluster.kubeconfig_for_service_account(namespace, name, Path(folder) / name)
            for namespace, name in ((SYSTEM, service_account), (HOSTILE, "attacker"))
        )
        shared = {"allowedNamespaces": {"from": "All", "topicPrefixes": ["$(namespace)."]}}
        moves = {"defaults": {"reassignment": {"approval": "Automatic"}}, "reassignment": {"maxMoves": 20}}
        patch = yaml.safe_dump({"spec": {**shared, **moves, "maxDeletionsPerMinute": 30}})
        stack.plane.kubectl("patch", "rt", "bench", f"--namespace={NAMESPACE}", "--type=merge", f"--patch={patch}")
        options = (f"--lease-namespace={SYSTEM}", f"--lease-name={service_account}")
        allowed = (f"--restart-pods-in={NAMESPACE}", f"--kafka-trusted-namespace={NAMESPACE}")
        operator = Operator(ours, Path(folder) / "log", *options, *allowed)
        with limited(operator, limit) as group:
            operator.until_ready()
            pid = operator.pid
            with stack.plane.api_client() as api:
                broker = RestartedBroker(stack, client.CoreV1Api(api))
                found = asyncio.run(measure(stack, broker, hostile, arguments.alone, arguments.minutes))
            counters = operator.counters()
            operator.check()
            told(found)
            failures = {name: value for name, value in counters.items() if "client_failures_total" in name}
            print(f"\nthe hostile tenant's tries: {found['tries']}")
            print(f"worker processes that ended: {failures}")
            print(f"the operator's process: {'the same' if operator.pid == pid else 'another'}")
            print(f"memory of operator and workers at the peak: {operator.peak >> 20} MiB (sum of RSS)")
            if group is not None:
                peak = int((group / "memory.max_usage_in_bytes").read_text())
                print(f"in the cgroup: {peak >> 20} MiB of {limit}, {(group / 'memory.oom_control').read_text()!r}")


def told(found):
    print("| whose | what | alone: n, median s | attacked: n, median s | ratio |")
    print("| --- | --- | ---: | ---: | ---: |")
    for namespace, kinds in found["alone"].items():
        for what, before in kinds.items():
            after = found["attacked"][namespace][what]
            of = [statistics.median(some) for some in (before, after)]
            cells = [f"{len(before)}, {of[0]:.2f}", f"{len(after)}, {of[1]:.2f}", f"{of[1] / of[0]:.2f}"]
            print(f"| {namespace} | {what} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()

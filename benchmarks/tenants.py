"""
The effect of a hostile tenant on other tenants: the times of their topics, first without it and then with its attacks.

    .venv/bin/python -m benchmarks tenants [--minutes 10] [--alone 3]
    .venv/bin/python -m benchmarks tenants --each 40

With `--each`, each attack runs alone for this number of seconds. The operator has the permissions and the memory limit
of the chart. The limit needs cgroups v1. The hostile tenant is admin of its namespace, and has the priority level of
`examples/more/tenants-priority.yaml` in the API server.
"""

import argparse
import asyncio
import contextlib
import itertools
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import defaultdict
from pathlib import Path

import yaml
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from dev.paths import REPOSITORY
from dev.stack.assets import ensure_helm
from dev.stack.nodes import create_broker_pod, sites
from dev.waiting import eventually
from kubernetes import client
from tests.support.helm import Helm

from benchmarks.hostile import ATTACKS, HOSTILE, PATIENCE_SECONDS, RESTARTED, Objects
from benchmarks.machine import describe
from benchmarks.topics import NAMESPACE, Operator, Stack, fresh_stack
from rackspan.api.labels import RESTART
from rackspan.kube.rest import Rest, connect

QUIET = "quiet"
RACKS = ("/eu/a/r1", "/eu/b/r1", "/eu/c/r1", "/eu/a/r2", "/eu/b/r2", "/eu/c/r2", "/eu/a/r3")
PLACED = {"assignment": [[0, 1, 2], [1, 2, 0], [2, 0, 1]]}
SYSTEM = "rackspan"
VALUES = {"racks": {"restart": [NAMESPACE]}, "kafka": {"trustedNamespaces": [NAMESPACE]}}
RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
MEMORY = Path("/sys/fs/cgroup/memory")
LEAST_SECONDS = 4.0
"""The minimum seconds of a round. A pause between two changes does not make the operator faster."""


def ready(topic):
    if not topic:
        return False
    conditions = {one["type"]: one for one in topic.get("status", {}).get("conditions", ())}
    found = conditions.get("Ready", {})
    return found.get("status") == "True" and found.get("observedGeneration") == topic["metadata"]["generation"]


async def change(objects, number, told):
    """Create a topic, set a config, and delete the topic. Record the seconds of each."""
    name = f"t{number}"
    await objects.topic(name, placement=PLACED)
    told["create"].append(await objects.until(name, ready))
    await objects.change(name, {"config": {"retention.ms": 1_000_000 + number}})
    told["config"].append(await objects.until(name, ready))
    await objects.delete("kafkatopics", name)
    told["delete"].append(await objects.until(name, lambda found: found is None))


async def move(objects, number, told):
    """Create a topic and move three of its replicas. Record the seconds of the move."""
    name = f"m{number}"
    await objects.topic(name, placement=PLACED)
    await objects.until(name, ready)
    await objects.change(name, {"placement": {"assignment": [[3, 1, 2], [1, 5, 0], [2, 0, 4]]}})
    told["plan and moves"].append(await objects.until(name, ready))
    await objects.delete("kafkatopics", name)


class ByHand:
    """Makes the calls for a topic without an operator, to measure the time of the machine and the servers."""

    def __init__(self, kafka: AdminClient) -> None:
        self._kafka = kafka

    async def change(self, objects, number, told):
        name, path = f"hand-{number}", f"/api/v1/namespaces/{objects.namespace}/configmaps"
        retention = ConfigEntry("retention.ms", "1000000", incremental_operation=AlterConfigOpType.SET)
        topic = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[retention])
        new = NewTopic(name, 3, replica_assignment=PLACED["assignment"])
        with clock(told["create"]):
            await objects.rest.post("bench", path, {"metadata": {"name": name}})
            await asyncio.to_thread(self._kafka.create_topics([new])[name].result)
            await self._write(objects, f"{path}/{name}", "created")
        with clock(told["config"]):
            await self._write(objects, f"{path}/{name}", "wanted")
            await asyncio.to_thread(self._kafka.incremental_alter_configs([topic])[topic].result)
            await self._write(objects, f"{path}/{name}", "set")
        with clock(told["delete"]):
            await asyncio.to_thread(self._kafka.delete_topics([name])[name].result)
            await objects.rest.delete("bench", f"{path}/{name}", {})

    async def _write(self, objects, path, what):
        await objects.rest.merge_patch("bench", path, {"data": {"what": what}})


@contextlib.contextmanager
def clock(told):
    began = time.perf_counter()
    yield
    told.append(time.perf_counter() - began)


async def rounds(what, objects, numbers, until, told):
    while time.monotonic() < until:
        began = time.monotonic()
        await what(objects, next(numbers), told)
        await asyncio.sleep(max(0, LEAST_SECONDS - (time.monotonic() - began)))


class RestartedBroker:
    """The pod of a broker. It is created again after an eviction, as a StatefulSet and a kubelet do."""

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
        """Wait until the pod is evicted, and start it again."""
        eventually(self._is_gone, "the eviction of the broker's pod", timeout=PATIENCE_SECONDS)
        self._stack.kafka.restart_broker(RESTARTED, {})
        create_broker_pod(self._core, NAMESPACE, self._site.pod, self._site.node)
        self._own()


async def restarts(objects, broker, until, told):
    """Request restarts of a broker. Record the seconds from each annotation until the operator removes it."""
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


def be_nice(session: int):
    """Set the lowest priority for a session. With autogroups, nice values only count within a session (sched(7))."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{session}/autogroup").write_text("19")


@contextlib.asynccontextmanager
async def attacked(kubeconfig: Path, *attacks: str):
    """Run the hostile tenant with the lowest priority, because its Kafkas would not run on the machine of the operator.

    Yields a list, which receives the output with the numbers of tries at the end.
    """
    command = ["nice", "-n", "19", sys.executable, "-m", "benchmarks.hostile", str(kubeconfig), *attacks]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, start_new_session=True)
    be_nice(process.pid)
    tries = []
    try:
        yield tries
    finally:
        process.terminate()
        tries.append((await process.communicate())[0].decode().strip())


async def measure(stack: Stack, broker: RestartedBroker, hostile: Path, alone: float, minutes: float):
    rest, found = Rest(await connect(stack.kubeconfig)), {}
    owner, quiet = (Objects(rest, name) for name in (NAMESPACE, QUIET))
    by_hand = ByHand(stack.kafka.admin())
    try:
        numbers = itertools.count()

        async def others(what, lasts):
            found[what] = {}
            until = time.monotonic() + 60 * lasts
            async with asyncio.TaskGroup() as group:
                for objects in (owner, quiet):
                    told = found[what][objects.namespace] = defaultdict(list)
                    for one in (change, move):
                        group.create_task(rounds(one, objects, numbers, until, told))
                told = found[what]["without an operator"] = defaultdict(list)
                group.create_task(rounds(by_hand.change, quiet, numbers, until, told))
                group.create_task(restarts(owner, broker, until, found[what][NAMESPACE]))

        await others("alone", alone)
        async with attacked(hostile) as found["tries"]:
            await others("attacked", minutes)
        return found
    finally:
        await rest.close()


class Attack:
    """Measures an attack during the context: the memory of the operator process, and the latency of its `/healthz`."""

    def __init__(self, operator: Operator) -> None:
        self._operator, self._status = operator, Path(f"/proc/{operator.pid}/status")
        self._failed = 0.0
        self.slowest_health = 0.0

    async def __aenter__(self):
        self._forget_peak()
        self._failed = self._failures()
        self._probing = asyncio.create_task(self._probe())
        return self

    async def __aexit__(self, *_):
        if self._probing.done():
            self._probing.result()  # a response other than 200 ends the benchmark
        self._probing.cancel()
        self.peak_kib = int(self._status.read_text().split("VmHWM:")[1].split()[0])
        self.workers_ended = self._failures() - self._failed
        self._operator.check()

    def _forget_peak(self):
        """Reset VmHWM, by clear_refs in proc(5)."""
        Path(f"/proc/{self._operator.pid}/clear_refs").write_text("5")

    def _failures(self):
        return sum(value for name, value in self._operator.counters().items() if "client_failures_total" in name)

    async def _probe(self):
        while True:
            asked = time.perf_counter()
            await asyncio.to_thread(lambda: urllib.request.urlopen(self._operator.url("/healthz"), timeout=60).close())
            self.slowest_health = max(self.slowest_health, time.perf_counter() - asked)
            await asyncio.sleep(0.2)


async def one_by_one(stack: Stack, operator: Operator, hostile: Path, attacks, seconds: float):
    """Print a row without an attack, and a row for each attack."""
    rest, numbers = Rest(await connect(stack.kubeconfig)), itertools.count()
    print("| attack | VmHWM, MiB | worker processes that ended | slowest `/healthz`, s | create: n, median s, max s |")
    print("| --- | ---: | ---: | ---: | ---: |")
    try:
        for name in (None, *attacks):
            told = defaultdict(list)
            async with Attack(operator) as cost, attacked(hostile, name) if name else contextlib.nullcontext():
                await rounds(change, Objects(rest, QUIET), numbers, time.monotonic() + seconds, told)
            made = told["create"]
            cells = [name or "none", f"{cost.peak_kib / 1024:.0f}", f"{cost.workers_ended:.0f}"]
            cells += [f"{cost.slowest_health:.2f}", f"{len(made)}, {statistics.median(made):.2f}, {max(made):.2f}"]
            print(f"| {' | '.join(cells)} |", flush=True)
            await Objects(rest, HOSTILE).clear()
    finally:
        await rest.close()


def priority_of(namespace: str):
    """Return the objects that give the priority level of tenants to the service accounts of a namespace."""
    level, schema = yaml.safe_load_all((REPOSITORY / "examples/more/tenants-priority.yaml").read_text())
    schema["spec"]["rules"][0]["subjects"] = [
        {"kind": "Group", "group": {"name": f"system:serviceaccounts:{namespace}"}}
    ]
    return level, schema


@contextlib.contextmanager
def limited(operator: Operator, limit: str):
    """Limit the memory of the operator. Yield the directory of its cgroup, or None if there are no cgroups v1."""
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
    parser.add_argument("--minutes", type=float, default=10, help="minutes with the hostile tenant (default: 10)")
    parser.add_argument("--alone", type=float, default=3, help="minutes without it (default: 3)")
    parser.add_argument("--each", type=float, metavar="SECONDS", help="run each attack alone for these seconds")
    parser.add_argument(
        "--attack", action="append", choices=ATTACKS, help="with --each: only this attack; can be repeated"
    )
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that child processes are ended
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
        kubectl.apply(*rights, *priority_of(HOSTILE))
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
            if arguments.each:
                asyncio.run(one_by_one(stack, operator, hostile, arguments.attack or ATTACKS, arguments.each))
            else:
                with stack.plane.api_client() as api:
                    broker = RestartedBroker(stack, client.CoreV1Api(api))
                    found = asyncio.run(measure(stack, broker, hostile, arguments.alone, arguments.minutes))
                told(found)
                print(f"\ntries of the hostile tenant: {found['tries']}")
            counters = operator.counters()
            operator.check()
            failures = {name: value for name, value in counters.items() if "client_failures_total" in name}
            print(f"\nfailures of worker processes: {failures}")
            print(f"operator process: {'not restarted' if operator.pid == pid else 'restarted'}")
            print(f"peak memory of the operator and its workers: {operator.peak >> 20} MiB (sum of RSS)")
            if group is not None:
                peak = int((group / "memory.max_usage_in_bytes").read_text())
                print(f"in the cgroup: {peak >> 20} MiB of {limit}, {(group / 'memory.oom_control').read_text()!r}")


def told(found):
    print("| namespace | what | without attacks: n, median s | with attacks: n, median s | ratio |")
    print("| --- | --- | ---: | ---: | ---: |")
    for namespace, kinds in found["alone"].items():
        for what, before in kinds.items():
            after = found["attacked"][namespace][what]
            of = [statistics.median(some) for some in (before, after)]
            cells = [f"{len(before)}, {of[0]:.2f}", f"{len(after)}, {of[1]:.2f}", f"{of[1] / of[0]:.2f}"]
            print(f"| {namespace} | {what} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()

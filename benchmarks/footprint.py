"""The memory and CPU that useless objects take in the operator process, by kind.

A tenant can create these objects in its own namespace, and other users of the cluster can create pods and nodes. Each
kind is added to the objects of the previous kinds. The figures are scaled to 1,000 objects.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from benchmarks import results
from benchmarks.crowd import crowd
from benchmarks.machine import Bystanders, Conditions, describe
from benchmarks.topics import NAMESPACE, TOPICS_PATH, Operator, Stack, fresh_stack, in_parallel, topic

TOPOLOGIES_PATH = f"/apis/rackspan.dev/v1alpha1/namespaces/{NAMESPACE}/racktopologies"
NOWHERE = "127.0.0.1:9"
"""The port of the discard protocol (RFC 863), where no server listens."""
_CALM_SECONDS = 4.0
_CALM_CPU = 0.5
"""The operator is idle if it takes fewer CPU seconds than this within `_CALM_SECONDS`."""
_PATIENCE_SECONDS = 240.0


def stray(number: int) -> tuple[str, dict]:
    body = topic(f"stray-{number}", 1, 1)
    body["spec"]["topologyRef"] = {"name": f"made-up-{number}"}
    return TOPICS_PATH, body


def refused(number: int) -> tuple[str, dict]:
    body = topic(f"refused-{number}", 1, 1)
    body["spec"]["topicName"] = f"__refused-{number}"
    return TOPICS_PATH, body


def unreachable(number: int) -> tuple[str, dict]:
    spec = {"kafka": {"bootstrapServers": NOWHERE}, "rackSource": "Broker", "levels": [{"name": "zone"}]}
    body = {"apiVersion": "rackspan.dev/v1alpha1", "kind": "RackTopology", "spec": spec}
    return TOPOLOGIES_PATH, {**body, "metadata": {"name": f"unreachable-{number}", "namespace": NAMESPACE}}


def pod(number: int) -> tuple[str, dict]:
    container = {"name": "web", "image": "web:1"}
    metadata = {"name": f"web-{number}", "labels": {"app": "web", "number": str(number)}}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    return f"/api/v1/namespaces/{NAMESPACE}/pods", body


def node(number: int) -> tuple[str, dict]:
    labels = {"topology.kubernetes.io/zone": f"z{number % 3}", "kubernetes.io/hostname": f"extra-{number}"}
    return "/api/v1/nodes", {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"extra-{number}", "labels": labels},
    }


KINDS = (
    ("pods that are not brokers", pod, 1_000),
    ("nodes", node, 1_000),
    ("KafkaTopics without an existing RackTopology", stray, 1_000),
    ("rejected KafkaTopics", refused, 1_000),
    ("RackTopologies with an unreachable Kafka", unreachable, 1_000),
)


def calm(operator: Operator) -> tuple[float, int, bool]:
    """Wait until the operator is idle. Return its CPU seconds, its memory in bytes, and False after a timeout."""
    deadline, before = time.monotonic() + _PATIENCE_SECONDS, operator.cpu
    while True:
        time.sleep(_CALM_SECONDS)
        now = operator.cpu
        if now - before < _CALM_CPU or time.monotonic() > deadline:
            return now, operator.rss, now - before < _CALM_CPU
        before = now


def rows(stack: Stack, operator: Operator, scale: float) -> None:
    print("| 1,000 of | created | MiB | CPU seconds until idle | CPU seconds per idle minute |\n|---|---|---|---|---|")
    for name, make, usual in KINDS:
        count = max(1, int(usual * scale))
        cpu, memory, _ = calm(operator)
        calls = [("POST", path, body) for path, body in map(make, range(count))]
        asyncio.run(in_parallel(stack, calls))
        spent, after, settled = calm(operator)
        time.sleep(20)
        idle = (operator.cpu - spent) * 3
        per = 1_000 / count
        mib = (after - memory) / (1 << 20) * per
        until = f"{(spent - cpu) * per:.1f}" if settled else "never idle"
        print(f"| {name} | {count} | {mib:.1f} | {until} | {idle * per:.1f} |", flush=True)


CROWD_COLUMNS = (
    ("pods", ",d"),
    ("nodes", ",d"),
    ("seconds until ready", ".0f"),
    ("operator CPU s", ".1f"),
    ("MiB when ready", ".0f"),
    ("peak MiB", ".0f"),
)


def start_in_crowd(pods: int, nodes: int) -> tuple[list[results.Cell], Conditions]:
    """Measure a start of the operator with these numbers of unrelated pods and nodes, listed by the fake API server."""
    with tempfile.TemporaryDirectory() as folder, crowd(pods, nodes, Path(folder)) as (kubeconfig, server):
        operator = Operator(kubeconfig, Path(folder) / "operator.log")
        bystanders = Bystanders(lambda: operator.cpu + sum(server.cpu_times()[:2]))
        try:
            seconds = operator.until_ready() - operator.started
            cpu, memory, _ = calm(operator)
            return [pods, nodes, seconds, cpu, memory / 2**20, operator.peak / 2**20], bystanders.seen()
        finally:
            operator.stop()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks footprint", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="factor for the numbers of objects")
    parser.add_argument(
        "--crowd",
        type=int,
        nargs=2,
        action="append",
        metavar=("PODS", "NODES"),
        help="measure instead a start of the operator with these numbers of pods and nodes, listed by a fake API "
        "server; can be repeated",
    )
    parser.add_argument("--save", action="store_true", help="write the result of --crowd to benchmarks/results")
    options = parser.parse_args()
    print(describe(), end="\n\n")
    if options.crowd:
        rows, conditions = zip(*(start_in_crowd(*sizes) for sizes in options.crowd), strict=True)
        result = results.new("crowd", CROWD_COLUMNS, rows, conditions)
        print(result.table())
        if options.save:
            print(f"written to {results.save(result)}")
        return
    with fresh_stack("256m") as stack, tempfile.TemporaryDirectory() as folder:
        operator = Operator(stack.kubeconfig, Path(folder) / "operator.log")
        try:
            operator.until(lambda counters: counters.get("rackspan_topology_connected[bench/bench]") == 1)
            rows(stack, operator, options.scale)
        finally:
            operator.stop()


if __name__ == "__main__":
    main()

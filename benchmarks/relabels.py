"""The time from a changed node label until the operator publishes the new rack, with 500 nodes and 2,000 pods.

    .venv/bin/python -m benchmarks relabels [--changes 200] [--save]

The nodes of brokers get new racks one by one, on a real API server and a real Kafka. Each time starts before the
request that changes the label. It ends when a watch receives the new rack in one of three places: as drift in the
status of the RackTopology, in the ConfigMap from which pods read their racks, and in an annotation of the broker's pod.
"""

import argparse
import asyncio
import math
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from dev.stack.nodes import LEVELS, RACK_LABEL, relabel_node, sites
from kubernetes import client

from benchmarks import crowd, results
from benchmarks.footprint import calm
from benchmarks.machine import Bystanders, describe
from benchmarks.topics import NAMESPACE, OURS, Operator, Stack, connected, fresh_stack, in_parallel
from benchmarks.watching import ReadyWatch, ToldWatch
from rackspan.api.labels import RACK
from rackspan.reconcile.runtime.waiting import APART_SECONDS, MIN_SECONDS, RESET_SECONDS

BROKERS = sites(*(f"/eu/{'abc'[number % 3]}/r{number}" for number in range(15)))
"""There are enough brokers that no node flaps. The operator delays nodes that change twice within half a minute."""
PAUSE = (RESET_SECONDS + APART_SECONDS + 2 * MIN_SECONDS) / len(BROKERS)
"""Seconds between two changes, which are on different nodes."""
NODES, PODS, TOPICS = 500, 2_000, 100
"""Total numbers, including the nodes and pods of the brokers. The topics have 6 partitions and RF 3."""
COLUMNS = (
    ("the new rack is", ""),
    ("changes", ",d"),
    ("median s", ".2f"),
    ("p90 s", ".2f"),
    ("max s", ".2f"),
    ("operator CPU ms per change", ".0f"),
    ("operator peak MiB", ".0f"),
    ("Kafka CPU s", ".1f"),
    ("Kubernetes CPU s", ".1f"),
)
_PATIENCE_SECONDS = 60.0


def _crowd() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield requests for the nodes without brokers, each with a rack, and for their pods, which are not brokers."""
    levels = tuple(LEVELS.values())
    for number in range(len(BROKERS), NODES):
        node = crowd.node(number)
        labels = dict(zip(levels, ("eu", "abc"[number % 3], f"r{number}"), strict=True))
        metadata = {"name": node["metadata"]["name"], "annotations": node["metadata"]["annotations"]}
        metadata["labels"] = node["metadata"]["labels"] | labels
        yield "POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
    for number in range(len(BROKERS), PODS):
        pod = crowd.pod(number)
        metadata = {key: pod["metadata"][key] for key in ("name", "labels", "annotations")}
        where = f"node-{len(BROKERS) + number % (NODES - len(BROKERS))}"
        own = {"nodeName": where, "serviceAccountName": "default", "automountServiceAccountToken": False}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"] | own}
        yield "POST", f"/api/v1/namespaces/{NAMESPACE}/pods", body


def _fill(stack: Stack) -> None:
    """Create all nodes, pods and topics, and wait until the topics are Ready."""
    names = [f"t-{number}" for number in range(TOPICS)]
    topics = [("POST", OURS.path, OURS.body(name, 6, 3, 1)) for name in names]
    ready = ReadyWatch(stack.plane.api_client(), OURS.path)
    asyncio.run(in_parallel(stack, [*_crowd(), *topics]))
    ready.until_ready(names, 1, 300)
    ready.over = True


def _drifted(topology: dict[str, Any]) -> list[str]:
    brokers = topology.get("status", {}).get("brokers", ())
    return [broker["rack"] for broker in brokers if broker.get("drift")]


def _published(config_map: dict[str, Any]) -> list[str]:
    lines = (config_map.get("data") or {}).get("nodes", "").splitlines()
    return [line.rpartition(" ")[2] for line in lines if not line.startswith("#")]


def _annotated(pod: dict[str, Any]) -> list[str]:
    rack = (pod["metadata"].get("annotations") or {}).get(RACK)
    return [] if rack is None else [rack]


def _watches(stack: Stack) -> dict[str, ToldWatch]:
    """Return the watches by the place where a rack is published."""
    core, objects = (kind(stack.plane.api_client()) for kind in (client.CoreV1Api, client.CustomObjectsApi))
    list_topologies = partial(
        objects.list_namespaced_custom_object, "rackspan.dev", "v1alpha1", NAMESPACE, "racktopologies"
    )
    list_files = partial(core.list_namespaced_config_map, NAMESPACE, field_selector="metadata.name=bench-racks")
    list_pods = partial(core.list_namespaced_pod, NAMESPACE, label_selector="app=kafka")
    return {
        "shown as drift in the status": ToldWatch(list_topologies, _drifted),
        "published in the ConfigMap": ToldWatch(list_files, _published),
        "written on the pod": ToldWatch(list_pods, _annotated),
    }


def measure(stack: Stack, operator: Operator, changes: int) -> results.Result:
    """Relabel the nodes one by one and return the times."""
    core = client.CoreV1Api(stack.plane.api_client())
    watches = _watches(stack)
    took: dict[str, list[float]] = {where: [] for where in watches}
    cpu, others = operator.cpu, stack.cpu()
    operator.peak = 0
    bystanders = Bystanders(lambda: sum(stack.cpu().values()) + operator.cpu)
    for number in range(changes):
        site = BROKERS[number % len(BROKERS)]
        rack = f"/{site.region}/{site.zone}/change-{number}"
        started = time.perf_counter()
        relabel_node(core, site.node, {RACK_LABEL: f"change-{number}"})
        for where, watch in watches.items():
            took[where].append(watch.until_told(rack, _PATIENCE_SECONDS) - started)
        time.sleep(max(0.0, started + PAUSE - time.perf_counter()))
    seen, spent = bystanders.seen(), operator.cpu - cpu
    kafka, kubernetes = (stack.cpu()[who] - others[who] for who in ("Kafka", "Kubernetes"))
    for watch in watches.values():
        watch.over = True
    whole = [max(times) for times in zip(*took.values(), strict=True)]
    costs: list[results.Cell] = [spent * 1000 / changes, operator.peak / 2**20, kafka, kubernetes]
    rows = [_row(where, times, [None] * len(costs)) for where, times in took.items()]
    return results.new("relabels", COLUMNS, [*rows, _row("all of these", whole, costs)], [seen] * (len(rows) + 1))


def _row(where: str, took: list[float], costs: list[results.Cell]) -> list[results.Cell]:
    took = sorted(took)
    return [where, len(took), statistics.median(took), took[math.ceil(0.9 * len(took)) - 1], took[-1], *costs]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks relabels", description=__doc__)
    parser.add_argument(
        "--changes", type=int, default=50, help=f"number of changes, one every {PAUSE:.1f} seconds (default: 50)"
    )
    parser.add_argument("--save", action="store_true", help="write the result to benchmarks/results")
    options = parser.parse_args()
    print(f"{describe()}\n", flush=True)
    log = Path(tempfile.gettempdir()) / f"rackspan-bench-operator-{os.getpid()}.log"
    with fresh_stack("192m", [site.path for site in BROKERS]) as stack:
        everything = (f"--publish-racks-to={NAMESPACE}", f"--annotate-pods-in={NAMESPACE}")
        operator = Operator(stack.kubeconfig, log, *everything)
        try:
            operator.until(connected)
            _fill(stack)
            calm(operator)
            result = measure(stack, operator, options.changes)
        finally:
            operator.stop()
    print(result.table())
    if options.save:
        print(f"written to {results.save(result)}")


if __name__ == "__main__":
    main()

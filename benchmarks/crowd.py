"""A fake API server with many pods that are not brokers. It only lists objects.

A real API server needs gigabytes and minutes to store 100,000 pods of a realistic size. The work of the operator does
not depend on which server sends the pods. Watches send no events, because all objects exist before the operator starts.

`python -m benchmarks.crowd PODS NODES` prints the port and serves until the process is killed.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from aiohttp import web

ANNOTATIONS, LABELS = 30, 20
OWN_LABELS = 2
"""The number of labels with a different value in each pod. The pods of a Deployment share the other labels."""
PODS_OF_ONE = 10
_GROUP = "/apis/rackspan.dev/v1alpha1"
_KINDS = {"kafkatopics": "KafkaTopic", "racktopologies": "RackTopology", "compliancereports": "ComplianceReport"}
_ENDS_IN = "bcdfghjklmnpqrstvwxz2456789"
"""The characters that Kubernetes uses for the suffix of a pod name."""


def pod(number: int) -> dict[str, Any]:
    """Return a pod of a Deployment as the API server returns it, with 20 labels, 30 annotations and managedFields."""
    group = number // PODS_OF_ONE
    ending = "".join(_ENDS_IN[number // len(_ENDS_IN) ** place % len(_ENDS_IN)] for place in range(5))
    labels = {f"example.com/label-{at}": f"value-{at}-of-{group}" for at in range(LABELS - OWN_LABELS)}
    labels |= {f"example.com/own-{at}": f"own-{at}-of-{number}" for at in range(OWN_LABELS)}
    annotations = {
        f"example.com/annotation-{at}": f"text {at} of {number} " + "x" * 40 for at in range(ANNOTATIONS - 1)
    }
    annotations["prometheus.io/port"] = "8080"
    written = {f"f:{key}": {} for key in (*labels, *annotations)}
    probe = {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10, "timeoutSeconds": 1}
    container = {
        "name": "web",
        "image": "registry.example.com/web:1.2.3",
        "env": [{"name": f"SETTING_{at}", "value": f"value {at}"} for at in range(10)],
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "livenessProbe": probe,
        "readinessProbe": probe,
    }
    return {
        "metadata": {
            "name": f"web-{group:x}-{ending}",
            "namespace": f"team-{group % 50}",
            "uid": f"00000000-0000-0000-0000-{number:012d}",
            "resourceVersion": str(number + 1),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels,
            "annotations": annotations,
            "managedFields": [
                {"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": {"f:metadata": written}}
            ],
        },
        "spec": {"containers": [container], "nodeName": f"node-{number % 5000}", "serviceAccountName": "web"},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}] * 4},
    }


def node(number: int) -> dict[str, Any]:
    """Return a node with images and conditions."""
    labels = {f"example.com/label-{at}": f"value-{at}" for at in range(LABELS - 2)}
    labels |= {"topology.kubernetes.io/zone": f"z{number % 3}", "kubernetes.io/hostname": f"node-{number}"}
    images = [{"names": [f"registry.example.com/image-{at}:1"], "sizeBytes": at} for at in range(50)]
    return {
        "metadata": {
            "name": f"node-{number}",
            "uid": f"10000000-0000-0000-0000-{number:012d}",
            "resourceVersion": str(number + 1),
            "labels": labels,
            "annotations": {f"example.com/annotation-{at}": "x" * 40 for at in range(ANNOTATIONS)},
        },
        "spec": {},
        "status": {"images": images, "conditions": [{"type": "Ready", "status": "True"}] * 5},
    }


class Crowd:
    """The fake server: lists with pages, watches without events, and Leases."""

    def __init__(self, pods: int, nodes: int) -> None:
        self._made: dict[str, tuple[int, Callable[[int], dict[str, Any]]]] = {
            "pods": (pods, pod),
            "nodes": (nodes, node),
        }
        self._leases: dict[str, dict[str, Any]] = {}

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/api", _answer({"kind": "APIVersions", "versions": ["v1"]}))
        core = [_resource("pods", "Pod"), _resource("nodes", "Node"), _resource("namespaces", "Namespace")]
        app.router.add_get("/api/v1", _answer({"kind": "APIResourceList", "groupVersion": "v1", "resources": core}))
        version = {"groupVersion": "rackspan.dev/v1alpha1", "version": "v1alpha1"}
        group = {"name": "rackspan.dev", "versions": [version], "preferredVersion": version}
        app.router.add_get("/apis", _answer({"kind": "APIGroupList", "groups": [group]}))
        own = [_resource(plural, kind) for plural, kind in _KINDS.items()]
        app.router.add_get(_GROUP, _answer({"kind": "APIResourceList", "resources": own}))
        leases = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        app.router.add_post(leases, self._lease)
        app.router.add_get(leases + "/{name}", self._lease_found)
        app.router.add_patch(leases + "/{name}", self._lease)
        for root in ("/api/v1", _GROUP):
            app.router.add_get(root + "/{plural}", self._list)
        return app

    async def _lease(self, request: web.Request) -> web.Response:
        body = json.loads(await request.text())
        name = request.match_info.get("name") or body["metadata"]["name"]
        lease = self._leases.setdefault(name, {"metadata": {"name": name}, "spec": {}})
        lease["spec"] |= body["spec"]
        lease["metadata"]["resourceVersion"] = str(int(lease["metadata"].get("resourceVersion", 0)) + 1)
        return web.json_response(lease)

    async def _lease_found(self, request: web.Request) -> web.Response:
        lease = self._leases.get(request.match_info["name"])
        return web.json_response(lease or {"message": "none"}, status=200 if lease else 404)

    async def _list(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("watch"):
            response = web.StreamResponse()
            await response.prepare(request)
            await asyncio.sleep(float(request.query.get("timeoutSeconds", 600)))
            return response
        count, make = self._made.get(request.match_info["plural"], (0, pod))
        first = int(request.query.get("continue") or 0)
        last = min(count, first + int(request.query.get("limit") or count))
        items = [make(number) for number in range(first, last)]
        if "PartialObjectMetadata" in request.headers.get("Accept", ""):
            items = [{"metadata": item["metadata"]} for item in items]
        metadata = {"resourceVersion": "1000000", **({"continue": str(last)} if last < count else {})}
        return web.json_response({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items})


def _answer(body: dict[str, Any]) -> Callable[[web.Request], Any]:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response(body)

    return answer


def _resource(plural: str, kind: str) -> dict[str, Any]:
    return {
        "name": plural,
        "singularName": kind.lower(),
        "kind": kind,
        "namespaced": kind not in ("Node", "Namespace"),
        "verbs": ["list", "watch", "get", "patch"],
    }


@contextmanager
def crowd(pods: int, nodes: int, folder: Path) -> Iterator[tuple[Path, psutil.Process]]:
    """Run the server in a separate process. Yield the path of its kubeconfig and the process."""
    command = [sys.executable, "-m", "benchmarks.crowd", str(pods), str(nodes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            kubeconfig = folder / "kubeconfig"
            kubeconfig.write_text(json.dumps(_kubeconfig(port)))
            yield kubeconfig, psutil.Process(process.pid)
        finally:
            process.terminate()


def _kubeconfig(port: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "crowd",
        "clusters": [{"name": "crowd", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "crowd", "user": {"token": "crowd"}}],
        "contexts": [{"name": "crowd", "context": {"cluster": "crowd", "user": "crowd"}}],
    }


async def _serve(pods: int, nodes: int) -> None:
    runner = web.AppRunner(Crowd(pods, nodes).app(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2])))

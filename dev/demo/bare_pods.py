"""Runs pods as processes, for machines without a container runtime. It replaces the kubelet and the scheduler.

For each unbound pod with a label, it runs the arguments of the first container as `rackspan <arguments>`, with the
permissions of the pod's ServiceAccount. It writes the result to the status of the pod, as a kubelet does. All other
fields of the pod are ignored, such as its image and its volumes.
"""

import os
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from dev.stack.processes import ProcessDiedError, Processes

_POLL_SECONDS = 0.2
_NOT_FOUND = 404


class BarePods:
    """Runs the pods of one namespace during its context. Processes that still run at the end are not stopped."""

    def __init__(
        self, api: client.ApiClient, namespace: str, selector: str, kubeconfig: Path, processes: Processes
    ) -> None:
        """`api` must stay open until the context ends. `kubeconfig` is for the processes of the pods."""
        self._core = client.CoreV1Api(api)
        self._namespace = namespace
        self._selector = selector
        self._kubeconfig = kubeconfig
        self._processes = processes
        self._seen: set[str] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bare pods", daemon=True)
        self._players: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(timeout=10)
        for player in self._players:
            player.join(timeout=10)

    def _run(self) -> None:
        while not self._ended.wait(_POLL_SECONDS):
            try:
                pods: list[Any] = self._core.list_namespaced_pod(self._namespace, label_selector=self._selector).items
            except (ApiException, HTTPError):
                continue  # a failure of the API server; retry in the next iteration
            for pod in pods:
                if pod.metadata.uid not in self._seen and pod.status.phase == "Pending":
                    self._seen.add(pod.metadata.uid)
                    self._players.append(
                        threading.Thread(target=self._play, args=(pod,), name=pod.metadata.name, daemon=True)
                    )
                    self._players[-1].start()

    def _play(self, pod: Any) -> None:
        started = _now()
        self._tell(pod, "Running", {"running": {"startedAt": started}}, started)
        try:
            code = self._rackspan(pod.metadata.name, pod.spec.containers[0])
        except ProcessDiedError:
            return  # the whole stack has ended
        if code is None:
            return
        state = {
            "exitCode": code,
            "startedAt": started,
            "finishedAt": _now(),
            "reason": "Error" if code else "Completed",
        }
        self._tell(pod, "Failed" if code else "Succeeded", {"terminated": state}, started)

    def _rackspan(self, name: str, container: Any) -> int | None:
        """Return the exit code, or None if the context ended first."""
        program = Path(sys.executable).with_name("rackspan")
        variables = {entry.name: entry.value for entry in container.env or () if entry.value is not None}
        environment = {**os.environ, **variables, "RACKSPAN_KUBECONFIG": str(self._kubeconfig)}
        self._processes.start(name, [str(program), *container.args], env=environment)
        while (code := self._processes.ended(name)) is None and not self._ended.wait(_POLL_SECONDS):
            pass
        return code

    def _tell(self, pod: Any, phase: str, state: Any, started: str) -> None:
        container = {
            "name": pod.spec.containers[0].name,
            "image": pod.spec.containers[0].image,
            "imageID": "",
            "ready": phase == "Running",
            "restartCount": 0,
            "state": state,
        }
        status: Any = {"status": {"phase": phase, "startTime": started, "containerStatuses": [container]}}
        for _ in range(20):
            try:
                self._core.patch_namespaced_pod_status(pod.metadata.name, self._namespace, status)
            except (ApiException, HTTPError) as error:
                if getattr(error, "status", None) == _NOT_FOUND or self._ended.wait(_POLL_SECONDS):
                    return
            else:
                return


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

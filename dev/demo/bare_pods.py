"""
Runs pods without containers, for machines that have no container runtime: a stand-in for kubelet and scheduler.

Of every pod with a label that nobody has bound, the first container's arguments are run as `rackspan <arguments>`, a
process beside this one with the rights of the pod's ServiceAccount, and the pod's status tells how that ends, as a
kubelet would. Everything else of a pod, its image and its volumes above all, is left out.
"""

import json
import os
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from dev.stack.kubectl import Kubectl, KubectlError
from dev.stack.processes import ProcessDiedError, Processes

_POLL_SECONDS = 0.5


class BarePods:
    """Runs the pods of one namespace while its context lasts; processes that still run at the end are not stopped."""

    def __init__(self, kubectl: Kubectl, selector: str, kubeconfig: Path, processes: Processes) -> None:
        self._kubectl = kubectl
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
                pods = self._kubectl.json("get", "pods", f"--selector={self._selector}")["items"]
            except KubectlError:
                continue  # the API server has its moments; the pods will still be there
            for pod in pods:
                uid = pod["metadata"]["uid"]
                if uid not in self._seen and pod.get("status", {}).get("phase", "Pending") == "Pending":
                    self._seen.add(uid)
                    name = pod["metadata"]["name"]
                    self._players.append(threading.Thread(target=self._play, args=(pod,), name=name, daemon=True))
                    self._players[-1].start()

    def _play(self, pod: Mapping[str, Any]) -> None:
        container = pod["spec"]["containers"][0]
        started = _now()
        self._tell(pod, "Running", {"running": {"startedAt": started}}, started)
        try:
            code = self._rackspan(pod["metadata"]["name"], container)
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

    def _rackspan(self, name: str, container: Mapping[str, Any]) -> int | None:
        """The exit code; None where the context ended first."""
        program = Path(sys.executable).with_name("rackspan")
        variables = {entry["name"]: entry["value"] for entry in container.get("env", ()) if "value" in entry}
        environment = {**os.environ, **variables, "RACKSPAN_KUBECONFIG": str(self._kubeconfig)}
        self._processes.start(name, [str(program), *container["args"]], env=environment)
        while (code := self._processes.ended(name)) is None and not self._ended.wait(_POLL_SECONDS):
            pass
        return code

    def _tell(self, pod: Mapping[str, Any], phase: str, state: Mapping[str, Any], started: str) -> None:
        container = pod["spec"]["containers"][0]
        status = {
            "phase": phase,
            "startTime": started,
            "containerStatuses": [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": "",
                    "ready": phase == "Running",
                    "restartCount": 0,
                    "state": state,
                }
            ],
        }
        patch = json.dumps({"status": status})
        for _ in range(20):
            try:
                self._kubectl(
                    *("patch", "pod", pod["metadata"]["name"], "--subresource=status", "--type=merge"),
                    f"--patch={patch}",
                )
            except KubectlError as error:
                if "NotFound" in str(error) or self._ended.wait(_POLL_SECONDS):
                    return
            else:
                return


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

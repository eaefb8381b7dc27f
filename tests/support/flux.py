"""A Kustomization of Flux and the repository that it applies to the cluster."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dev.gitops.git_server import BRANCH, Repository
from dev.stack.kubectl import Kubectl
from tests.support.objects import condition
from tests.support.waiting import until

NAME = "shop"
TIMEOUT_SECONDS = 20
"""How long Flux waits for objects to become Current before a health check fails."""


@dataclass(frozen=True, slots=True)
class Flux:
    """A GitRepository and a Kustomization with `wait` and `prune`, in one namespace."""

    kubectl: Kubectl
    repository: Repository

    def start(self) -> None:
        """Create both objects."""
        source = {"interval": "2s", "url": self.repository.url, "ref": {"branch": BRANCH}}
        kustomization = {
            "interval": "1h",
            "retryInterval": "2s",
            "timeout": f"{TIMEOUT_SECONDS}s",
            "prune": True,
            "wait": True,
            "sourceRef": {"kind": "GitRepository", "name": NAME},
        }
        self.kubectl.apply(
            _object("source.toolkit.fluxcd.io/v1", "GitRepository", source),
            _object("kustomize.toolkit.fluxcd.io/v1", "Kustomization", kustomization),
        )

    def commit(self, *manifests: dict[str, Any], message: str = "Change the objects") -> str:
        """Commit the objects as the content of the branch. Return the revision in the format of Flux."""
        files = {f"{number}.yaml": json.dumps(manifest) for number, manifest in enumerate(manifests)}
        return f"{BRANCH}@sha1:{self.repository.commit(files, message)}"

    def until_ready(self, revision: str, name: str = NAME) -> None:
        """Wait until the Kustomization is Ready with the revision."""
        self._until(revision, lambda ready: ready["status"] == "True", name)

    def until_refused(self, name: str) -> str:
        """Wait until the API server rejects the objects of a Kustomization. Return its message."""

        def met() -> str | None:
            ready = self._ready(name)
            return str(ready["message"]) if ready.get("reason") == "ReconciliationFailed" else None

        return str(until(met, f"{name} to be refused"))

    def suspend(self, *, suspended: bool) -> None:
        """Suspend or resume the Kustomization."""
        patch = json.dumps({"spec": {"suspend": suspended}})
        self.kubectl("patch", "kustomization", NAME, "--type=merge", f"--patch={patch}")

    def until_waits_for(self, dependency: str, name: str) -> None:
        """Wait until a Kustomization reports that it waits for another one."""

        def met() -> bool:
            ready = self._ready(name)
            return ready.get("reason") == "DependencyNotReady" and f"{dependency}'" in ready["message"]

        until(met, f"{name} to wait for {dependency}")

    def until_failed(self, revision: str) -> str:
        """Wait for the first result of the revision, which must be a failed health check. Return its message."""
        result = self._until(revision, lambda ready: ready["status"] != "Unknown")
        assert result["reason"] == "HealthCheckFailed", result
        return str(result["message"])

    def _ready(self, name: str) -> dict[str, Any]:
        """Return the condition Ready of a Kustomization, or an empty dict."""
        return condition(self.kubectl.json("get", "kustomization", name), "Ready") or {}

    def _until(self, revision: str, holds: Callable[[dict[str, Any]], bool], name: str = NAME) -> dict[str, Any]:
        last: dict[str, Any] = {}

        def met() -> dict[str, Any] | None:
            last.update(self.kubectl.json("get", "kustomization", name))
            attempted = last.get("status", {}).get("lastAttemptedRevision")
            ready = condition(last, "Ready")
            return ready if ready is not None and attempted == revision and holds(ready) else None

        try:
            return until(met, f"the Kustomization to be as expected with {revision}")
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{json.dumps(last.get('status'), indent=1)}") from None


def _object(version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": NAME}, "spec": spec}

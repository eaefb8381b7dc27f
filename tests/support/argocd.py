"""An Application of Argo CD and the repository that it applies to the cluster."""

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from dev.gitops.git_server import Repository
from dev.paths import REPOSITORY
from dev.stack.kubectl import Kubectl
from tests.support.waiting import until

EXAMPLES = REPOSITORY / "examples" / "argocd"
_LOOKS = 3


@dataclass(frozen=True, slots=True)
class ArgoCD:
    """The command of Argo CD with the address of its API server, and kubectl for its namespace."""

    program: Path
    server: str
    kubectl: Kubectl

    def __call__(self, *arguments: str) -> str:
        """Run the command and return its standard output."""
        environment = {**os.environ, "ARGOCD_BINARY_NAME": "argocd"}
        command = [str(self.program), *arguments, f"--server={self.server}", "--plaintext"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@dataclass(frozen=True, slots=True)
class Application:
    """The Application of examples/argocd, for a namespace of the same name."""

    argocd: ArgoCD
    repository: Repository
    name: str

    @property
    def kubectl(self) -> Kubectl:
        """kubectl for the namespace of Applications."""
        return self.argocd.kubectl

    def start(self) -> None:
        """Create the Application."""
        application = yaml.safe_load((EXAMPLES / "application.yaml").read_text())
        application["metadata"]["name"] = self.name
        application["spec"]["source"]["repoURL"] = self.repository.url
        application["spec"]["destination"]["namespace"] = self.name
        self.kubectl.apply(application)

    def stop(self) -> None:
        """Delete the Application if it exists. Its objects remain."""
        self.kubectl("delete", "application", self.name, "--ignore-not-found")

    def delete_with_objects(self) -> None:
        """Delete the Application with its objects, and wait until all are deleted."""
        self.argocd("app", "delete", self.name, "--cascade", "--yes", "--wait")

    def terminate(self) -> None:
        """Terminate the running sync."""
        self.argocd("app", "terminate-op", self.name)

    def terminate_by_patch(self) -> None:
        """Terminate the running sync without the command of Argo CD."""
        patch = json.dumps({"status": {"operationState": {"phase": "Terminating"}}})
        self.kubectl("patch", "application", self.name, "--type=merge", f"--patch={patch}")

    def commit(self, *manifests: dict[str, Any], message: str = "Change the objects") -> str:
        """Commit the objects as the content of the branch. Return the revision."""
        files = {f"{number}.yaml": json.dumps(manifest) for number, manifest in enumerate(manifests)}
        return self.repository.commit(files, message)

    def until_synced(self, revision: str, health: str = "Healthy") -> dict[str, str]:
        """Wait until the revision is synced and the Application has this health. Return the health of each object."""

        def met(status: dict[str, Any]) -> bool:
            seen = status["sync"]["status"], status["sync"].get("revision"), status["health"]["status"]
            return seen == ("Synced", revision, health) and _operation(status)[0] == "Succeeded"

        return self.until(met, f"to be Synced with {revision} and {health}")

    def until_health(self, expected: dict[str, str]) -> None:
        """Wait until each object has this health."""
        self.until(lambda status: _health(status) == expected, f"to have {expected}")

    def until_passed_over(self, revision: str, running: str) -> dict[str, str]:
        """Wait until Argo CD has compared a revision several times while the sync of another one still runs."""
        self.until(lambda status: status["sync"].get("revision") == revision, f"to see {revision}")
        self.until_looked()
        return self.until(lambda status: _operation(status) == ("Running", running), f"to be busy with {running}")

    def until_looked(self) -> None:
        """Wait until Argo CD has compared Git and the cluster several more times."""
        looks = set()

        def met(status: dict[str, Any]) -> bool:
            looks.add(status["reconciledAt"])
            return len(looks) > _LOOKS

        self.until(met, "to look several times")

    def until(self, holds: Callable[[dict[str, Any]], bool], what: str) -> dict[str, str]:
        """Poll the Application until `holds(status)` is true. Return the health of its objects by kind and name."""
        last: dict[str, Any] = {}

        def met() -> bool:
            last.clear()
            last.update(self.kubectl.json("get", "application", self.name).get("status", {}))
            return "reconciledAt" in last and holds(last)

        try:
            until(met, f"the Application {what}")
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{json.dumps(last, indent=1)}") from None
        return _health(last)


def _operation(status: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return the phase and the revision of the latest sync."""
    operation = status.get("operationState", {})
    return operation.get("phase"), operation.get("syncResult", {}).get("revision")


def _health(status: dict[str, Any]) -> dict[str, str]:
    """Return the health of each object by kind and name, or "none" if Argo CD has no check for the kind."""
    return {
        f"{resource['kind']}/{resource['name']}": resource.get("health", {}).get("status", "none")
        for resource in status.get("resources", [])
    }

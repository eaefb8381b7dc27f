"""kubectl as a Python call."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dev.waiting import eventually

Manifest = Mapping[str, Any]


class KubectlError(RuntimeError):
    """kubectl failed. The message is its standard error."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl with a kubeconfig and optionally a default namespace.

    >>> kubectl("get", "nodes")                     # text, as printed
    >>> kubectl.json("get", "kafkatopics", "--all-namespaces")["items"]
    >>> kubectl.in_namespace("shop").apply(manifest)
    """

    binary: Path
    kubeconfig: Path
    namespace: str | None = None

    def in_namespace(self, namespace: str) -> "Kubectl":
        return replace(self, namespace=namespace)

    def __call__(self, *arguments: str | Path, stdin: str | None = None, timeout: float = 360) -> str:
        """Run kubectl and return its standard output. Raise KubectlError if it fails."""
        command = [str(self.binary), f"--kubeconfig={self.kubeconfig}"]
        if self.namespace is not None:
            command.append(f"--namespace={self.namespace}")
        done = subprocess.run(
            [*command, *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=timeout, check=False
        )
        if done.returncode:
            raise KubectlError(done.stderr.strip() or done.stdout.strip())
        return done.stdout

    def json(self, *arguments: str | Path) -> Any:
        """Return the parsed output of `kubectl <arguments> --output=json`."""
        return json.loads(self(*arguments, "--output=json"))

    def wait_until_served(self, *definitions: str) -> None:
        """Wait until kubectl finds the resources of these CustomResourceDefinitions, or of all existing ones.

        `kubectl wait --for=condition=Established` fails at once if the conditions of a new definition are still null
        (kubernetes/kubernetes#66439), and may end before discovery lists the resource.

        Raises TimeoutError after five minutes, with the last output of kubectl.
        """
        names = definitions or [one["metadata"]["name"] for one in self.json("get", "crd")["items"]]

        def served() -> bool:
            return set(names) <= set(self("api-resources", "--output=name").split())

        eventually(served, f"{', '.join(names)} to be served", retry_on=KubectlError)

    def apply(self, *manifests: Manifest | Path | str, arguments: Sequence[str] = ()) -> str:
        """Run `kubectl apply` for objects, YAML or JSON texts, or files and folders. Return the output."""
        printed = ""
        if files := [f"--filename={manifest}" for manifest in manifests if isinstance(manifest, Path)]:
            printed += self("apply", *files, *arguments)
        if texts := [
            manifest if isinstance(manifest, str) else json.dumps(dict(manifest))
            for manifest in manifests
            if not isinstance(manifest, Path)
        ]:
            printed += self("apply", "--filename=-", *arguments, stdin="\n---\n".join(["", *texts]))
        return printed

    def environment(self) -> dict[str, str]:
        """Return the environment for other programs with a kubeconfig: the operator, helm, plugins."""
        return {"KUBECONFIG": str(self.kubeconfig)}

"""helm as a Python call."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from dev.paths import REPOSITORY
from dev.stack.assets import kubernetes_version

CHART = REPOSITORY / "charts" / "rackspan"
Values = Mapping[str, Any]


class HelmError(RuntimeError):
    """helm failed. The message is its standard error."""


@dataclass(frozen=True, slots=True)
class Helm:
    """helm with the kubeconfig of its cluster. Rendering needs no cluster."""

    binary: Path
    kubeconfig: Path | None = None

    def __call__(self, *arguments: str | Path, values: Values | None = None) -> str:
        """Run helm and return its standard output. Raise HelmError if it fails."""
        command = [str(self.binary), *map(str, arguments)]
        if self.kubeconfig is not None:
            command.append(f"--kubeconfig={self.kubeconfig}")
        if values is not None:
            command.append("--values=-")
        done = subprocess.run(
            command, input=json.dumps(dict(values or {})), capture_output=True, text=True, timeout=600, check=False
        )
        if done.returncode:
            raise HelmError(done.stderr.strip() or done.stdout.strip())
        return done.stdout

    def render(self, values: Values | None = None, *, release: str = "rackspan", namespace: str = "rackspan") -> str:
        """Return the chart's manifests as YAML. Without --kube-version, a helm built from its module assumes 1.20."""
        arguments = (f"--namespace={namespace}", f"--kube-version={kubernetes_version()}")
        return self("template", release, CHART, *arguments, values=values or {})

    def objects(self, values: Values | None = None, **options: str) -> list[dict[str, Any]]:
        """Return the parsed objects that are not hooks."""
        return [found for found in self._parsed(values, options) if not _is_hook(found)]

    def hooks(self, values: Values | None = None, **options: str) -> list[dict[str, Any]]:
        """Return the parsed hooks."""
        return [found for found in self._parsed(values, options) if _is_hook(found)]

    def _parsed(self, values: Values | None, options: Mapping[str, str]) -> list[dict[str, Any]]:
        return [found for found in yaml.safe_load_all(self.render(values, **options)) if found]


def _is_hook(found: dict[str, Any]) -> bool:
    return "helm.sh/hook" in found["metadata"].get("annotations", {})


def only(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """Return the only object of a kind."""
    (found,) = [item for item in objects if item["kind"] == kind]
    return found

"""Versions of the project, and a Helm release that is upgraded between them."""

import os
import subprocess
import sys
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from dev.stack.control_plane import Cluster
from dev.stack.processes import Processes, free_ports
from tests.support.helm import Helm
from tests.support.waiting import until

NAME = NAMESPACE = "rackspan"


@dataclass(frozen=True, slots=True)
class Version:
    """A source tree of the project. Its code runs with the packages of this environment."""

    tree: Path

    @property
    def chart(self) -> Path:
        return self.tree / "charts" / "rackspan"

    @property
    def environment(self) -> dict[str, str]:
        """The environment that makes `rackspan` run the code of this tree."""
        return {"PYTHONPATH": str(self.tree / "operator")}

    def run(self, *arguments: str | Path) -> str:
        """Run `rackspan` and return its standard output. The exit code must be 0."""
        command = [_program(), *map(str, arguments)]
        environment = {**os.environ, **self.environment}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@dataclass(slots=True)
class Release:
    """The chart as a Helm release. Its operator has the settings of the Deployment but runs outside of a Pod."""

    helm: Helm
    cluster: Cluster
    processes: Processes
    home: Path
    _port: int = field(default_factory=lambda: free_ports(1)[0])
    _operators: list[str] = field(default_factory=list)

    def install(self, version: Version) -> None:
        """Install the chart and start the operator."""
        values = {"listenPort": self._port, "fullnameOverride": NAME}
        self.helm("install", NAME, version.chart, f"--namespace={NAMESPACE}", "--create-namespace", values=values)
        self.cluster.kubectl.wait_until_served()
        self._start(version)

    def upgrade(self, version: Version) -> None:
        """Upgrade the release as in docs/install.md and replace the old operator by the new one."""
        self.helm("upgrade", NAME, version.chart, f"--namespace={NAMESPACE}", "--reset-then-reuse-values")
        self._replace(version)

    def roll_back(self, version: Version) -> None:
        """Roll back to the first revision, which is that of `version`."""
        self.helm("rollback", NAME, "1", f"--namespace={NAMESPACE}")
        self._replace(version)

    def end(self) -> None:
        """End the operator."""
        if self._operators:
            self.processes.stop(self._operators[-1])

    def _replace(self, version: Version) -> None:
        self.end()
        self._start(version)

    def _start(self, version: Version) -> None:
        kubeconfig = self.home / "kubeconfig"
        self.cluster.kubeconfig_for_service_account(NAMESPACE, NAME, kubeconfig)
        deployment = self.cluster.kubectl.json("get", "deployment", NAME, f"--namespace={NAMESPACE}")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        environment = {entry["name"]: entry.get("value", "") for entry in container["env"]}
        environment |= {"RACKSPAN_KUBECONFIG": str(kubeconfig), "RACKSPAN_LISTEN_HOST": "127.0.0.1"}
        self._operators.append(name := f"upgrade-{len(self._operators)}")
        self.processes.start(name, [_program(), *container["args"]], env=environment | version.environment)
        until(lambda: self._is_ready(name), "the operator to be ready")

    def _is_ready(self, name: str) -> bool:
        self.processes.check(name)
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/readyz", timeout=10) as answer:
                return answer.status == 200
        except OSError:
            return False


def _program() -> str:
    return str(Path(sys.executable).with_name("rackspan"))

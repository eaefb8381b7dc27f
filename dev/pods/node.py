"""One real node with its own containerd, kubelet, network and cgroup. A machine can have many."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev.pods import cgroups, network
from dev.pods.images import PAUSE, Image
from dev.pods.machine import CNI_PLUGINS
from dev.stack.control_plane import ControlPlane
from dev.stack.processes import Processes
from dev.waiting import eventually

_CONTAINERD = """\
version = 2
root = "{directory}/containerd/root"
state = "{directory}/containerd/state"
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{directory}/network"
"""


@dataclass(frozen=True, slots=True)
class Node:
    """A node in a directory, run by the Processes of its stack. Its index, 0 to 254, determines its addresses."""

    name: str
    index: int
    directory: Path
    processes: Processes

    def start_runtime(self) -> None:
        """Start containerd."""
        for folder in ("network", "plugins"):
            (self.directory / folder).mkdir(parents=True)
        network.raise_bridge(self.index)
        plugins = network.plugin_configuration(self.index, self.directory / "addresses")
        (self.directory / "network" / "10-rackspan.conflist").write_text(json.dumps(plugins))
        configuration = self.directory / "containerd.toml"
        configuration.write_text(
            _CONTAINERD.format(directory=self.directory, socket=self._socket, pause=PAUSE, plugins=CNI_PLUGINS)
        )
        self.processes.start(self._process("containerd"), ["containerd", f"--config={configuration}"])

        def answers() -> bool:
            self.processes.check(self._process("containerd"))
            return self._ctr("version").returncode == 0

        eventually(answers, f"containerd of {self.name}")

    def take(self, image: Image) -> None:
        """Import an image for pods into containerd. Images are never pulled."""
        imported = self._ctr("images", "import", str(image.archive))
        if imported.returncode:
            raise RuntimeError(f"{self.name} cannot import {image.archive}: {imported.stderr.strip()}")

    def start_kubelet(self, plane: ControlPlane, kubelet: Path, labels: Mapping[str, str]) -> None:
        """Start the kubelet, which registers the node. The node is ready some seconds later."""
        kubeconfig = plane.kubeconfig_for_component(self.name, f"system:node:{self.name}", ["system:nodes"])
        configuration = self.directory / "kubelet.json"  # JSON is YAML
        configuration.write_text(json.dumps(self._kubelet_configuration(plane.client_ca)))
        command = [
            str(kubelet),
            f"--config={configuration}",
            f"--kubeconfig={kubeconfig}",
            f"--root-dir={self.directory / 'kubelet'}",
            f"--cert-dir={self.directory / 'certificates'}",
            f"--hostname-override={self.name}",
            f"--node-ip={network.gateway(self.index)}",
            f"--node-labels={','.join(f'{key}={value}' for key, value in labels.items())}",
        ]
        self.processes.start(self._process("kubelet"), command)

    def stop(self) -> None:
        """End the kubelet, all remaining containers, and containerd."""
        self._stop("kubelet")
        for task in self._ctr("tasks", "list", "--quiet").stdout.split():
            self._ctr("tasks", "kill", "--signal=SIGKILL", task)
            self._ctr("tasks", "delete", "--force", task)
        self._stop("containerd")

    def _stop(self, program: str) -> None:
        if self._process(program) in self.processes.names():
            self.processes.stop(self._process(program), grace=15)

    def _process(self, program: str) -> str:
        """Return the name of a program among the processes of the stack."""
        return f"{self.name}.{program}"

    @property
    def _socket(self) -> Path:
        return self.directory / "containerd.sock"

    def _ctr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["ctr", f"--address={self._socket}", "--namespace=k8s.io", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)

    def _kubelet_configuration(self, client_ca: Path) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": network.gateway(self.index),
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(client_ca)},
            },
            "authorization": {"mode": "Webhook"},
            "readOnlyPort": 0,
            "healthzPort": 0,
            "containerRuntimeEndpoint": f"unix://{self._socket}",
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": cgroups.create(self.index),
            # If this runs in a container, the container may forbid machine-wide changes of a kubelet.
            "oomScoreAdj": 0,
            "maxOpenFiles": 20_000,
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,
            "podLogsDir": str(self.directory / "logs"),
            "volumePluginDir": str(self.directory / "plugins"),
            "clusterDNS": [network.HOST_ADDRESS],
            "clusterDomain": network.DOMAIN,
            "resolvConf": "",
            # A nearly full disk must not make this node evict its pods and delete its images.
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        }

"""The two controllers of Flux that apply Git to a cluster, as processes on loopback."""

from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from pathlib import Path
from urllib.request import urlopen

from dev.stack.assets import definitions_of
from dev.stack.control_plane import Cluster
from dev.stack.processes import Processes, free_ports
from dev.waiting import eventually


def start_flux(processes: Processes, programs: Mapping[str, Path], cluster: Cluster) -> None:
    """Apply Flux's definitions, start source-controller and kustomize-controller, and wait until both are ready."""
    cluster.kubectl.apply(*map(definitions_of, programs.values()), arguments=["--server-side"])
    cluster.kubectl.wait_until_served()  # source-controller exits if one of its kinds is missing
    storage = processes.directory / "flux"
    storage.mkdir()
    served = f"127.0.0.1:{free_ports(1)[0]}"
    flags = {
        "source-controller": [
            f"--storage-path={storage}",
            f"--storage-addr={served}",
            f"--storage-adv-addr={served}",
        ],
        "kustomize-controller": [],
    }
    for name, program in programs.items():
        (health,) = free_ports(1)
        command = [str(program), "--metrics-addr=0", f"--health-addr=127.0.0.1:{health}", *flags[name]]
        environment = {"KUBECONFIG": str(cluster.kubeconfig), "RUNTIME_NAMESPACE": "default"}
        processes.start(name, command, env=environment)
        eventually(partial(_is_ready, processes, name, health), f"{name} to be ready")


def _is_ready(processes: Processes, name: str, port: int) -> bool:
    processes.check(name)
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except OSError:
        return False

"""A small cluster: a control plane with nodes that run real pods."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dev.paths import state_root
from dev.pods import leftovers, network
from dev.pods.images import Image
from dev.pods.node import Node
from dev.progress import exclusive, say
from dev.stack.control_plane import ControlPlane
from dev.stack.kubectl import KubectlError
from dev.stack.processes import Processes
from dev.waiting import eventually

PROGRAMS = ("scheduler", "kubelet", "proxy")  # beyond those of a control plane
_PROXY = "kube-proxy"
_NAMES = "coredns"
# It resolves Services for pods, and no external names.
_COREFILE = """\
.:53 {{
    bind {address}
    errors
    kubernetes {domain} in-addr.arpa {{
        kubeconfig {kubeconfig}
    }}
}}
"""


@dataclass(frozen=True, slots=True)
class PodCluster:
    """The control plane, the address of the machine for servers that pods have to reach, and the nodes."""

    plane: ControlPlane
    address: str
    nodes: Sequence[Node]

    def take(self, image: Image) -> None:
        """Import an image on all nodes, before a pod needs it."""
        say(f"importing {image.reference} on {len(self.nodes)} nodes")
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda node: node.take(image), self.nodes))


@contextmanager
def pod_cluster(
    processes: Processes,
    binaries: dict[str, Path],
    coredns: Path,
    nodes: Mapping[str, Mapping[str, str]],
    pause: Image,
) -> Iterator[PodCluster]:
    """Run a control plane with real nodes, given as labels by name, with the image `pause`. Only one per machine.

    Afterwards everything is removed: pods end before their kubelet, then mounts, links, rules and cgroups are deleted.
    Remains of a crash are removed at the start.
    """
    directory = state_root() / "nodes"
    with exclusive(directory.with_name(".nodes.lock")):
        _clear(directory, binaries[_PROXY])
        directory.mkdir()
        address = network.raise_host_address()
        started = [Node(name, index, directory / name, processes) for index, name in enumerate(nodes)]
        plane = None
        try:
            for node in started:
                node.start_runtime()
                node.take(pause)
            plane = ControlPlane.start(
                processes.directory / "pods-kubernetes",
                processes,
                binaries,
                scheduler=True,
                address=address,
                kubelets=True,
            )
            for node in started:
                node.start_kubelet(plane, binaries["kubelet"], nodes[node.name])
            _start_proxy(plane, binaries[_PROXY], started[0])
            _start_names(plane, coredns)
            _wait_until_ready(plane, list(nodes))
            yield PodCluster(plane, address, started)
        finally:
            if plane is not None:
                _end_pods(plane)
            for node in reversed(started):
                node.stop()
            if _PROXY in processes.names():
                processes.stop(_PROXY)
            if _NAMES in processes.names():
                processes.stop(_NAMES)
            if plane is not None:
                plane.destroy()
            _clear(directory, binaries[_PROXY])


def _clear(directory: Path, proxy: Path) -> None:
    """Remove the remains of ended nodes. kube-proxy deletes its own rules."""
    subprocess.run([str(proxy), "--cleanup"], check=False, capture_output=True)
    leftovers.remove(directory)


def _start_proxy(plane: ControlPlane, program: Path, node: Node) -> None:
    """Start one kube-proxy for all nodes, because they share the iptables of the machine."""
    command = [
        str(program),
        f"--kubeconfig={plane.kubeconfig_for_component(_PROXY, 'system:kube-proxy')}",
        "--proxy-mode=iptables",
        f"--hostname-override={node.name}",
        f"--cluster-cidr={network.POD_CIDR}",
        "--healthz-bind-address=",
        "--metrics-bind-address=",
        # Do not change the limits of the machine.
        "--conntrack-max-per-core=0",
        "--conntrack-min=0",
        "--conntrack-tcp-timeout-established=0",
        "--conntrack-tcp-timeout-close-wait=0",
    ]
    plane.processes.start(_PROXY, command)


def _start_names(plane: ControlPlane, program: Path) -> None:
    """Start the DNS server of the cluster, outside of the nodes."""
    kubeconfig = plane.kubeconfig_for_component(_NAMES, "system:coredns", ["system:masters"])
    corefile = plane.directory / "Corefile"
    corefile.write_text(_COREFILE.format(address=network.HOST_ADDRESS, domain=network.DOMAIN, kubeconfig=kubeconfig))
    plane.processes.start(_NAMES, [str(program), f"-conf={corefile}"])


def _wait_until_ready(plane: ControlPlane, nodes: list[str]) -> None:
    wait = ("wait", "--for=condition=Ready", "--timeout=300s", *(f"node/{name}" for name in nodes))

    def ready() -> bool:
        for name in nodes:
            plane.processes.check(f"{name}.kubelet")
        return "condition met" in plane.kubectl(*wait)

    # kubectl fails, and does not wait, if a node is not registered yet.
    eventually(ready, f"{', '.join(nodes)} to be ready", retry_on=KubectlError)


def _end_pods(plane: ControlPlane) -> None:
    """Delete the controllers of pods, then the pods, while their kubelets can still end them cleanly."""
    kinds = "deployments,statefulsets,daemonsets,cronjobs,jobs"
    try:
        plane.kubectl("delete", kinds, "--all", "--all-namespaces", "--cascade=background", "--wait=false")
        plane.kubectl("delete", "pods", "--all", "--all-namespaces", "--grace-period=1", "--timeout=30s")
    except (KubectlError, subprocess.TimeoutExpired) as error:
        say(f"some pods did not end by themselves: {error}")

"""The machine's side of the network of pods: a bridge for each node, and an address for what runs beside the nodes.

Nothing leaves the machine: pods reach each other, their Services and the address below, and nothing else.
"""

import subprocess
from pathlib import Path
from typing import Any

POD_CIDR = "10.244.0.0/16"
# Where the API server and Kafka listen, because a pod has a loopback of its own.
HOST_ADDRESS = "10.244.255.1"
DOMAIN = "cluster.local"
_HOST_LINK = "rackspan-host"
_LINK_PREFIX = "rackspan"
_FIREWALL = "KUBE-FIREWALL"
_FORWARD = ("FORWARD", "--source", POD_CIDR, "--destination", POD_CIDR, "--jump", "ACCEPT")


def link(index: int) -> str:
    """Name of a node's bridge."""
    return f"{_LINK_PREFIX}{index}"


def gateway(index: int) -> str:
    """The node's own address on its bridge."""
    return f"10.244.{index}.1"


def raise_host_address() -> str:
    """Give the machine the address under which pods reach it, and let it forward between bridges."""
    _bridge(_HOST_LINK, f"{HOST_ADDRESS}/32")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    # Where Docker is installed too, its policy is to drop what it does not know.
    if not _succeeds("iptables", "--wait", "--check", *_FORWARD):
        _run("iptables", "--wait", "--insert", *_FORWARD)
    return HOST_ADDRESS


def raise_bridge(index: int) -> None:
    """A node's bridge, before the first pod: the node's address has to be there when its kubelet looks for it."""
    _bridge(link(index), f"{gateway(index)}/24")


def plugin_configuration(index: int, state: Path) -> dict[str, Any]:
    """The configuration that containerd gives to the network plugins."""
    address_management = {
        "type": "host-local",
        "dataDir": str(state),
        "ranges": [[{"subnet": f"10.244.{index}.0/24"}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": link(index),
        "isGateway": True,
        "hairpinMode": True,
        "ipam": address_management,
    }
    return {"cniVersion": "1.0.0", "name": link(index), "plugins": [bridge]}


def remove() -> None:
    """Delete every link and rule that this module made, also those that a crash has left."""
    for path in Path("/sys/class/net").glob(f"{_LINK_PREFIX}*"):
        _run("ip", "link", "delete", path.name)
    while _succeeds("iptables", "--wait", "--delete", *_FORWARD):
        pass
    # kube-proxy's own cleaning leaves this chain, which keeps others from addresses of loopback.
    if _succeeds("iptables", "--wait", "--list-rules", _FIREWALL):
        for chain in ("INPUT", "OUTPUT"):
            while _succeeds("iptables", "--wait", "--delete", chain, "--jump", _FIREWALL):
                pass
        _run("iptables", "--wait", "--flush", _FIREWALL)
        _run("iptables", "--wait", "--delete-chain", _FIREWALL)


def _bridge(name: str, address: str) -> None:
    if not Path("/sys/class/net", name).exists():
        _run("ip", "link", "add", name, "type", "bridge")
        _run("ip", "address", "add", address, "dev", name)
        _run("ip", "link", "set", name, "up")


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")

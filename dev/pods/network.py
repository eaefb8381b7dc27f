"""The pod network on the side of the machine: a bridge per node, and an address for servers outside of the nodes.

Pods only reach each other, their Services and the address below. Nothing leaves the machine.
"""

import subprocess
from pathlib import Path
from typing import Any

POD_CIDR = "10.244.0.0/16"
# The address of the API server and Kafka, because a pod has its own loopback.
HOST_ADDRESS = "10.244.255.1"
DOMAIN = "cluster.local"
_HOST_LINK = "rackspan-host"
_LINK_PREFIX = "rackspan"
_FIREWALL = "KUBE-FIREWALL"
_FORWARD = ("FORWARD", "--source", POD_CIDR, "--destination", POD_CIDR, "--jump", "ACCEPT")


def link(index: int) -> str:
    """Return the name of the bridge of a node."""
    return f"{_LINK_PREFIX}{index}"


def gateway(index: int) -> str:
    """Return the address of a node on its bridge."""
    return f"10.244.{index}.1"


def raise_host_address() -> str:
    """Add the address under which pods reach the machine, enable forwarding between bridges, and return the address."""
    _bridge(_HOST_LINK, f"{HOST_ADDRESS}/32")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    # If Docker is installed, its policy drops unknown traffic.
    if not _succeeds("iptables", "--wait", "--check", *_FORWARD):
        _run("iptables", "--wait", "--insert", *_FORWARD)
    return HOST_ADDRESS


def raise_bridge(index: int) -> None:
    """Create the bridge of a node before its first pod, because the kubelet needs the address of the node."""
    _bridge(link(index), f"{gateway(index)}/24")


def plugin_configuration(index: int, state: Path) -> dict[str, Any]:
    """Return the configuration for the network plugins of containerd."""
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
    """Delete all links and rules of this module, including those left by a crash."""
    for path in Path("/sys/class/net").glob(f"{_LINK_PREFIX}*"):
        _run("ip", "link", "delete", path.name)
    while _succeeds("iptables", "--wait", "--delete", *_FORWARD):
        pass
    # The cleanup of kube-proxy leaves this chain, which blocks access of others to loopback addresses.
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

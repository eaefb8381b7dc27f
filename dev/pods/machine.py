"""Checks whether this machine can run containers, and the required packages of its distribution."""

import ctypes
import os
import shutil
import sys
from pathlib import Path

import psutil

from dev.paths import cache_root
from dev.progress import AssetError, run

CGROUPS = Path("/sys/fs/cgroup")
CNI_PLUGINS = Path("/usr/lib/cni")
# The Debian package of each program.
_PROGRAMS = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "ip": "iproute2",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
}
_CGROUP_V1_CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "pids")
_CLONE_NEWNS = 0x20000
_CLONE_NEWNET = 0x40000000


def why_no_pods() -> str | None:
    """Return why this machine cannot run containers, or None if it can, possibly after an installation."""
    if sys.platform != "linux":
        return "containers need Linux"
    if os.geteuid() != 0:
        return "a kubelet and its container runtime need root"
    if not _cgroups_writable():
        return f"no writable cgroups under {CGROUPS}"
    if (error := _cannot_unshare()) is not None:
        return f"this process cannot create namespaces: {error}"
    if "overlay" not in Path("/proc/filesystems").read_text():
        return "the kernel has no overlay file system"
    if (program := _foreign_node()) is not None:
        return f"this machine already is a node of another cluster: {program}"
    if (missing := missing_packages()) and shutil.which("apt-get") is None:
        return f"there is no apt-get to install {', '.join(missing)}"
    return None


def missing_packages() -> list[str]:
    """Return the Debian packages of missing programs."""
    missing = {package for program, package in _PROGRAMS.items() if shutil.which(program) is None}
    if not (CNI_PLUGINS / "bridge").exists():
        missing.add("containernetworking-plugins")
    return sorted(missing)


def ensure_programs() -> None:
    """Install missing packages. Raise AssetError if that is impossible."""
    if not (missing := missing_packages()):
        return
    if (reason := why_no_pods()) is not None:
        raise AssetError(reason)
    quietly = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    root = Path("/")
    run(["apt-get", "update"], "updating the package list of the distribution", cwd=root, env=quietly)
    run(
        ["apt-get", "install", "--yes", "--no-install-recommends", *missing],
        f"installing {', '.join(missing)}: about 80 MB, once per machine",
        cwd=root,
        env=quietly,
        tally=lambda line: line.startswith("Setting up "),
    )


def has_cgroup_v1() -> bool:
    """Return whether the machine uses cgroup v1, with a hierarchy per controller."""
    return not (CGROUPS / "cgroup.controllers").exists()


def _foreign_node() -> str | None:
    """Return a kubelet or kube-proxy of another cluster, whose iptables rules would conflict with ours, or None."""
    for process in psutil.process_iter(["name", "exe"]):
        name, program = process.info["name"], process.info["exe"]
        if name in ("kubelet", "kube-proxy") and not Path(program or "/").is_relative_to(cache_root()):
            return f"{name}, process {process.pid}"
    return None


def _cgroups_writable() -> bool:
    if not has_cgroup_v1():
        return os.access(CGROUPS / "cgroup.subtree_control", os.W_OK)
    return all(os.access(CGROUPS / controller, os.W_OK) for controller in _CGROUP_V1_CONTROLLERS)


def _cannot_unshare() -> str | None:
    """Return why a child of this process cannot create namespaces, which containers need, or None."""
    child = os.fork()
    if child == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        os._exit(ctypes.get_errno() if libc.unshare(_CLONE_NEWNS | _CLONE_NEWNET) else 0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return os.strerror(code) if code else None

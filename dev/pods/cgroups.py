"""A cgroup of its own for each node, below which its kubelet keeps those of its pods."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from dev.pods.machine import CGROUPS, has_cgroup_v1

_PREFIX = "rackspan"
_V2_CONTROLLERS = ("cpuset", "cpu", "io", "memory", "pids")


def create(index: int) -> str:
    """Create a node's cgroup; returns its name as the kubelet's `cgroupRoot` wants it."""
    name = f"{_PREFIX}{index}"
    for hierarchy in _hierarchies():
        (hierarchy / name).mkdir(exist_ok=True)
    if has_cgroup_v1():
        # A cpuset takes processes only once it says which processors and memory nodes they may have.
        for setting in ("cpuset.cpus", "cpuset.mems"):
            (CGROUPS / "cpuset" / name / setting).write_text((CGROUPS / "cpuset" / setting).read_text())
    else:
        available = (CGROUPS / "cgroup.controllers").read_text().split()
        wanted = " ".join(f"+{controller}" for controller in _V2_CONTROLLERS if controller in available)
        (CGROUPS / "cgroup.subtree_control").write_text(wanted)
    return f"/{name}"


def remove() -> None:
    """Delete every cgroup that this module made, also those that a crash has left. No process may be in them."""
    for hierarchy in _hierarchies():
        for root in hierarchy.glob(f"{_PREFIX}[0-9]*"):
            for folder in sorted((path for path in root.rglob("*") if path.is_dir()), reverse=True):
                folder.rmdir()
            with contextlib.suppress(FileNotFoundError):
                root.rmdir()


def _hierarchies() -> Iterator[Path]:
    if not has_cgroup_v1():
        yield CGROUPS
        return
    # cpu and cpuacct may be links to one hierarchy.
    yield from sorted({path.resolve() for path in CGROUPS.iterdir() if path.is_dir()})

"""A cgroup for each node, below which its kubelet creates those of its pods."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from dev.pods.machine import CGROUPS, has_cgroup_v1

_PREFIX = "rackspan"
_V2_CONTROLLERS = ("cpuset", "cpu", "io", "memory", "pids")


def create(index: int) -> str:
    """Create the cgroup of a node and return its name for `cgroupRoot` of the kubelet."""
    name = f"{_PREFIX}{index}"
    for hierarchy in _hierarchies():
        (hierarchy / name).mkdir(exist_ok=True)
    if has_cgroup_v1():
        # A cpuset accepts processes only after its processors and memory nodes are set.
        for setting in ("cpuset.cpus", "cpuset.mems"):
            (CGROUPS / "cpuset" / name / setting).write_text((CGROUPS / "cpuset" / setting).read_text())
    else:
        available = (CGROUPS / "cgroup.controllers").read_text().split()
        wanted = " ".join(f"+{controller}" for controller in _V2_CONTROLLERS if controller in available)
        (CGROUPS / "cgroup.subtree_control").write_text(wanted)
    return f"/{name}"


def remove() -> None:
    """Delete all cgroups of this module, including those left by a crash. They must have no processes."""
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

"""Remains of nodes in the kernel after an end or a crash: mounts, links, rules and cgroups outlive processes."""

import shutil
import subprocess
from pathlib import Path

from dev.pods import cgroups, network


def remove(directory: Path) -> None:
    """Remove everything, including the state of the nodes. No process of a node may run."""
    for mount in reversed(_mounts_below(directory)):
        # Lazily, because a dead container may still hold files open for a moment.
        subprocess.run(["umount", "--lazy", mount], check=False, capture_output=True)
    network.remove()
    cgroups.remove()
    shutil.rmtree(directory, ignore_errors=True)


def _mounts_below(directory: Path) -> list[str]:
    """Return the mount points in the order of their creation."""
    mounts = (line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines())
    unescaped = (mount.replace("\\040", " ") for mount in mounts)
    return [mount for mount in unescaped if Path(mount).is_relative_to(directory)]

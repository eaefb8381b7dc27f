"""What nodes leave in the kernel when they end, or crash: mounts, links, rules and cgroups outlive processes."""

import shutil
import subprocess
from pathlib import Path

from dev.pods import cgroups, network


def remove(directory: Path) -> None:
    """Undo everything, once no process of any node runs, and delete the nodes' state with it."""
    for mount in reversed(_mounts_below(directory)):
        # Lazily: what a dead container still holds open is gone a moment later, and nobody may wait for it.
        subprocess.run(["umount", "--lazy", mount], check=False, capture_output=True)
    network.remove()
    cgroups.remove()
    shutil.rmtree(directory, ignore_errors=True)


def _mounts_below(directory: Path) -> list[str]:
    """Mount points in the order in which they were made."""
    mounts = (line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines())
    unescaped = (mount.replace("\\040", " ") for mount in mounts)
    return [mount for mount in unescaped if Path(mount).is_relative_to(directory)]

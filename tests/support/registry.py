"""An OCI registry (CNCF Distribution), and charts that helm pushes to it."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dev.stack.assets import ensure_registry
from dev.stack.processes import Processes, free_ports
from dev.waiting import eventually

_CONFIG = """version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


@contextmanager
def oci_registry(processes: Processes, folder: Path) -> Iterator[str]:
    """Run a registry on loopback with its content in `folder`. Yield its address, such as `127.0.0.1:5000`."""
    (port,) = free_ports(1)
    config = folder / "registry.yaml"
    config.write_text(_CONFIG.format(folder=folder / "registry", port=port))
    processes.start("registry", [str(ensure_registry()), "serve", str(config)])
    try:
        yield f"127.0.0.1:{port}"
    finally:
        processes.kill("registry")


def push_chart(helm: Path, package: Path, address: str) -> str:
    """Push a packaged chart to `charts/` of a registry, as a release does. Return its digest."""
    command = [str(helm), "push", str(package), f"oci://{address}/charts", "--plain-http"]

    def pushed() -> subprocess.CompletedProcess[str] | None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done if done.returncode == 0 else None

    done = eventually(pushed, "the registry to take the chart")
    found = re.search(r"^Digest: (sha256:[0-9a-f]{64})$", done.stdout + done.stderr, re.MULTILINE)
    assert found is not None
    return found[1]

"""What the scan job is asked to do; this module needs no Spark."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rackspan.api.meta import ObjectKey


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """
    What to scan, how Spark runs, and what is kept. Exactly one of the first four names clusters.

    `slices` is the least number of parts in which a cluster is read, `driver_memory` in Java's notation, such as `2g`.
    """

    snapshot: Path | None
    bootstrap_server: str | None
    topology: ObjectKey | None
    synthetic: int | None
    command_config: Path | None
    kubeconfig: Path | None
    levels: Sequence[str]
    master: str | None
    driver_memory: str
    slices: int
    history: str | None
    retention_days: int | None
    scan_id: str | None
    publish: bool

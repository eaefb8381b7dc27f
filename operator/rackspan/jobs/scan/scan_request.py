"""The request to the scan job. This module does not need Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rackspan.api.meta import ObjectKey
from rackspan.jobs.scan.engine_choice import EngineChoice

SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""The variable that spark-submit sets for the Python program that it starts. Spark's settings are fixed by then."""


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """What to scan, on which engine, how Spark runs, and what is kept. Exactly one of the first four fields is set.

    `slices` is the least number of slices in which Spark reads a cluster. `driver_memory` is in Java's notation, such
    as `2g`. `producers` is the number of producers by `client.rack`, and replaces the producers of the RackTopology.
    """

    snapshot: Path | None
    bootstrap_server: str | None
    topology: ObjectKey | None
    synthetic: int | None
    command_config: Path | None
    kubeconfig: Path | None
    levels: Sequence[str]
    engine: EngineChoice
    master: str | None
    driver_memory: str
    slices: int
    history: str | None
    retention_days: int | None
    scan_id: str | None
    producers: Mapping[str, int]

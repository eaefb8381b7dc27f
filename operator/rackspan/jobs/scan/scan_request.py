"""What the scan job is asked to do; this module needs no Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rackspan.api.meta import ObjectKey
from rackspan.jobs.scan.engine_choice import EngineChoice

SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""The variable that spark-submit sets for the Python program that it starts; Spark's settings are chosen by then."""


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """
    What to scan, on which engine, how Spark runs, and what is kept. Exactly one of the first four names clusters.

    `slices` is the least number of parts in which Spark reads a cluster, `driver_memory` in Java's notation, such as
    `2g`. `producers` are how many have each `client.rack`, in place of those that the RackTopology names.
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
    publish: bool
    producers: Mapping[str, int]

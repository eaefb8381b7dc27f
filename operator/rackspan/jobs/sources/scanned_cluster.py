"""The clusters that a scan is about: how Spark reads each, and what it is held against."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from rackspan.core.scanning import Expectations, Truth, truth_of
from rackspan.core.snapshot import KnownBroker, Snapshot, table
from rackspan.core.topology import RackPathError, TopologyError
from rackspan.jobs.sources.data_sources import SECRETS, FileSource, LiveSource, SyntheticSource
from rackspan.jobs.sources.synthetic_cluster import SyntheticCluster
from rackspan.jobs.spark.judging import Question
from rackspan.reports.document import GroupRow
from rackspan.snapshots import read_outline


class ClusterError(Exception):
    """A cluster that cannot be scanned: `reason` is one word for machines, the message a sentence for people."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ScannedCluster:
    """A cluster, ready to be read: its name for people, the question, and the data source's format and options."""

    name: str
    question: Question
    format: str
    options: Mapping[str, str] = field(repr=False)
    groups: Sequence[GroupRow] = ()
    warnings: tuple[str, ...] = ()

    @property
    def cluster_id(self) -> str | None:
        """Kafka's own name of it."""
        return self.question.cluster or None


def snapshot_files(path: Path) -> list[Path]:
    """Name the file, or those of a folder that end in `.json`. Raises ClusterError where there are none."""
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix == ".json" and file.is_file())
    if not found:
        raise ClusterError("NoSnapshots", f"{path}: holds no file that ends in .json")
    return found


def from_file(file: Path, levels: Sequence[str] = ()) -> ScannedCluster:
    """Read what a snapshot file says of its brokers. Raises SnapshotError and ClusterError."""
    outline = read_outline(file)
    question = Question(outline.cluster_id or "", _reported(outline.brokers, levels), Expectations())
    return ScannedCluster(file.stem, question, FileSource.name(), {"path": str(file.resolve())})


def live(
    name: str,
    servers: str,
    properties: Mapping[str, str],
    slices: int,
    levels: Sequence[str] = (),
) -> ScannedCluster:
    """Ask a cluster for its brokers, and take its word for their racks. Raises FailureError and ClusterError."""
    from rackspan.kafka.snapshot import take_outline  # noqa: PLC0415 - only this cluster needs a Kafka client

    outline = take_outline(servers, properties)
    question = Question(outline.cluster_id or "", _reported(outline.brokers, levels), Expectations())
    return judged_live(name, question, servers, properties, slices)


def judged_live(
    name: str, question: Question, servers: str, properties: Mapping[str, str], slices: int
) -> ScannedCluster:
    """Read a live cluster, and judge it by somebody else's word."""
    options = {"servers": servers, SECRETS: json.dumps(dict(properties)), "slices": str(slices)}
    return ScannedCluster(name, question, LiveSource.name(), options)


def synthetic(cluster: SyntheticCluster, slices: int) -> ScannedCluster:
    """Make a cluster up."""
    options = {"cluster": msgspec.json.encode(cluster).decode(), "slices": str(slices)}
    question = Question("", cluster.truth, Expectations())
    return ScannedCluster(f"synthetic-{cluster.partitions}", question, SyntheticSource.name(), options)


def _reported(brokers: tuple[KnownBroker, ...], levels: Sequence[str]) -> Truth:
    try:
        return truth_of(Snapshot(None, brokers, table((), []), ()), tuple(levels))
    except (RackPathError, TopologyError) as error:
        raise ClusterError("RacksUnusable", f"{error}: name as many levels as the longest rack id has steps") from error

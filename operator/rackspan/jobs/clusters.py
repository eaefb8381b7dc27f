"""The clusters that a scan is about: how Spark reads each, and what it is held against."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from rackspan.core.scanning import Expectations, Truth, truth_of
from rackspan.core.snapshot import KnownBroker, Snapshot, table
from rackspan.core.topology import RackPathError, TopologyError
from rackspan.jobs.judging import Question
from rackspan.jobs.sources import SECRETS, FileSource, LiveSource, SyntheticSource
from rackspan.jobs.synthetic import SyntheticCluster
from rackspan.reports.document import GroupRow
from rackspan.snapshots import read_outline


class ClusterError(Exception):
    """A cluster that cannot be scanned: `reason` is one word for machines, the message a sentence for people."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ScannedCluster:
    """A cluster, ready to be read: the data source's format and options, and the question."""

    question: Question
    cluster_id: str | None
    format: str
    options: Mapping[str, str] = field(repr=False)
    groups: Sequence[GroupRow] = ()
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """For people."""
        return self.question.cluster


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
    truth = _reported(outline.brokers, levels)
    name = file.stem
    return ScannedCluster(
        Question(name, truth, Expectations()), outline.cluster_id, FileSource.name(), {"path": str(file.resolve())}
    )


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
    truth = _reported(outline.brokers, levels)
    return judged_live(Question(name, truth, Expectations()), outline.cluster_id, servers, properties, slices)


def judged_live(
    question: Question, cluster_id: str | None, servers: str, properties: Mapping[str, str], slices: int
) -> ScannedCluster:
    """Read a live cluster, and judge it by somebody else's word."""
    options = {"servers": servers, SECRETS: json.dumps(dict(properties)), "slices": str(slices)}
    return ScannedCluster(question, cluster_id, LiveSource.name(), options)


def synthetic(cluster: SyntheticCluster, slices: int) -> ScannedCluster:
    """Make a cluster up."""
    options = {"cluster": msgspec.json.encode(cluster).decode(), "slices": str(slices)}
    name = f"synthetic-{cluster.partitions}"
    return ScannedCluster(Question(name, cluster.truth, Expectations()), None, SyntheticSource.name(), options)


def _reported(brokers: tuple[KnownBroker, ...], levels: Sequence[str]) -> Truth:
    try:
        return truth_of(Snapshot(None, brokers, table((), []), ()), tuple(levels))
    except (RackPathError, TopologyError) as error:
        raise ClusterError("RacksUnusable", f"{error}: name as many levels as the longest rack id has steps") from error

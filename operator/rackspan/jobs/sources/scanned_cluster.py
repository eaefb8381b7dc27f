"""A cluster that is ready to be scanned: how it is read, and what it is judged against."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rackspan.core.rack_path import RackPathError
from rackspan.core.requirements import ClusterRequirements
from rackspan.core.scanning import BrokerLocations, rack_warnings, reported_locations
from rackspan.core.snapshot import Snapshot, table
from rackspan.core.topology import BrokerLocation, TopologyError
from rackspan.jobs.batches.batch_judging import Criteria
from rackspan.jobs.sources.readers import FileReader, LiveReader, Reader, SyntheticReader
from rackspan.jobs.sources.synthetic_cluster import SyntheticCluster
from rackspan.reports.document import GroupRow
from rackspan.snapshots import SnapshotError, read_outline

REASONS: Final = {
    "SnapshotError": "SnapshotUnreadable",
    "FailureError": "KafkaUnavailable",
    "TopologyError": "RacksUnusable",
}
"""One word for machines, by the name of the error that ends the reading or judging of a cluster."""

_IN_A_SLICE: Final = 500_000
"""Partitions in a slice, about: what was judged of it is in memory at once."""


class ClusterError(Exception):
    """A cluster that cannot be scanned: `reason` is one word for machines, the message a sentence for people."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ScannedCluster:
    """
    A cluster that is ready to be scanned.

    `name` is for people, `partitions` are about how many it has. `throttle` is how many bytes per second a broker
    copies at most, None for no limit. `groups` are rows of the document that are known already, and so are `warnings`.
    `topology` is the key of the RackTopology by which it is judged, None without one.
    """

    name: str
    criteria: Criteria
    reader: Reader
    partitions: int
    throttle: int | None = None
    groups: Sequence[GroupRow] = ()
    warnings: tuple[str, ...] = ()
    topology: str | None = None

    def slices(self, least: int) -> int:
        """Into how many slices it is cut at least: `least`, and so many that each has few enough partitions."""
        return max(least, -(-self.partitions // _IN_A_SLICE))

    @property
    def cluster_id(self) -> str | None:
        """Kafka's own id of it, None where it is not known."""
        return self.criteria.cluster_id or None


def snapshot_files(path: Path) -> list[Path]:
    """The file itself, or a folder's files that end in `.json`, sorted. Raises ClusterError where there are none."""
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix == ".json" and file.is_file())
    if not found:
        raise ClusterError("NoSnapshots", f"{path}: holds no file that ends in .json")
    return found


def from_file(file: Path, levels: Sequence[str] = ()) -> ScannedCluster:
    """A snapshot file, judged by the racks that its brokers report. Raises ClusterError."""
    try:
        outline = read_outline(file)
    except SnapshotError as error:
        raise ClusterError("SnapshotUnreadable", str(error)) from error
    criteria = Criteria(outline.cluster_id or "", _reported(outline.brokers, levels), ClusterRequirements())
    warnings = rack_warnings(outline.brokers)
    return ScannedCluster(file.stem, criteria, FileReader(file.resolve()), outline.partitions, warnings=warnings)


def live(name: str, properties: Mapping[str, str | int | bool], levels: Sequence[str] = ()) -> ScannedCluster:
    """
    A live cluster, judged by the racks that its brokers report; it is asked for its brokers here.

    Raises FailureError where Kafka does not answer, ClusterError where racks make no tree.
    """
    # Only this cluster needs a Kafka client.
    from rackspan.kafka.cluster_snapshot import reassignment_warnings, take_outline  # noqa: PLC0415

    outline = take_outline(properties)
    criteria = Criteria(outline.cluster_id or "", _reported(outline.brokers, levels), ClusterRequirements())
    warnings = (*reassignment_warnings(properties), *rack_warnings(outline.brokers))
    return ScannedCluster(name, criteria, LiveReader(properties), outline.partitions, warnings=warnings)


def synthetic(cluster: SyntheticCluster) -> ScannedCluster:
    """A cluster that is made up."""
    criteria = Criteria("", cluster.locations, ClusterRequirements())
    return ScannedCluster(f"synthetic-{cluster.partitions}", criteria, SyntheticReader(cluster), cluster.partitions)


def _reported(brokers: tuple[BrokerLocation, ...], levels: Sequence[str]) -> BrokerLocations:
    try:
        return reported_locations(Snapshot(None, brokers, table((), []), ()), tuple(levels))
    except (RackPathError, TopologyError) as error:
        raise ClusterError("RacksUnusable", f"{error}: name as many levels as the longest rack id has steps") from error

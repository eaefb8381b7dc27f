"""A cluster that is ready to be scanned: its reader, and the criteria by which it is judged."""

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
"""The reasons (one word, for machines) of a failed scan, by the name of the error that ended reading or judging."""

_IN_A_SLICE: Final = 500_000
"""The approximate number of partitions in a slice. All results of a slice are in memory at once."""


class ClusterError(Exception):
    """An error if a cluster cannot be scanned. `reason` is one word for machines, the message a sentence for people."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ScannedCluster:
    """A cluster that is ready to be scanned.

    `name` is for people, `partitions` is the approximate number of partitions. `throttle` is the most bytes per second
    that a broker copies, or None for no limit. `groups` and `warnings` are parts of the document that are known before
    the scan. `topology` is the key of the RackTopology by which the cluster is judged, or None.
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
        """Return the least number of slices: at least `least`, and enough to limit the partitions in a slice."""
        return max(least, -(-self.partitions // _IN_A_SLICE))

    @property
    def cluster_id(self) -> str | None:
        """Kafka's id of the cluster, or None if it is not known."""
        return self.criteria.cluster_id or None


def snapshot_files(path: Path) -> list[Path]:
    """Return the file itself, or a folder's `.json` files, sorted. Raises ClusterError if the folder has none."""
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix == ".json" and file.is_file())
    if not found:
        raise ClusterError("NoSnapshots", f"{path}: holds no file that ends in .json")
    return found


def from_file(file: Path, levels: Sequence[str] = ()) -> ScannedCluster:
    """Return the cluster of a snapshot file, judged by the racks that its brokers report. Raises ClusterError."""
    try:
        outline = read_outline(file)
    except SnapshotError as error:
        raise ClusterError("SnapshotUnreadable", str(error)) from error
    criteria = Criteria(outline.cluster_id or "", _reported(outline.brokers, levels), ClusterRequirements())
    reader, warnings = FileReader(file.resolve(), outline), rack_warnings(outline.brokers)
    return ScannedCluster(file.stem, criteria, reader, outline.partitions, warnings=warnings)


def live(name: str, properties: Mapping[str, str | int | bool], levels: Sequence[str] = ()) -> ScannedCluster:
    """Return a live cluster, judged by the racks that its brokers report. Its brokers are read from Kafka here.

    Raises FailureError if Kafka does not respond, ClusterError if the racks do not form a tree.
    """
    # Imported here, because only live clusters need a Kafka client.
    from rackspan.kafka.cluster_snapshot import reassignment_warnings, take_outline  # noqa: PLC0415

    outline = take_outline(properties)
    criteria = Criteria(outline.cluster_id or "", _reported(outline.brokers, levels), ClusterRequirements())
    warnings = (*reassignment_warnings(properties), *rack_warnings(outline.brokers))
    return ScannedCluster(name, criteria, LiveReader(properties), outline.partitions, warnings=warnings)


def synthetic(cluster: SyntheticCluster) -> ScannedCluster:
    """Return a synthetic cluster."""
    criteria = Criteria("", cluster.locations, ClusterRequirements())
    return ScannedCluster(f"synthetic-{cluster.partitions}", criteria, SyntheticReader(cluster), cluster.partitions)


def _reported(brokers: tuple[BrokerLocation, ...], levels: Sequence[str]) -> BrokerLocations:
    try:
        return reported_locations(Snapshot(None, brokers, table((), []), ()), tuple(levels))
    except (RackPathError, TopologyError) as error:
        raise ClusterError("RacksUnusable", f"{error}: name as many levels as the longest rack id has steps") from error

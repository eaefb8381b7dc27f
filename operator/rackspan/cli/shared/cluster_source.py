"""The source of a command's cluster: a snapshot file, or a live cluster."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rackspan.cli.rendering.progress import step
from rackspan.cli.rendering.stderr_lines import note, warn
from rackspan.cli.shared.command_errors import CommandError
from rackspan.cli.shared.connection import Connection
from rackspan.core.scanning import rack_warnings
from rackspan.core.snapshot import Snapshot
from rackspan.core.text import be, few
from rackspan.core.topology import BrokerLocation
from rackspan.snapshots import SnapshotError, read_log_dirs, read_snapshot
from rackspan.snapshots.reader import shown_name

WITHOUT_TOPOLOGY = "pass --snapshot FILE, or --bootstrap-server HOST:PORT"


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """The options that name a cluster."""

    snapshot: str | None
    bootstrap_server: str | None
    command_config: Path | None
    log_dirs: str | None = None
    hint: str = "pass --snapshot FILE, --bootstrap-server HOST:PORT or --topology NAMESPACE/NAME"
    """The options of the command that name a cluster, for the error that it has none or several."""

    @property
    def live(self) -> bool:
        """Whether it is a live cluster and not a file."""
        return self.bootstrap_server is not None

    @property
    def connection(self) -> Connection | None:
        """The connection to a live cluster, None for a file. Raises CommandError."""
        return Connection.by_options(self.bootstrap_server, self.command_config) if self.live else None

    @property
    def name(self) -> str:
        """The file or the servers, to begin a sentence with."""
        return self.bootstrap_server or shown_name(self.snapshot or "")

    def why_absent(self, brokers: int) -> str:
        """Return why this number of brokers that hold replicas is not listed, to end a sentence with."""
        return "did not answer" if self.live else f"{be(brokers)} not among the brokers"

    def read(self) -> Snapshot:
        """Read the file, or ask the cluster. Warn of absent brokers that hold replicas. Raises CommandError."""
        found = self.read_to_plan()
        absent = () if self.live else [*map(str, found.unknown_brokers)]
        if absent:
            warn(f"{self.name}: {hold_replicas(absent, self.why_absent(len(absent)))}")
        return found

    def read_to_plan(self) -> Snapshot:
        """Return the same without that warning, because a plan refuses these brokers. Raises CommandError."""
        self._refuse_contradictions()
        try:
            with step(f"reading {self.name}") as progress:
                live = self.connection
                advance = progress.advance
                found = read_snapshot(self.snapshot or "", advance) if live is None else live.snapshot(advance)
                report_cordoned(found.brokers)
                for sentence in rack_warnings(found.brokers):
                    warn(f"{self.name}: {sentence}")
                return with_log_dir_sizes(found, self.log_dirs)
        except SnapshotError as error:
            raise CommandError(str(error)) from error

    def read_topics(self, purpose: str) -> Snapshot:
        """Read a cluster that has topics. `purpose` ends the error message, such as `to check`. Raises CommandError."""
        return self.with_topics(self.read(), purpose)

    def with_topics(self, found: Snapshot, purpose: str) -> Snapshot:
        """Return the cluster that was read. Raises CommandError as `read_topics` does."""
        if not len(found.partitions):
            raise CommandError(f"{self.name}: holds no topics, so there is nothing {purpose}")
        return found

    def _refuse_contradictions(self) -> None:
        if (self.snapshot is None) == (self.bootstrap_server is None):
            both = "only one of --snapshot and --bootstrap-server can be used"
            raise CommandError(
                both if self.snapshot is not None else "the cluster is missing",
                self.hint,
            )
        if self.command_config is not None and not self.live:
            raise CommandError("--command-config is for --bootstrap-server", "leave it out with a snapshot file")


def hold_replicas(brokers: Sequence[str], why: str) -> str:
    """Return a sentence that says that absent brokers hold replicas. `why` ends the sentence."""
    many = len(brokers) > 1
    return f"broker{'s' if many else ''} {few(brokers)} hold{'' if many else 's'} replicas and {why}"


def report_cordoned(brokers: Iterable[BrokerLocation]) -> None:
    """Print which brokers take no new replicas because they are cordoned in Kafka."""
    cordoned = [str(broker.id) for broker in brokers if broker.cordoned]
    if cordoned:
        many = len(cordoned) > 1
        note(
            f"broker{'s' if many else ''} {few(cordoned)} {'are' if many else 'is'} cordoned in Kafka: "
            "nothing new is placed there, and the replicas there may stay"
        )


def with_log_dir_sizes(found: Snapshot, log_dirs: str | None) -> Snapshot:
    """Return the snapshot with the sizes in the file of `--log-dirs`, if that is given. Raises CommandError."""
    if log_dirs is None:
        return found
    try:
        return replace(found, partitions=found.partitions.with_sizes(read_log_dirs(log_dirs)))
    except SnapshotError as error:
        raise CommandError(str(error)) from error

"""What `rackspan scan` is asked for, and which of its options go together."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rackspan.api.meta import ObjectKey
from rackspan.cli.shared.command_errors import CommandError


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """Options as they were given: where clusters come from, how Spark runs, and what is kept."""

    snapshot: Path | None
    bootstrap_server: str | None
    topology: str | None
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

    @property
    def topology_key(self) -> ObjectKey:
        """The RackTopology that `--topology` names."""
        namespace, _, name = (self.topology or "").partition("/")
        return ObjectKey(namespace, name)

    def refuse_contradictions(self) -> None:
        """Raise CommandError for options that do not go together."""
        sources = (
            ("--snapshot", self.snapshot),
            ("--bootstrap-server", self.bootstrap_server),
            ("--topology", self.topology),
            ("--synthetic", self.synthetic),
        )
        given = [name for name, value in sources if value is not None]
        if len(given) != 1:
            raise CommandError(
                f"only one of {', '.join(given)} can be used" if given else "the cluster is missing",
                "pass --snapshot PATH, --bootstrap-server HOST:PORT, --topology NAMESPACE/NAME or "
                "--synthetic PARTITIONS",
            )
        if self.command_config is not None and self.bootstrap_server is None:
            raise CommandError("--command-config is for --bootstrap-server")
        if self.publish and self.topology is None:
            raise CommandError("--publish is for --topology: without one there is no object to write")
        if self.retention_days is not None and self.history is None:
            raise CommandError("--retention-days is for --history")
        if self.topology is not None and self.topology.count("/") != 1:
            raise CommandError(f'--topology "{self.topology}" is not NAMESPACE/NAME')
        if self.topology is not None and self.levels:
            raise CommandError("--levels is not for --topology: the RackTopology names them")

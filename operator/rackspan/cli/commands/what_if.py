"""`rackspan what-if`: what the loss of each domain, or of some together, would do to partitions."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Annotated, Any

import numpy as np
import typer

from rackspan.cli.rendering.losses_table import losses, mildness
from rackspan.cli.rendering.output import Format, console, emit
from rackspan.cli.rendering.progress import step
from rackspan.cli.shared import options
from rackspan.cli.shared.cluster_source import Source, sized
from rackspan.cli.shared.live_topology import LiveTopology, refuse_others
from rackspan.cli.shared.selection import Topology, brokers_below, topics_matching
from rackspan.core.outage import DomainOutage, Outage, min_insync_replicas, outage_of, outages
from rackspan.core.text import be, plural
from rackspan.core.topology import RackTree, domain_name, parse_rack

EPILOG = options.epilog(
    "$ rackspan what-if --snapshot prod.json --levels region,zone,rack",
    "$ rackspan what-if --snapshot prod.json --lose /eu/eu-1a --lose /eu/eu-1b",
    "$ rackspan what-if --topology kafka/prod --lose /eu/eu-1a",
    "$ rackspan what-if --bootstrap-server kafka:9092 -o json | jq '.losses[] | select(.offline > 0)'",
)
_ROWS = 10
_TOGETHER = "together"


def what_if(
    context: typer.Context,
    snapshot: options.SnapshotFile = None,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    log_dirs: options.LogDirs = None,
    topology: options.TopologyName = None,
    kubeconfig: options.Kubeconfig = None,
    lose: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="Only this rack path; several are lost together. Default: each on its own."),
    ] = None,
    topic: options.Topic = None,
    levels: options.Levels = "",
    missing_rack_policy: options.MissingRacks = options.MissingRackPolicy.FAIL,
    output: options.Output = Format.TABLE,
    show_all: options.ShowAll = False,
) -> None:
    """Count what the loss of every domain, of every level and of every broker, would do to partitions.

    Offline: no replica in sync is left. Not writable: fewer than min.insync.replicas are left, those offline included.
    Last replica: exactly one in sync is left. Bytes to copy: what lies there, should it never come back.
    """
    if topology is None:
        found = Source(snapshot, bootstrap_server, command_config, log_dirs).read_topics("to lose")
        tree = Topology(levels, missing_rack_policy).tree(found)
    else:
        refuse_others(context)
        live = LiveTopology.at(topology, kubeconfig)
        tree, found = live.tree, sized(live.snapshot(), log_dirs)
    partitions = found.partitions
    if topic is not None:
        partitions = partitions.rows(np.isin(partitions.topic, topics_matching(found, topic)))
    least = min_insync_replicas(found.configs)
    with step("losing domains"):
        now = outage_of(tree, partitions, least, ())
        if lose:
            lost = sorted({broker for path in lose for broker in brokers_below(tree, path, "--lose")})
            rows = [_together(tree, lose, lost, outage_of(tree, partitions, least, lost))]
        else:
            rows = list(_sorted(tree, outages(tree, partitions, least)))
    if output is Format.TABLE:
        _print(len(partitions), now, rows, most=len(rows) if show_all else _ROWS)
    else:
        document = {"partitions": len(partitions), "now": _document(now), "losses": map(_row, rows)}
        emit(document, output)


def _together(tree: RackTree, paths: list[str], lost: list[int], outage: Outage) -> DomainOutage:
    """Row of several domains that are lost at once; one on its own is of its level."""
    names = [domain_name(parse_rack(path)) for path in paths]
    depth = len(parse_rack(paths[0]))
    level = tree.nodes[depth].name if len(paths) == 1 else _TOGETHER
    return DomainOutage(level, " + ".join(names), len(lost), outage)


def _sorted(tree: RackTree, rows: Iterable[DomainOutage]) -> Iterator[DomainOutage]:
    """Rows by level, the worst of each first."""
    order = {level.name: at for at, level in enumerate(tree.nodes)}
    return iter(sorted(rows, key=lambda row: (order[row.level], mildness(row.outage))))


def _document(outage: Outage) -> dict[str, Any]:
    return {
        "offline": outage.offline,
        "notWritable": outage.not_writable,
        "lastReplica": outage.last_replica,
        "replicas": outage.replicas,
        "bytes": outage.size_bytes,
    }


def _row(row: DomainOutage) -> dict[str, Any]:
    return {"level": row.level, "domain": row.domain, "brokers": row.brokers, **_document(row.outage)}


def _print(partitions: int, now: Outage, rows: list[DomainOutage], most: int) -> None:
    screen = console()
    screen.print(
        f"{plural(partitions, 'partition')}; without a loss {now.offline:,} {be(now.offline)} offline, "
        f"{now.not_writable:,} not writable, {now.last_replica:,} on their last replica"
    )
    levels = [list(level) for _, level in groupby(rows, key=lambda row: row.level)]
    screen.print(losses(row for level in levels for row in level[:most]))
    hidden = sum(max(0, len(level) - most) for level in levels)
    if hidden:
        screen.print(f"… and {plural(hidden, 'milder row')} (--all prints them)")

"""`rackspan what-if`: what the loss of each domain, or of some together, would do to partitions."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import typer

from rackspan.cli.rendering.losses_table import loss_order, losses_table
from rackspan.cli.rendering.output_formats import Format
from rackspan.cli.rendering.printed_documents import print_document
from rackspan.cli.rendering.progress import step
from rackspan.cli.rendering.tables import console, print_hidden
from rackspan.cli.shared.cluster_source import ClusterSource, with_log_dir_sizes
from rackspan.cli.shared.live_topology import LiveTopology, refuse_options_of_topology
from rackspan.cli.shared.options import MissingRackPolicy
from rackspan.cli.shared.partition_sizes import sized
from rackspan.cli.shared.selection import TopologyOptions, broker_ids, brokers_below, matching_partitions, refuse_absent
from rackspan.core.outage import DomainOutage, Outage, min_insync_replicas, outage_of, outages
from rackspan.core.rack_path import domain_name, parse_rack
from rackspan.core.text import be, plural
from rackspan.core.topology import RackTree

_ROWS = 10
_TOGETHER = "together"
_BROKERS = re.compile(r"[\d, ]+", re.ASCII)


def what_if(
    *,
    context: typer.Context,
    snapshot: str | None,
    bootstrap_server: str | None,
    command_config: Path | None,
    log_dirs: str | None,
    topology: str | None,
    kubeconfig: Path | None,
    lose: list[str] | None,
    topic: str | None,
    levels: str,
    missing_rack_policy: MissingRackPolicy,
    output: Format,
    show_all: bool,
) -> None:
    """Carry out `rackspan what-if` with these options. Raises CommandError."""
    if topology is None:
        source = ClusterSource(snapshot, bootstrap_server, command_config, log_dirs)
        found = source.read_topics("to lose")
        connection = source.connection
        tree = TopologyOptions(levels, missing_rack_policy).tree(found)
    else:
        refuse_options_of_topology(context)
        live = LiveTopology.at(topology, kubeconfig)
        tree, found = live.tree, with_log_dir_sizes(live.snapshot(), log_dirs)
        connection = live.connection
    partitions = matching_partitions(found, topic)
    if connection is not None and log_dirs is None:
        partitions = sized(connection, partitions, np.arange(len(partitions)))
    least = min_insync_replicas(found.configs)
    with step("losing domains"):
        now = outage_of(tree, partitions, least, ())
        if lose:
            lost = tuple(dict.fromkeys(_lost(tree, lose)))
            brokers = sorted({broker for one in lost for broker in one.brokers})
            rows = [_together(lost, len(brokers), outage_of(tree, partitions, least, brokers))]
        else:
            rows = _sorted(tree, outages(tree, partitions, least))
    if output is Format.TABLE:
        _print(len(partitions), now, rows, most=len(rows) if show_all else _ROWS)
    else:
        document = {"partitions": len(partitions), "now": _document(now), "losses": map(_row, rows)}
        print_document(document, output)


@dataclass(frozen=True, slots=True)
class _Lost:
    """A domain, or a broker, that is lost."""

    level: str
    name: str
    brokers: tuple[int, ...]


def _lost(tree: RackTree, given: Iterable[str]) -> Iterator[_Lost]:
    """Yield what `--lose` names. Numbers are broker ids, so a rack with the name 3 is `/3`. Raises CommandError."""
    for text in given:
        if _BROKERS.fullmatch(text):
            ids = broker_ids("--lose", [text])
            refuse_absent("--lose", ids, tree.ids)
            yield from (_Lost(tree.nodes[-1].name, str(broker), (broker,)) for broker in ids)
        else:
            below = brokers_below(tree, text, "--lose")
            path = parse_rack(text)
            yield _Lost(tree.nodes[len(path)].name, domain_name(path), below)


def _together(lost: Sequence[_Lost], brokers: int, outage: Outage) -> DomainOutage:
    """Return the row of a loss of all of them at once. Its level is `together` if there are several."""
    level = lost[0].level if len(lost) == 1 else _TOGETHER
    return DomainOutage(level, " + ".join(one.name for one in lost), brokers, outage)


def _sorted(tree: RackTree, rows: Iterable[DomainOutage]) -> list[DomainOutage]:
    """Return the rows by level, the worst of each level first."""
    order = {level.name: at for at, level in enumerate(tree.nodes)}
    return sorted(rows, key=lambda row: (order[row.level], loss_order(row.outage)))


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
    whose = "its" if now.last_replica == 1 else "their"
    screen.print(
        f"{plural(partitions, 'partition')}; without a loss {now.offline:,} {be(now.offline)} offline, "
        f"{now.not_writable:,} not writable, {now.last_replica:,} on {whose} last replica"
    )
    levels = [list(level) for _, level in groupby(rows, key=lambda row: row.level)]
    screen.print(losses_table(row for level in levels for row in level[:most]))
    hidden = sum(max(0, len(level) - most) for level in levels)
    print_hidden(screen, hidden, "milder row")

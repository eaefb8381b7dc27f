"""`rackspan snapshot`: a cluster as one file."""

import sys
from pathlib import Path

import numpy as np
from msgspec.json import decode

from rackspan.cli.rendering.output_formats import Format
from rackspan.cli.rendering.printed_documents import print_document, printed_json
from rackspan.cli.rendering.tables import console, count, table
from rackspan.cli.shared.cluster_source import WITHOUT_TOPOLOGY, ClusterSource
from rackspan.core.rack_path import RackPathError, domain_name, parse_rack
from rackspan.core.snapshot import NONE, Partitions, Snapshot
from rackspan.core.text import plural, size
from rackspan.snapshots import snapshot_lines


def snapshot(
    *,
    snapshot: str | None,
    bootstrap_server: str | None,
    command_config: Path | None,
    log_dirs: str | None,
    output: Format,
) -> None:
    """Carry out `rackspan snapshot` with these options. Raises CommandError."""
    found = ClusterSource(snapshot, bootstrap_server, command_config, log_dirs, WITHOUT_TOPOLOGY).read()
    if output is Format.JSON:
        sys.stdout.writelines(map(printed_json, snapshot_lines(found)))
    elif output is Format.YAML:
        print_document(decode("".join(snapshot_lines(found))), output)
    else:
        _print(found)


def _print(found: Snapshot) -> None:
    screen = console()
    partitions = found.partitions
    replicas = int(partitions.replication_factor.sum())
    screen.print(
        f"cluster {found.cluster_id or 'without an id'}: {plural(len(found.brokers), 'broker')}, "
        f"{plural(len(partitions.names), 'topic')}, {plural(len(partitions), 'partition')}, "
        f"{plural(replicas, 'replica')}, {_stored(partitions)}"
    )
    rows = table("rack", "#brokers", "#replicas", "#leaders")
    racks: dict[str, list[int]] = {}
    for broker in found.brokers:
        racks.setdefault(_rack(broker.reported_rack), []).append(broker.id)
    for rack, ids in sorted(racks.items()):
        held = int(np.count_nonzero(np.isin(partitions.replicas, ids)))
        led = int(np.count_nonzero(np.isin(partitions.leader, ids)))
        rows.add_row(rack, f"{len(ids):,}", count(held), count(led))
    screen.print(rows)


def _rack(reported: str | None) -> str:
    """Return one name for a rack with or without a leading slash. A text that is not a path stays unchanged."""
    try:
        return domain_name(parse_rack(reported)) if reported else "(none)"
    except RackPathError:
        return reported or ""


def _stored(partitions: Partitions) -> str:
    """Return the size of all replicas in words, with "at least" if some sizes are not known."""
    known = partitions.size_bytes != NONE
    if not known.any():
        return size(None, "?")
    sizes = zip(partitions.size_bytes[known].tolist(), partitions.replication_factor[known].tolist(), strict=True)
    total = size(sum(size_bytes * replicas for size_bytes, replicas in sizes))
    return total if known.all() else f"at least {total}"

"""`rackspan place`: the replicas of a new topic, by any installed placer (KIP-879's createReplicaPlacement)."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from rackspan.cli.rendering.output_formats import Format
from rackspan.cli.rendering.plan_document import levels_document
from rackspan.cli.rendering.printed_documents import print_document
from rackspan.cli.rendering.progress import step
from rackspan.cli.rendering.tables import console, print_hidden, span, table
from rackspan.cli.shared.cluster_source import WITHOUT_TOPOLOGY, ClusterSource
from rackspan.cli.shared.command_errors import CommandError
from rackspan.cli.shared.options import MissingRackPolicy
from rackspan.cli.shared.selection import TopologyOptions, broker_ids, infeasible, placers, refuse_absent
from rackspan.core.compliance import judge
from rackspan.core.placement import ClusterView, InfeasibleError, Placement, PlacementSpec
from rackspan.core.planning import Extent
from rackspan.core.snapshot import NONE, BrokerIds
from rackspan.core.text import plural
from rackspan.core.topology import RackTree

_WITHOUT_START = ("MultiLevel",)
_ROWS = 50


def place(
    *,
    partitions: int,
    replication_factor: int,
    snapshot: str | None,
    bootstrap_server: str | None,
    command_config: Path | None,
    placer: str,
    start_index: int | None,
    shift: int | None,
    seed: int | None,
    brokers: str | None,
    levels: str,
    missing_rack_policy: MissingRackPolicy,
    drain_broker: list[str] | None,
    drain_rack: list[str] | None,
    output: Format,
    show_all: bool,
) -> None:
    """Carry out `rackspan place` with these options. Raises CommandError."""
    _refuse_contradictions(placer, start_index, shift, seed)
    included = () if brokers is None else broker_ids("--brokers", [brokers])
    topology = TopologyOptions.of(levels, missing_rack_policy, drain_broker, drain_rack)
    found = ClusterSource(snapshot, bootstrap_server, command_config, hint=WITHOUT_TOPOLOGY).read()
    tree = topology.tree_with_missing_racks(found)  # the placer decides whether racks are needed
    refuse_absent("--brokers", included, tree.ids.tolist())
    only = tuple(map(str, included))
    spec = PlacementSpec(
        partitions, replication_factor, include=only, seed=seed or 0, start_index=start_index, shift=shift
    )
    held = found.partitions.replicas
    with step(f"placing {plural(partitions, 'partition')}"):
        made = _placed(placer, spec, ClusterView(tree, _counted(held), _counted(held[:, :1])))
    if output is Format.TABLE:
        _print(tree, made, most=partitions if show_all else _ROWS)
    else:
        verdict = {"nonCompliant": judge(tree, made).non_compliant, "levels": levels_document(_extents(tree, made))}
        print_document({"placement": made.partitions, "placer": placer, "seed": spec.seed, **verdict}, output)


def _counted(brokers: BrokerIds) -> dict[int, int]:
    ids, counts = np.unique(brokers[brokers != NONE], return_counts=True)
    return dict(zip(ids.tolist(), counts.tolist(), strict=True))


def _placed(name: str, spec: PlacementSpec, cluster: ClusterView) -> Placement:
    installed = placers()
    if name not in installed:
        raise CommandError(f'--placer "{name}": no such placer is installed', f"there are {', '.join(installed)}")
    try:
        made = installed[name].place(spec, cluster)
    except InfeasibleError as error:
        raise infeasible(error) from error
    if made is None:
        raise CommandError(f"the placer {name} leaves this placement to Kafka", "choose another --placer")
    return made


def _refuse_contradictions(placer: str, start_index: int | None, shift: int | None, seed: int | None) -> None:
    started = [option for option, value in (("--start-index", start_index), ("--shift", shift)) if value is not None]
    if started and seed is not None:
        raise CommandError(f"{started[0]} and --seed exclude each other", "leave one of them out")
    if started and placer in _WITHOUT_START:
        raise CommandError(
            f"{started[0]} is for Simple, Striped and Rings; {placer} does not use it", "vary --seed instead"
        )


def _print(tree: RackTree, made: Placement, most: int) -> None:
    screen = console()
    rows = table("#partition", "leader", "followers")
    for partition, (leader, *followers) in enumerate(made.partitions[:most]):
        rows.add_row(str(partition), str(leader), " ".join(map(str, followers)))
    screen.print(rows)
    print_hidden(screen, len(made) - most, "more partition")
    shown = table("level", "#domains", "#replicas", "#leaders")
    for one, level in zip(_extents(tree, made), tree.nodes[1:], strict=True):
        shown.add_row(one.name, f"{len(level):,}", span(*one.replicas), span(*one.leaders))
    screen.print(shown)
    compliance = judge(tree, made)
    if compliance.compliant:
        screen.print("all partitions are compliant" if len(made) > 1 else "the partition is compliant", style="green")
    else:
        screen.print(f"{plural(compliance.non_compliant, 'partition')} out of compliance", style="bold red")


def _extents(tree: RackTree, made: Placement) -> Iterator[Extent]:
    """Yield what the domains of each level, brokers last, hold of the placement at least and at most."""
    replicas = tree.positions([broker for row in made.partitions for broker in row])
    leaders = tree.positions([row[0] for row in made.partitions])
    for level in tree.nodes[1:]:
        held, led = (np.bincount(level.of_broker[at], minlength=len(level)) for at in (replicas, leaders))
        yield Extent(level.name, (int(held.min()), int(held.max())), (int(led.min()), int(led.max())))

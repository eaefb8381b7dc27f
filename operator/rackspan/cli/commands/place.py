"""`rackspan place`: the replicas of a new topic, by any installed placer (KIP-879's createReplicaPlacement)."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from rackspan.cli.rendering.output_formats import Format
from rackspan.cli.rendering.printed_documents import print_document
from rackspan.cli.rendering.progress import step
from rackspan.cli.rendering.tables import console, print_hidden, span, table
from rackspan.cli.shared import options
from rackspan.cli.shared.cluster_source import ClusterSource
from rackspan.cli.shared.command_errors import CommandError
from rackspan.cli.shared.later_command import command_app
from rackspan.cli.shared.selection import TopologyOptions, broker_ids, infeasible, placers, refuse_absent
from rackspan.core.compliance import judge
from rackspan.core.placement import ClusterView, InfeasibleError, Placement, PlacementSpec
from rackspan.core.snapshot import NONE, BrokerIds
from rackspan.core.text import plural
from rackspan.core.topology import RackTree

app = command_app()
EPILOG = options.epilog(
    "$ rackspan place --snapshot prod.json --partitions 12 --replication-factor 3",
    "$ rackspan place --snapshot prod.json --partitions 12 --replication-factor 3 --placer Striped --start-index 0 "
    "--shift 0 -o json",
    "$ rackspan place --bootstrap-server kafka:9092 --partitions 6 --replication-factor 2 --brokers 1,2,3",
)
_WITHOUT_START = ("MultiLevel",)
_ROWS = 50


@app.command(epilog=EPILOG)
def place(
    partitions: Annotated[int, typer.Option(min=1, max=1_000_000, metavar="N", help="Partitions of the new topic.")],
    replication_factor: Annotated[
        int, typer.Option(min=1, max=32_767, metavar="R", help="Replicas of each partition.")
    ],
    snapshot: options.SnapshotFile = None,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    placer: Annotated[
        str, typer.Option(metavar="NAME", help="MultiLevel, Striped, Rings, Simple, or another that is installed.")
    ] = "MultiLevel",
    start_index: Annotated[
        int | None, typer.Option(min=0, max=2**31 - 1, metavar="I", help="Where Simple, Striped and Rings begin.")
    ] = None,
    shift: Annotated[
        int | None,
        typer.Option(min=0, max=2**31 - 1, metavar="S", help="Their first distance between leader and follower."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, metavar="S", help="Decides what is left open. Default: 0.")] = None,
    brokers: Annotated[
        str | None, typer.Option(metavar="ID,…", help="Only these brokers. Default: all that are not drained.")
    ] = None,
    levels: options.Levels = "",
    missing_rack_policy: options.MissingRacks = options.MissingRackPolicy.FAIL,
    drain_broker: options.DrainBroker = None,
    drain_rack: options.DrainRack = None,
    output: options.Output = Format.TABLE,
    show_all: options.ShowAll = False,
) -> None:
    """Place the replicas of a new topic, and print them: the first replica of each partition is its preferred leader.

    What lies on the brokers already is taken into account. Nothing is created.
    """
    _refuse_contradictions(placer, start_index, shift, seed)
    included = () if brokers is None else broker_ids("--brokers", [brokers])
    topology = TopologyOptions.of(levels, missing_rack_policy, drain_broker, drain_rack)
    found = ClusterSource(snapshot, bootstrap_server, command_config).read()
    tree = topology.tree_with_missing_racks(found)  # whether racks are needed is the placer's to say
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
        print_document({"placement": made.partitions, "placer": placer, "seed": spec.seed}, output)


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
    _print_balance(screen, tree, made.partitions)
    compliance = judge(tree, made)
    if compliance.compliant:
        screen.print("all partitions are compliant" if len(made) > 1 else "the partition is compliant", style="green")
    else:
        screen.print(f"{plural(compliance.non_compliant, 'partition')} out of compliance", style="bold red")


def _print_balance(screen: Console, tree: RackTree, rows: Sequence[Sequence[int]]) -> None:
    replicas = tree.positions([broker for row in rows for broker in row])
    leaders = tree.positions([row[0] for row in rows])
    shown = table("level", "#domains", "#replicas", "#leaders")
    for level in tree.nodes[1:]:
        counts = [np.bincount(level.of_broker[at], minlength=len(level)) for at in (replicas, leaders)]
        shown.add_row(level.name, f"{len(level):,}", *(span(int(held.min()), int(held.max())) for held in counts))
    screen.print(shown)

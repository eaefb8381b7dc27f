"""The options of `rackspan place`."""

from typing import Annotated

import typer

from rackspan.cli.actions import placing_topics
from rackspan.cli.rendering.output_formats import Format
from rackspan.cli.shared import options
from rackspan.cli.shared.later_command import command_app

app = command_app()
EPILOG = options.epilog(
    "$ rackspan place --snapshot prod.json --partitions 12 --replication-factor 3",
    "$ rackspan place --snapshot prod.json --partitions 12 --replication-factor 3 --placer Striped --start-index 0 "
    "--shift 0 -o json",
    "$ rackspan place --bootstrap-server kafka:9092 --partitions 6 --replication-factor 2 --brokers 1,2,3",
)


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
        str, typer.Option(metavar="NAME", help="MultiLevel, Striped, Rings, Simple, or another installed placer.")
    ] = "MultiLevel",
    start_index: Annotated[
        int | None,
        typer.Option(min=0, max=2**31 - 1, metavar="I", help="The broker at which Simple, Striped and Rings begin."),
    ] = None,
    shift: Annotated[
        int | None,
        typer.Option(min=0, max=2**31 - 1, metavar="S", help="Their first distance between leader and follower."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, metavar="S", help="The seed of choices between equal placements. Default: 0.")
    ] = None,
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

    The placement accounts for the replicas that the brokers hold already. Nothing is created.
    """
    placing_topics.place(**locals())

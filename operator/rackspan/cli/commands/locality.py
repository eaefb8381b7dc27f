"""The options of `rackspan locality`."""

from typing import Annotated

import typer

from rackspan.cli.actions import measuring_locality
from rackspan.cli.rendering.output_formats import Format
from rackspan.cli.shared import options
from rackspan.cli.shared.later_command import command_app

app = command_app()
EPILOG = options.epilog(
    "$ rackspan locality --bootstrap-server kafka:9092 --levels region,zone,rack --level zone",
    "$ rackspan locality --topology kafka/prod --group orders --group billing",
    "$ rackspan locality --topology kafka/prod --sample 60s --price-per-gb 0.02 --currency USD",
    "$ rackspan locality --topology kafka/prod --group orders --fail-above 10% || exit 1",
    "$ rackspan locality --topology kafka/prod --producers /eu/eu-1a=3 --producers /eu/eu-1b --sample 60s",
)


@app.command(epilog=EPILOG)
def locality(
    context: typer.Context,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    topology: options.TopologyName = None,
    kubeconfig: options.Kubeconfig = None,
    group: Annotated[
        list[str] | None, typer.Option(metavar="GROUP", help="Only this consumer group; repeat it for several.")
    ] = None,
    producers: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RACK[=COUNT]",
            help="Also show the locality of producers: a client.rack and how many producers have it. Repeat it.",
        ),
    ] = None,
    level: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The level in whose domains a replica is near. Default: the deepest one."),
    ] = None,
    levels: options.Levels = "",
    missing_rack_policy: options.MissingRacks = options.MissingRackPolicy.FAIL,
    sample: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Measure bytes per second: read offsets twice, this time apart, such as 60s."
        ),
    ] = None,
    price_per_gb: Annotated[
        float | None,
        typer.Option(min=0, max=10**6, metavar="PRICE", help="The price of 10⁹ bytes between domains; with --sample."),
    ] = None,
    currency: Annotated[
        str, typer.Option(metavar="LABEL", help="The label of the price. Nothing is converted.")
    ] = "EUR",
    fail_above: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Exit with 1 if a group reads at most this share of its partitions from near replicas, such as 10%.",
        ),
    ] = None,
    output: options.Output = Format.TABLE,
    show_all: options.ShowAll = False,
) -> None:
    """Show how much consumer groups read from replicas near them, what remote reads cost, and what to change.

    Near: a replica is in the member's own domain. Reads near: the member reads from that replica. Could be near: the
    most that an equally even assignment reaches. A scan reports the same for every group. Changes nothing.

    For producers, near: writes to leaders in the producer's domain; by rack: the same with partitioner.rack.aware;
    could be near: the same if other in-sync replicas were the leaders.
    """
    measuring_locality.locality(**locals())

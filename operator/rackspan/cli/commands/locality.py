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
            help="Show how near producers write, too: the client.rack of some, and how many have it. Repeat it.",
        ),
    ] = None,
    level: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Near is in the same domain of this level. Default: the deepest one."),
    ] = None,
    levels: options.Levels = "",
    missing_rack_policy: options.MissingRacks = options.MissingRackPolicy.FAIL,
    sample: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Look at offsets twice, so far apart, for bytes per second."),
    ] = None,
    price_per_gb: Annotated[
        float | None,
        typer.Option(min=0, max=10**6, metavar="PRICE", help="What 10⁹ bytes between domains cost; with --sample."),
    ] = None,
    currency: Annotated[
        str, typer.Option(metavar="LABEL", help="How the price is labelled; nothing is converted.")
    ] = "EUR",
    fail_above: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Exit code 1 where a group does not read more than this share of its partitions near by, such as 10%.",
        ),
    ] = None,
    output: options.Output = Format.TABLE,
    show_all: options.ShowAll = False,
) -> None:
    """Show how near consumer groups read to where they run, what reading from afar costs, and what to change.

    Near: a replica is in the member's own domain. Reads near: it is read from there. Could be near: with the best
    assignment that is as even. A scan reports the same of every group. Changes nothing.

    Of producers, near is what goes to leaders in their own domain; by rack, what does with partitioner.rack.aware;
    could be near, what would if other replicas in sync led.
    """
    measuring_locality.locality(**locals())

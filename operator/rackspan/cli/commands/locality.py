"""`rackspan locality`: how near groups read, and producers write, to where they run, what it costs, what to change."""

from typing import Annotated

import typer

from rackspan.cli.rendering.output_formats import Format
from rackspan.cli.rendering.printed_documents import print_document
from rackspan.cli.shared import options, writes_report
from rackspan.cli.shared.command_errors import CommandError, ExitCode, ending_with
from rackspan.cli.shared.connection import Connection
from rackspan.cli.shared.later_command import command_app
from rackspan.cli.shared.live_groups import LiveGroups, Topics
from rackspan.cli.shared.live_topology import LiveTopology, refuse_options_of_topology
from rackspan.cli.shared.locality_report import LocalityReport, Price, document, print_report
from rackspan.cli.shared.quantities import producers_of, seconds_of, share_of
from rackspan.cli.shared.selection import TopologyOptions
from rackspan.cli.shared.writes_report import WritesReport

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
    seconds = None if sample is None else seconds_of("--sample", sample)
    share = None if fail_above is None else share_of("--fail-above", fail_above)
    options.refuse_alone(options.typed_options(context), ("--currency", "--price-per-gb"))
    if price_per_gb is not None and seconds is None:
        raise CommandError("--price-per-gb needs rates", "pass --sample 60s, a few times longer than commits are apart")
    writing = producers_of(producers or [])
    topics = Topics.ALL if writing else Topics.READ
    if topology is None:
        connection = Connection.by_options(bootstrap_server, command_config)
        found = LiveGroups.by_options(connection, TopologyOptions(levels, missing_rack_policy), level, topics)
    else:
        refuse_options_of_topology(context)
        found = LiveGroups.by_topology(LiveTopology.at(topology, kubeconfig), level, topics)
    chosen = found.named(group or ())
    if seconds is not None:
        chosen = chosen.sampled(seconds)
    price = None if price_per_gb is None else Price(price_per_gb, currency)
    report = LocalityReport.of(chosen, seconds, price)
    writes = WritesReport.of(chosen, writing, price) if writing else None
    far = share is not None and any(row.found.share_not_read_near > share for row in report.rows)
    with ending_with(ExitCode.OUT_OF_COMPLIANCE if far else ExitCode.FINE):
        if output is Format.TABLE:
            print_report(report, show_all=show_all)
            if writes is not None:
                writes_report.print_report(writes, show_all=show_all)
        else:
            shown = {} if writes is None else {"writes": writes_report.document(writes)}
            print_document({**document(report), **shown}, output)

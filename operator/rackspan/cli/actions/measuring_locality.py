"""`rackspan locality`: how near groups read and producers write, what the traffic costs, and what to change."""

from pathlib import Path

import typer

from rackspan.cli.rendering.output_formats import Format
from rackspan.cli.rendering.printed_documents import print_document
from rackspan.cli.shared import options, writes_report
from rackspan.cli.shared.command_errors import CommandError, ExitCode, ending_with
from rackspan.cli.shared.connection import Connection
from rackspan.cli.shared.live_groups import LiveGroups
from rackspan.cli.shared.live_topology import LiveTopology, refuse_options_of_topology
from rackspan.cli.shared.locality_report import LocalityReport, Price, document, print_report
from rackspan.cli.shared.options import MissingRackPolicy
from rackspan.cli.shared.quantities import producers_of, seconds_of, share_of
from rackspan.cli.shared.selection import TopologyOptions
from rackspan.cli.shared.writes_report import WritesReport


def locality(
    *,
    context: typer.Context,
    bootstrap_server: str | None,
    command_config: Path | None,
    topology: str | None,
    kubeconfig: Path | None,
    group: list[str] | None,
    producers: list[str] | None,
    level: str | None,
    levels: str,
    missing_rack_policy: MissingRackPolicy,
    sample: str | None,
    price_per_gb: float | None,
    currency: str,
    fail_above: str | None,
    output: Format,
    show_all: bool,
) -> None:
    """Carry out `rackspan locality` with these options. Raises CommandError."""
    seconds = None if sample is None else seconds_of("--sample", sample)
    share = None if fail_above is None else share_of("--fail-above", fail_above)
    options.refuse_alone(options.typed_options(context), ("--currency", "--price-per-gb"))
    if price_per_gb is not None and seconds is None:
        raise CommandError("--price-per-gb needs rates", "pass --sample 60s, a few times longer than commits are apart")
    writing = producers_of(producers or [])
    if topology is not None:
        refuse_options_of_topology(context)
    live = None if topology is None else LiveTopology.at(topology, kubeconfig)
    connection = Connection.by_options(bootstrap_server, command_config) if live is None else live.connection
    selected = TopologyOptions(levels, missing_rack_policy)
    chosen = LiveGroups.read(connection, live, selected, level, all_topics=bool(writing)).named(group or ())
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

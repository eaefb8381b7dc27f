"""The options of `rackspan what-if`."""

from typing import Annotated

import typer

from rackspan.cli.actions import losing_domains
from rackspan.cli.rendering.output_formats import Format
from rackspan.cli.shared import options
from rackspan.cli.shared.later_command import command_app

app = command_app()
EPILOG = options.epilog(
    "$ rackspan what-if --snapshot prod.json --levels region,zone,rack",
    "$ rackspan what-if --snapshot prod.json --lose /eu/eu-1a --lose /eu/eu-1b",
    "$ rackspan what-if --topology kafka/prod --lose /eu/eu-1a",
    "$ rackspan what-if --topology kafka/prod --lose 3",
    "$ rackspan what-if --bootstrap-server kafka:9092 -o json | jq '.losses[] | select(.offline > 0)'",
)


@app.command(epilog=EPILOG)
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
        typer.Option(
            metavar="PATH|ID",
            help="Only this rack path, or these brokers, such as 3 or 3,4; several are lost together. Default: each "
            "domain and each broker on its own.",
        ),
    ] = None,
    topic: options.Topic = None,
    levels: options.Levels = "",
    missing_rack_policy: options.MissingRacks = options.MissingRackPolicy.FAIL,
    output: options.Output = Format.TABLE,
    show_all: options.ShowAll = False,
) -> None:
    """Count what the loss of every domain, of every level and of every broker, would do to partitions.

    Offline: no replica in sync is left. Not writable: fewer than min.insync.replicas are left, those offline included.
    Last replica: exactly one in sync is left. Bytes to copy: what lies there, should it never come back. A live cluster
    is asked for sizes, unless --log-dirs gives them.
    """
    losing_domains.what_if(**locals())

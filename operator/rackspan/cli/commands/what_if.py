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
            help="Only the loss of this rack path, or of these brokers together, such as 3 or 3,4. Default: each "
            "domain and each broker on its own.",
        ),
    ] = None,
    topic: options.Topic = None,
    levels: options.Levels = "",
    missing_rack_policy: options.MissingRacks = options.MissingRackPolicy.FAIL,
    output: options.Output = Format.TABLE,
    show_all: options.ShowAll = False,
) -> None:
    """Count the partitions that the loss of each domain of each level, and of each broker, would affect.

    Offline: no in-sync replica is left. Not writable: fewer than min.insync.replicas are left, including offline ones.
    Last replica: exactly one in-sync replica is left. Bytes to copy: the data there, if it never comes back. Sizes come
    from --log-dirs, or from the brokers of a live cluster.
    """
    losing_domains.what_if(**locals())

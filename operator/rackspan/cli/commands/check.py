"""The options of `rackspan check`."""

from typing import Annotated

import typer

from rackspan.cli.actions import checking_clusters
from rackspan.cli.rendering.output_formats import CheckFormat
from rackspan.cli.shared import options
from rackspan.cli.shared.later_command import command_app

app = command_app()
EPILOG = options.epilog(
    "$ rackspan check --snapshot prod.json --levels region,zone,rack",
    "$ rackspan check --bootstrap-server kafka:9092 --command-config client.properties --topic 'payments.*'",
    "$ rackspan check --topology kafka/prod",
    "$ rackspan check --bootstrap-server kafka:9092 -o junit > rackspan.xml",
    "$ rackspan check --snapshot prod.json -o json | jq '.findings[] | select(.level == \"zone\")'",
)


@app.command(epilog=EPILOG)
def check(
    context: typer.Context,
    snapshot: options.SnapshotFile = None,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    topology: options.TopologyName = None,
    kubeconfig: options.Kubeconfig = None,
    topic: options.Topic = None,
    levels: options.Levels = "",
    missing_rack_policy: options.MissingRacks = options.MissingRackPolicy.FAIL,
    drain_broker: options.DrainBroker = None,
    drain_rack: options.DrainRack = None,
    output: Annotated[
        CheckFormat,
        options.output_option(
            "--output", "-o", help="The output format; sarif is for code scanning, junit for test reports."
        ),
    ] = CheckFormat.TABLE,
    show_all: options.ShowAll = False,
) -> None:
    """Show what is wrong: replicas not spread fairly over a level's domains, offline or under-replicated partitions.

    A broker that is drained or has left the cluster must not hold replicas. The output also shows which losses the
    acknowledged writes of each topic survive. The exit code is 1 if a partition is not compliant, or another finding is
    as severe. `rackspan scan` finds the same in clusters of any size, and keeps a history.
    """
    checking_clusters.check(**locals())

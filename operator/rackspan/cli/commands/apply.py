"""The options of `rackspan apply`."""

from typing import Annotated

import typer

from rackspan.cli.actions import applying_plans
from rackspan.cli.rendering.output_formats import ProgressFormat
from rackspan.cli.shared import options
from rackspan.cli.shared.later_command import command_app
from rackspan.core.move_limits import Limits

app = command_app()
EPILOG = options.epilog(
    "$ rackspan apply --bootstrap-server kafka:9092 --drain-broker 12 --dry-run",
    "$ rackspan apply --bootstrap-server kafka:9092 --drain-broker 12 --approve 0123456789abcdef0123456789abcdef",
    "$ rackspan apply --bootstrap-server kafka:9092 --topic payments --replication-factor payments=4 --max-bytes 2TB",
    "$ rackspan apply --topology kafka/prod --command-config admin.properties --throttle 50MB/s",
    "$ rackspan apply --bootstrap-server kafka:9092 --cancel",
)
_PANEL = "Limits"
_LIMITS = Limits()


@app.command(epilog=EPILOG)
def apply(
    context: typer.Context,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    topology: options.TopologyName = None,
    kubeconfig: options.Kubeconfig = None,
    filename: options.Filename = None,
    topic: options.Topic = None,
    replication_factor: options.ReplicationFactor = None,
    rebalance_too: options.Rebalance = False,
    levels: options.Levels = "",
    missing_rack_policy: options.MissingRacks = options.MissingRackPolicy.FAIL,
    drain_broker: options.DrainBroker = None,
    drain_rack: options.DrainRack = None,
    approve: Annotated[
        str | None,
        typer.Option(metavar="HASH", help="The plan's hash. Without it the plan is shown, and you are asked."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, and change nothing.")] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Take back what is under way; what has moved already stays.")
    ] = False,
    throttle: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            rich_help_panel=_PANEL,
            help="Bytes per second and broker, such as 50MB/s, or adaptive, or adaptive:10MB/s-100MB/s. Default: none.",
        ),
    ] = None,
    max_concurrent_moves: Annotated[
        int, typer.Option(min=1, max=10_000, rich_help_panel=_PANEL, help="Replicas copied at once in the cluster.")
    ] = _LIMITS.moves,
    max_concurrent_moves_per_broker: Annotated[
        int, typer.Option(min=1, max=10_000, rich_help_panel=_PANEL, help="Replicas a broker gives or takes at once.")
    ] = _LIMITS.moves_per_broker,
    max_moves: Annotated[
        int | None, typer.Option(min=0, rich_help_panel=_PANEL, help="Refuse a plan of more moves than that.")
    ] = None,
    max_bytes: Annotated[
        str | None,
        typer.Option(metavar="BYTES", rich_help_panel=_PANEL, help="Refuse a plan that copies more, such as 2TB."),
    ] = None,
    patience: Annotated[
        float,
        typer.Option(min=1, metavar="SECONDS", help="Stop where nothing was done and no byte copied for so long."),
    ] = 600,
    journal: options.Journal = None,
    output: options.ProgressOutput = ProgressFormat.TABLE,
) -> None:
    """Carry out the plan that `rackspan plan` makes of the same options, and what a killed `rackspan apply` has begun.

    One replica of a partition moves at a time, and an old one goes only once the new one is in sync. Throttles are
    cleared however it ends. At Ctrl-C the copies under way end and no other begins; a second one leaves them to Kafka,
    and so do SIGTERM, SIGHUP and SIGQUIT.
    Run the same command again to go on, or with --cancel to take back what is under way.
    """
    applying_plans.apply(**locals())

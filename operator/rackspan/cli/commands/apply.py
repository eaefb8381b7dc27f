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
    "$ rackspan apply --topology kafka/prod --throttle 50MB/s",
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
        typer.Option(
            metavar="HASH", help="The hash of the plan to carry out. Without it, the command shows the plan and asks."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel the moves under way. Completed moves stay.")] = False,
    throttle: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            rich_help_panel=_PANEL,
            help="Bytes per second and broker, such as 50MB/s, or adaptive, or adaptive:10MB/s-100MB/s. Default: none.",
        ),
    ] = None,
    max_concurrent_moves: Annotated[
        int,
        typer.Option(
            min=1,
            max=10_000,
            rich_help_panel=_PANEL,
            help="The most replicas being copied at the same time in the cluster.",
        ),
    ] = _LIMITS.moves,
    max_concurrent_moves_per_broker: Annotated[
        int,
        typer.Option(
            min=1,
            max=10_000,
            rich_help_panel=_PANEL,
            help="The most replicas that a broker sends or receives at the same time.",
        ),
    ] = _LIMITS.moves_per_broker,
    max_moves: Annotated[
        int | None, typer.Option(min=0, rich_help_panel=_PANEL, help="Refuse a plan with more moves.")
    ] = None,
    max_bytes: Annotated[
        str | None,
        typer.Option(metavar="BYTES", rich_help_panel=_PANEL, help="Refuse a plan that copies more, such as 2TB."),
    ] = None,
    patience: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Stop after this time without a completed step or a copied byte, such as 90s or 1h30m; inf for never.",
        ),
    ] = "10m",
    journal: options.Journal = None,
    output: options.ProgressOutput = ProgressFormat.TABLE,
) -> None:
    """Carry out the plan that `rackspan plan` makes with the same options, or continue a plan that was interrupted.

    One replica of a partition moves at a time. An old replica is removed only after the new one is in sync. Throttles
    are removed at every end. After Ctrl-C no new copy begins, and the command waits for the copies under way. After a
    second Ctrl-C, or SIGTERM, SIGHUP or SIGQUIT, it ends and Kafka finishes them.
    Run the same command again to continue, or with --cancel to cancel the moves under way.
    """
    applying_plans.apply(**locals())

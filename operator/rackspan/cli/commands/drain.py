"""The options of `rackspan drain`."""

from pathlib import Path
from typing import Annotated

import typer

from rackspan.cli.actions import draining_brokers
from rackspan.cli.rendering.output_formats import Format
from rackspan.cli.shared import options
from rackspan.cli.shared.later_command import command_app

app, uncordon_app = command_app(), command_app()
DRAIN_EPILOG = options.epilog(
    "$ kubectl rackspan drain 4 --topology kafka/prod --dry-run=client",
    "$ kubectl rackspan drain 4 --topology kafka/prod",
    "$ rackspan drain --rack /eu/eu-1a --topology kafka/prod --approve --wait --timeout 2h",
    "$ rackspan drain 4 5 --topology kafka/prod --dry-run=client -o yaml > drain.yaml",
)
UNCORDON_EPILOG = options.epilog(
    "$ kubectl rackspan uncordon 4 --topology kafka/prod",
    "$ rackspan uncordon --rack /eu/eu-1a --topology kafka/prod",
)


_Brokers = Annotated[list[str] | None, typer.Argument(metavar="[BROKER]...", help="Ids of brokers.")]
_Racks = Annotated[
    list[str] | None,
    typer.Option("--rack", metavar="PATH", help="The path of a rack, zone or region; repeat it for several."),
]
_DryRun = Annotated[
    options.DryRun,
    typer.Option(
        help="client: print the change, with -o yaml as a manifest for Git. server: let the API server check it."
    ),
]


@app.command(epilog=DRAIN_EPILOG)
def drain(
    context: typer.Context,
    broker: _Brokers = None,
    rack: _Racks = None,
    topology: options.RequiredTopology = None,
    kubeconfig: options.Kubeconfig = None,
    dry_run: _DryRun = options.DryRun.NONE,
    approve: Annotated[
        bool,
        typer.Option("--approve", help="Approve the plan that is shown, as soon as the operator has the same plan."),
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the brokers hold no replica.")] = False,
    timeout: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="With --wait or --approve: give up after this time, such as 90s or 1h30m."),
    ] = None,
    bootstrap_server: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT,…",
            callback=options.servers,
            help="With --wait: until these servers of Kafka report no replica there, too; several with commas.",
        ),
    ] = None,
    command_config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", parser=options.path, help="With --bootstrap-server: client properties for it."),
    ] = None,
    output: options.Output = Format.TABLE,
) -> None:
    """Drain brokers, or all brokers of a rack: add them to the drains of a RackTopology.

    The operator plans where their replicas go, and moves them after the plan is approved. This command shows how many
    replicas the brokers hold, how many can move and what that costs. --wait waits until the operator, and with
    --bootstrap-server Kafka itself, reports no replica there. Exit code 5: no plan moves the replicas that are left.
    """
    draining_brokers.drain(**locals())


@uncordon_app.command(epilog=UNCORDON_EPILOG)
def uncordon(
    broker: _Brokers = None,
    rack: _Racks = None,
    topology: options.RequiredTopology = None,
    kubeconfig: options.Kubeconfig = None,
    dry_run: _DryRun = options.DryRun.NONE,
    output: options.Output = Format.TABLE,
) -> None:
    """End the drain of brokers, or of all brokers of a rack: remove them from the drains of a RackTopology.

    Replicas that have moved away do not move back. New replicas may be placed there.
    """
    draining_brokers.uncordon(**locals())

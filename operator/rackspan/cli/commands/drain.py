"""The options of `rackspan drain`."""

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
    typer.Option("--rack", metavar="PATH", help="A rack, a zone, a region by its path; repeat it for several."),
]
_DryRun = Annotated[
    options.DryRun,
    typer.Option(help="client: print what would be, and with -o yaml what to put into Git. server: let it be checked."),
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
        bool, typer.Option("--approve", help="Approve the plan that is shown, once the operator has the same.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until no replica is left there.")] = False,
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="With --wait or --approve: give up after that, such as 2h.")
    ] = None,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    output: options.Output = Format.TABLE,
) -> None:
    """Let brokers, or all below a rack, hold no replicas: add them to the drains of a RackTopology.

    The operator plans where their replicas go, and moves them once the plan is approved. This command shows how many
    replicas are there, how many can leave and what that costs. --wait ends when the operator sees no replica there, and
    with --bootstrap-server Kafka itself. Exit code 5: only replicas are left that no plan moves.
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
    """Let brokers, or all below a rack, hold replicas again: take them off the drains of a RackTopology.

    What has moved away does not come back by itself; new replicas may go there.
    """
    draining_brokers.uncordon(**locals())

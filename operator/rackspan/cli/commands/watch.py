"""The options of `rackspan watch`."""

from typing import Annotated

import typer

from rackspan.cli.actions import watching_plans
from rackspan.cli.rendering.output_formats import ProgressFormat
from rackspan.cli.shared import options
from rackspan.cli.shared.later_command import command_app

app = command_app()
EPILOG = options.epilog(
    "$ kubectl rackspan watch --topology kafka/prod",
    "$ rackspan watch --bootstrap-server kafka:9092",
    "$ rackspan watch --bootstrap-server kafka:9092 --once -o json",
)


@app.command(epilog=EPILOG)
def watch(
    context: typer.Context,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    topology: options.TopologyName = None,
    kubeconfig: options.Kubeconfig = None,
    once: Annotated[bool, typer.Option("--once", help="Print how far it is now, and end.")] = False,
    journal: options.Journal = None,
    output: options.ProgressOutput = ProgressFormat.TABLE,
) -> None:
    """Follow the plan that is carried out, until it ends. Changes nothing; Ctrl-C ends the watching only.

    With --topology it is the Reassignment that the operator carries out, where there is one. Else it is what
    `rackspan apply` carries out from this machine; a note says where none is at work. Exit code 4: it has ended, and
    not all is as planned.
    """
    watching_plans.watch(**locals())

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
    topology: Annotated[
        str | None,
        options.cluster_option(
            metavar="NAMESPACE/NAME", is_eager=True, help="A RackTopology, whose Reassignments are followed."
        ),
    ] = None,
    kubeconfig: options.Kubeconfig = None,
    once: Annotated[bool, typer.Option("--once", help="Print the present progress and exit.")] = False,
    journal: options.Journal = None,
    output: options.ProgressOutput = ProgressFormat.TABLE,
) -> None:
    """Show the progress of the plan that is being carried out. Changes nothing; Ctrl-C ends only this view.

    With --topology, follow the Reassignments that the operator carries out, if there is one. Otherwise follow the plan
    that `rackspan apply` has begun on this machine; a note says if it is not running now. Exit code 4: there is no plan
    to follow, or it has ended incomplete.
    """
    watching_plans.watch(**locals())

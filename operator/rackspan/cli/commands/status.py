"""The options of `rackspan status`."""

from typing import Annotated

import typer

from rackspan.cli.actions import showing_status
from rackspan.cli.rendering.output_formats import Format
from rackspan.cli.shared import options
from rackspan.cli.shared.later_command import command_app

app = command_app()
EPILOG = options.epilog(
    "$ kubectl rackspan status --topology kafka/prod",
    "$ rackspan status --topology kafka/prod --watch",
    "$ rackspan status --topology kafka/prod -o json",
)


@app.command(epilog=EPILOG)
def status(
    topology: options.RequiredTopology = None,
    kubeconfig: options.Kubeconfig = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show the state again whenever it changes, until Ctrl-C.")
    ] = False,
    output: options.Output = Format.TABLE,
) -> None:
    """Show the state of a cluster: what is wrong, why, and the next step that does the least harm.

    Reads the RackTopology, its KafkaTopics, its Reassignments and the operator's Lease, and does not connect to Kafka:
    it shows what the operator saw last, and whether the operator runs. Exit code: 0 if all is fine or needs no action,
    1 if something is wrong, 3 if the state is not known.
    """
    showing_status.status(**locals())

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
    watch: Annotated[bool, typer.Option("--watch", help="Show it again when it changes; Ctrl-C ends that.")] = False,
    output: options.Output = Format.TABLE,
) -> None:
    """Show how a cluster stands: what is wrong, why, and one next step that does the least harm.

    It reads the RackTopology, its KafkaTopics, its Reassignments and the operator's Lease, and asks Kafka nothing: it
    shows what the operator saw last, and whether it runs. Exit code: 0 where all is fine or goes on by itself, 1 where
    something is wrong, 3 where it is not known.
    """
    showing_status.status(**locals())

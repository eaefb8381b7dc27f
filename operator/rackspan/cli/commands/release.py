"""The options of `rackspan release`."""

from typing import Annotated

import typer

from rackspan.cli.actions import releasing_objects
from rackspan.cli.shared import options
from rackspan.cli.shared.later_command import command_app

app = command_app()
EPILOG = options.epilog(
    "$ rackspan release", "$ rackspan release --operator rackspan/rackspan", "$ rackspan release -n shop"
)


@app.command(epilog=EPILOG)
def release(
    kubeconfig: options.OperatorKubeconfig = None,
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace", "-n", envvar="RACKSPAN_NAMESPACES", help="Only these namespaces (repeat it). Default: all."
        ),
    ] = None,
    operator: Annotated[
        str | None,
        typer.Option(help="NAMESPACE/NAME of the operator's Deployment: scale it to zero first."),
    ] = None,
) -> None:
    """Remove the finalizer from KafkaTopics, RackTopologies and Reassignments, to delete them without an operator.

    If Kafka responds, the throttles of Reassignments and the cordons of drains are removed too. Nothing is deleted,
    neither in Kubernetes nor in Kafka. A running operator adds the finalizer again.
    """
    releasing_objects.release(**locals())

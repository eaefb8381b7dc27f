"""The options of `rackspan plan`."""

from typing import Annotated

import typer

from rackspan.child_process import DETAILED
from rackspan.cli.actions import planning_moves
from rackspan.cli.rendering.output_formats import PlanFormat
from rackspan.cli.shared import options
from rackspan.cli.shared.later_command import command_app

app = command_app()
EPILOG = options.epilog(
    "$ rackspan plan --snapshot prod.json",
    "$ rackspan plan --topology kafka/prod -o markdown",
    "$ rackspan plan --snapshot prod.json --drain-broker 12 --drain-rack /eu/eu-1a/r7 -o markdown",
    "$ rackspan plan --snapshot prod.json --topic 'payments.*' --replication-factor payments=4",
    "$ rackspan plan --snapshot prod.json --partitions payments=24 -o json",
    "$ rackspan plan --bootstrap-server kafka:9092 --filename topics/",
    "$ rackspan plan --topology kafka/prod --filename topics/ --detailed-exitcode",
    "$ rackspan plan --bootstrap-server kafka:9092 --rebalance -o reassignment > moves.json",
    "$ kafka-reassign-partitions.sh --bootstrap-server kafka:9092 --execute --reassignment-json-file moves.json",
)


@app.command(epilog=EPILOG)
def plan(
    context: typer.Context,
    snapshot: options.SnapshotFile = None,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    log_dirs: options.LogDirs = None,
    topology: options.TopologyName = None,
    kubeconfig: options.Kubeconfig = None,
    filename: options.Filename = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            metavar="NAMESPACE",
            help="With --filename and --topology, of KafkaTopics that name none. Default: the RackTopology's.",
        ),
    ] = None,
    dry_run: Annotated[
        options.FileCheck,
        typer.Option(
            "--dry-run",
            help="With --filename and --topology, server: ask the API server as well, which also asks its policies, "
            "webhooks and quotas. It keeps nothing.",
        ),
    ] = options.FileCheck.NONE,
    topic: options.Topic = None,
    replication_factor: options.ReplicationFactor = None,
    partitions: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC=N", help="The number of partitions that a topic is to have; repeat it for several."
        ),
    ] = None,
    rebalance_too: options.Rebalance = False,
    levels: options.Levels = "",
    missing_rack_policy: options.MissingRacks = options.MissingRackPolicy.FAIL,
    drain_broker: options.DrainBroker = None,
    drain_rack: options.DrainRack = None,
    output: Annotated[
        PlanFormat,
        options.output_option(
            "--output",
            "-o",
            help="The output format; reassignment is the file for kafka-reassign-partitions.sh --execute.",
        ),
    ] = PlanFormat.TABLE,
    show_all: options.ShowAll = False,
    detailed_exitcode: Annotated[
        bool,
        options.output_option(
            DETAILED,
            help="Exit codes as in Terraform: 0 nothing to change, 1 an error of any kind, 2 something to change.",
        ),
    ] = False,
) -> None:
    """Plan the fewest moves that make every topic compliant, empty drained brokers and fulfil the topics' requirements.

    With --filename, plan only the topics of the KafkaTopics in these files. New topics are placed and printed. A
    manifest that the API server or Kafka would refuse, or that can never be Ready, is an error with file and line, and
    exit code 2. With --topology, print the plan of the status, with the same hash; with --rebalance as well, the plan
    that the operator would make with `rebalance: OnNewBrokers`, which fills new and emptied brokers. The plan states
    the lower bound of its moves, so a reviewer sees that no plan has fewer. Nothing is executed.
    """
    planning_moves.plan(**locals())

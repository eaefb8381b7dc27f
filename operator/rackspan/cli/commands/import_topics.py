"""The options of `rackspan import`."""

from pathlib import Path
from typing import Annotated

import typer

from rackspan.cli.actions import importing_topics
from rackspan.cli.rendering.output_formats import ImportFormat
from rackspan.cli.shared import options
from rackspan.cli.shared.later_command import command_app
from rackspan.imports.kept_assignment import KeptAssignment

CLUSTER_EPILOG = options.epilog(
    "$ rackspan import cluster --bootstrap-server kafka:9092 --topology-ref main --namespace kafka > topics.yaml",
    "$ rackspan plan -f topics.yaml --bootstrap-server kafka:9092",
    "$ rackspan import cluster --topology kafka/main --namespace kafka > new-topics.yaml",
    "$ rackspan import cluster --snapshot prod.json --topology-ref main --output-dir topics/",
    "$ rackspan import cluster --snapshot prod.json --topology-ref main -o json | jq .topics[].remarks",
)

STRIMZI = """Write KafkaTopics from those of Strimzi, as files or as `kubectl get kafkatopics -o yaml` prints them.

With a cluster they say what Kafka has now, and where that differs from the files is said.
"""
STRIMZI_EPILOG = options.epilog(
    "$ kubectl get kafkatopics.kafka.strimzi.io -n kafka -o yaml | rackspan import strimzi - > topics.yaml",
    "$ rackspan import strimzi topics/ --bootstrap-server kafka:9092 --cluster east --output-dir rackspan-topics/",
    "$ rackspan import strimzi topics/ --topology-ref my-cluster=kafka/main --topology-ref other=kafka/other",
)
TOPICCTL = """Write KafkaTopics from topicctl's topic configs.

With a cluster they say what Kafka has now, so that replicas which a strategy has put into one rack stay there.
"""
TOPICCTL_EPILOG = options.epilog(
    "$ rackspan import topicctl topics/ --snapshot prod.json --topology-ref main --namespace kafka > topics.yaml",
    "$ rackspan import topicctl east/topics/ --bootstrap-server kafka-east:9092 --output-dir rackspan-topics/",
)

app = command_app(
    name="import",
    help="Write KafkaTopic manifests of existing topics. Applying them changes nothing in Kafka.",
    epilog=options.epilog("$ rackspan import cluster --snapshot prod.json --topology-ref main > topics.yaml"),
    no_args_is_help=True,
)

_manifests_option = options.in_panel("The manifests")


Namespace = Annotated[
    str | None,
    _manifests_option(
        "--namespace",
        "-n",
        metavar="NAME",
        help="The namespace of all manifests. Default: as it was; of a cluster's topics, --topology's.",
    ),
]
AssignmentOption = Annotated[
    KeptAssignment,
    _manifests_option(
        "--assignment",
        help="Topics whose present replicas are written as placement.assignment: those not spread fairly, which the "
        "plan would move, all, or none.",
    ),
]
OutputDir = Annotated[
    Path | None,
    options.output_option(
        metavar="DIR", parser=options.path, help="Write a file per KafkaTopic instead of all to the output."
    ),
]
Overwrite = Annotated[bool, options.output_option("--overwrite", help="With --output-dir: replace existing files.")]
Strict = Annotated[
    bool, options.output_option("--strict", help="Write nothing and exit with 2 if anything cannot be kept.")
]
Output = Annotated[
    ImportFormat, options.output_option("--output", "-o", help="Manifests, or a report that contains them.")
]


SourceFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE…", callback=options.once, help="Files, or directories of YAML files; - is standard input."
    ),
]
TopologyRefs = Annotated[
    list[str] | None,
    _manifests_option(
        "--topology-ref",
        metavar="[CLUSTER=][NAMESPACE/]NAME",
        help="The RackTopology of a cluster, or of all. Default: one that is called as the cluster is in the files.",
    ),
]
Cluster = Annotated[
    str | None, _manifests_option(metavar="NAME", help="Only topics of this cluster, as the files call it.")
]
KeepGoing = Annotated[
    bool,
    options.output_option(
        "--keep-going", help="If some cannot be imported, write the others; the exit code is still 2."
    ),
]


@app.callback()
def import_topics() -> None:
    """Options of all sources."""


@app.command("cluster", epilog=CLUSTER_EPILOG)
def from_cluster(
    context: typer.Context,
    topology_ref: Annotated[
        str,
        _manifests_option(
            metavar="[NAMESPACE/]NAME", help="The RackTopology of the cluster. Default: that of --topology."
        ),
    ] = "",
    snapshot: options.SnapshotFile = None,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    topology: options.TopologyName = None,
    kubeconfig: options.Kubeconfig = None,
    topic: options.Topic = None,
    namespace: Namespace = None,
    assignment: AssignmentOption = KeptAssignment.UNFAIR,
    levels: options.Levels = "",
    missing_rack_policy: options.MissingRacks = options.MissingRackPolicy.FAIL,
    output: Output = ImportFormat.YAML,
    output_dir: OutputDir = None,
    overwrite: Overwrite = False,
    strict: Strict = False,
) -> None:
    """Write a KafkaTopic for every topic of a cluster, with its present replicas and the configs set on it.

    Replicas do not move: a topic that is not spread fairly gets an explicit assignment, and a note says so. Kafka's
    internal topics are skipped, and with --topology those that have a KafkaTopic.
    """
    importing_topics.from_cluster(**locals())


@app.command("topicctl", help=TOPICCTL, epilog=TOPICCTL_EPILOG)
@app.command("strimzi", help=STRIMZI, epilog=STRIMZI_EPILOG)
def from_files(
    context: typer.Context,
    files: SourceFiles,
    topology_ref: TopologyRefs = None,
    cluster: Cluster = None,
    snapshot: options.SnapshotFile = None,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    topology: options.TopologyName = None,
    kubeconfig: options.Kubeconfig = None,
    namespace: Namespace = None,
    assignment: AssignmentOption = KeptAssignment.UNFAIR,
    levels: options.Levels = "",
    missing_rack_policy: options.MissingRacks = options.MissingRackPolicy.FAIL,
    output: Output = ImportFormat.YAML,
    output_dir: OutputDir = None,
    overwrite: Overwrite = False,
    strict: Strict = False,
    keep_going: KeepGoing = False,
) -> None:
    """Import files of one kind. The kinds differ only in how a document is read."""
    importing_topics.from_files(**locals())

"""`rackspan import`: KafkaTopics of topics that exist, which change nothing when they are applied."""

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rackspan.api.references import TopologyRef
from rackspan.cli.rendering.documents import Format, print_document
from rackspan.cli.rendering.import_report import ImportReport
from rackspan.cli.rendering.progress import step
from rackspan.cli.shared import options
from rackspan.cli.shared.cluster_source import ClusterSource
from rackspan.cli.shared.command_errors import CommandError, ExitCode, ending_with, note, print_error
from rackspan.cli.shared.manifest_files import write_new_files
from rackspan.cli.shared.selection import TopologyOptions, topics_matching
from rackspan.core.snapshot import Snapshot
from rackspan.core.text import plural
from rackspan.core.topology import RackTree
from rackspan.imports.cluster import INTERNAL, cluster_topics
from rackspan.imports.names import is_namespace, is_object_name
from rackspan.imports.present import Assignment, as_present, plan_of_topics
from rackspan.imports.references import Topologies
from rackspan.imports.topics import Imported

CLUSTER_EPILOG = options.epilog(
    "$ rackspan import cluster --bootstrap-server kafka:9092 --topology-ref main --namespace kafka > topics.yaml",
    "$ rackspan plan -f topics.yaml --bootstrap-server kafka:9092",
    "$ rackspan import cluster --snapshot prod.json --topology-ref main --output-dir topics/",
    "$ rackspan import cluster --snapshot prod.json --topology-ref main -o json | jq .topics[].remarks",
)

app = typer.Typer(
    name="import",
    help="Write KafkaTopic manifests of topics that exist: applying them changes nothing.",
    no_args_is_help=True,
)

_MANIFESTS, _OUTPUT = "The manifests", "Output"


class ImportFormat(StrEnum):
    """The forms of an import on standard output."""

    YAML = "yaml"
    JSON = "json"


Namespace = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", rich_help_panel=_MANIFESTS, help="The namespace of all manifests. Default: as it was."
    ),
]
AssignmentOption = Annotated[
    Assignment,
    typer.Option(
        "--assignment",
        rich_help_panel=_MANIFESTS,
        help="Topics whose present replicas are written as placement.assignment: those not spread fairly, which the "
        "plan would move, all, or none.",
    ),
]
OutputDir = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", rich_help_panel=_OUTPUT, help="Write a file per KafkaTopic instead of all to the output."
    ),
]
Overwrite = Annotated[
    bool,
    typer.Option("--overwrite", rich_help_panel=_OUTPUT, help="With --output-dir: replace files of the same name."),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict", rich_help_panel=_OUTPUT, help="Write nothing, and exit with 2, where anything is not kept."
    ),
]
Output = Annotated[
    ImportFormat,
    typer.Option("--output", "-o", rich_help_panel=_OUTPUT, help="Manifests, or a report that holds them."),
]


@app.callback()
def import_topics() -> None:
    """Options of all sources."""


@app.command("cluster", epilog=CLUSTER_EPILOG)
def from_cluster(
    topology_ref: Annotated[
        str,
        typer.Option(metavar="[NAMESPACE/]NAME", rich_help_panel=_MANIFESTS, help="The RackTopology of the cluster."),
    ] = "",
    snapshot: options.SnapshotFile = None,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    topic: options.Topic = None,
    namespace: Namespace = None,
    assignment: AssignmentOption = Assignment.UNFAIR,
    levels: options.Levels = "",
    missing_rack_policy: options.MissingRacks = options.MissingRackPolicy.FAIL,
    output: Output = ImportFormat.YAML,
    output_dir: OutputDir = None,
    overwrite: Overwrite = False,
    strict: Strict = False,
) -> None:
    """Write a KafkaTopic for every topic of a cluster, as it is there now: replicas, and the configs set on it.

    Replicas stay where they are: topics that are not spread fairly keep theirs by an explicit assignment, and that is
    said. Kafka's own topics are left out.
    """
    target = _Target(output, output_dir, overwrite=overwrite, strict=strict)
    _check_namespace(namespace)
    if not topology_ref:
        raise CommandError("the RackTopology is missing", "pass --topology-ref NAME")
    reference = _reference(topology_ref, topology_ref)
    source = ClusterSource(snapshot, bootstrap_server, command_config)
    found = source.read_topics("to import")
    chosen = topics_matching(found, topic).tolist()
    imported = cluster_topics(found, chosen, reference, namespace, source.name)
    tree = TopologyOptions(levels, missing_rack_policy).tree(found)
    if assignment is Assignment.UNFAIR:
        refuse_silent_brokers(source, found)
    target.write(_reported(imported, (found, tree), assignment))


class _Target:
    """Where an import goes. Raises CommandError for options that contradict each other."""

    def __init__(self, output: ImportFormat, directory: Path | None, *, overwrite: bool, strict: bool) -> None:
        if directory is not None and output is ImportFormat.JSON:
            raise CommandError("only one of --output-dir and -o json can be used")
        if overwrite and directory is None:
            raise CommandError("--overwrite is for --output-dir")
        self._output, self._directory = output, directory
        self._overwrite, self._strict = overwrite, strict

    def write(self, report: ImportReport, *, keep_going: bool = False) -> None:
        """Write the manifests, and tell what there is to say. Raises CommandError, and typer.Exit for refused ones."""
        refused = report.imported.refused
        for sentence in report.sentences:
            note(sentence)
        for one in refused:
            print_error(str(one))
        for problem in report.plan.problems if report.plan else ():
            note(f"the plan cannot be made whole: {problem}")
        code = ExitCode.BAD_INPUT if refused else ExitCode.FINE
        if refused and not keep_going:
            print_error(
                f"nothing is written, because {plural(len(refused), 'document')} cannot be imported",
                "mend them, or pass --keep-going to import the others",
            )
            raise typer.Exit(code)
        lost = len(report.losses) + len([one for one in report.imported.skipped if _matters(one.reason)])
        if self._strict and lost:
            raise CommandError(
                f"nothing is written, because {plural(lost, 'thing')} would not be kept as said above",
                "leave out --strict to import the rest",
            )
        with ending_with(code):
            self._print(report)
            note(report.summary)

    def _print(self, report: ImportReport) -> None:
        if self._directory is not None:
            write_new_files(self._directory, report.files, overwrite=self._overwrite)
        elif self._output is ImportFormat.JSON:
            print_document(report.document, Format.JSON)
        else:
            sys.stdout.writelines(report.documents)


def refuse_silent_brokers(source: ClusterSource, found: Snapshot) -> None:
    """Refuse a broker that is away: a topic on it would be taken for one that is not where it belongs."""
    if found.unknown_brokers:
        raise CommandError(
            f"broker {found.unknown_brokers[0]} holds replicas and {source.why_absent}",
            "wait until it is back, or pass --assignment always or never",
        )


def _reported(imported: Imported, cluster: tuple[Snapshot, RackTree] | None, assignment: Assignment) -> ImportReport:
    """Compare with the cluster, if there is one, and prove by a plan what applying the manifests does."""
    if cluster is None:
        return ImportReport.of(imported, None)
    found, tree = cluster
    with step("planning"):
        present = as_present(imported, found, tree, assignment)
        made = plan_of_topics({one.topic: one.spec for one in present.definitions}, found, tree)
    return ImportReport.of(present, made)


def _matters(reason: str) -> bool:
    return reason != INTERNAL


def _check_namespace(namespace: str | None) -> None:
    if namespace is not None and not is_namespace(namespace):
        raise CommandError(f'--namespace "{namespace}": is no name of a namespace')


def _reference(text: str, given: str) -> TopologyRef:
    """Read `[NAMESPACE/]NAME`; `given` is the whole option. Raises CommandError."""
    namespace, slash, name = text.rpartition("/")
    if "/" in namespace or (slash and not namespace):
        raise CommandError(f'--topology-ref "{given}": write [NAMESPACE/]NAME')
    if not is_object_name(name):
        raise CommandError(f'--topology-ref "{given}": "{name}" is no name of a RackTopology')
    if namespace and not is_namespace(namespace):
        raise CommandError(f'--topology-ref "{given}": "{namespace}" is no name of a namespace')
    return TopologyRef(name, namespace or None)


def _topologies(given: Sequence[str]) -> Topologies:
    """Read `[CLUSTER=][NAMESPACE/]NAME` options. Raises CommandError."""
    by_cluster: dict[str, TopologyRef] = {}
    default = None
    for text in given:
        cluster, equals, name = text.rpartition("=")
        reference = _reference(name, text)
        if equals and cluster:
            if by_cluster.setdefault(cluster, reference) != reference:
                raise CommandError(f"--topology-ref: cluster {cluster} is named twice")
        elif default is not None or equals:
            raise CommandError(f'--topology-ref "{text}": write CLUSTER=NAME where there are several')
        else:
            default = reference
    return Topologies(by_cluster, default)

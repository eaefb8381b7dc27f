"""`rackspan import`: KafkaTopics of topics that exist. Applying them changes nothing."""

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import typer

from rackspan.api.meta import ObjectKey
from rackspan.api.references import TopologyRef
from rackspan.cli.rendering.import_report import ImportReport
from rackspan.cli.rendering.output_formats import Format, ImportFormat
from rackspan.cli.rendering.printed_documents import print_document
from rackspan.cli.rendering.progress import step
from rackspan.cli.rendering.stderr_lines import note, print_error
from rackspan.cli.shared.cluster_source import ClusterSource
from rackspan.cli.shared.command_errors import CommandError, ExitCode, ending_with
from rackspan.cli.shared.live_topology import LiveTopology, refuse_options_of_topology
from rackspan.cli.shared.manifest_files import read_files, write_new_files
from rackspan.cli.shared.options import MissingRackPolicy
from rackspan.cli.shared.plan_request import away
from rackspan.cli.shared.selection import TopologyOptions, first_of, topics_matching
from rackspan.core.snapshot import Snapshot
from rackspan.core.text import plural
from rackspan.core.topology import RackTree
from rackspan.imports import strimzi, topicctl
from rackspan.imports.cluster_import import INTERNAL, cluster_topics
from rackspan.imports.consistency import admitted, consistent, decided, located, of_cluster
from rackspan.imports.imported_references import Topologies
from rackspan.imports.imported_topics import Definition, Imported, Refused, Skipped, Source
from rackspan.imports.kept_assignment import KeptAssignment
from rackspan.imports.manifest_documents import ManifestFieldError, Part
from rackspan.imports.names import is_namespace, is_object_name
from rackspan.imports.present import as_present, plan_of_topics
from rackspan.imports.strimzi import strimzi_topic
from rackspan.imports.topicctl import topicctl_topic


def from_cluster(
    *,
    context: typer.Context,
    topology_ref: str,
    snapshot: str | None,
    bootstrap_server: str | None,
    command_config: Path | None,
    topology: str | None,
    kubeconfig: Path | None,
    topic: str | None,
    namespace: str | None,
    assignment: KeptAssignment,
    levels: str,
    missing_rack_policy: MissingRackPolicy,
    output: ImportFormat,
    output_dir: Path | None,
    overwrite: bool,
    strict: bool,
) -> None:
    """Carry out `rackspan import cluster` with these options. Raises CommandError."""
    target = _Target(output, output_dir, overwrite, strict)
    _check_namespace(namespace)
    said = topology_ref or topology or ""
    if not said:
        raise CommandError("the RackTopology is missing", "pass --topology-ref NAME")
    reference = _reference(said, said)
    if topology is None:
        source = ClusterSource(snapshot, bootstrap_server, command_config)
        present = _Present.of_source(source, source.read_topics("to import"), levels, missing_rack_policy)
    else:
        refuse_options_of_topology(context)
        present = _Present.of_topology(topology, kubeconfig)
    chosen = topics_matching(present.found, topic).tolist()
    beside = None if topology_ref else reference.namespace
    imported = cluster_topics(present.found, chosen, reference, namespace or beside, Source(present.name))
    target.write(_reported(Imported.of(imported), present, assignment))


_Converter = Callable[[Source, Part, Topologies], Definition | Skipped | Refused]
_KINDS: Mapping[str, tuple[_Converter, str]] = {
    "strimzi": (strimzi_topic, strimzi.WORD),
    "topicctl": (topicctl_topic, topicctl.WORD),
}
"""The converter of each command, and a word of every topic. What is not YAML is refused, as is YAML that is no object
and contains the word. The rest is skipped."""


def from_files(
    *,
    context: typer.Context,
    files: list[str],
    topology_ref: list[str] | None,
    cluster: str | None,
    snapshot: str | None,
    bootstrap_server: str | None,
    command_config: Path | None,
    topology: str | None,
    kubeconfig: Path | None,
    namespace: str | None,
    assignment: KeptAssignment,
    levels: str,
    missing_rack_policy: MissingRackPolicy,
    output: ImportFormat,
    output_dir: Path | None,
    overwrite: bool,
    strict: bool,
    keep_going: bool,
) -> None:
    """Carry out `rackspan import strimzi` or `topicctl` with these options. Raises CommandError."""
    convert, word = _KINDS[context.command.name or ""]
    target = _Target(output, output_dir, overwrite, strict, keep_going)
    if topology is not None:
        refuse_options_of_topology(context)
    source = _comparison(snapshot, bootstrap_server, command_config)
    topologies = _topologies(topology_ref or ([topology] if topology else []))
    _check_namespace(namespace)
    imported = _defined(files, convert, word, topologies, cluster, namespace)
    present = None
    if topology is not None or source is not None:
        _refuse_several_clusters(imported)
    if topology is not None:
        present = _Present.of_topology(topology, kubeconfig)
    elif source is not None:
        present = _Present.of_source(source, source.read(), levels, missing_rack_policy)
    target.write(_reported(imported, present, assignment))


def _defined(
    files: Sequence[str],
    convert: _Converter,
    word: str,
    topologies: Topologies,
    cluster: str | None,
    namespace: str | None,
) -> Imported:
    """Return the topics in files, only those of `cluster` if given, in `namespace` if given. Raises CommandError."""
    documents = read_files(files)
    results = Imported.of(_converted(convert, source, part, topologies) for source, part in documents.found)
    unread = Imported.of(one.outcome(word) for one in documents.unread)
    here = unread + of_cluster(located(results), cluster)
    if not here.definitions and not here.refused:
        for left_out in here.skipped:
            note(str(left_out))
        raise CommandError("nothing in the files can be imported" if here.skipped else "the files hold no topics")
    if namespace is not None:
        here = replace(here, definitions=tuple(replace(one, namespace=namespace) for one in here.definitions))
    return consistent(here)


def _converted(
    convert: _Converter, source: Source, part: Part, topologies: Topologies
) -> Definition | Skipped | Refused:
    try:
        return convert(source, part, topologies)
    except ManifestFieldError as error:
        return Refused(Source(source.name, error.line), str(error))


@dataclass(frozen=True, slots=True)
class _Target:
    """The destination of an import. Raises CommandError for options that contradict each other."""

    output: ImportFormat
    directory: Path | None
    overwrite: bool
    strict: bool
    keep_going: bool = False

    def __post_init__(self) -> None:
        if self.directory is not None and self.output is ImportFormat.JSON:
            raise CommandError("only one of --output-dir and -o json can be used")
        if self.overwrite and self.directory is None:
            raise CommandError("--overwrite is for --output-dir")

    def write(self, report: ImportReport) -> None:
        """Write the manifests and print notes. Raises CommandError, and typer.Exit for refused documents and plans."""
        refused = report.imported.refused
        for one in refused:
            print_error(str(one))
        code = ExitCode.BAD_INPUT if refused else ExitCode.FINE
        if refused and not self.keep_going:
            print_error(
                f"nothing is written, because {plural(len(refused), 'document')} cannot be imported",
                "correct them, or pass --keep-going to import the others",
            )
            raise typer.Exit(code)
        for sentence in report.sentences:
            note(sentence)
        for problem in report.plan.problems if report.plan else ():
            code = ExitCode.BAD_INPUT
            print_error(f"the plan cannot be made whole: {problem}")
        lost = len(report.losses) + len([one for one in report.imported.skipped if one.reason != INTERNAL])
        if self.strict and lost:
            raise CommandError(
                f"nothing is written, because {plural(lost, 'thing')} would not be kept as said above",
                "leave out --strict to import the rest",
            )
        with ending_with(code):
            self._print(report)
            note(report.summary)

    def _print(self, report: ImportReport) -> None:
        if self.directory is not None:
            write_new_files(self.directory, report.files, overwrite=self.overwrite)
        elif self.output is ImportFormat.JSON:
            print_document(report.document, Format.JSON)
        else:
            sys.stdout.writelines(report.documents)


@dataclass(frozen=True, slots=True)
class _Present:
    """The current state of a cluster.

    `name` begins sentences about the cluster, `why_absent` ends a sentence about brokers that are not listed.
    `objects` are its KafkaTopics, by topic name. `internal_topics` are the internal topics that may have one.
    """

    name: str
    found: Snapshot
    tree: RackTree
    why_absent: str
    objects: Mapping[str, ObjectKey]
    internal_topics: Collection[str] = ()

    @classmethod
    def of_source(cls, source: ClusterSource, found: Snapshot, levels: str, missing_racks: MissingRackPolicy) -> Self:
        """Return a cluster that is known from Kafka alone. Raises CommandError."""
        why_absent = source.why_absent(len(found.unknown_brokers))
        return cls(source.name, found, TopologyOptions(levels, missing_racks).tree(found), why_absent, {})

    @classmethod
    def of_topology(cls, name: str, kubeconfig: Path | None) -> Self:
        """Return the cluster of a RackTopology, `NAMESPACE/NAME`. Raises CommandError."""
        live = LiveTopology.at(name, kubeconfig)
        return cls(name, live.snapshot(), live.tree, "did not answer", live.objects, live.internal_topics)

    def refuse_silent_brokers(self) -> None:
        """Raise CommandError for absent brokers, because topics on them would look wrongly placed."""
        if absent := [*map(str, self.found.unknown_brokers)]:
            raise away(absent, self.why_absent, "pass --assignment always or never")

    def without_objects(self, imported: Imported) -> Imported:
        """Skip topics that have a KafkaTopic, because a new manifest would drop fields that only this object has."""
        return imported.redefined(
            one
            if (key := self.objects.get(one.topic)) is None
            else Skipped(one.source, f"topic {one.topic}", f"it has a KafkaTopic, {key}, which may say more")
            for one in imported.definitions
        )


def _comparison(snapshot: str | None, servers: str | None, command_config: Path | None) -> ClusterSource | None:
    """Return the cluster to compare files with, None if no option names one. Raises CommandError."""
    if snapshot is None and servers is None:
        if command_config is not None:
            raise CommandError("--command-config is for --bootstrap-server")
        return None
    return ClusterSource(snapshot, servers, command_config)


def _refuse_several_clusters(imported: Imported) -> None:
    """Raise CommandError if the topics are of several clusters, because they are compared with one."""
    clusters = {str(one.cluster) for one in imported.definitions if one.cluster is not None}
    if len(clusters) > 1:
        raise CommandError(
            f"the files are of several clusters: {first_of(clusters, 3)}",
            "pass --cluster NAME for the one to compare with",
        )


def _reported(imported: Imported, present: _Present | None, assignment: KeptAssignment) -> ImportReport:
    """Compare with the cluster, if one is given, and plan what applying the manifests does."""
    if present is None:
        return ImportReport.of(decided(admitted(imported, ())), None)
    if assignment is KeptAssignment.UNFAIR:
        present.refuse_silent_brokers()
    with step("planning"):
        new = present.without_objects(admitted(imported, present.internal_topics))
        kept = decided(as_present(new, present.found, present.tree, assignment))
        made = plan_of_topics({one.topic: one.spec for one in kept.definitions}, present.found, present.tree)
    return ImportReport.of(kept, made)


def _check_namespace(namespace: str | None) -> None:
    if namespace is not None and not is_namespace(namespace):
        raise CommandError(f'--namespace "{namespace}": is not a valid namespace name')


def _reference(text: str, given: str) -> TopologyRef:
    """Read `[NAMESPACE/]NAME`; `given` is the whole option. Raises CommandError."""
    namespace, slash, name = text.rpartition("/")
    if "/" in namespace or (slash and not namespace):
        raise CommandError(f'--topology-ref "{given}": write [NAMESPACE/]NAME')
    if not is_object_name(name):
        raise CommandError(f'--topology-ref "{given}": "{name}" is not a valid name of a RackTopology')
    if namespace and not is_namespace(namespace):
        raise CommandError(f'--topology-ref "{given}": "{namespace}" is not a valid namespace name')
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

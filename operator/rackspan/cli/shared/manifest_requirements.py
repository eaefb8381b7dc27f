"""Judges the KafkaTopics in files: what they require, create and configure, and what is impossible."""

import asyncio
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import typer

from rackspan.api.kafkatopic import requirements_of
from rackspan.api.meta import ObjectKey
from rackspan.api.policies import DurabilitySpec
from rackspan.api.reasons import Reason
from rackspan.cli.rendering.progress import step
from rackspan.cli.rendering.stderr_lines import note, print_error, warn
from rackspan.cli.shared.command_errors import CommandError, ExitCode, failures_reported
from rackspan.cli.shared.manifest_files import read_files
from rackspan.cli.shared.selection import placers
from rackspan.core.config_keys import MIN_INSYNC
from rackspan.core.durability import WriteGuarantee, write_guarantees
from rackspan.core.outage import min_insync_replicas
from rackspan.core.placement import Placement
from rackspan.core.planning import Problem
from rackspan.core.requirements import TopicRequirements
from rackspan.core.snapshot import Snapshot
from rackspan.core.text import shown
from rackspan.core.topology import RackTree
from rackspan.imports.imported_topics import Refused
from rackspan.imports.manifests import ManifestTopic, read_topics
from rackspan.reconcile.cluster.state import ClusterState
from rackspan.reconcile.dry_run import Judgement, judge, state_of_snapshot, topics_of_snapshot
from rackspan.reconcile.failures import Failure, Remedy
from rackspan.reconcile.ports import ConfigChange, NewTopic
from rackspan.reconcile.specs.topic_configs import refused_configs

_FIELDS: Mapping[Reason, str] = {
    Reason.DURABILITY_UNSATISFIABLE: "spec.durability",
    Reason.PARTITIONS_CANNOT_SHRINK: "spec.partitions",
    Reason.UNKNOWN_PLACER: "spec.placement.placer",
    Reason.INVALID_CONFIG: "spec.config",
    Reason.TOPIC_NAME_NOT_ALLOWED: "spec.topicName",
    Reason.NAMESPACE_NOT_ALLOWED: "metadata.namespace",
}
"""The field that a failure with this reason is about, if its message does not begin with a field."""
_FIELD = re.compile(r"\bspec(?:\.\w{1,80}|\[\d{1,9}\]){1,20}")
_PATHS = ("spec.", "durability", "replicationFactor")
"""The beginnings of messages that name a field."""


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic that would be created, finally with `partitions`. `survives` is None if Kafka places the topic."""

    topic: NewTopic
    partitions: int
    survives: WriteGuarantee | None


@dataclass(frozen=True, slots=True)
class JudgedFiles:
    """KafkaTopics that can all become Ready: requirements for existing topics, and the topics they create and set."""

    topics: Mapping[str, ManifestTopic]
    required: Mapping[str, TopicRequirements]
    min_insync: Mapping[str, int]
    created: Sequence[CreatedTopic] = ()
    configured: Sequence[ConfigChange] = ()

    @property
    def changes(self) -> bool:
        """Whether the files change anything except by moves."""
        return bool(self.created or self.configured)

    def about(self, problem: Problem) -> Iterator[Refused]:
        """Yield a problem of the plan at each KafkaTopic in the files that the problem is about."""
        for name in problem.topics:
            if name in self.topics:
                yield _refused(self.topics[name], f"{problem.reason}: {problem.smallest_change}")


NO_FILES: Final = JudgedFiles({}, {}, {})


def applied_files(
    files: Sequence[ManifestTopic], made: Judgement, state: ClusterState, names: Collection[str]
) -> JudgedFiles:
    """Return KafkaTopics in files, judged against live ones. Raises typer.Exit once all problems are reported."""
    topics = {one.topic.topic_name: one for one in files}
    _refuse_problems(topics, made.problems, _collisions(topics, names))
    return JudgedFiles(topics, {}, {}, _created(files, made, state), tuple(made.configured.values()))


def judged_files(
    files: Sequence[str],
    found: Snapshot,
    tree: RackTree,
    chosen: frozenset[str] | None,
    ask_kafka: Callable[[Judgement], Mapping[ObjectKey, Failure]] | None = None,
) -> JudgedFiles:
    """Judge the KafkaTopics in files by a cluster. `chosen` restricts the existing topics, None means all.

    Without `ask_kafka`, configs are checked against the known configs of Kafka. Raises CommandError, or typer.Exit
    once all problems are reported.
    """
    names = frozenset(found.partitions.names)
    topics = {
        one.topic.topic_name: one
        for one in one_topology(read_manifests(files))
        if chosen is None or one.topic.topic_name in chosen or one.topic.topic_name not in names
    }
    state = state_of_snapshot(found, tree, placers())
    made = judge([one.topic for one in topics.values()], *topics_of_snapshot(found, topics), state)
    refused = [] if ask_kafka else _refused_configs(topics.values(), {key for one in found.configs for key in one})
    _refuse_problems(topics, made.problems, [*refused, *_collisions(topics, names)])
    if ask_kafka:
        _refuse_problems(topics, ask_kafka(made), ())
    given = {name: value for name, one in topics.items() if (value := one.topic.spec.own_min_insync) is not None}
    required = {name: requirements_of(one.topic.spec, DurabilitySpec()) for name, one in topics.items()}
    derived = {name for name, one in required.items() if one.durability and name not in given}
    return JudgedFiles(
        topics,
        {name: required[name] for name in required if name in names},
        {name: value for name, value in {**min_insync_of(found), **given}.items() if name not in derived},
        _created(topics.values(), made, state),
        tuple(made.configured.values()),
    )


def min_insync_of(found: Snapshot) -> Mapping[str, int]:
    """Return the effective `min.insync.replicas` of each topic, whether set on the topic or inherited."""
    return dict(zip(found.partitions.names, min_insync_replicas(found.configs).tolist(), strict=True))


def read_manifests(files: Sequence[str], namespace: str = "default") -> Sequence[ManifestTopic]:
    """Read the KafkaTopics in files, at most one per topic. `namespace` is for those without a namespace.

    Raises CommandError, or typer.Exit once all problems are reported.
    """
    manifests = read_topics(read_files(files), namespace)
    for left_out in manifests.skipped:
        note(str(left_out))
    _refuse((*manifests.refused, *manifests.broken))
    if not manifests.topics:
        raise CommandError("the manifests hold no KafkaTopic", "pass files of rackspan.dev KafkaTopics")
    seen: dict[tuple[object, str], ManifestTopic] = {}
    twice = []
    for one in manifests.topics:
        first = seen.setdefault((one.topic.topology, one.topic.topic_name), one)
        if first is not one:
            name = shown(one.topic.topic_name)
            twice.append(
                _refused(one, f"topic {name} has another KafkaTopic before this one, at {first.source}", _NAME)
            )
    _refuse(twice)
    return manifests.topics


def one_topology(topics: Sequence[ManifestTopic], key: ObjectKey | None = None) -> Sequence[ManifestTopic]:
    """Return the same KafkaTopics if all are of one RackTopology: `key`, else that of the first.

    Raises typer.Exit once the KafkaTopics of other RackTopologies are reported.
    """
    first = key or topics[0].topic.topology
    others = [one for one in topics if one.topic.topology != first]
    reference = "spec.topologyRef"
    _refuse(
        _refused(one, f"is of RackTopology {one.topic.topology}, not of {first}: plan for one at a time", reference)
        for one in others
    )
    return topics


def _collisions(topics: Mapping[str, ManifestTopic], present: Collection[str]) -> Iterator[Refused]:
    """Yield new topics whose metrics have the same names as those of another topic. Kafka refuses to create them."""
    taken = {name.replace(".", "_"): name for name in sorted(present)}
    for name in sorted(topics.keys() - present):
        other = taken.setdefault(name.replace(".", "_"), name)
        if other != name:
            said = f"topic {name} collides with topic {other} in Kafka's metrics, where . is _: name it otherwise"
            yield _refused(topics[name], said, _NAME)


def _refuse_problems(
    topics: Mapping[str, ManifestTopic], problems: Mapping[ObjectKey, Failure], others: Iterable[Refused]
) -> None:
    """Report all problems, and raise typer.Exit if there are any. A check that Kafka did not do is a warning."""
    found = [*others]
    for one in topics.values():
        failure = problems.get(one.topic.key)
        if failure is not None and failure.remedy is Remedy.SPEC:
            found.append(_refused(one, failure.message, _FIELDS.get(failure.reason, "spec")))
        elif failure is not None:
            warn(f"{one.about(f'not checked by Kafka: {failure.message}')}")
    _refuse(sorted(found, key=lambda one: one.source))


def refuse_what_the_server_refuses(files: Sequence[ManifestTopic], kubeconfig: Path | None) -> None:
    """Ask the API server about each KafkaTopic, and raise typer.Exit if it refuses one. Raises CommandError."""
    from rackspan.kube.dry_runs import refused_by_server  # noqa: PLC0415 - a client takes long to import

    with failures_reported(), step("asking the API server"):
        found = asyncio.run(refused_by_server({one.topic.key: one.document for one in files}, kubeconfig))
    _refuse(_server_refusal(one, found[one.topic.key].message) for one in files if one.topic.key in found)


def _server_refusal(one: ManifestTopic, message: str) -> Refused:
    """Return the message of the API server, without the call, at the field that the message names."""
    said = message.partition(": ")[2] or message
    field = _FIELD.search(said)
    where = one.at(field[0] if field else "spec")
    return Refused(where, f"KafkaTopic {one.topic.meta.name}: the API server refuses it: {shown(said)}")


def _created(topics: Iterable[ManifestTopic], made: Judgement, state: ClusterState) -> Sequence[CreatedTopic]:
    """Return the topics that would be created, sorted by name, with what their acknowledged writes survive."""
    found = []
    for one in sorted(topics, key=lambda one: one.topic.topic_name):
        new = made.created.get(one.topic.key)
        if new is not None:
            least = int(new.config.get(MIN_INSYNC) or state.default_min_insync or 1)
            survives = _survives(new.assignment, least, state.racks.tree) if new.assignment else None
            found.append(CreatedTopic(new, one.topic.spec.partitions, survives))
    return found


def _survives(rows: Sequence[Sequence[int]], min_insync: int, tree: RackTree) -> WriteGuarantee:
    replicas = Placement(rows).padded
    return write_guarantees(tree, replicas, np.zeros(len(replicas), dtype=np.int64), np.array([min_insync]))[0]


def _refused_configs(topics: Iterable[ManifestTopic], known: Collection[str]) -> Iterator[Refused]:
    """Yield configs that Kafka refuses, as far as known offline. A config name that some topic has is valid."""
    for one in topics:
        for key, why in refused_configs(one.topic.spec.config_values, known):
            yield one.about(f"spec.config {shown(key)}: {why}")


_NAME = "spec.topicName"


def _refused(one: ManifestTopic, message: str, field: str = "spec") -> Refused:
    """Return a refusal at the field that the message begins with, else at `field`."""
    path = next((path for path in _PATHS if message.startswith(path)), None)
    at = field if path is None else message if path == "spec." else f"spec.{path}"
    where = one.at(at if field != _NAME or one.topic.spec.topic_name else "metadata.name")
    return Refused(where, f"KafkaTopic {one.topic.meta.name}: {message}")


def _refuse(refused: Iterable[Refused]) -> None:
    found = [*refused]
    for one in found:
        print_error(str(one))
    if found:
        raise typer.Exit(ExitCode.BAD_INPUT)

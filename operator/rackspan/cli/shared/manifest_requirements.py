"""What the KafkaTopics in files require of a cluster's topics, and which of them can never be applied there."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import typer

from rackspan.api.kafkatopic import KafkaTopic
from rackspan.api.policies import DurabilitySpec
from rackspan.api.racktopology import TopicDefaults
from rackspan.api.requirements import requirements_of
from rackspan.cli.shared.command_errors import CommandError, ExitCode, note, print_error
from rackspan.cli.shared.manifest_files import read_files
from rackspan.cli.shared.plan_request import min_insync_of
from rackspan.cli.shared.selection import first_of
from rackspan.core.durability import DurabilityError, min_insync
from rackspan.core.placement import ClusterView, InfeasibleError, Placer
from rackspan.core.rack_path import RackPathError
from rackspan.core.requirements import TopicRequirements
from rackspan.core.snapshot import Snapshot
from rackspan.core.text import shown
from rackspan.core.topology import RackTree, TopologyError
from rackspan.imports.configs import MIN_INSYNC
from rackspan.imports.manifests import read_topics
from rackspan.imports.topics import Source
from rackspan.placers import PlacerLoadError, load_placers

_DEFAULT_PLACER = TopicDefaults().placer
_Rows = Sequence[Sequence[int]]


def requirements_of_files(
    files: Sequence[str], found: Snapshot, tree: RackTree, chosen: frozenset[str] | None
) -> tuple[Mapping[str, TopicRequirements], Mapping[str, int]]:
    """
    Requirements of the cluster's topics that have a KafkaTopic in the files, by topic; `chosen` may leave some out.

    And the `min.insync.replicas` that they have then; none where the durability will decide. Raises CommandError, or
    typer.Exit once all that is wrong is told.
    """
    topics = {
        topic.topic_name: (source, topic)
        for source, topic in _topics_of(files)
        if chosen is None or topic.topic_name in chosen or topic.topic_name not in found.partitions.names
    }
    names = frozenset(found.partitions.names)
    required = {}
    for name, (source, topic) in topics.items():
        try:
            required[name] = requirements_of(topic.spec, DurabilitySpec())
        except RackPathError as error:
            raise CommandError(f"{source}: {error}") from error
    problems = [
        (source, topic, *problem)
        for name, (source, topic) in topics.items()
        for problem in _problems(topic, required[name], tree, exists=name in names)
    ]
    problems += [(*topics[name], *problem) for name, problem in _collisions(topics.keys() - names, names)]
    for source, topic, reason, change in problems:
        print_error(f"{source}: KafkaTopic {topic.meta.name}: {reason}", change)
    if problems:
        raise typer.Exit(ExitCode.BAD_INPUT)
    for name, (_, topic) in topics.items():
        if name not in names:
            note(f"KafkaTopic {topic.meta.name}: the cluster has no topic {name}: it would be created")
    config = {name: topic.spec.config_values.get(MIN_INSYNC, "") for name, (_, topic) in topics.items()}
    given = {name: int(value) for name, value in config.items() if value.isascii() and value.isdigit()}
    derived = {name for name, one in required.items() if one.durability and name not in given}
    return (
        {name: required[name] for name in required if name in names},
        {name: value for name, value in {**min_insync_of(found), **given}.items() if name not in derived},
    )


def _topics_of(files: Sequence[str]) -> Sequence[tuple[Source, KafkaTopic]]:
    """The KafkaTopics in files, all of one RackTopology and of different topics."""
    manifests = read_topics(read_files(files))
    for left_out in manifests.skipped:
        note(str(left_out))
    for problem in (*manifests.refused, *manifests.broken):
        print_error(str(problem))
    if manifests.refused or manifests.broken:
        raise typer.Exit(ExitCode.BAD_INPUT)
    if not manifests.topics:
        raise CommandError("the manifests hold no KafkaTopic", "pass files of rackspan.dev KafkaTopics")
    topologies = {str(topic.topology) for _, topic in manifests.topics}
    if len(topologies) > 1:
        raise CommandError(
            f"the KafkaTopics are of several RackTopologies: {first_of(topologies, 3)}",
            "pass the files of one at a time",
        )
    seen: set[str] = set()
    for source, topic in manifests.topics:
        if topic.topic_name in seen:
            raise CommandError(f"{source}: topic {shown(topic.topic_name)} has another KafkaTopic before this one")
        seen.add(topic.topic_name)
    return manifests.topics


def _collisions(new: set[str], present: frozenset[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """New topics whose metrics would have the names of another's: Kafka refuses to create them."""
    taken = {name.replace(".", "_"): name for name in sorted(present)}
    for name in sorted(new):
        other = taken.setdefault(name.replace(".", "_"), name)
        if other != name:
            yield (
                name,
                (f"topic {name} collides with topic {other} in Kafka's metrics, where . is _", "name it otherwise"),
            )


def _problems(
    topic: KafkaTopic, required: TopicRequirements, tree: RackTree, *, exists: bool
) -> Iterator[tuple[str, str]]:
    """What the brokers cannot give a topic, and the least change; where a topic that exists can lie is the plan's."""
    if exists and not required.durability:
        return
    try:
        rows = required.assignment or _placed(topic, required, tree)
        missing = sorted({broker for row in rows for broker in row} - set(tree.ids.tolist()))
        if missing:
            yield f"the cluster has no broker {missing[0]}", "name another one in placement.assignment"
            return
        given = topic.spec.config_values.get(MIN_INSYNC)
        min_insync(required.eligible(tree), rows, required.durability, None if given is None else int(given))
    except InfeasibleError as error:
        if not exists:
            yield error.reason, error.smallest_change
    except DurabilityError as error:
        yield error.reason, error.smallest_change
    except TopologyError as error:
        yield str(error), "name one of these, or pass --levels"


def _placed(topic: KafkaTopic, required: TopicRequirements, tree: RackTree) -> _Rows:
    """Replicas of a topic as a new one; none where its placer leaves them to Kafka."""
    name = topic.spec.placement.placer or _DEFAULT_PLACER
    placer = _placers().get(name)
    if placer is None:
        raise InfeasibleError(f'no placer "{name}" is installed', "install it, or choose another placer")
    spec = required.placement_spec(topic.topic_name, topic.spec.partitions, topic.spec.replication_factor)
    made = placer.place(spec, ClusterView(tree, {}, {}))
    return () if made is None else made.partitions


@cache
def _placers() -> Mapping[str, Placer]:
    try:
        return load_placers()
    except PlacerLoadError as error:
        raise CommandError(str(error), "remove or mend that package") from error

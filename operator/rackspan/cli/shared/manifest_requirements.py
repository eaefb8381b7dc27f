"""What the KafkaTopics in files require of a cluster's topics."""

from collections.abc import Mapping, Sequence

import typer

from rackspan.api.kafkatopic import KafkaTopic
from rackspan.api.policies import DurabilitySpec
from rackspan.api.requirements import requirements_of
from rackspan.cli.shared.command_errors import CommandError, ExitCode, note, print_error
from rackspan.cli.shared.manifest_files import read_files
from rackspan.cli.shared.selection import first_of
from rackspan.core.rack_path import RackPathError
from rackspan.core.requirements import TopicRequirements
from rackspan.core.snapshot import Snapshot
from rackspan.core.text import shown
from rackspan.imports.manifests import read_topics
from rackspan.imports.topics import Source


def requirements_of_files(
    files: Sequence[str], found: Snapshot, chosen: frozenset[str] | None
) -> Mapping[str, TopicRequirements]:
    """
    Requirements of the cluster's topics that have a KafkaTopic in the files, by topic; `chosen` may leave some out.

    Raises CommandError, or typer.Exit once all that is wrong is told.
    """
    topics = _topics_of(files)
    names = frozenset(found.partitions.names)
    required: dict[str, TopicRequirements] = {}
    for source, topic in topics:
        name = topic.topic_name
        if name in required:
            raise CommandError(f"{source}: topic {shown(name)} has another KafkaTopic before this one")
        if name not in names:
            note(f"KafkaTopic {topic.meta.name}: the cluster has no topic {name}: it would be created")
        elif chosen is None or name in chosen:
            try:
                required[name] = requirements_of(topic.spec, DurabilitySpec())
            except RackPathError as error:
                raise CommandError(f"{source}: {error}") from error
    return required


def _topics_of(files: Sequence[str]) -> Sequence[tuple[Source, KafkaTopic]]:
    """The KafkaTopics in files, all of one RackTopology."""
    manifests = read_topics(read_files(files))
    for left_out in manifests.skipped:
        note(str(left_out))
    for problem in manifests.refused:
        print_error(str(problem))
    if manifests.refused:
        raise typer.Exit(ExitCode.BAD_INPUT)
    if not manifests.topics:
        raise CommandError("the manifests hold no KafkaTopic", "pass files of rackspan.dev KafkaTopics")
    topologies = {str(topic.topology) for _, topic in manifests.topics}
    if len(topologies) > 1:
        raise CommandError(
            f"the KafkaTopics are of several RackTopologies: {first_of(topologies, 3)}",
            "pass the files of one at a time",
        )
    return manifests.topics

"""What a plan is asked for by options: the same for the command that makes one and the one that carries it out."""

from collections.abc import Mapping, Sequence

from rackspan.cli.shared.cluster_source import ClusterSource, hold_replicas
from rackspan.cli.shared.command_errors import CommandError
from rackspan.cli.shared.selection import TopologyOptions, nearest, topics_matching
from rackspan.core.outage import min_insync_replicas
from rackspan.core.requirements import TopicRequirements
from rackspan.core.snapshot import Snapshot

_MOST_REPLICAS, _MOST_PARTITIONS = 32_767, 1_000_000


def refuse_silent_brokers(source: ClusterSource, found: Snapshot, topology: TopologyOptions) -> None:
    """Refuse a broker that is away and not drained: a plan made while it restarts would copy all that it holds."""
    silent = [str(one) for one in found.unknown_brokers if one not in topology.drain_brokers]
    if silent:
        they_are = "they are" if len(silent) > 1 else "it is"
        otherwise = f"pass --drain-broker {','.join(silent)} if {they_are} gone for good"
        raise away(silent, source.why_absent(len(silent)), otherwise)


def away(brokers: Sequence[str], why: str, otherwise: str) -> CommandError:
    """What to say of brokers that hold replicas and are away: `why` ends the sentence, `otherwise` the hint."""
    back = "they are back" if len(brokers) > 1 else "it is back"
    return CommandError(hold_replicas(brokers, why), f"wait until {back}, or {otherwise}")


def chosen_topics(found: Snapshot, pattern: str | None) -> frozenset[str] | None:
    """Names of the topics that `--topic` chooses, None for all. Raises CommandError."""
    if pattern is None:
        return None
    return frozenset(found.partitions.names[at] for at in topics_matching(found, pattern).tolist())


def requirements_of(
    found: Snapshot, chosen: frozenset[str] | None, factors: Sequence[str] | None, counts: Sequence[str] | None
) -> Mapping[str, TopicRequirements]:
    """What `--replication-factor` and `--partitions` ask for. Raises CommandError."""
    names = frozenset(found.partitions.names)
    wanted_factors = _numbers("--replication-factor", factors or (), names, chosen, _MOST_REPLICAS)
    wanted_counts = _numbers("--partitions", counts or (), names, chosen, _MOST_PARTITIONS)
    return {
        name: TopicRequirements(replication_factor=wanted_factors.get(name), partitions=wanted_counts.get(name))
        for name in sorted({*wanted_factors, *wanted_counts})
    }


def min_insync_of(found: Snapshot) -> Mapping[str, int]:
    """Give the `min.insync.replicas` that each topic has, whoever sets it."""
    return dict(zip(found.partitions.names, min_insync_replicas(found.configs).tolist(), strict=True))


def _numbers(
    option: str, given: Sequence[str], names: frozenset[str], chosen: frozenset[str] | None, most: int
) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for text in given:
        name, equals, value = text.rpartition("=")
        if not equals or not name:
            raise CommandError(f'{option} "{text}": write it as TOPIC=NUMBER')
        if name not in names:
            raise CommandError(f'{option} "{text}": there is no topic {name}', nearest(name, names))
        if chosen is not None and name not in chosen:
            raise CommandError(f'{option} "{text}": --topic leaves {name} out', "widen --topic, or leave it out")
        if name in numbers:
            raise CommandError(f"{option}: topic {name} is named twice")
        if not (value.isascii() and value.isdigit()) or len(value) > len(str(most)) or not 1 <= int(value) <= most:
            raise CommandError(f'{option} "{text}": "{value}" is not a number from 1 to {most:,}')
        numbers[name] = int(value)
    return numbers

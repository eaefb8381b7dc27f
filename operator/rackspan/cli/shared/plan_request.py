"""The plan request from options, shared by the command that makes a plan and the command that carries it out."""

from collections.abc import Callable, Mapping, Sequence

from rackspan.api.meta import ObjectKey
from rackspan.cli.rendering.progress import step
from rackspan.cli.shared.cluster_source import ClusterSource, hold_replicas
from rackspan.cli.shared.command_errors import CommandError
from rackspan.cli.shared.manifest_requirements import NO_FILES, JudgedFiles, judged_files, min_insync_of
from rackspan.cli.shared.selection import TopologyOptions, nearest, topics_matching
from rackspan.core.planning import Plan, PlanRequest, plan, rebalance
from rackspan.core.requirements import TopicRequirements
from rackspan.core.snapshot import Snapshot
from rackspan.reconcile.dry_run import Judgement
from rackspan.reconcile.failures import Failure

_MOST_REPLICAS, _MOST_PARTITIONS = 32_767, 1_000_000


def request_by_options(
    source: ClusterSource,
    found: Snapshot,
    topology: TopologyOptions,
    topic: str | None,
    factors: Sequence[str] | None,
    counts: Sequence[str] | None,
    filename: Sequence[str] | None,
    ask_kafka: Callable[[Judgement], Mapping[ObjectKey, Failure]] | None = None,
) -> tuple[PlanRequest, JudgedFiles]:
    """Return the plan request, and the KafkaTopics in files, which replace the options for topics.

    `counts` is None for a command without --partitions. `ask_kafka` is as in `judged_files`. Raises CommandError, or
    typer.Exit once all problems of the files are reported.
    """
    _refuse_silent_brokers(source, found, topology)
    chosen = None
    if topic is not None:
        chosen = frozenset(found.partitions.names[at] for at in topics_matching(found, topic).tolist())
    required = _requirements(found, chosen, factors, counts)
    if filename and required:
        options = "--replication-factor is" if counts is None else "--replication-factor and --partitions are"
        raise CommandError(f"{options} not for --filename", "the KafkaTopics say it")
    tree, min_insync, judged = topology.tree(found), min_insync_of(found), NO_FILES
    if filename:
        judged = judged_files(filename, found, tree, chosen, ask_kafka)
        required, min_insync, chosen = judged.required, judged.min_insync, frozenset(judged.required)
    return PlanRequest(tree, found.partitions, chosen, required, min_insync=min_insync), judged


def plan_requested(request: PlanRequest, *, rebalance_too: bool) -> Plan:
    """Make the plan, for compliance only or also for an equal number of replicas per broker."""
    with step("planning"):
        return rebalance(request) if rebalance_too else plan(request)


def _refuse_silent_brokers(source: ClusterSource, found: Snapshot, topology: TopologyOptions) -> None:
    """Raise CommandError for an absent, undrained broker: a plan during its restart would copy all its replicas."""
    silent = [str(one) for one in found.unknown_brokers if one not in topology.drain_brokers]
    if silent:
        they_are = "they are" if len(silent) > 1 else "it is"
        otherwise = f"pass --drain-broker {','.join(silent)} if {they_are} gone for good"
        raise away(silent, source.why_absent(len(silent)), otherwise)


def away(brokers: Sequence[str], why: str, otherwise: str) -> CommandError:
    """Return an error about absent brokers that hold replicas. `why` ends the sentence, `otherwise` the hint."""
    back = "they are back" if len(brokers) > 1 else "it is back"
    return CommandError(hold_replicas(brokers, why), f"wait until {back}, or {otherwise}")


def _requirements(
    found: Snapshot, chosen: frozenset[str] | None, factors: Sequence[str] | None, counts: Sequence[str] | None
) -> Mapping[str, TopicRequirements]:
    """Return the requirements from `--replication-factor` and `--partitions`. Raises CommandError."""
    names = frozenset(found.partitions.names)
    wanted_factors = _numbers("--replication-factor", factors or (), names, chosen, _MOST_REPLICAS)
    wanted_counts = _numbers("--partitions", counts or (), names, chosen, _MOST_PARTITIONS)
    return {
        name: TopicRequirements(replication_factor=wanted_factors.get(name), partitions=wanted_counts.get(name))
        for name in sorted({*wanted_factors, *wanted_counts})
    }


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

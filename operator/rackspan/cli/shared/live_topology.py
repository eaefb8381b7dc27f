"""`--topology`: a cluster as the operator sees it, from a RackTopology, its KafkaTopics, nodes and pods, and Kafka."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from msgspec import structs

from rackspan.api.meta import ObjectKey
from rackspan.api.plans import part_name
from rackspan.api.racktopology import RackTopology, Rebalance
from rackspan.cli.rendering.progress import step
from rackspan.cli.rendering.stderr_lines import warn
from rackspan.cli.shared.cluster_source import report_cordoned
from rackspan.cli.shared.command_errors import CommandError, failures_reported
from rackspan.cli.shared.connection import Connection
from rackspan.cli.shared.manifest_requirements import NO_FILES, JudgedFiles, applied_files
from rackspan.cli.shared.options import typed_options
from rackspan.cli.shared.selection import infeasible, placers
from rackspan.cli.shared.topology_access import topology_key
from rackspan.core.placement import MissingRackError
from rackspan.core.requirements import ClusterRequirements
from rackspan.core.scanning import BrokerLocations
from rackspan.core.snapshot import Snapshot
from rackspan.core.topology import RackTree
from rackspan.imports.manifests import ManifestTopic
from rackspan.kafka.client_config import client_properties
from rackspan.reconcile.cluster.racks import locations_of_topology
from rackspan.reconcile.dry_run import (
    ObservedPlan,
    ObservedTopology,
    judge_observed,
    laid_over,
    observe_topology,
    plan_of,
    with_observed_brokers,
)
from rackspan.reconcile.specs.ownership import cluster_requirements

if TYPE_CHECKING:
    from rackspan.kube.topology_inputs import TopologyInputs
    from rackspan.reconcile.ports import Administrator

_SAID = (
    "--snapshot",
    "--bootstrap-server",
    "--command-config",
    "--levels",
    "--missing-rack-policy",
    "--drain-broker",
    "--drain-rack",
)
"""Options of all commands that a RackTopology and its KafkaTopics replace."""
_DRAINS = ("--drain-broker", "--drain-rack")


def refuse_options_of_topology(context: typer.Context, *also: str) -> None:
    """Raise CommandError for options that a RackTopology and its KafkaTopics replace, including those in `also`."""
    said = (*_SAID, *also)
    for option in typed_options(context):
        if option in said:
            hint = "the RackTopology and its KafkaTopics say it"
            if option in _DRAINS:
                hint += "; rackspan drain --dry-run=client shows what a drain costs"
            raise CommandError(f"{option} is not for --topology", hint)


def unchanged(topology: RackTopology) -> RackTopology:
    """Return the RackTopology unchanged."""
    return topology


def filling_brokers(topology: RackTopology) -> RackTopology:
    """Return the RackTopology with plans that fill brokers which are new or were emptied."""
    return structs.replace(topology, spec=structs.replace(topology.spec, rebalance=Rebalance.ON_NEW_BROKERS))


@dataclass(frozen=True, slots=True)
class LiveTopology:
    """A RackTopology with its KafkaTopics and brokers, as the operator sees them now."""

    inputs: "TopologyInputs"
    stands: ObservedTopology
    files: JudgedFiles = NO_FILES
    """KafkaTopics in files, which replace or extend those in the API server."""

    @classmethod
    def at(
        cls,
        text: str,
        kubeconfig: Path | None,
        change: Callable[[RackTopology], RackTopology] = unchanged,
        files: Sequence[ManifestTopic] = (),
    ) -> "LiveTopology":
        """Read `NAMESPACE/NAME` from Kubernetes, and its brokers from Kafka. Raises CommandError.

        `change` returns a changed RackTopology, to see its effects. `files` are KafkaTopics to be applied. Raises
        typer.Exit once all problems of the files are reported.
        """
        # Imported here because most commands run for less time than the import of the clients takes.
        from rackspan.kafka.worker.calls import ClientKind  # noqa: PLC0415
        from rackspan.kafka.worker.workers import for_a_command  # noqa: PLC0415
        from rackspan.kube.topology_inputs import read_plan_inputs  # noqa: PLC0415

        key = topology_key(text)

        async def looked() -> LiveTopology:
            read = await read_plan_inputs(key, kubeconfig)
            inputs = replace(read, scan=replace(read.scan, topology=change(read.scan.topology)))
            seen, given = inputs.scan, [one.topic for one in files]
            after, refused = laid_over(seen.topology, seen.topics, given, seen.namespaces)
            async with for_a_command(ClientKind.TOPICS) as connector:
                admin: Administrator = await connector.connect(key, seen.topology.spec.kafka, seen.credentials)
                stands = await observe_topology(seen.topology, after.values(), inputs.cache, admin, placers())
                if not files:
                    return cls(inputs, stands)
                laid = [after[one.key] for one in given if one.key not in refused]
                made, state, names = await judge_observed(stands, laid, admin)
                made = replace(made, problems={**made.problems, **refused})
                return cls(inputs, stands, applied_files(files, made, state, names))

        with failures_reported(), step(f"reading RackTopology {key}"):
            found = asyncio.run(looked())
        for sentence in found.inputs.scan.warnings:
            warn(sentence)
        report_cordoned(found.locations.brokers)
        return found

    @property
    def tree(self) -> RackTree:
        """The rack tree of its brokers. Raises CommandError if only some brokers have a rack."""
        tree = self.stands.state.racks.tree
        if tree.missing_racks:
            raise _missing_racks(MissingRackError(tree.missing_racks))
        return tree

    @property
    def locations(self) -> BrokerLocations:
        """Racks and states of its brokers, for findings: a broker without a rack is a finding and not an error."""
        return locations_of_topology(with_observed_brokers(self.inputs.scan.topology, self.stands))

    @property
    def throttle(self) -> int | None:
        """The maximum bytes per second and broker that the operator copies, None for no limit."""
        return self.inputs.scan.topology.spec.reassignment.throttle

    @property
    def requirements(self) -> ClusterRequirements:
        """The requirements of its KafkaTopics."""
        return cluster_requirements(self.inputs.scan.topology, self.inputs.scan.topics)

    @property
    def objects(self) -> Mapping[str, ObjectKey]:
        """Its KafkaTopics, by the names of their topics."""
        return {topic.topic_name: topic.key for topic in self.inputs.scan.topics}

    @property
    def internal_topics(self) -> Collection[str]:
        """The internal topics that may have a KafkaTopic."""
        return self.inputs.scan.topology.spec.internal_topics

    @property
    def connection(self) -> Connection:
        """The connection to its Kafka cluster, with its Secrets."""
        kafka = self.inputs.scan.topology.spec.kafka
        return Connection(kafka.bootstrap_servers, client_properties(kafka, self.inputs.scan.credentials))

    def snapshot(self) -> Snapshot:
        """Return all topics and partitions that are in Kafka now. Raises CommandError, also if there are none."""
        connection = self.connection
        with step(f"reading {connection.servers}"):
            found = connection.snapshot()
        if not len(found.partitions):
            raise CommandError(f"{connection.servers}: holds no topics")
        return found

    def plan(self) -> ObservedPlan:
        """Make the operator's plan. Raises CommandError."""
        try:
            with step("planning"):
                made = plan_of(self.stands)
        except MissingRackError as error:
            raise _missing_racks(error) from error
        for key in made.unplanned:
            kind = "KafkaTopic" if key.namespace else "topic"
            warn(f"{kind} {part_name(key)}: nothing can be planned: a rack or a level that it needs is not known")
        return made


def plan_differences(made: ObservedPlan, changed: Collection[ObjectKey] = ()) -> Mapping[str, str]:
    """Return why the operator's plans of topics differ from these, by topic. Skip topics in `changed`."""
    differences = {}
    for key in made.differing:
        if key in changed:
            continue
        known = made.topics[key].status.plan
        if known is None:
            differences[str(key)] = "the status has no plan yet"
        else:
            differences[str(key)] = (
                f"the operator's plan is {known.hash}: it was made when something else lay on the brokers or was "
                "planned, and is kept while the brokers and the topics of its namespace that need a change are the same"
            )
    return differences


def _missing_racks(error: MissingRackError) -> CommandError:
    return CommandError(str(infeasible(error)), "give it a rack, or set missingRackPolicy: Ignore in the RackTopology")

"""The cluster of a RackTopology: racks and requirements from Kubernetes, partitions and consumers from Kafka."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import replace

from rackspan.core.consumers.group_locality import ReplicaPlaces
from rackspan.core.consumers.rates import RatesOf, unknown_rates
from rackspan.core.rack_path import RackPathError, format_rack
from rackspan.core.text import plural
from rackspan.core.topology import BrokerLocation, TopologyError
from rackspan.jobs.batches.batch_judging import Criteria
from rackspan.jobs.sources.readers import LiveReader
from rackspan.jobs.sources.scanned_cluster import ClusterError, ScannedCluster
from rackspan.kafka.client_config import client_properties
from rackspan.kafka.cluster_snapshot import ClusterOutline, reassignment_warnings, take_outline, take_portion
from rackspan.kafka.consumer_groups import read_consumer_groups
from rackspan.kafka.consumption import sample_rates
from rackspan.kube.topology_inputs import ScanInputs
from rackspan.reconcile.cluster.racks import locations_of_topology
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.specs.ownership import cluster_requirements
from rackspan.reports.document import GroupRow
from rackspan.reports.group_rows import group_rows, racks_of_hosts


def from_topology(seen: ScanInputs) -> ScannedCluster:
    """Return a live cluster, judged by its RackTopology and its KafkaTopics. Consumer groups are read here.

    Raises ClusterError if the RackTopology's status does not list all brokers or has racks by an earlier spec, if
    another cluster responds, or if the racks do not form a tree. Raises FailureError if Kafka does not respond.
    """
    topology = seen.topology
    if not topology.status.brokers:
        raise ClusterError("TopologyNotReady", f"the status of RackTopology {topology.key} names no brokers yet")
    if not topology.status.lists_all_brokers:
        raise ClusterError(
            "TopologyNotReady", f"the status of RackTopology {topology.key} has not room for all brokers"
        )
    if not topology.has_current_racks:
        raise ClusterError(
            "TopologyNotReady",
            f"the status of RackTopology {topology.key} has racks by an earlier spec: scan again when the operator has "
            "updated them; while it cannot, the condition Ready says why",
        )
    try:
        locations = locations_of_topology(topology)
        requirements = cluster_requirements(topology, seen.topics)
        locations.tree.level  # noqa: B018 - built here, so that racks that form no tree fail before Spark starts
    except (RackPathError, TopologyError) as error:
        raise ClusterError("RacksUnusable", str(error)) from error
    properties = client_properties(topology.spec.kafka, seen.credentials)
    outline = take_outline(properties)
    known = topology.status.cluster_id
    if known is not None and outline.cluster_id != known:
        raise ClusterError("AnotherCluster", f"cluster {outline.cluster_id} answers, the topology is of {known}")
    online = {broker.id for broker in outline.brokers}
    seen_now = tuple(_seen_now(broker, online) for broker in locations.brokers)
    compliance = topology.spec.compliance
    producers = {} if compliance is None else {some.rack: some.count for some in compliance.producers}
    criteria = Criteria(outline.cluster_id or "", replace(locations, brokers=seen_now), requirements, producers)
    cluster = ScannedCluster(str(topology.key), criteria, LiveReader(properties), outline.partitions)
    warnings = [*seen.warnings, *seen.host_warnings, *requirements.level_warnings(locations.tree.levels)]
    warnings += reassignment_warnings(properties)
    groups = _groups(seen, criteria, outline, properties, warnings)
    throttle = topology.spec.reassignment.throttle
    return replace(cluster, throttle=throttle, groups=groups, warnings=tuple(warnings), topology=str(topology.key))


def _seen_now(broker: BrokerLocation, online: Collection[int]) -> BrokerLocation:
    """Return the broker with its current state. If it came online after the status was written, assume no drift."""
    if broker.id in online and not broker.online and broker.rack is not None and broker.reported_rack is None:
        return replace(broker, online=True, reported_rack=format_rack(broker.rack))
    return replace(broker, online=broker.id in online)


def _groups(
    seen: ScanInputs,
    criteria: Criteria,
    outline: ClusterOutline,
    properties: Mapping[str, str | int | bool],
    warnings: list[str],
) -> list[GroupRow]:
    """Return the rows of consumer groups. If groups or rates cannot be read, add a warning instead of an error."""
    try:
        found = read_consumer_groups(properties)
        read = take_portion(properties, found.topics)
    except FailureError as error:
        warnings.append(f"consumer groups are not known: {error}")
        return []
    portion = replace(read.snapshot, brokers=outline.brokers)
    warnings += found.warnings
    if read.unread:
        name, why = min(read.unread.items())
        unread = f"{plural(len(read.unread), 'topic')} that groups read could not be read, such as {name}: {why}"
        warnings.append(f"{unread}; their partitions are not counted for groups")
    tree, spec = criteria.locations.tree, seen.topology.spec
    hosts = racks_of_hosts(seen.hosts, seen.nodes, spec)
    rates_of: RatesOf = unknown_rates
    if spec.compliance is not None and (seconds := spec.compliance.sample_seconds) is not None:
        replicas = ReplicaPlaces(tree, portion.brokers, portion.partitions)
        try:
            sampled = sample_rates(properties, found.groups, replicas, lambda: asyncio.sleep(seconds))
        except FailureError as error:
            warnings.append(f"rates of consumer groups are not known: {error}")
        else:
            rates_of = sampled.rates_of
            warnings += sampled.warnings
    return group_rows(found.groups, portion, tree, hosts, found.selector, rates_of)

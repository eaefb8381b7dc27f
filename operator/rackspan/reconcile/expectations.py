"""From KafkaTopics and a RackTopology to the requirements that a scan checks. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from rackspan.api.conditions import READY, find_condition
from rackspan.api.racktopology import MissingRackPolicy
from rackspan.api.reasons import Reason
from rackspan.api.requirements import durability_of, requirements_of
from rackspan.core.rack_path import format_rack, parse_rack
from rackspan.core.requirements import ClusterRequirements, TopicRequirements
from rackspan.core.scanning import BrokerLocations
from rackspan.core.topology import BrokerLocation
from rackspan.reconcile.topics.ownership import TopicClaim, owner

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.racktopology import BrokerStatus, RackTopology


def cluster_requirements(topology: RackTopology, topics: Iterable[KafkaTopic]) -> ClusterRequirements:
    """The requirements of each topic that has a KafkaTopic, and the defaults for the others.

    `topics` are those that the topology admits. Of several for one topic, the one counts that the operator reconciles.
    """
    defaults = topology.spec.defaults.durability
    claims: defaultdict[str, list[TopicClaim]] = defaultdict(list)
    for topic in topics:
        if topic.topology == topology.key:
            claims[topic.topic_name].append(TopicClaim(topic, topology, {}))
    of_topic = {
        name: requirements_of(owned_by.spec, defaults)
        for name, rivals in claims.items()
        if (owned_by := owner(rivals)) is not None and not owned_by.meta.is_deleting and not _is_refused(owned_by)
    }
    return ClusterRequirements(of_topic, TopicRequirements(durability=durability_of(defaults)), managed=True)


def _is_refused(topic: KafkaTopic) -> bool:
    """Whether the operator refused the topic to the object: a scan then takes it for a topic without one."""
    ready = find_condition(topic.status.conditions, READY)
    return ready is not None and ready.reason in (Reason.ADOPTION_NOT_ALLOWED, Reason.INTERNAL_TOPIC)


def locations_of_topology(topology: RackTopology) -> BrokerLocations:
    """The brokers and racks in the topology's status. Raises RackPathError."""
    spec = topology.spec
    return BrokerLocations(
        spec.level_names,
        tuple(_broker(topology, broker) for broker in topology.status.brokers),
        ignore_missing=spec.missing_rack_policy == MissingRackPolicy.IGNORE,
    )


def _broker(topology: RackTopology, broker: BrokerStatus) -> BrokerLocation:
    spec = topology.spec
    rack = None if broker.rack is None else parse_rack(broker.rack)
    drained = [parse_rack(path) for path in spec.drain_racks]
    below = rack is not None and any(rack[: len(path)] == path for path in drained)
    # The status has the rack with its alias resolved, so a broker without drift reports that rack.
    reported = format_rack(rack) if rack is not None and broker.drift is False else broker.reported_rack
    return BrokerLocation(
        broker.id, reported, rack, online=broker.online is not False, draining=broker.id in spec.drain_brokers or below
    )

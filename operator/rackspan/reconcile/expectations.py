"""From KafkaTopics and a RackTopology to the requirements that a scan checks. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rackspan.api.kafkatopic import durability_of, requirements_of
from rackspan.api.racktopology import MissingRackPolicy
from rackspan.core.rack_path import format_rack, parse_rack
from rackspan.core.requirements import ClusterRequirements, TopicRequirements
from rackspan.core.scanning import BrokerLocations
from rackspan.core.topology import BrokerLocation
from rackspan.reconcile.specs.ownership import declared

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.racktopology import BrokerStatus, RackTopology


def cluster_requirements(topology: RackTopology, topics: Iterable[KafkaTopic]) -> ClusterRequirements:
    """The requirements of each topic that has a KafkaTopic, and the defaults for the others.

    `topics` are those that the topology admits. Of several for one topic, the one counts that the operator reconciles.
    """
    defaults = topology.spec.defaults.durability
    of_topic = {name: requirements_of(topic.spec, defaults) for name, topic in declared(topology, topics).items()}
    return ClusterRequirements(of_topic, TopicRequirements(durability=durability_of(defaults)), managed=True)


def locations_of_topology(topology: RackTopology) -> BrokerLocations:
    """The brokers and racks in the topology's status. Raises RackPathError."""
    spec = topology.spec
    return BrokerLocations(
        spec.level_names,
        tuple(_broker(topology, broker) for broker in topology.status.brokers),
        ignore_missing=spec.missing_rack_policy == MissingRackPolicy.IGNORE,
    )


def _broker(topology: RackTopology, broker: BrokerStatus) -> BrokerLocation:
    rack = None if broker.rack is None else parse_rack(broker.rack)
    # The status has the rack with its alias resolved, so a broker without drift reports that rack.
    reported = format_rack(rack) if rack is not None and broker.drift is False else broker.reported_rack
    return BrokerLocation(
        broker.id,
        reported,
        rack,
        online=broker.online is not False,
        draining=topology.spec.drains(broker.id, rack),
        cordoned=broker.cordoned is True,
    )

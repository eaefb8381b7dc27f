"""The write locality of producers for a topic of a real Kafka, from its leaders and racks."""

from rackspan.core.consumers.group_locality import ReplicaPlaces
from rackspan.core.snapshot import tree_of
from rackspan.core.write_locality import WriteLocality, write_localities
from rackspan.kafka.cluster_snapshot import take_snapshot
from rackspan.kafka.command_config import command_properties

_LEVELS = ("region", "zone", "rack")


def write_locality(bootstrap: str, topic: str, rack: str) -> WriteLocality | None:
    """Return the write locality of producers in one rack. None if the topic has no leader."""
    snapshot = take_snapshot(command_properties(bootstrap)).snapshot
    places = ReplicaPlaces(tree_of(snapshot.brokers, _LEVELS), snapshot.brokers, snapshot.partitions)
    return next((one for one in write_localities(places, {rack: 1}) if one.topic == topic), None)

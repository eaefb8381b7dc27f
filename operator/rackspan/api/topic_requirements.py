"""From a KafkaTopic's spec to what core calls its requirements: the one place where the one becomes the other."""

from rackspan.api.kafkatopic import KafkaTopicSpec
from rackspan.api.policies import DurabilitySpec
from rackspan.core.durability import Durability
from rackspan.core.placement import Spread, Unsatisfiable
from rackspan.core.rack_path import parse_rack
from rackspan.core.requirements import TopicRequirements


def requirements_of(spec: KafkaTopicSpec, default_durability: DurabilitySpec) -> TopicRequirements:
    """What a topic should be: its own durability, else the topology's. Raises RackPathError for a domain of leaders."""
    placement = spec.placement
    return TopicRequirements(
        replication_factor=spec.replication_factor,
        partitions=spec.partitions,
        spread=tuple(
            Spread(one.level, one.max_skew, Unsatisfiable(one.when_unsatisfiable)) for one in placement.spread
        ),
        include=placement.brokers.include,
        exclude=placement.brokers.exclude,
        leaders=tuple(parse_rack(domain) for domain in placement.leaders),
        assignment=placement.assignment,
        durability=durability_of(spec.durability or default_durability),
        seed=placement.seed,
        start_index=placement.start_index,
        shift=placement.shift,
    )


def durability_of(spec: DurabilitySpec) -> Durability:
    """The durability that a spec asks for."""
    return Durability(min_domains=spec.min_domains, tolerate=spec.tolerate)

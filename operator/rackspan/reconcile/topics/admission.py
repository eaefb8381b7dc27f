"""Which KafkaTopics their topology admits, by the objects in the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, Remedy
from rackspan.reconcile.topics.ownership import TopicClaim, owner, refusal, rival

if TYPE_CHECKING:
    from collections.abc import Callable

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey
    from rackspan.reconcile.cache import Cache


class Admission:
    """The checks of `ownership`, fed from the cache. Belongs to the event loop."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def refusals(self) -> Callable[[KafkaTopic], Failure | None]:
        """A function that says why a topic is not admitted, None where it is; to be used before the cache changes.

        It finds the owner of each Kafka topic once, however many objects claim it. A topic whose topology does not
        exist is not refused here.
        """
        owners: dict[tuple[ObjectKey, str], KafkaTopic | None] = {}

        def refused(topic: KafkaTopic) -> Failure | None:
            claim = self._claim_of(topic)
            if claim is None:
                return None
            failure = refusal(claim) or _terminating(claim)
            if failure is not None:
                return failure
            name = topic.topology, topic.topic_name
            if name not in owners:
                owners[name] = self._owner(topic)
            return rival(topic, owners[name])

        return refused

    def _claim_of(self, topic: KafkaTopic) -> TopicClaim | None:
        topology = self._cache.topologies.get(topic.topology)
        if topology is None:
            return None
        return TopicClaim(topic, topology, self._cache.namespaces.get(topic.meta.namespace, {}))

    def _owner(self, topic: KafkaTopic) -> KafkaTopic | None:
        """The object that decides about the Kafka topic, among those that are admitted."""
        claims = map(self._claim_of, self._cache.claims(topic))
        return owner(claim for claim in claims if claim is not None and refusal(claim) is None)


def _terminating(claim: TopicClaim) -> Failure | None:
    """A topology that is being deleted admits no topic that it does not have yet, which would hold it up."""
    topic, topology = claim.topic, claim.topology
    if not topology.meta.is_deleting or topic.status.topic_id is not None:
        return None
    return Failure(Reason.TOPOLOGY_NOT_FOUND, f"RackTopology {topic.topology} is being deleted", Remedy.SPEC)

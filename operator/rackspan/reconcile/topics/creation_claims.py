"""Puts Rackspan's finalizer on KafkaTopics, and records that a topic is about to be created for them, before it is.

A new object takes one write for both: the finalizer, and an annotation with the object's uid, so that a copy of the
object claims nothing. Whoever may write an object could put that annotation on it. So it counts only for those that may
take over topics which are there already; all others take a second write, to the status, where tenants cannot write.

A claim is for one Kafka cluster, which it names: in another one a topic of the name is somebody else's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from rackspan.api.kafkatopic import KIND, DeletionPolicy, KafkaTopic
from rackspan.api.labels import CREATED_FOR
from rackspan.reconcile.ports import ObjectRef
from rackspan.reconcile.runtime.writers import has_finalizer
from rackspan.reconcile.specs.ownership import may_adopt

if TYPE_CHECKING:
    from rackspan.reconcile.cluster.state import ClusterState
    from rackspan.reconcile.dependencies import Dependencies
    from rackspan.reconcile.topics.topic_decision import Outcome


def with_known_claim(topic: KafkaTopic, state: ClusterState) -> KafkaTopic:
    """The topic with a claim that its annotation makes, where that counts, in the status."""
    if not (topic.was_being_created and _may_adopt(topic, state)):
        return topic
    cluster_id = topic.created_in or topic.status.cluster_id
    return replace(topic, status=replace(topic.status, creating=True, cluster_id=cluster_id))


def must_claim(topic: KafkaTopic, state: ClusterState) -> bool:
    """Whether it has to be recorded that a topic is about to be created.

    After a crash in between, the topic would otherwise look like one that existed before: where adoption is not
    allowed the object could not have it, and deletionPolicy Delete would not apply to it.
    """
    if topic.status.creating:
        return False
    return not _may_adopt(topic, state) or topic.spec.deletion_policy == DeletionPolicy.DELETE


def is_prepared(outcome: Outcome, state: ClusterState) -> bool:
    """Whether the object has all that it needs before its decision is carried out."""
    return has_finalizer(outcome.topic.meta) and not _lacks_claim(outcome, state)


async def prepare(dependencies: Dependencies, outcome: Outcome, state: ClusterState) -> bool:
    """Write what the object needs before its decision is carried out; false where it has changed or is gone.

    `outcome.topic` is the object as written. Raises FailureError.
    """
    if not has_finalizer(outcome.topic.meta) and not await _add_finalizer(dependencies, outcome, state):
        return False
    return not _lacks_claim(outcome, state) or await _claim_in_status(dependencies, outcome, state)


def _lacks_claim(outcome: Outcome, state: ClusterState) -> bool:
    return outcome.decision.create is not None and must_claim(outcome.topic, state)


def _may_adopt(topic: KafkaTopic, state: ClusterState) -> bool:
    return may_adopt(topic.meta.namespace, state.topology.namespace, state.spec.adoption)


async def _add_finalizer(dependencies: Dependencies, outcome: Outcome, state: ClusterState) -> bool:
    """With the claim, where that is due and an annotation counts."""
    topic, meta = outcome.topic, outcome.topic.meta
    annotates = _lacks_claim(outcome, state) and topic.status.creating is None and _may_adopt(topic, state)
    claim = {CREATED_FOR: f"{meta.uid}/{state.cluster_id}"} if annotates else {}
    written = await dependencies.finalizers.add(KIND, meta, claim)
    known = dependencies.cache.put_answer(written) if written is not None else None
    if known is None or known.meta.is_deleting:
        return False
    outcome.topic, outcome.new_claim = with_known_claim(known, state), annotates
    return True


async def _claim_in_status(dependencies: Dependencies, outcome: Outcome, state: ClusterState) -> bool:
    before = outcome.topic
    claimed = replace(before, status=replace(before.status, creating=True, cluster_id=state.cluster_id))
    ref = ObjectRef(KIND, before.key, before.meta.uid)
    written = await dependencies.statuses.write(ref, before.status.to_dict(), claimed.status.to_dict())
    if written is None or dependencies.cache.put_answer(written) is None:
        return False
    outcome.topic, outcome.new_claim = claimed, True
    return True

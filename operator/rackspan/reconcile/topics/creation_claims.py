"""Adds Rackspan's finalizer to KafkaTopics, and records a claim before a topic is created for a KafkaTopic.

A new object needs one write for both: the finalizer, and an annotation with the object's uid, so that a copy of the
object claims nothing. Any user who may write an object could set that annotation. So it counts only for objects that
may adopt existing topics. All other objects need a second write, to the status, which tenants cannot write.

A claim names the Kafka cluster that it is for. In another cluster, a topic of that name belongs to another owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from rackspan.api.kafkatopic import KIND, DeletionPolicy, KafkaTopic
from rackspan.api.labels import CREATED_FOR
from rackspan.reconcile.ports import ObjectRef
from rackspan.reconcile.runtime.writers import has_finalizer

if TYPE_CHECKING:
    from rackspan.reconcile.cluster.state import ClusterState
    from rackspan.reconcile.dependencies import Dependencies
    from rackspan.reconcile.topics.topic_decision import Outcome


def with_known_claim(topic: KafkaTopic, state: ClusterState) -> KafkaTopic:
    """Return the topic with the claim of its annotation, if that counts, copied into the status."""
    if not (topic.was_being_created and _may_adopt(topic, state)):
        return topic
    cluster_id = topic.created_in or topic.status.cluster_id
    return replace(topic, status=replace(topic.status, creating=True, cluster_id=cluster_id))


def must_claim(topic: KafkaTopic, state: ClusterState) -> bool:
    """Return whether to record that a topic is about to be created.

    Without the record, the topic would look like an existing one after a crash. The object could then not own it if
    adoption is not allowed, and deletionPolicy Delete would not apply to it.
    """
    if topic.status.creating:
        return False
    return not _may_adopt(topic, state) or topic.spec.deletion_policy == DeletionPolicy.DELETE


def is_prepared(outcome: Outcome, state: ClusterState) -> bool:
    """Return whether the object has everything that it needs before its decision is carried out."""
    return has_finalizer(outcome.topic.meta) and not _lacks_claim(outcome, state)


async def prepare(dependencies: Dependencies, outcome: Outcome, state: ClusterState) -> bool:
    """Write what the object needs before its decision is carried out. Return False if it has changed or is deleted.

    `outcome.topic` is then the object as written. Raises FailureError.
    """
    if not has_finalizer(outcome.topic.meta) and not await _add_finalizer(dependencies, outcome, state):
        return False
    return not _lacks_claim(outcome, state) or await _claim_in_status(dependencies, outcome, state)


def _lacks_claim(outcome: Outcome, state: ClusterState) -> bool:
    return outcome.decision.create is not None and must_claim(outcome.topic, state)


def _may_adopt(topic: KafkaTopic, state: ClusterState) -> bool:
    return state.spec.adoption.to(topic.meta.namespace, state.topology.namespace)


async def _add_finalizer(dependencies: Dependencies, outcome: Outcome, state: ClusterState) -> bool:
    """Add the finalizer, and the claim if it is needed and an annotation counts."""
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

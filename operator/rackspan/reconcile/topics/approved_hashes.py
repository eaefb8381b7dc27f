"""The plans that people approve, by the annotations and specs of a topology's objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rackspan.api.kafkatopic import KIND as TOPIC
from rackspan.api.labels import APPROVE_PLAN
from rackspan.api.policies import TopicApproval
from rackspan.api.racktopology import KIND as TOPOLOGY
from rackspan.reconcile.ports import ObjectRef

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import Meta, ObjectKey
    from rackspan.api.racktopology import RackTopology
    from rackspan.core.planning import TopicPlan
    from rackspan.reconcile.cache import Cache
    from rackspan.reconcile.ports import KubeApi
    from rackspan.reconcile.topics.plan import WholePlan

_REMEMBERED = 100
"""Refused approvals that are remembered, so that the plan is made anew once for each."""


class ApprovedHashes:
    """What the objects of one topology approve.

    An annotation counts once: it is taken off when what it approves has begun. An approval in a spec stays there, so
    it does not count where the same plan was begun before (`again`).
    """

    def __init__(self, cache: Cache, kube: KubeApi) -> None:
        self._cache = cache
        self._kube = kube
        self._refused: dict[tuple[ObjectKey, str], None] = {}
        """Approvals of plans that are not there, by object."""
        self._spent: dict[ObjectRef, str] = {}
        """Annotations to take off, by object."""

    def of_whole(self, topology: RackTopology, plan_hash: str, *, again: bool) -> frozenset[str]:
        """The hashes approved on the RackTopology: `plan_hash`, which is there, and others once they are refused."""
        return self._known(topology.key, self._said_of_whole(topology, again=again), plan_hash)

    def of_part(self, topic: KafkaTopic, plan_hash: str, *, again: bool) -> frozenset[str]:
        """The hashes approved on a KafkaTopic, likewise."""
        return self._known(topic.key, self._said_of_part(topic, again=again), plan_hash)

    def refuse(self, topology: RackTopology, whole: WholePlan, carried_out: str) -> bool:
        """Remember approvals of plans that are not there; whether there are new ones.

        `carried_out` is the hash of the plan that was begun before this one.
        """
        said = {(topology.key, text) for text in self._said_of_whole(topology, again=False)}
        present = {(topology.key, whole.hash), (topology.key, carried_out)}
        for key, part in whole.parts.items():
            topic = self._cache.topics.get(key)
            if topic is not None and may_approve(key, topology):
                said.update((key, text) for text in self._said_of_part(topic, again=False))
                present.add((key, part.hash))
        unseen = said - present - self._refused.keys()
        self._refused |= dict.fromkeys(unseen)
        while len(self._refused) > _REMEMBERED:
            self._refused.pop(next(iter(self._refused)))
        return bool(unseen)

    def spend(self, topology: RackTopology, plan_hash: str, begun: Mapping[ObjectKey, TopicPlan]) -> None:
        """Have the annotations taken off that approved what has begun."""
        self._spend(TOPOLOGY, topology.meta, plan_hash)
        for key, part in begun.items():
            if (topic := self._cache.topics.get(key)) is not None:
                self._spend(TOPIC, topic.meta, part.hash)

    async def take_off_spent(self) -> None:
        """Take annotations off objects that have not changed since. Raises FailureError."""
        for ref, value in list(self._spent.items()):
            found = (self._cache.topologies if ref.kind == TOPOLOGY else self._cache.topics).get(ref.key)
            if found is not None and found.meta.uid == ref.uid and found.meta.annotations.get(APPROVE_PLAN) == value:
                written = await self._kube.remove_annotation(ref, APPROVE_PLAN, found.meta.resource_version)
                if written is None:
                    continue  # it changed meanwhile: look again
                if ref.kind == TOPOLOGY:
                    self._cache.put_topology_answer(written)
                else:
                    self._cache.put_answer(written)
            self._spent.pop(ref, None)

    def _spend(self, kind: str, meta: Meta, plan_hash: str) -> None:
        if meta.annotations.get(APPROVE_PLAN) == plan_hash:
            self._spent[ObjectRef(kind, meta.key, meta.uid)] = plan_hash

    def _said_of_whole(self, topology: RackTopology, *, again: bool) -> frozenset[str]:
        return self._said(TOPOLOGY, topology.meta, None if again else topology.spec.reassignment.approved_plan)

    def _said_of_part(self, topic: KafkaTopic, *, again: bool) -> frozenset[str]:
        asked = topic.spec.reassignment
        return self._said(TOPIC, topic.meta, None if again or asked is None else asked.approved_plan)

    def _said(self, kind: str, meta: Meta, approved_plan: str | None) -> frozenset[str]:
        annotation = meta.annotations.get(APPROVE_PLAN)
        if annotation is not None and self._spent.get(ObjectRef(kind, meta.key, meta.uid)) == annotation:
            annotation = None
        return frozenset(text for text in (annotation, approved_plan) if text)

    def _known(self, key: ObjectKey, said: frozenset[str], plan_hash: str) -> frozenset[str]:
        return frozenset(text for text in said if text == plan_hash or (key, text) in self._refused)


def may_approve(key: ObjectKey, topology: RackTopology) -> bool:
    """Whether a KafkaTopic decides about its own part."""
    match topology.spec.reassignment.topic_approval:
        case TopicApproval.OWN:
            return key.namespace == topology.key.namespace
        case TopicApproval.ALLOWED:
            return True
        case TopicApproval.NEVER:
            return False

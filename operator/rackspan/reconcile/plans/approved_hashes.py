"""The plans that people approve, in the annotations and specs of a topology's objects."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from rackspan.api.kafkatopic import KIND as TOPIC
from rackspan.api.labels import APPROVE_PLAN
from rackspan.api.plans import MAX_APPROVED
from rackspan.api.racktopology import KIND as TOPOLOGY
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.ports import ObjectRef

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import Meta, ObjectKey
    from rackspan.api.racktopology import RackTopology
    from rackspan.core.planning import TopicPlan
    from rackspan.reconcile.cache import Cache
    from rackspan.reconcile.plans.topology_plan import WholePlan
    from rackspan.reconcile.ports import KubeApi

_REMEMBERED = 100
"""The number of refused approvals on a RackTopology that are remembered, so that each causes only one new plan."""


@dataclass(frozen=True, slots=True)
class Approved:
    """The hashes that a RackTopology approves: in its annotation, and in its spec."""

    annotated: frozenset[str]
    declared: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        """The hashes of the annotation and of the spec."""
        return self.annotated | self.declared


class ApprovedHashes:
    """The approvals on the objects of one topology.

    A hash covers the parts that it names. While the hash is approved, these parts stay covered as long as they are the
    same, even if other parts change: so no other tenant can make an approval stale.

    An annotation counts once: the operator removes it before the approved parts begin. From then on only this process
    knows the approval, so that a restarted operator does not begin the same plan again. It forgets the approval once
    statuses do not show it (`keep`). An approval in a spec stays there, so it does not count if the same part was begun
    before (`begun`).
    """

    def __init__(self, cache: Cache, kube: KubeApi) -> None:
        self._cache = cache
        self._kube = kube
        self._covered: dict[str, frozenset[str]] = {}
        """The hashes of parts, by the hashes on the RackTopology that named them."""
        self._refused: dict[str, None] = {}
        """Approvals on the RackTopology of plans that do not exist."""
        self._refused_parts: dict[ObjectKey, frozenset[str]] = {}
        """The same for KafkaTopics."""
        self._in_hand: dict[ObjectRef, str] = {}
        """Annotations that were removed and whose plans have not begun, by object."""

    def names(self, whole: WholePlan) -> Mapping[ObjectKey, frozenset[str]]:
        """Return all hashes that name each part, now or when they were approved."""
        return {
            key: whole.names(key) | {text for text, parts in self._covered.items() if part.hash in parts}
            for key, part in whole.parts.items()
        }

    def of_topology(
        self, topology: RackTopology, names: Mapping[ObjectKey, frozenset[str]], begun: Collection[ObjectKey]
    ) -> Approved:
        """Return the hashes approved on the RackTopology: those that name a part, and refused ones."""
        said = self._said_of_topology(topology)
        named = _together(names.values())
        fresh = _together(some for key, some in names.items() if key not in begun)
        refused = self._refused.keys() - named
        return Approved(said.annotated & (named | refused), said.declared & (fresh | refused))

    def declared(self, topology: RackTopology) -> frozenset[str]:
        """Return the hashes that the RackTopology's spec approves, whether such plans exist or not."""
        return self._said_of_topology(topology).declared

    def of_part(self, topic: KafkaTopic, plan_hash: str, *, again: bool) -> frozenset[str]:
        """Return the hashes approved on a KafkaTopic: the one of its part, and refused ones."""
        refused = self._refused_parts.get(topic.key, ())
        return frozenset(
            text for text in self._said_of_part(topic, again=again) if text == plan_hash or text in refused
        )

    def cover(self, topology: RackTopology, whole: WholePlan) -> None:
        """Remember which parts the approved hashes name."""
        covered = {}
        for text in self._said_of_topology(topology).all:
            named = {part.hash for key, part in whole.parts.items() if text in whole.names(key)}
            covered[text] = self._covered.get(text, frozenset()) | named
        self._covered = {text: parts for text, parts in covered.items() if parts}

    def keep(self, whole: WholePlan, shown: Collection[ObjectKey]) -> None:
        """Forget removed annotations that approve none of the parts whose statuses show an approval.

        Nobody sees them, so they must not approve anything later. A new annotation replaces a removed one.
        """
        if not self._in_hand:
            return
        objects: Mapping[str, Mapping[ObjectKey, RackTopology | KafkaTopic]]
        objects = {TOPOLOGY: self._cache.topologies, TOPIC: self._cache.topics}
        live = _together(some for key, some in self.names(whole).items() if key in shown)
        self._in_hand = {
            ref: ",".join(sorted(approved))
            for ref, text in self._in_hand.items()
            if (approved := live & _hashes(text))
            and (one := objects[ref.kind].get(ref.key)) is not None
            and APPROVE_PLAN not in one.meta.annotations
        }

    def refuse(self, topology: RackTopology, whole: WholePlan, carried_out: Collection[str]) -> bool:
        """Remember approvals on the RackTopology of plans that do not exist. Return whether there are new ones.

        `carried_out` are the hashes that named plans begun before.
        """
        unseen = self._said_of_topology(topology).all - self._refused.keys() - set(carried_out)
        if unseen:
            unseen -= _together(self.names(whole).values())
        self._refused |= dict.fromkeys(unseen)
        while len(self._refused) > _REMEMBERED:
            self._refused.pop(next(iter(self._refused)))
        return bool(unseen)

    def refuse_parts(self, topology: RackTopology, whole: WholePlan) -> Collection[str]:
        """Do the same for KafkaTopics that have a part. Return the namespaces with new ones."""
        refused = {}
        for key, part in whole.parts.items():
            topic = self._cache.topics.get(key)
            if topic is not None and may_approve(key, topology):
                refused[key] = self._said_of_part(topic, again=False) - {part.hash}
        before, self._refused_parts = self._refused_parts, {key: texts for key, texts in refused.items() if texts}
        return {key.namespace for key, texts in refused.items() if texts - before.get(key, frozenset())}

    async def take_off(
        self, topology: RackTopology, whole: WholePlan, parts: Mapping[ObjectKey, TopicPlan]
    ) -> Mapping[ObjectKey, TopicPlan]:
        """Remove the annotations that approve some parts. Return the parts that may begin.

        If a KafkaTopic has changed meanwhile, its part does not begin now. If the RackTopology's annotation approves a
        part and has changed, no part begins now.
        Raises FailureError if the RackTopology cannot be changed, or if no part is left because a KafkaTopic cannot be.
        """
        able: dict[ObjectKey, TopicPlan] = {}
        refused = None
        for key, part in parts.items():
            topic = self._cache.topics.get(key)
            approves = topic is not None and topic.meta.annotations.get(APPROVE_PLAN) == part.hash
            try:
                if topic is None or not approves or await self._take(TOPIC, topic.meta):
                    able[key] = part
            except FailureError as error:
                refused = error  # for example, by a webhook of its namespace
        if refused is not None and not able:
            raise refused
        said, now = topology.meta.annotations.get(APPROVE_PLAN), self._cache.topologies.get(topology.key)
        if _hashes(said).isdisjoint(_together(some for key, some in self.names(whole).items() if key in able)):
            return able
        if now is None or now.meta.uid != topology.meta.uid or now.meta.annotations.get(APPROVE_PLAN) != said:
            return {}
        return able if await self._take(TOPOLOGY, now.meta) else {}  # its status may have been written meanwhile

    def spend(self, names: Collection[str]) -> None:
        """Forget the annotations that approved a plan that has begun; `names` are the hashes of plan and parts."""
        named = {*names, *(text for text, parts in self._covered.items() if not parts.isdisjoint(names))}
        self._in_hand = {ref: text for ref, text in self._in_hand.items() if named.isdisjoint(_hashes(text))}
        self._covered = {text: parts.difference(names) for text, parts in self._covered.items()}

    async def _take(self, kind: str, meta: Meta) -> bool:
        """Remove the annotation of an object. Return False if the object has changed since it was read."""
        ref = ObjectRef(kind, meta.key, meta.uid)
        written = await self._kube.set_annotation(ref, APPROVE_PLAN, None, meta.resource_version)
        if written is None:
            return False
        self._in_hand[ref] = meta.annotations[APPROVE_PLAN]
        if kind == TOPOLOGY:
            self._cache.put_topology_answer(written)
        else:
            self._cache.put_answer(written)
        return True

    def _said_of_topology(self, topology: RackTopology) -> Approved:
        annotation, declared = self._annotation(TOPOLOGY, topology.meta), topology.spec.reassignment.approved_plan
        return Approved(_hashes(annotation), _hashes(declared))

    def _said_of_part(self, topic: KafkaTopic, *, again: bool) -> frozenset[str]:
        asked = topic.spec.reassignment
        declared = None if again or asked is None else asked.approved_plan
        return frozenset(text for text in (self._annotation(TOPIC, topic.meta), declared) if text)

    def _annotation(self, kind: str, meta: Meta) -> str | None:
        """Return the annotation, or the removed annotation of a plan that has not begun."""
        annotation = meta.annotations.get(APPROVE_PLAN)
        if annotation or not self._in_hand:
            return annotation
        return self._in_hand.get(ObjectRef(kind, meta.key, meta.uid))


def _together(names: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset(chain.from_iterable(names))


def _hashes(text: str | None) -> frozenset[str]:
    """Return the hashes of an approval, which are separated by commas."""
    return frozenset(one.strip() for one in (text or "").split(",")[:MAX_APPROVED] if one.strip())


def may_approve(key: ObjectKey, topology: RackTopology) -> bool:
    """Return whether a KafkaTopic may approve its own part."""
    return topology.spec.reassignment.topic_approval.to(key.namespace, topology.meta.namespace)

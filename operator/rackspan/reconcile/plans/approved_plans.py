"""Approved plans as Reassignments: created from a plan, carried out one after the other, and read back as records."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rackspan.api import reassignment as api
from rackspan.api.labels import API_VERSION, FINALIZER, PLAN, SCAN_TOPOLOGY, WHOLE_PLAN
from rackspan.api.racktopology import KIND as TOPOLOGY
from rackspan.api.reasons import Reason
from rackspan.api.reassignment import ReassignmentState
from rackspan.core.reassignment import Racks, SetThrottle, Setting, SettingKind, WaitReason, of_change
from rackspan.core.reassignment.throttles import FOLLOWERS, LEADERS, RATES
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.plans.plan_documents import (
    UNREADABLE,
    TooLargeError,
    packed,
    plan_document,
    progress_document,
    record_of,
    unpacked,
    with_progress,
)
from rackspan.reconcile.ports import Record
from rackspan.reconcile.runtime.informer import key_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology
    from rackspan.api.reassignment import Reassignment
    from rackspan.core.planning import Change
    from rackspan.core.reassignment import TopicPartition
    from rackspan.reconcile.cache import Cache
    from rackspan.reconcile.ports import JsonObject, ReassignmentObjects, Replicas

_MOST_PARTITIONS = 10_000
"""The limit of one Reassignment: 250 kB of text if racks, brokers and sizes are as diverse as possible."""
MOST_NAMES = 4_000
"""The maximum number of hashes of one plan: an annotation of 132 kB."""
_RATE = "100000000000"
"""A rate in bytes per second of the maximum length. An adaptive throttle may have set two rates."""
_LONGEST_PREFIX = 200
_LONGEST_LABEL = 63
_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovedPlan(Record):
    """A plan that a person or a policy has approved: the record with which it begins.

    `changes` are those of existing partitions, with sizes if known. `approved_by` says in words who or what approved
    the plan. `names` are the hashes of the whole plan and of the namespaces' and topics' parts that it contains, wholly
    or partly.
    """

    approved_by: str
    names: tuple[str, ...]


class UnreadablePlanError(ValueError):
    """The plan or the record of a Reassignment is invalid; the message says why."""


def reassignments_of(topology: RackTopology, plan: ApprovedPlan) -> Sequence[JsonObject]:
    """Return the objects of a plan, with the same names at each call; the partitions in the fewest domains first.

    Raises FailureError if the racks alone are too large for one object.
    """
    racks = Racks(plan.racks)
    changes = sorted(
        (change for change in plan.changes if change.before),
        key=lambda one: (racks.spread(one.before), one.topic, one.partition),
    )
    texts = [
        text
        for start in range(0, max(len(changes), 1), _MOST_PARTITIONS)
        for text in _texts(plan, changes[start : start + _MOST_PARTITIONS])
    ]
    return [_object(topology, plan, text, part, len(texts)) for part, text in enumerate(texts, start=1)]


def name_of(topology: str, plan_hash: str, part: int, parts: int) -> str:
    """Return the name of a Reassignment: its topology, the plan's hash, and its part if there are several."""
    name = f"{topology[:_LONGEST_PREFIX].rstrip('-.')}-{plan_hash}"
    return name if parts == 1 else f"{name}-{part}"


def record_from(reassignment: Reassignment, plan: str) -> Record:
    """Return the record in a Reassignment's `spec.plan` with its recorded progress. Raises UnreadablePlanError."""
    spec = reassignment.spec
    try:
        record = record_of(unpacked(plan))
        if reassignment.status.record is not None:
            record = with_progress(record, unpacked(reassignment.status.record))
    except UNREADABLE as error:
        raise UnreadablePlanError(f"the plan cannot be read: {str(error)[:_SHOWN]}") from error
    if len(record.changes) > _MOST_PARTITIONS:
        raise UnreadablePlanError(f"the plan has more than {_MOST_PARTITIONS:,} partitions")
    if record.plan_hash != spec.plan_hash:
        raise UnreadablePlanError(f"the plan is {record.plan_hash[:_SHOWN]}, and planHash is {spec.plan_hash}")
    wrong = next(filter(None, map(_wrong, record.changes)), None)
    if wrong is not None:
        raise UnreadablePlanError(wrong)
    return record


def _texts(plan: ApprovedPlan, changes: Sequence[Change]) -> Iterator[str]:
    """Yield texts of changes, as few as needed so that each text, and any record of it, fits into an object."""
    try:
        part = replace(plan, changes=changes)
        text = packed({**plan_document(part), **progress_document(part)}, api.MAX_PLAN)
        packed(progress_document(_all_begun(plan, changes)), api.MAX_PLAN * 7 // 8)  # a smaller one may compress worse
    except TooLargeError as error:
        if len(changes) <= 1:
            what = f"the racks of {len(plan.racks):,} brokers fit into no Reassignment, which then {error}"
            raise FailureError(Failure(Reason.TOO_LARGE, what, Remedy.SPEC)) from error
    else:
        yield text
        return
    middle = len(changes) // 2
    yield from _texts(plan, changes[:middle])
    yield from _texts(plan, changes[middle:])


def _all_begun(plan: ApprovedPlan, changes: Sequence[Change]) -> Record:
    """Return the largest record: each partition has begun a step and waits, each topic and broker is throttled."""
    started: dict[TopicPartition, Replicas] = {}
    throttled: defaultdict[Setting, list[str]] = defaultdict(list)
    for one in changes:
        at = of_change(one)
        started[at] = tuple(dict.fromkeys((*one.before, *one.replicas)))
        for key, brokers in ((LEADERS, started[at]), (FOLLOWERS, one.added)) if one.copied else ():
            throttled[Setting(SettingKind.TOPIC, one.topic, key)] += [f"{one.partition}:{broker}" for broker in brokers]
    for broker in set().union(*started.values()):
        throttled |= {Setting(SettingKind.BROKER, str(broker), key): [_RATE, _RATE] for key in RATES}
    throttles = {setting: SetThrottle(None, (",".join(sorted(names)),)) for setting, names in throttled.items()}
    return replace(plan, started=started, throttles=throttles)


def _object(topology: RackTopology, plan: ApprovedPlan, text: str, part: int, parts: int) -> JsonObject:
    key = topology.key
    return {
        "apiVersion": API_VERSION,
        "kind": api.KIND,
        "metadata": {
            "name": name_of(key.name, plan.plan_hash, part, parts),
            "namespace": key.namespace,
            "labels": {PLAN: plan.plan_hash, SCAN_TOPOLOGY: key.name[:_LONGEST_LABEL].rstrip("-.")},
            "annotations": {WHOLE_PLAN: ",".join(plan.names[:MOST_NAMES])},
            "finalizers": [FINALIZER],
            "ownerReferences": [
                {"apiVersion": API_VERSION, "kind": TOPOLOGY, "name": key.name, "uid": topology.meta.uid}
            ],
        },
        "spec": {
            "topologyRef": {"name": key.name},
            "planHash": plan.plan_hash,
            "part": part,
            "parts": parts,
            "plan": text,
            "approvedBy": plan.approved_by[:1024],
        },
    }


def _wrong(change: Change) -> str | None:
    """Return why a change cannot be carried out, or None. Any client may have written it."""
    for replicas in (change.before, change.replicas):
        if not replicas or len(set(replicas)) != len(replicas):
            return f"{change.topic[:_SHOWN]!a}, partition {change.partition}: its replicas are not different brokers"
    return None


_FINAL = frozenset(one for one in WaitReason if one.final)
"""The reasons for which partitions are given up."""


@dataclass(frozen=True, slots=True)
class BegunPlan:
    """A plan that was begun: its first Reassignment, and the hashes of the plan and its namespaces' and topics' parts.

    If the plan is very large, the hashes of some topics' parts are `missing`. It has `ended` once all parts have.
    """

    name: str
    names: frozenset[str]
    succeeded: bool
    missing: bool
    ended: bool


class ApprovedPlans:
    """Creates the Reassignments of approved plans, and finds those that have not ended in the cache."""

    def __init__(self, cache: Cache, objects: ReassignmentObjects) -> None:
        self._cache = cache
        self._objects = objects

    async def begin(self, topology: RackTopology, plan: ApprovedPlan) -> str:
        """Create the Reassignments of an approved plan. Return the name of the first one.

        The names depend on topology and hash, so a repeated call changes nothing while the plan waits or is under way.
        A plan that has ended begins again. Raises FailureError if the API server does not accept an object.
        """
        bodies = await asyncio.to_thread(reassignments_of, topology, plan)  # seconds for 100,000 partitions
        known = [one for one in in_order(self._cache, topology.key) if one.spec.plan_hash == plan.plan_hash]
        if known and all(one.ended for one in known):
            for one in known:
                await self._objects.delete(one)
            known = []
        there = {one.spec.part for one in known if one.spec.parts == len(bodies)}
        for body in bodies:
            if body["spec"]["part"] not in there:
                await self._create(body)
        return str(bodies[0]["metadata"]["name"])

    def active(self, topology: ObjectKey) -> str | None:
        """Return the name of a topology's first Reassignment that waits or is under way, None if all have ended."""
        return next((one.meta.name for one in in_order(self._cache, topology) if not one.ended), None)

    def begun_before(self, topology: ObjectKey) -> Sequence[BegunPlan]:
        """Return the plans that were begun on a topology and still have objects, also before a restart, in order.

        A plan with parts that could not be created is stopped before it changes anything, and counts as not begun.
        """
        plans: defaultdict[str, list[Reassignment]] = defaultdict(list)
        for one in in_order(self._cache, topology):
            plans[one.spec.plan_hash].append(one)
        return [_begun(parts) for parts in plans.values() if not _changes_nothing(parts)]

    async def held_by_min_insync(self, topology: ObjectKey) -> Sequence[Change]:
        """Return all changes of the running Reassignment if only min.insync.replicas holds it up, else none.

        Raises FailureError.
        """
        for one in in_order(self._cache, topology):
            if one.status.state is ReassignmentState.RUNNING and _only_min_insync_holds(one):
                plan = await self._objects.plan(one)
                try:
                    return () if plan is None else (await asyncio.to_thread(record_from, one, plan)).changes
                except UnreadablePlanError:
                    return ()  # reported by its own status
        return ()

    async def _create(self, body: JsonObject) -> None:
        written = await self._objects.create(body)
        key = key_of(body)
        if written is not None:
            # Do not record its version: then the watch event counts as a change, and wakes the worker.
            if (seen := self._cache.reassignments.get(key)) is None or seen.meta.uid != written["metadata"]["uid"]:
                self._cache.put_reassignment(written)
        elif (known := self._cache.reassignments.get(key)) is None or known.ended:
            what = f"Reassignment {key} already exists, and is not known yet or has ended: the operator tries again"
            raise FailureError(Failure(Reason.API_SERVER_REFUSED, what, Remedy.RETRY))


def _only_min_insync_holds(one: Reassignment) -> bool:
    """Return whether some partitions wait for a lower min.insync.replicas, and others at most for their turn."""
    waiting = one.status.waiting
    reasons = {found.reason for found in waiting.reasons} if waiting is not None else set()
    return WaitReason.MIN_INSYNC in reasons and reasons <= {WaitReason.MIN_INSYNC, WaitReason.LIMIT, *_FINAL}


def _begun(parts: Sequence[Reassignment]) -> BegunPlan:
    whole = parts[0].meta.annotations.get(WHOLE_PLAN, parts[0].spec.plan_hash)
    names = frozenset(whole.split(","))
    succeeded = all(one.status.state is ReassignmentState.SUCCEEDED for one in parts)
    ended = all(one.ended for one in parts)
    return BegunPlan(parts[0].meta.name, names, succeeded, len(names) >= MOST_NAMES, ended)


def _changes_nothing(parts: Sequence[Reassignment]) -> bool:
    """Return whether a plan was stopped before it changed anything, or will be, because parts of it are missing."""
    idle: set[str] = {ReassignmentState.STOPPED}
    if len(parts) < parts[0].spec.parts:
        idle.add(ReassignmentState.QUEUED)
    return all(one.state_name in idle and one.status.started_at is None and not one.spec.cancelled for one in parts)


def in_order(cache: Cache, topology: ObjectKey) -> Sequence[Reassignment]:
    """Return a topology's Reassignments in the order of their turns: plans by age, the parts of each by number."""
    mine = sorted(cache.reassignments_of(topology), key=lambda one: one.meta.age)
    since: dict[str, int] = {}
    for place, one in enumerate(mine):
        since.setdefault(one.spec.plan_hash, place)
    return sorted(mine, key=lambda one: (since[one.spec.plan_hash], one.spec.part))

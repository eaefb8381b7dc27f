"""Approved plans become Reassignments, carried out one after the other on each topology."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackspan.api.labels import WHOLE_PLAN
from rackspan.api.reasons import Reason
from rackspan.api.reassignment import ReassignmentState
from rackspan.core.reassignment import WaitReason
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.plans.reassignment_plans import MOST_NAMES, UnreadablePlanError, reassignments_of, record_from
from rackspan.reconcile.runtime.informer import key_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology
    from rackspan.api.reassignment import Reassignment
    from rackspan.core.planning import Change
    from rackspan.reconcile.cache import Cache
    from rackspan.reconcile.plans.reassignment_plans import ApprovedPlan
    from rackspan.reconcile.ports import JsonObject
    from rackspan.reconcile.reassignment_ports import ReassignmentObjects


_FINAL = frozenset(one for one in WaitReason if one.final)
"""What partitions are given up for."""


@dataclass(frozen=True, slots=True)
class BegunPlan:
    """A plan that was begun: its first Reassignment, and the hashes of the plan and its namespaces' and topics' parts.

    Of a very large plan the hashes of some topics' parts are `missing`.
    """

    name: str
    names: frozenset[str]
    succeeded: bool
    missing: bool = False


class ApprovedPlans:
    """Makes the Reassignments of approved plans, and knows from the cache what has not ended."""

    def __init__(self, cache: Cache, objects: ReassignmentObjects) -> None:
        self._cache = cache
        self._objects = objects

    async def begin(self, topology: RackTopology, plan: ApprovedPlan) -> str:
        """
        Have an approved plan carried out; the name of its first Reassignment.

        Named after topology and hash, so that asking again changes nothing while it is waiting or under way; one that
        has ended is begun anew. Raises FailureError where the API server does not take it.
        """
        bodies = await asyncio.to_thread(reassignments_of, topology, plan)  # a second for 100,000 partitions
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
        """The name of the first Reassignment of a topology that waits or is under way, None where all have ended."""
        return next((one.meta.name for one in in_order(self._cache, topology) if not one.ended), None)

    def begun_before(self, topology: ObjectKey) -> Sequence[BegunPlan]:
        """The plans that were begun on a topology and of which objects are left, also before a restart, in order.

        One that was stopped before it changed anything, as where not all of it could be made, counts as not begun.
        """
        plans: defaultdict[str, list[Reassignment]] = defaultdict(list)
        for one in in_order(self._cache, topology):
            plans[one.spec.plan_hash].append(one)
        return [_begun(parts) for parts in plans.values() if not all(map(_changed_nothing, parts))]

    async def held_by_min_insync(self, topology: ObjectKey) -> Sequence[Change]:
        """
        All changes of what is under way, if nothing but min.insync.replicas holds up some of them; else none.

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
            # Its version is not recorded: the watch event that follows is news, and wakes who carries it out.
            if (seen := self._cache.reassignments.get(key)) is None or seen.meta.uid != written["metadata"]["uid"]:
                self._cache.put_reassignment(written)
        elif (known := self._cache.reassignments.get(key)) is None or known.ended:
            what = f"Reassignment {key} is there already, and not known or on its way out: tried again"
            raise FailureError(Failure(Reason.API_SERVER_REFUSED, what, Remedy.RETRY))


def _only_min_insync_holds(one: Reassignment) -> bool:
    """Whether some partitions wait for min.insync.replicas to be lowered, and others for their turn or for nothing."""
    waiting = one.status.waiting
    reasons = {found.reason for found in waiting.reasons} if waiting is not None else set()
    return WaitReason.MIN_INSYNC in reasons and reasons <= {WaitReason.MIN_INSYNC, WaitReason.LIMIT, *_FINAL}


def _begun(parts: Sequence[Reassignment]) -> BegunPlan:
    whole = parts[0].meta.annotations.get(WHOLE_PLAN, parts[0].spec.plan_hash)
    names = frozenset(whole.split(","))
    succeeded = all(one.status.state is ReassignmentState.SUCCEEDED for one in parts)
    return BegunPlan(parts[0].meta.name, names, succeeded, missing=len(names) >= MOST_NAMES)


def _changed_nothing(one: Reassignment) -> bool:
    stopped = one.status.state is ReassignmentState.STOPPED and not one.spec.cancelled
    return stopped and one.status.started_at is None


def in_order(cache: Cache, topology: ObjectKey) -> Sequence[Reassignment]:
    """The Reassignments of a topology in the order of their turns: plans by age, and the parts of each by number."""
    mine = sorted(
        (one for one in cache.reassignments.values() if one.topology == topology), key=lambda one: one.meta.age
    )
    since: dict[str, int] = {}
    for place, one in enumerate(mine):
        since.setdefault(one.spec.plan_hash, place)
    return sorted(mine, key=lambda one: (since[one.spec.plan_hash], one.spec.part))

"""
A plan carried out pass by pass.

A pass observes, decides, records and calls, in this order, and may end anywhere: the next pass, of this process or of
another one with the same record, goes on from what Kafka says.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rackspan.core.reassignment import (
    Observed,
    Racks,
    SettingKind,
    Waiting,
    WaitReason,
    cancel,
    decide,
    of_change,
    progress_of,
    wanted_throttles,
)
from rackspan.reconcile.reassignments.throttling import Throttles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rackspan.core.planning import Change
    from rackspan.core.reassignment import Decision, Disk, Limits, Progress, Setting, TopicPartition
    from rackspan.reconcile.failures import Failure
    from rackspan.reconcile.ports import ClusterDescription
    from rackspan.reconcile.reassignments.ports import Journal, ReassignmentAdmin, Record, Replicas

_PASSES_UNTIL_STALE = 20
"""Passes for which disks and min.insync.replicas are remembered."""
_PASSES_UNTIL_SURE = 3
"""Passes until what others seem to have done counts: a broker's metadata can be behind the controller's."""


class StoppedError(Exception):
    """The plan cannot be carried out as it is; the message says why."""


@dataclass(frozen=True, slots=True)
class Pass:
    """
    What came of one pass.

    `partial_bytes` are those of replicas that are being copied and not in sync yet, which `progress` does not count.
    `waiting` are partitions that nothing is done about, `failures` what Kafka refused, in words, and `throttles` how
    many throttles are set. It is `finished` when nothing is under way or left to do but what no waiting helps, and no
    throttle is left but on brokers that are away.
    """

    progress: Progress
    partial_bytes: int
    finished: bool
    copying: int
    waiting: Sequence[Waiting]
    failures: Sequence[str]
    throttles: int

    @property
    def complete(self) -> bool:
        """Whether all is done, and nothing left over."""
        return self.finished and not self.waiting and not self.throttles


class Executor:
    """One plan on one cluster. `throttle` is in bytes per second and broker, None for none."""

    def __init__(
        self, admin: ReassignmentAdmin, journal: Journal, record: Record, limits: Limits, throttle: int | None = None
    ) -> None:
        self.record = record
        self._admin = admin
        self._journal = journal
        self._limits = limits
        self._rate = throttle
        self._racks = Racks(record.racks)
        self._throttles = Throttles(admin, self._save)
        self._started: dict[TopicPartition, Replicas] = dict(record.started)
        """Also of settled partitions: metadata that is older than their last step must not start them anew."""
        self._seen: dict[TopicPartition, Replicas] = {}
        """Lists asked for, of which the reassignment was seen under way."""
        self._missed: Counter[TopicPartition] = Counter()
        self._taken_over: set[TopicPartition] = set()
        self._settled: set[TopicPartition] = set()
        self._min_insync: Mapping[str, int] = {}
        self._disks: Mapping[int, Disk] = {}
        self._sizes: dict[TopicPartition, int] = {
            of_change(change): change.size_bytes for change in record.changes if change.size_bytes is not None
        }
        self._passes = 0
        self._idle_passes = 0

    async def advance(self) -> Pass:
        """Carry out one pass. Raises StoppedError, OSError, and FailureError where Kafka does not answer."""
        return await self._carry_on(self._limits)

    async def wind_down(self) -> Pass:
        """Carry out one pass that begins no copy; those under way end, still throttled. Raises as `advance` does."""
        return await self._carry_on(replace(self._limits, moves=0))

    async def _carry_on(self, limits: Limits) -> Pass:
        observed, open_ = await self._observe()
        decision, failed = await self._throttled(open_, observed, limits)
        decision = self._without_taken_over(observed, decision)
        await self._remember(decision)
        refused = {
            **(await self._admin.alter(decision.alter) if decision.alter else {}),
            **(await self._admin.elect(decision.elect) if decision.elect else {}),
        }
        self._settled |= decision.settled
        failed |= await self._clear(self._unneeded(decision), observed)
        return await self._concluded(observed, decision, [*_told(refused), *_told(failed)])

    async def take_back(self) -> Pass:
        """Carry out one pass of cancelling what is under way. Raises as `advance` does."""
        observed, open_ = await self._observe()
        decision = cancel(open_, observed, self._started, self._racks)
        await self._remember(decision)
        refused = await self._admin.alter(decision.alter) if decision.alter else {}
        failed = {} if decision.alter else await self._clear(list(self.record.throttles), observed)
        return await self._concluded(observed, decision, [*_told(refused), *_told(failed)])

    async def pause(self) -> Pass:
        """Clear all throttles and start nothing; what is under way goes on in Kafka. Raises as `advance` does."""
        observed, open_ = await self._observe()
        failed = await self._clear(list(self.record.throttles), observed)
        decision = decide(open_, observed, self._started, replace(self._limits, moves=0), self._racks)
        return await self._concluded(observed, decision, _told(failed))

    async def clear_throttles(self) -> None:
        """Clear all throttles that can be, whatever has become of the plan. Raises FailureError."""
        cluster = await self._admin.cluster()
        if cluster.cluster_id == self.record.cluster_id:
            online = {broker.id for broker in cluster.brokers}
            self.record, _ = await self._throttles.clear(self.record, list(self.record.throttles), online)

    async def look(self) -> Pass:
        """Say how far it is, and change nothing. Raises as `advance` does."""
        observed, open_ = await self._observe()
        decision = decide(open_, observed, self._started, replace(self._limits, moves=0), self._racks)
        self._settled |= decision.settled
        return await self._concluded(observed, decision, ())

    async def _observe(self) -> tuple[Observed, list[Change]]:
        cluster = await self._admin.cluster()
        self._refuse_changed(cluster)
        online = frozenset(broker.id for broker in cluster.brokers)
        done = self._settled | self._taken_over
        open_ = [change for change in self.record.changes if of_change(change) not in done]
        topics = {change.topic for change in open_}
        if self._passes % _PASSES_UNTIL_STALE == 0:
            self._min_insync = await self._admin.min_insync(topics)
            self._disks = await self._admin.disks(online)
        partitions = await self._admin.partitions(topics)
        if self._passes == 0:
            moved = [of_change(change) for change in open_ if change.copied]
            states = [(at, partitions[at]) for at in moved if at in partitions]
            sizes = await self._admin.sizes({at: [one.leader] for at, one in states if one.leader is not None})
            self._sizes |= {at: size for (at, _), size in sizes.items()}
        self._passes += 1
        return Observed(partitions, online, self._min_insync, self._disks, self._sizes), open_

    def _refuse_changed(self, cluster: ClusterDescription) -> None:
        if cluster.cluster_id != self.record.cluster_id:
            raise StoppedError(
                f"the plan is for the cluster {self.record.cluster_id}, and this one is {cluster.cluster_id}"
            )
        for broker in cluster.brokers:
            known = self.record.reported_racks.get(broker.id, broker.rack)
            if known != broker.rack:
                raise StoppedError(
                    f"broker {broker.id} stood in rack {known} when the plan was made, and stands in {broker.rack} now"
                )

    async def _throttled(
        self, open_: Sequence[Change], observed: Observed, limits: Limits
    ) -> tuple[Decision, dict[Setting, Failure]]:
        """Decide, with throttles set before anything is copied; a broker that takes no throttle takes no copies."""
        failed: dict[Setting, Failure] = {}
        while True:
            decision = decide(open_, observed, self._started, limits, self._racks)
            if self._rate is None:
                return decision, failed
            changes, copying = self.record.changes, decision.copying
            settings = wanted_throttles(changes, copying, observed, self._rate, {})
            before, wrong = await self._throttles.before(self.record, settings)
            wanted = wanted_throttles(changes, copying, observed, self._rate, before)
            able = {one: value for one, value in wanted.items() if one not in wrong}
            self.record, refused = await self._throttles.set(self.record, able, before)
            wrong |= refused
            failed |= wrong
            brokers = {int(one.name) for one in wrong if one.kind is SettingKind.BROKER}
            if not brokers:
                topics = {one.name for one in wrong}
                kept = {at: new for at, new in decision.alter.items() if at.topic not in topics}
                return replace(decision, alter=kept), failed
            observed = replace(observed, online=observed.online - brokers)

    def _without_taken_over(self, observed: Observed, decision: Decision) -> Decision:
        """Leave alone what somebody else has cancelled, once it is sure that metadata is not only behind."""
        for at in decision.copying:
            state = observed.partitions.get(at)
            if state is not None and state.under_way:
                self._seen[at] = self._started[at]
                self._missed.pop(at, None)
        alter, waiting = dict(decision.alter), list(decision.waiting)
        for at, replicas in decision.alter.items():
            if replicas is None or self._seen.get(at) != replicas or self._started.get(at) != replicas:
                continue
            del alter[at]
            self._missed[at] += 1
            if self._missed[at] >= _PASSES_UNTIL_SURE:
                self._taken_over.add(at)
            else:
                waiting.append(Waiting(at, WaitReason.LIMIT))
        return replace(decision, alter=alter, waiting=tuple(waiting))

    async def _remember(self, decision: Decision) -> None:
        new = {at: replicas for at, replicas in decision.alter.items() if replicas is not None}
        if any(self._started.get(at) != replicas for at, replicas in new.items()):
            self._started |= new
            done = self._settled | decision.settled
            started = {at: replicas for at, replicas in self._started.items() if at not in done}
            await self._save(replace(self.record, started=started))

    async def _save(self, record: Record) -> None:
        await self._journal.write(record)
        self.record = record

    def _unneeded(self, decision: Decision) -> list[Setting]:
        """Throttles that nothing under way or left to do has a use for."""
        if self._rate is None or not decision.copying:
            return list(self.record.throttles)
        left = [change for change in self.record.changes if change.copied and of_change(change) not in self._settled]
        topics = {change.topic for change in left}
        brokers = {str(broker) for change in left for broker in (*change.before, *change.replicas)}
        needed = {SettingKind.TOPIC: topics, SettingKind.BROKER: brokers}
        return [one for one in self.record.throttles if one.name not in needed[one.kind]]

    async def _clear(self, some: Sequence[Setting], observed: Observed) -> dict[Setting, Failure]:
        self.record, failed = await self._throttles.clear(self.record, some, observed.online)
        return failed

    async def _concluded(self, observed: Observed, decision: Decision, failures: Sequence[str]) -> Pass:
        waiting = [
            *decision.waiting,
            *(Waiting(at, WaitReason.CHANGED_BY_OTHERS) for at in sorted(self._taken_over)),
        ]
        idle = decision.idle and not failures and all(one.reason.final for one in waiting)
        self._idle_passes = self._idle_passes + 1 if idle else 0
        return Pass(
            progress_of(self.record.changes, observed, self._settled),
            await self._copied_so_far(observed, decision),
            idle and (not waiting or self._idle_passes >= _PASSES_UNTIL_SURE),
            len(decision.copying),
            waiting,
            failures,
            len(self.record.throttles),
        )

    async def _copied_so_far(self, observed: Observed, decision: Decision) -> int:
        states = {at: observed.partitions[at] for at in decision.copying if at in observed.partitions}
        behind = {at: (one.adding - one.in_sync) & observed.online for at, one in states.items()}
        if not any(behind.values()):
            return 0
        sizes = await self._admin.sizes(behind)
        return sum(min(size, self._sizes.get(at, size)) for (at, _), size in sizes.items())


def _told(outcomes: Mapping[Setting, Failure | None] | Mapping[TopicPartition, Failure | None]) -> list[str]:
    return [f"{' '.join(map(str, at))}: {failure.message}" for at, failure in outcomes.items() if failure is not None]

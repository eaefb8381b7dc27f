"""The executor, which carries out a plan pass by pass.

A pass observes, decides, records and calls, in this order, and may end anywhere. The next pass, of this process or of
another one with the same record, continues from the state of Kafka.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rackspan.api.reasons import Reason
from rackspan.core.reassignment import (
    Claims,
    Racks,
    SettingKind,
    Tally,
    ThrottledReplicas,
    Waiting,
    WaitReason,
    Worklist,
    cancel,
    decide,
    of_change,
    wanted_lists,
    wanted_throttles,
)
from rackspan.core.reassignment.claims import PASSES_UNTIL_SURE
from rackspan.reconcile.plans.pass_reader import PASSES_UNTIL_STALE, PassReader
from rackspan.reconcile.plans.refusals import Refusals
from rackspan.reconcile.plans.throttling import Pacer, Throttles

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from rackspan.core.planning import Change
    from rackspan.core.reassignment import (
        Adaptive,
        Limits,
        MoveDecision,
        Observed,
        PaceReason,
        Progress,
        Setting,
        TopicPartition,
    )
    from rackspan.reconcile.failures import Failure
    from rackspan.reconcile.ports import (
        BrokerDescription,
        ClusterDescription,
        Journal,
        ReassignmentAdmin,
        Record,
    )

_WINDOW = 1_000
"""The number of partitions that a pass checks besides those under way: about as many as a Metadata call returns."""


class StoppedError(Exception):
    """The plan cannot be carried out; the message says why."""


@dataclass(frozen=True, slots=True)
class Pass:
    """The result of one pass.

    `partial_bytes` are the bytes copied of replicas that are not in sync yet; `progress` does not count them. `waiting`
    are the partitions that wait or are given up, `failures` sentences about what Kafka refused. `throttles` is the
    number of throttles that are set, `rate` their bytes per second and broker (None for no limit), and `pace` the
    reason for an adaptive rate. `left_alone` describes throttles of other clients in the place of ours. `reached` is
    the same in two passes if nothing was done in between: partitions left, replicas in sync, and bytes of those not in
    sync. It differs if a broker does not report these bytes. `under_way` is the number of reassignments of ours, also
    to offline brokers. A pass is `finished` if nothing is under way or left to do except what waiting does not help,
    and no throttle is left except on offline brokers. `as_planned` says whether all partitions have the replicas of
    the plan.
    """

    progress: Progress
    partial_bytes: int
    finished: bool
    copying: int
    waiting: Sequence[Waiting]
    failures: Sequence[str]
    throttles: int
    left_alone: Sequence[str]
    rate: int | None
    pace: PaceReason | None
    reached: tuple[int, int, int]
    under_way: int
    as_planned: bool

    @property
    def others(self) -> str:
        """A sentence about the throttles of other clients that are left alone; empty if there are none."""
        if not self.left_alone:
            return ""
        more = f", and {len(self.left_alone) - 1:,} more" if len(self.left_alone) > 1 else ""
        return f"throttles that others have set are left alone: {self.left_alone[0]}{more}"


class Executor:
    """Carries out one plan on one cluster. `throttle` is in bytes per second and broker, or adaptive, or None.

    If more than `window` partitions are left, not every pass reads all of them.
    """

    def __init__(
        self,
        admin: ReassignmentAdmin,
        journal: Journal,
        record: Record,
        limits: Limits,
        throttle: int | Adaptive | None = None,
        *,
        window: int = _WINDOW,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.record = record
        self._admin = admin
        self._journal = journal
        self._limits = limits
        self._drained: frozenset[int] = frozenset()
        self._racks = Racks(record.racks)
        self._claims = Claims(record.started, record.left)
        self._refusals = Refusals()
        self._led: Collection[TopicPartition] = ()
        """The partitions for which the last pass requested a leader election."""
        self._worklist = Worklist(record.changes, window, PASSES_UNTIL_STALE)
        self._worklist.leave(record.left)
        self._window = window
        self._reader = PassReader(admin, record, self._worklist)
        self._tally = Tally(record.changes, self._reader.sizes)
        self._online: frozenset[int] | None = None
        self._idle_passes = 0
        self._pacer = Pacer(admin, throttle, clock)
        self._throttles = Throttles(admin, self._save)
        self._throttled_replicas = ThrottledReplicas(record.changes)
        self._users: Counter[tuple[SettingKind, str]] = Counter()
        """The number of partitions left that may need a throttle, by the topic or broker that it is set on."""
        for change in record.changes:
            self._users.update(_throttled_by(change))

    def over(self, admin: ReassignmentAdmin) -> Executor:
        """Return an executor of the same record over another connection."""
        return Executor(admin, self._journal, self.record, self._limits)

    def adjust(self, limits: Limits, throttle: int | Adaptive | None, drained: frozenset[int] = frozenset()) -> None:
        """Use other limits from the next pass on. Throttles that are set change then, or are cleared.

        Copies to brokers that are `drained` and cordoned are given up: neither state ends before the plan does.
        """
        self._limits = limits
        self._drained = drained
        self._pacer.adjust(throttle)

    async def advance(self) -> Pass:
        """Carry out one pass. Raises StoppedError, OSError, and FailureError if Kafka does not respond."""
        return await self._carry_on(self._limits)

    async def wind_down(self) -> Pass:
        """Carry out one pass that starts no copy. Copies under way end, still throttled. Raises like `advance`."""
        return await self._carry_on(replace(self._limits, moves=0))

    async def _carry_on(self, limits: Limits) -> Pass:
        observed, looked_at = await self._observe(limits)
        if self._reader.copying:
            await self._pacer.look(observed)
        decision, failed = await self._throttled(looked_at, observed, limits)
        decision, lost = self._claims.without_taken_over(decision, observed)
        self._worklist.leave(lost)
        await self._remember(decision, observed)
        self._settle(decision.settled)
        failed |= await self._clear(self._unneeded(decision, observed), observed)
        refused = {
            **(await self._altered(decision, observed)),
            **(await self._admin.elect(decision.elect) if decision.elect else {}),
        }
        self._led = decision.elect
        decision = self._without_refused(decision, refused, observed)
        return await self._concluded(observed, looked_at, decision, [*_sentences(refused), *_sentences(failed)])

    async def take_back(self) -> Pass:
        """Carry out one pass that cancels the moves under way. Raises like `advance`."""
        observed, looked_at = await self._observe()
        decision = cancel(looked_at.values(), observed, self._claims.asked, self._racks)
        await self._remember(decision, observed)
        if decision.alter:
            failed = await self._relieve_those_in_sync(looked_at, observed)
        else:
            failed = await self._clear(list(self.record.throttles), observed)
        refused = await self._altered(decision, observed)
        done = {at: new for at, new in decision.alter.items() if refused.get(at) is None}
        decision = replace(decision, alter=done, settled=frozenset())
        return await self._concluded(observed, looked_at, decision, [*_sentences(refused), *_sentences(failed)])

    async def _relieve_those_in_sync(
        self, looked_at: Mapping[TopicPartition, Change], observed: Observed
    ) -> dict[Setting, Failure]:
        """Remove in-sync replicas from the throttled ones: a change of their replica list would throttle them."""
        replicas = self._throttled_replicas
        replicas.learn(looked_at.values(), observed)
        replicas.move(self._claims.begun)
        self.record, failed = await self._throttles.set(self.record, wanted_lists(replicas, self._throttled_topics))
        empty = [one for one in self.record.throttles if replicas.is_empty(one)]
        return failed | await self._clear(empty, observed)

    async def _altered(self, decision: MoveDecision, observed: Observed) -> Mapping[TopicPartition, Failure | None]:
        if not decision.alter:
            return {}
        states = observed.partitions
        same_size = {
            at for at, new in decision.alter.items() if new is not None and len(new) == states[at].replication_factor
        }
        outcomes = await self._admin.alter(decision.alter, same_size)
        return {
            at: failure and _explained(failure, observed.cordoned.intersection(decision.alter[at] or ()))
            for at, failure in outcomes.items()
        }

    async def pause(self) -> Pass:
        """Clear all throttles and start nothing. Moves under way continue in Kafka. Raises like `advance`."""
        observed, looked_at = await self._observe()
        failed = await self._clear(list(self.record.throttles), observed)
        decision = await self._decided(looked_at, observed, replace(self._limits, moves=0))
        return await self._concluded(observed, looked_at, replace(decision, settled=frozenset()), _sentences(failed))

    async def clear_throttles(self) -> None:
        """Clear all throttles that can be cleared, in any state of the plan. Raises FailureError and OSError."""
        cluster = await self._admin.cluster()
        if cluster.cluster_id == self.record.cluster_id:
            online = {broker.id for broker in cluster.brokers}
            if topics := self._throttled_topics:
                # Not saved before the throttles are cleared: the object of the record may be gone.
                self.record = self._disowned(self._reader.recreated(await self._admin.partitions(topics)))
            self.record, _ = await self._throttles.clear(self.record, list(self.record.throttles), online)

    async def look(self) -> Pass:
        """Return the progress, and change nothing. Raises like `advance`."""
        observed, looked_at = await self._observe()
        decision = await self._decided(looked_at, observed, replace(self._limits, moves=0))
        self._settle(decision.settled)
        return await self._concluded(observed, looked_at, decision, ())

    async def _observe(self, limits: Limits | None = None) -> tuple[Observed, Mapping[TopicPartition, Change]]:
        """Return the observed state and the changes to check: the next ones within `limits`, or all that are left."""
        cluster = await self._admin.cluster()
        if cluster.cluster_id != self.record.cluster_id:
            raise StoppedError(
                f"the plan is for the cluster {self.record.cluster_id}, and this one is {cluster.cluster_id}"
            )
        if limits is not None:  # cancelling, pausing and looking do not depend on racks
            self._refuse_moved_brokers(cluster)
        online = frozenset(broker.id for broker in cluster.brokers)
        if limits is None or online != self._online:
            looked_at = self._worklist.look_at_all()
        else:
            looked_at = self._worklist.look([*self._claims.begun, *self._led], limits)
        self._online = online
        observed = await self._reader.read(online, looked_at, self._throttled_topics, may_copy=limits is not None)
        record = self._disowned(observed.recreated)
        if len(record.throttles) < len(self.record.throttles):
            await self._save(record)
        self._refusals.forgive(observed.cordoned)
        refused = self._refusals.brokers | (self._drained & observed.cordoned)
        return replace(observed, refused=refused, replaced=self.record.cordoned), looked_at

    @property
    def _throttled_topics(self) -> set[str]:
        return {one.name for one in self.record.throttles if one.kind is SettingKind.TOPIC}

    def _disowned(self, recreated: Collection[str]) -> Record:
        """Return the record without throttles of recreated topics: another client has set those of the new topics."""
        kept = {
            one: value
            for one, value in self.record.throttles.items()
            if one.kind is not SettingKind.TOPIC or one.name not in recreated
        }
        return replace(self.record, throttles=kept)

    async def _decided(
        self, looked_at: Mapping[TopicPartition, Change], observed: Observed, limits: Limits
    ) -> MoveDecision:
        asked = looked_at.values(), observed, self._claims.started, limits, self._racks
        # So many partitions take seconds, and other tasks share the event loop.
        return await asyncio.to_thread(decide, *asked) if len(looked_at) > self._window else decide(*asked)

    def _settle(self, some: Collection[TopicPartition]) -> None:
        self._claims.settle(some)
        for change in filter(None, map(self._worklist.change, some)):
            self._users.subtract(_throttled_by(change))
        self._tally.settle(some)

    def _refuse_moved_brokers(self, cluster: ClusterDescription) -> None:
        for broker in cluster.brokers:
            known = self.record.reported_racks.get(broker.id, broker.rack)
            if known != broker.rack and broker.id in self._reader.holders and not self._stands_as_planned(broker):
                raise StoppedError(
                    f"broker {broker.id} was in rack {known} when the plan was made, and is in {broker.rack} now"
                )

    def _stands_as_planned(self, broker: BrokerDescription) -> bool:
        """Return whether a broker now reports the rack that it was planned for: its node's, after a restart."""
        return broker.rack is not None and self.record.racks.get(broker.id) == tuple(
            broker.rack.removeprefix("/").split("/")
        )

    async def _throttled(
        self, looked_at: Mapping[TopicPartition, Change], observed: Observed, limits: Limits
    ) -> tuple[MoveDecision, dict[Setting, Failure]]:
        """Decide, and set throttles before anything is copied. A broker that refuses a throttle gets no copies."""
        failed: dict[Setting, Failure] = {}
        replicas = self._throttled_replicas
        replicas.learn(looked_at.values(), observed)
        throttled = self._throttled_topics
        while True:
            decision = await self._decided(looked_at, observed, limits)
            rate = self._pacer.rate
            if rate is None:
                return decision, failed
            copying = decision.copying
            replicas.move({*self._claims.begun, *copying})
            wanted = wanted_throttles(replicas, copying, throttled, observed, rate)
            self.record, wrong = await self._throttles.set(self.record, wanted)
            failed |= wrong
            brokers = {int(one.name) for one in wrong if one.kind is SettingKind.BROKER}
            if not brokers:
                topics = {one.name for one in wrong}
                kept = {at: new for at, new in decision.alter.items() if at.topic not in topics}
                left = tuple(at for at in decision.alter if at not in kept)
                return replace(decision, alter=kept, postponed=(*decision.postponed, *left)), failed
            observed = replace(observed, online=observed.online - brokers)

    def _without_refused(
        self, decision: MoveDecision, outcomes: Mapping[TopicPartition, Failure | None], observed: Observed
    ) -> MoveDecision:
        """Do not count what Kafka has refused as under way, and give it up after several refusals."""
        if refused := self._refusals.learn(decision, outcomes, observed, self._reader.cordons):
            self._claims.withdraw(refused)
            self._worklist.leave(self._refusals.partitions)
            self._reader.expect_cordons()
        failed = {at for at in decision.alter if outcomes.get(at) is not None}
        return replace(decision, copying={at: new for at, new in decision.copying.items() if at not in failed})

    async def _remember(self, decision: MoveDecision, observed: Observed) -> None:
        claims = self._claims
        if claims.request(decision) or claims.taken_over != self.record.left:
            cordoned, left = self.record.cordoned | observed.cordoned, frozenset(claims.taken_over)
            await self._save(replace(self.record, started=claims.to_record, cordoned=cordoned, left=left))

    async def _save(self, record: Record) -> None:
        await self._journal.write(record)
        self.record = record

    def _unneeded(self, decision: MoveDecision, observed: Observed) -> list[Setting]:
        """Return the throttles that nothing under way or left to do needs.

        Throttles stay between two copies, because each broker needs its own request. They also stay for a copy to an
        offline broker, which continues as soon as the broker is back. No list names replicas in sync when old replicas
        are removed.
        """
        if self._pacer.rate is None:
            return list(self.record.throttles)
        users, empty = self._users, self._throttled_replicas.is_empty
        if decision.idle:
            held = filter(None, map(self._worklist.change, self._claims.under_way(observed)))
            users = Counter(what for change in held for what in _throttled_by(change))
        return [one for one in self.record.throttles if users[one.kind, one.name] <= 0 or empty(one)]

    async def _clear(self, some: Sequence[Setting], observed: Observed) -> dict[Setting, Failure]:
        self.record, failed = await self._throttles.clear(self.record, some, observed.online)
        return failed

    async def _concluded(
        self, observed: Observed, looked_at: Collection[TopicPartition], decision: MoveDecision, failures: Sequence[str]
    ) -> Pass:
        whole = self._worklist.is_whole(looked_at)
        self._worklist.learn(looked_at, decision)
        left = (at for at in looked_at if at not in decision.settled)
        self._tally.see({at: observed.partitions[at] for at in left if at in observed.partitions})
        waiting = [
            *map(self._refusals.with_answer, self._worklist.waiting),
            *self._refusals.waiting,
            *(Waiting(at, WaitReason.CHANGED_BY_OTHERS) for at in sorted(self._claims.taken_over)),
        ]
        idle = whole and decision.idle and not failures and all(one.reason.final for one in waiting)
        self._idle_passes = self._idle_passes + 1 if idle else 0
        progress, copied = self._tally.progress, await self._reader.copied(decision, observed)
        sizes, known = self._reader.sizes, {one: size for one, size in copied.items() if size is not None}
        return Pass(
            progress,
            sum(min(size, sizes[at]) for (at, _), size in known.items() if at in sizes),
            idle and (not (waiting or self._claims.begun) or self._idle_passes >= PASSES_UNTIL_SURE),
            len(decision.copying),
            waiting,
            failures,
            len(self.record.throttles),
            [f"{' '.join(one)} {value:.40}" for one, value in sorted(self._throttles.left_alone.items())],
            self._pacer.rate,
            self._pacer.reason,
            (
                len(self._worklist.left),
                progress.moved,
                sum(known.values()) if len(known) == len(copied) else -self._reader.passes,
            ),
            len(self._claims.under_way(observed).difference(decision.alter).union(decision.copying)),
            not self._claims.taken_over and all(self._is_as_planned(one, observed) for one in self._worklist.left),
        )

    def _is_as_planned(self, change: Change, observed: Observed) -> bool:
        """Return whether a partition that is left has its planned replicas in the observed state."""
        state = observed.partitions.get(of_change(change))
        return state is not None and not state.under_way and state.replicas == change.replicas


def _explained(failure: Failure, cordoned: Collection[int]) -> Failure:
    """Return the failure of a replica list with these `cordoned` brokers, with what to do about it if known."""
    if not cordoned or failure.reason is not Reason.KAFKA_REFUSED:
        return failure
    brokers = ", ".join(map(str, sorted(cordoned)))
    why = f"Kafka 4.4 refuses lists with a cordoned broker: delete cordoned.log.dirs of broker {brokers}"
    return replace(failure, what=f"{failure.what}; {why}")


def _sentences(outcomes: Mapping[Setting, Failure | None] | Mapping[TopicPartition, Failure | None]) -> list[str]:
    return [f"{' '.join(map(str, at))}: {failure.message}" for at, failure in outcomes.items() if failure is not None]


def _throttled_by(change: Change) -> list[tuple[SettingKind, str]]:
    """Return the topic and the brokers on which a throttle of a partition's copies is set."""
    if not change.copied:
        return []
    brokers = dict.fromkeys((*change.before, *change.replicas))
    return [(SettingKind.TOPIC, change.topic), *((SettingKind.BROKER, str(broker)) for broker in brokers)]

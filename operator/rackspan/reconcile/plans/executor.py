"""The executor, which carries out a plan pass by pass.

A pass observes, decides, records and calls, in this order, and may end anywhere. The next pass, of this process or of
another one with the same record, continues from the state of Kafka.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rackspan.api.reasons import Reason
from rackspan.core.reassignment import (
    Observed,
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
from rackspan.reconcile.plans.throttling import Pacer, Throttles

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from rackspan.core.planning import Change
    from rackspan.core.reassignment import (
        Adaptive,
        Disk,
        Limits,
        MoveDecision,
        PaceReason,
        PartitionState,
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
        Replicas,
    )

_PASSES_UNTIL_STALE = 20
"""The number of passes for which min.insync.replicas is kept, and of passes between two checks of all partitions."""
_PASSES_UNTIL_CORDONS = 5
"""The number of passes between two checks for cordons: each response has all configs of a broker."""
_PASSES_UNTIL_DISKS = 3
"""The number of passes between two checks for lost log directories on brokers that do not report a copy."""
_PASSES_UNTIL_SURE = 3
"""The number of passes after which an apparent change by others counts: metadata may lag behind the controller."""
_SETTLED_RECORDED = 500
"""The number of settled partitions that stay in the record: the next process may ask a broker that lags behind."""

_CLOSED = "it is drained and cordoned"
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
        self._pacer = Pacer(admin, throttle, clock)
        self._copying: Mapping[TopicPartition, frozenset[int]] = {}  # after the last pass
        self._racks = Racks(record.racks)
        self._throttles = Throttles(admin, self._save)
        self._started: dict[TopicPartition, Replicas] = dict(record.started)
        """Includes settled partitions: metadata that is older than their last step must not start them again."""
        self._asked: dict[TopicPartition, Replicas] = dict(record.started)
        """The same, with refused lists: Kafka may have accepted them when they were requested before."""
        self._seen: dict[TopicPartition, Replicas] = {}
        """Requested lists whose reassignment was observed under way."""
        self._missed: Counter[TopicPartition] = Counter()
        self._taken_over: set[TopicPartition] = set(record.left)
        self._refusals: Counter[int | TopicPartition] = Counter()
        """How often Kafka has refused to move replicas to a broker, or another change of a partition."""
        self._answers: dict[int | TopicPartition, str] = {}
        """The messages of the last refusals."""
        self._begun: dict[TopicPartition, Replicas] = dict(record.started)
        """The entries of `_started` that are not settled."""
        self._settled: deque[TopicPartition] = deque(maxlen=_SETTLED_RECORDED)
        """The partitions of `_started` that were settled last."""
        self._led: Collection[TopicPartition] = ()
        """The partitions for which the last pass requested a leader election."""
        self._worklist = Worklist(record.changes, window, _PASSES_UNTIL_STALE)
        self._worklist.leave(record.left)
        self._window = window
        self._online: frozenset[int] | None = None
        self._throttled_replicas = ThrottledReplicas(record.changes)
        self._users: Counter[tuple[SettingKind, str]] = Counter()
        """The number of partitions left that may need a throttle, by the topic or broker that it is set on."""
        for change in record.changes:
            self._users.update(_throttled_by(change))
        takers = {broker for change in record.changes for broker in change.replicas}
        self._holders = takers.union(*(change.before for change in record.changes))
        self._min_insync: Mapping[str, int] = {}
        self._disks: Mapping[int, Disk] = {}
        self._unreported: frozenset[tuple[TopicPartition, int]] = frozenset()
        """Copies whose bytes their brokers did not report in the last pass."""
        self._cordons: dict[int, bool | None] = {}
        """Whether each broker is cordoned, as last reported."""
        self._drained: frozenset[int] = frozenset()
        self._cordons_due = 0
        """The pass that checks for cordons again."""
        self._sizes: dict[TopicPartition, int] = {
            of_change(change): change.size_bytes for change in record.changes if change.size_bytes is not None
        }
        self._tally = Tally(record.changes, self._sizes)
        self._passes = 0
        self._read_at = -_PASSES_UNTIL_STALE
        self._idle_passes = 0

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
        if self._copying:
            await self._pacer.look(observed)
        decision, failed = await self._throttled(looked_at, observed, limits)
        decision = self._without_taken_over(observed, decision)
        await self._remember(decision)
        self._settle(decision.settled)
        failed |= await self._clear(self._unneeded(decision, observed), observed)
        refused = {
            **(await self._altered(decision, observed)),
            **(await self._admin.elect(decision.elect) if decision.elect else {}),
        }
        self._led = decision.elect
        decision = self._without_refused(observed, decision, refused)
        return await self._concluded(observed, looked_at, decision, [*_sentences(refused), *_sentences(failed)])

    async def take_back(self) -> Pass:
        """Carry out one pass that cancels the moves under way. Raises like `advance`."""
        observed, looked_at = await self._observe()
        decision = cancel(looked_at.values(), observed, self._asked, self._racks)
        await self._remember(decision)
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
        replicas.move(self._begun)
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
        return {at: failure and self._explained(failure, decision.alter[at]) for at, failure in outcomes.items()}

    def _explained(self, failure: Failure, asked: Replicas | None) -> Failure:
        """Return the failure, with what to do about it if known."""
        cordoned = ", ".join(map(str, sorted(self._cordoned.intersection(asked or ()))))
        if not cordoned or failure.reason is not Reason.KAFKA_REFUSED:
            return failure
        why = f"Kafka 4.4 refuses lists with a cordoned broker: delete cordoned.log.dirs of broker {cordoned}"
        return replace(failure, what=f"{failure.what}; {why}")

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
                self.record = self._disowned(self._recreated(await self._admin.partitions(topics)))
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
            looked_at = self._worklist.look([*self._begun, *self._led], limits)
        self._online = online
        topics = {at.topic for at in looked_at}
        if self._is_whole(looked_at) and self._passes >= self._read_at + _PASSES_UNTIL_STALE:
            self._read_at = self._passes
            self._min_insync = {**self._min_insync, **await self._admin.min_insync(topics)}
        elif held := {one.partition.topic for one in self._worklist.waiting if one.reason is WaitReason.MIN_INSYNC}:
            # The config is lowered for these topics. Read it at once: until the plan continues, writes are less safe.
            self._min_insync = {**self._min_insync, **await self._admin.min_insync(held)}
        if self._passes >= self._cordons_due:
            await self._look_at_cordons(online & self._holders)
        seen = await self._admin.partitions(topics | self._throttled_topics)
        recreated = self._recreated(seen)
        record = self._disowned(recreated)
        if len(record.throttles) < len(self.record.throttles):
            await self._save(record)
        self._fill_disks(seen)
        await self._look_at_disks(online, () if limits is None else looked_at.values())
        partitions = {at: self._with_lost(at, one) for at, one in seen.items() if at.topic in topics - recreated}
        if self._passes == 0:
            moved = [at for at, change in looked_at.items() if change.copied]
            states = [(at, partitions[at]) for at in moved if at in partitions]
            sizes = await self._admin.sizes({at: [one.leader] for at, one in states if one.leader is not None})
            self._sizes |= {at: size for (at, _), size in sizes.items()}
        self._passes += 1
        refusing = frozenset(one for one in self._answers if isinstance(one, int) and self._is_refused(one))
        closed = self._drained & self._cordoned
        found = Observed(
            partitions,
            online,
            self._min_insync,
            self._disks,
            self._sizes,
            recreated,
            refusing | closed,
            self._cordoned,
            self.record.cordoned,
        )
        return found, looked_at

    def _fill_disks(self, partitions: Mapping[TopicPartition, PartitionState]) -> None:
        """Subtract copies that have ended from the free space of their disks: brokers may not report it for long."""
        for at, brokers in self._copying.items():
            for broker in brokers & self._disks.keys() & (partitions[at].in_sync if at in partitions else frozenset()):
                disk = self._disks[broker]
                self._disks = {**self._disks, broker: replace(disk, usable=disk.usable - self._sizes.get(at, 0))}

    async def _look_at_disks(self, online: frozenset[int], copied: Iterable[Change]) -> None:
        """Read the free space of target brokers, because copies fill disks in each pass; of others only if needed."""
        asked: set[int] = set().union(*({*change.replicas}.difference(change.before) for change in copied))
        if self._passes % _PASSES_UNTIL_DISKS == 0:
            asked.update(broker for _, broker in self._unreported)
        if some := online & asked:
            self._disks = {**self._disks, **await self._admin.disks(some)}

    def _with_lost(self, at: TopicPartition, state: PartitionState) -> PartitionState:
        """Mark unreported copies on brokers with a lost log directory as offline, which Kafka 4.4's metadata omit."""
        lost = frozenset(
            broker
            for broker in state.adding
            if (at, broker) in self._unreported and (disk := self._disks.get(broker)) is not None and disk.lost
        )
        return replace(state, offline=state.offline | lost) if lost else state

    @property
    def _cordoned(self) -> frozenset[int]:
        return frozenset(broker for broker, cordoned in self._cordons.items() if cordoned)

    async def _look_at_cordons(self, brokers: Collection[int]) -> None:
        """Read which brokers are cordoned. A broker that does not report it keeps its last value."""
        self._cordons |= await self._admin.cordoned(sorted(brokers))
        for broker in self._cordoned:
            self._refusals.pop(broker, None)  # a cordon is temporary
        self._cordons_due = self._passes + _PASSES_UNTIL_CORDONS

    def _is_refused(self, what: int | TopicPartition) -> bool:
        return self._refusals[what] >= _PASSES_UNTIL_SURE

    def _recreated(self, partitions: Mapping[TopicPartition, PartitionState]) -> frozenset[str]:
        """Return the topics whose ids are not those that the plan was made for."""
        ids = self.record.topic_ids
        return frozenset(
            at.topic
            for at, state in partitions.items()
            if state.topic_id is not None and ids.get(at.topic, state.topic_id) != state.topic_id
        )

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

    def _is_whole(self, looked_at: Collection[TopicPartition]) -> bool:
        return len(looked_at) == len(self._worklist.left)

    async def _decided(
        self, looked_at: Mapping[TopicPartition, Change], observed: Observed, limits: Limits
    ) -> MoveDecision:
        asked = looked_at.values(), observed, self._started, limits, self._racks
        # So many partitions take seconds, and other tasks share the event loop.
        return await asyncio.to_thread(decide, *asked) if len(looked_at) > self._window else decide(*asked)

    def _settle(self, some: Collection[TopicPartition]) -> None:
        for at in some:
            if at in self._begun:
                del self._begun[at]
                self._settled.append(at)
            change = self._worklist.change(at)
            if change is not None:
                self._users.subtract(_throttled_by(change))
        self._tally.settle(some)

    def _refuse_moved_brokers(self, cluster: ClusterDescription) -> None:
        for broker in cluster.brokers:
            known = self.record.reported_racks.get(broker.id, broker.rack)
            if known != broker.rack and broker.id in self._holders and not self._stands_as_planned(broker):
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
            replicas.move({*self._begun, *copying})
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

    def _without_taken_over(self, observed: Observed, decision: MoveDecision) -> MoveDecision:
        """Leave partitions that another client has cancelled alone, once metadata cannot just be lagging behind."""
        for at in decision.copying:
            state = observed.partitions.get(at)
            if state is not None and state.under_way:
                self._seen[at] = self._started[at]
        alter, waiting, missed = dict(decision.alter), list(decision.waiting), self._missed
        self._missed = Counter()
        for at, replicas in decision.alter.items():
            if replicas is None or self._seen.get(at) != replicas or self._started.get(at) != replicas:
                continue
            del alter[at]
            self._missed[at] = missed[at] + 1
            if self._missed[at] >= _PASSES_UNTIL_SURE:
                self._taken_over.add(at)
                self._begun.pop(at, None)
                self._worklist.leave([at])
            else:
                waiting.append(Waiting(at, WaitReason.LIMIT))
        return replace(decision, alter=alter, waiting=tuple(waiting))

    def _without_refused(
        self, observed: Observed, decision: MoveDecision, outcomes: Mapping[TopicPartition, Failure | None]
    ) -> MoveDecision:
        """Do not count what Kafka has refused as under way, and give it up after several refusals."""
        failed: set[TopicPartition] = set()
        answers: dict[int | TopicPartition, str] = {}
        for at, replicas in decision.alter.items():
            failure = outcomes.get(at)
            added = () if replicas is None else set(replicas).difference(observed.partitions[at].replicas)
            # A cordoned broker that holds a replica blocks the partition (Kafka 4.4), not the brokers that are added.
            in_the_way = {broker for broker in replicas or () if self._cordons.get(broker, True)}.difference(added)
            about = at if in_the_way else min(added, default=at)
            if failure is None:
                self._refusals.pop(about, None)
                continue
            failed.add(at)
            if failure.reason is Reason.KAFKA_REFUSED and replicas is not None:
                answers[about] = failure.message
                self._started.pop(at, None)
                self._begun.pop(at, None)
        self._refusals.update(answers.keys())
        self._cordons_due = 0 if answers else self._cordons_due
        self._answers |= answers
        self._worklist.leave(one for one in answers if not isinstance(one, int) and self._is_refused(one))
        return replace(decision, copying={at: new for at, new in decision.copying.items() if at not in failed})

    async def _remember(self, decision: MoveDecision) -> None:
        new = {at: replicas for at, replicas in decision.alter.items() if replicas is not None}
        self._asked |= new
        if self._taken_over != self.record.left or any(self._started.get(at) != new[at] for at in new):
            self._started |= new
            self._begun |= new
            lately = {at: self._started[at] for at in self._settled}
            cordoned = self.record.cordoned | self._cordoned
            left = frozenset(self._taken_over)
            await self._save(replace(self.record, started=lately | self._begun, cordoned=cordoned, left=left))

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
            held = filter(None, map(self._worklist.change, self._ours(observed)))
            users = Counter(what for change in held for what in _throttled_by(change))
        return [one for one in self.record.throttles if users[one.kind, one.name] <= 0 or empty(one)]

    async def _clear(self, some: Sequence[Setting], observed: Observed) -> dict[Setting, Failure]:
        self.record, failed = await self._throttles.clear(self.record, some, observed.online)
        return failed

    async def _concluded(
        self, observed: Observed, looked_at: Collection[TopicPartition], decision: MoveDecision, failures: Sequence[str]
    ) -> Pass:
        whole = self._is_whole(looked_at)
        self._copying = decision.copying
        self._worklist.learn(looked_at, decision)
        left = (at for at in looked_at if at not in decision.settled)
        self._tally.see({at: observed.partitions[at] for at in left if at in observed.partitions})
        refused = (one for one in self._answers if not isinstance(one, int) and self._is_refused(one))
        waiting = [
            *(self._with_answer(one) for one in self._worklist.waiting),
            *(Waiting(at, WaitReason.REFUSED, answer=self._answers[at]) for at in sorted(refused)),
            *(Waiting(at, WaitReason.CHANGED_BY_OTHERS) for at in sorted(self._taken_over)),
        ]
        idle = whole and decision.idle and not failures and all(one.reason.final for one in waiting)
        self._idle_passes = self._idle_passes + 1 if idle else 0
        progress, copied = self._tally.progress, await self._copied_so_far(observed, decision)
        known = {one: size for one, size in copied.items() if size is not None}
        return Pass(
            progress,
            sum(min(size, self._sizes[at]) for (at, _), size in known.items() if at in self._sizes),
            idle and (not (waiting or self._begun) or self._idle_passes >= _PASSES_UNTIL_SURE),
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
                sum(known.values()) if len(known) == len(copied) else -self._passes,
            ),
            len(self._ours(observed).difference(decision.alter).union(decision.copying)),
            not self._taken_over and all(self._is_as_planned(one, observed) for one in self._worklist.left),
        )

    def _is_as_planned(self, change: Change, observed: Observed) -> bool:
        """Return whether a partition that is left has its planned replicas in the observed state."""
        state = observed.partitions.get(of_change(change))
        return state is not None and not state.under_way and state.replicas == change.replicas

    def _ours(self, observed: Observed) -> set[TopicPartition]:
        """Return the partitions that are being reassigned to the list that the operator last requested."""
        return {
            at
            for at, asked in self._begun.items()
            if (state := observed.partitions.get(at)) is not None
            and state.under_way
            and state.heading_for == frozenset(asked)
        }

    def _with_answer(self, one: Waiting) -> Waiting:
        if one.reason is not WaitReason.REFUSED:
            return one
        answers = (self._answers.get(broker, _CLOSED) for broker in one.brokers)
        return replace(one, answer=next(answers, ""))

    async def _copied_so_far(
        self, observed: Observed, decision: MoveDecision
    ) -> Mapping[tuple[TopicPartition, int], int | None]:
        """Return the bytes of replicas that are being copied and not in sync; None if a broker does not report them."""
        offline = {one.partition for one in decision.waiting if one.reason is WaitReason.DISK_OFFLINE}
        states = {at: observed.partitions[at] for at in offline.union(decision.copying) if at in observed.partitions}
        behind = {at: (one.adding - one.in_sync) & observed.online for at, one in states.items()}
        sizes = await self._admin.sizes(behind) if any(behind.values()) else {}
        found = {(at, broker): sizes.get((at, broker)) for at, brokers in behind.items() for broker in brokers}
        self._unreported = frozenset(one for one, size in found.items() if size is None)
        return {(at, broker): size for (at, broker), size in found.items() if at not in offline}


def _sentences(outcomes: Mapping[Setting, Failure | None] | Mapping[TopicPartition, Failure | None]) -> list[str]:
    return [f"{' '.join(map(str, at))}: {failure.message}" for at, failure in outcomes.items() if failure is not None]


def _throttled_by(change: Change) -> list[tuple[SettingKind, str]]:
    """Return the topic and the brokers on which a throttle of a partition's copies is set."""
    if not change.copied:
        return []
    brokers = dict.fromkeys((*change.before, *change.replicas))
    return [(SettingKind.TOPIC, change.topic), *((SettingKind.BROKER, str(broker)) for broker in brokers)]

"""An in-memory Kafka for reassignments (KIP-455, rules of KRaft), and its other users.

It implements `ReassignmentAdmin`, checks that no call breaks a safety rule, and can crash the caller before or after
any call.
"""

from collections import Counter
from dataclasses import dataclass, field, replace

from rackspan.api.reasons import Reason
from rackspan.core.reassignment import Disk, ListChange, ListOperation, PartitionState, Racks, Setting, SettingKind
from rackspan.core.reassignment.throttles import NOTHING_SET, RATES
from rackspan.reconcile.failures import Failure, Remedy
from rackspan.reconcile.ports import BrokerDescription, ClusterDescription

AWAY = Failure(Reason.KAFKA_UNREACHABLE, "the broker is away", Remedy.RETRY)
INVALID = Failure(Reason.KAFKA_REFUSED, "Kafka says InvalidConfig: * stands alone", Remedy.RETRY)
CORDONED = "Kafka says InvalidReplicaAssignment: a broker of the list is cordoned"
CLUSTER_ID = "simulated"


class CrashError(Exception):
    """Raised in place of a crash of the caller."""


@dataclass
class SimulatedPartition:
    """A partition. `of_others` is whether another client is reassigning it."""

    replicas: tuple[int, ...]
    isr: set[int]
    leader: int | None
    adding: frozenset[int] = frozenset()
    removing: frozenset[int] = frozenset()
    of_others: bool = False
    topic_id: str | None = None

    @property
    def state(self):
        return PartitionState(
            self.replicas, frozenset(self.isr), self.leader, self.adding, self.removing, topic_id=self.topic_id
        )


@dataclass
class SimulatedKafka:
    """A cluster with `racks` by broker id, and `lists` of replicas by TopicPartition, all in sync."""

    racks: dict
    lists: dict
    planned: dict
    min_insync_replicas: int = 1
    limits: object = None
    rate: int | None = None
    configs: dict = field(default_factory=dict)
    free: dict = field(default_factory=dict)
    window: int = 1_000

    def __post_init__(self):
        self.online = set(self.racks)
        self.state = {at: SimulatedPartition(tuple(one), set(one), one[0]) for at, one in self.lists.items()}
        self.copies = []
        self.asked = {}
        self.calls = 0
        self.crash_at = None
        self.journal = None
        """The journal of the caller, if each call has to be recorded in it first."""
        self.killed = set()
        self.cordons = set()
        """The brokers that no replica list may contain, as in Kafka 4.4."""
        self.refused_by_cordon = Counter()
        """How often Kafka rejected lists of a partition because of a cordon."""
        self.ever_cordoned = set()
        self.dies_at = None
        """The number of the call at which a broker dies, and the broker."""
        self.changes = 0
        """The number of calls that change replica lists or leaders."""
        self.seen = {}
        """The partitions in the last response to the caller."""
        self.remembered = self._states()
        self.behind = 0
        """How many responses have the remembered partitions instead of the current ones, never three in a row."""
        self.behind_in_a_row = 0
        self.touched_by_others = set()
        self.domains = Racks(self.racks)
        self.theirs = dict(self.configs)
        """The configs that others had set at the start."""

    # -- events in the cluster ----------------------------------------------------------------------------------------

    def kill(self, broker):
        self.online.discard(broker)
        self.killed.add(broker)
        for one in self.state.values():
            if one.isr != {broker}:
                one.isr.discard(broker)
            self._lead(one)

    def revive(self, broker):
        self.online.add(broker)
        for one in self.state.values():
            self._lead(one)

    def catch_up(self, at, broker):
        """Add a replica to the ISR if possible."""
        one = self.state.get(at)
        if one is not None and one.leader is not None and broker in one.replicas and broker in self.online:
            one.isr.add(broker)
            self._complete(one)

    def catch_up_all(self):
        for at, one in self.state.items():
            for broker in one.replicas:
                self.catch_up(at, broker)

    def reassigned_by_others(self, at, replicas):
        one = self.state.get(at)
        if one is not None:
            self.touched_by_others.add(at)
            self._reassign(one, tuple(replicas))
            # A reassignment to the same replicas as that of the executor cannot be distinguished from it.
            one.of_others = bool(one.adding or one.removing) and frozenset(replicas) != self.asked.get(at)

    def cancelled_by_others(self, at):
        one = self.state.get(at)
        if one is not None and (one.adding or one.removing):
            self.touched_by_others.add(at)
            self._cancel(one)

    def cordon(self, broker):
        self.cordons.add(broker)
        self.ever_cordoned.add(broker)

    def release(self, broker):
        self.cordons.discard(broker)

    def remember(self):
        """Remember the current partitions for responses of a broker that lags behind."""
        self.remembered = self._states()

    def _states(self):
        return {at: one.state for at, one in self.state.items()}

    def _lead(self, one):
        if one.leader not in self.online or one.leader not in one.isr:
            one.leader = next((b for b in one.replicas if b in one.isr and b in self.online), None)

    def _complete(self, one):
        left = one.isr - one.removing
        if not (one.adding or one.removing) or not left or not one.adding <= left:
            return
        one.replicas = tuple(broker for broker in one.replicas if broker not in one.removing)
        one.isr, one.adding, one.removing, one.of_others = left, frozenset(), frozenset(), False
        self._lead(one)

    def _cancel(self, one):
        one.replicas = tuple(broker for broker in one.replicas if broker not in one.adding)
        one.isr -= one.adding
        one.adding = one.removing = frozenset()
        one.of_others = False
        self._lead(one)

    def _reassign(self, one, target):
        if one.adding or one.removing:
            self._cancel(one)
        current = one.replicas
        one.adding = frozenset(target) - frozenset(current)
        one.removing = frozenset(current) - frozenset(target)
        one.replicas = (*target, *(broker for broker in current if broker in one.removing))
        self._complete(one)

    # -- the port -----------------------------------------------------------------------------------------------------

    def _call(self):
        """Count the start of a call. A crash at an odd number is before a call, at an even number after it."""
        self.calls += 1
        if self.dies_at is not None and self.calls >= self.dies_at[0]:
            self.kill(self.dies_at[1])
            self.dies_at = None
        if self.crash_at == self.calls:
            raise CrashError

    def _called(self):
        self.calls += 1
        if self.crash_at == self.calls:
            raise CrashError

    async def cluster(self):
        brokers = (BrokerDescription(b, "", "/".join(("", *self.racks[b]))) for b in sorted(self.online))
        return ClusterDescription(CLUSTER_ID, tuple(brokers))

    async def partitions(self, topics):
        is_behind = self.behind > 0 and self.behind_in_a_row < 2
        self.behind_in_a_row = self.behind_in_a_row + 1 if is_behind else 0
        self.behind -= is_behind
        self.seen = self.remembered if is_behind else self._states()
        return {at: one for at, one in self.seen.items() if at.topic in topics}

    async def topic_names(self):
        return {at.topic for at in self.state}

    async def min_insync(self, topics):
        return dict.fromkeys(topics, self.min_insync_replicas)

    async def disks(self, brokers):
        return {b: Disk(1000, self.free[b]) for b in brokers if b in self.free}

    async def cordoned(self, brokers):
        return {broker: broker in self.cordons for broker in brokers if broker in self.online}

    async def sizes(self, partitions):
        return {(at, broker): 10 for at, brokers in partitions.items() for broker in brokers}

    async def alter(self, targets, same_size=()):
        self._call()
        self.changes += 1
        outcomes = {}
        before = self._busy()
        for at, target in targets.items():
            one = self.state.get(at)
            assert one is not None
            assert not one.of_others, f"{at} is reassigned by somebody else"
            if target is None:
                self._cancel(one)
            else:
                if at in same_size and len(target) != len(set(one.replicas) - one.adding):
                    outcomes[at] = Failure(Reason.KAFKA_REFUSED, "InvalidReplicationFactor", Remedy.RETRY)
                    continue
                if self.cordons.intersection(target):
                    outcomes[at] = Failure(Reason.KAFKA_REFUSED, CORDONED, Remedy.RETRY)
                    self.refused_by_cordon[at] += 1
                    continue
                self._check(at, one, target)
                self._check_recorded(at, target)
                self._reassign(one, target)
                self.asked[at] = frozenset(target)
            outcomes[at] = None
        self._check_limits(before)
        self._called()
        return outcomes

    async def elect(self, partitions):
        self._call()
        self.changes += 1
        for at in partitions:
            one = self.state[at]
            if one.replicas[0] in one.isr & self.online:
                one.leader = one.replicas[0]
        self._called()
        return dict.fromkeys(partitions)

    async def settings(self, wanted):
        self._call()
        return {one: AWAY if self._is_away(one) else self.configs.get(one) or None for one in wanted}

    async def set_settings(self, changes):
        self._call()
        outcomes = {}
        for setting, change in changes.items():
            self._check_throttle_recorded(setting, change)
            outcomes[setting] = AWAY if self._is_away(setting) else self.change_config(setting, change)
        self._called()
        return outcomes

    def change_config(self, setting, change):
        """Change a config like the controller: a list without names remains as an empty value."""
        if isinstance(change, ListChange):
            names, changed = filter(None, self.configs.get(setting, "").split(",")), change.names.split(",")
            if change.operation is ListOperation.APPEND:
                names = list(dict.fromkeys([*names, *changed]))
            else:
                names = [name for name in names if name not in changed]
            if len(names) > 1 and "*" in names:
                return INVALID
            change = ",".join(names)
        self.configs[setting] = change
        if change is None:
            del self.configs[setting]
        return None

    def _is_away(self, setting):
        return setting.kind is SettingKind.BROKER and int(setting.name) not in self.online

    # -- safety rules -------------------------------------------------------------------------------------------------

    def _check(self, at, one, target):
        new, gone = set(target) - set(one.replicas), set(one.replicas) - set(target)
        if gone:
            assert not new or gone <= self.ever_cordoned, "only replicas that no list may name leave with a copy"
        assert len(new) <= max(1, len(gone)), "one replica of a partition at a time, or as many as leave with it"
        assert len(set(target)) == len(target)
        self.copies += [(at, broker) for broker in new]
        # The caller cannot know that a replica has left the ISR since then.
        isr = self.seen[at].in_sync
        lost = isr - set(target)
        if lost:
            # Kafka keeps the leaving replicas until the new ones are in sync.
            now, left = self.domains.spread(isr), (isr - lost) | set(target).difference(self.seen[at].replicas)
            after = self.domains.spread(left)
            shall = self.domains.spread(self.planned.get(at, one.replicas))
            assert all(a >= min(n, s) for n, a, s in zip(now, after, shall, strict=True)), "fewer domains in sync"
            most = max(len(self.lists.get(at, one.replicas)), len(self.planned.get(at, one.replicas)))
            needed = min(self.min_insync_replicas, most)
            assert len(left) >= min(len(isr), needed), "below min.insync.replicas"
        if new and self.rate is not None:
            self._check_throttled(at, one, new)
        if not new and self.rate is not None:
            self._check_in_sync_not_throttled(at, self.seen[at].in_sync.intersection(target))

    def _check_recorded(self, at, target):
        """Check that the journal has the requested list, so that the caller recognizes it as its own after a crash."""
        if self.journal is not None:
            assert self.journal.record.started.get(at) == tuple(target), f"{at} was not recorded before the call"

    def _check_throttle_recorded(self, setting, change):
        """Check that the journal has the new value, and that it replaces no value of another client."""
        if self.journal is None:
            return
        recorded, now = self.journal.record.throttles.get(setting, NOTHING_SET), self.configs.get(setting)
        names = change.names.split(",") if isinstance(change, ListChange) else (change or "").split(",")
        known = recorded.ours if setting.key in RATES else recorded.names
        assert set(filter(None, names)) <= set(known), f"{setting}: {change} was not recorded before the call"
        if not isinstance(change, ListChange) and change != recorded.before:
            assert not recorded.has_others(setting, now), f"{setting}: {now} is lost"

    def _check_throttled(self, at, one, new):
        for broker in {self.seen[at].leader, *new} & self.online:
            for key in ("leader.replication.throttled.rate", "follower.replication.throttled.rate"):
                setting = Setting(SettingKind.BROKER, str(broker), key)
                assert self.configs.get(setting) == self.theirs.get(setting, str(self.rate))
        followers = self.configs[Setting(SettingKind.TOPIC, at.topic, "follower.replication.throttled.replicas")]
        for broker in new:
            assert followers == "*" or f"{at.partition}:{broker}" in followers.split(",")

    def _check_in_sync_not_throttled(self, at, staying):
        """Check that no in-sync replica is throttled, which would delay producers with acks=all."""
        listed = self.configs.get(Setting(SettingKind.TOPIC, at.topic, "follower.replication.throttled.replicas")) or ""
        held = {f"{at.partition}:{broker}" for broker in staying} & set(listed.split(","))
        assert not held, f"{held} are in sync, and throttled"

    def _busy(self):
        busy = {None: 0}
        for at, one in self.state.items():
            alive = (one.adding - one.isr) & self.online
            leader = self.seen[at].leader if at in self.seen else one.leader
            if one.leader is None or leader is None or one.of_others:
                continue
            busy[None] += len(alive)
            for broker in alive:
                for each in (broker, leader):
                    busy[each] = busy.get(each, 0) + 1
        return busy

    def _check_limits(self, before):
        if self.limits is None:
            return
        at_once = max((len(one.adding) for one in self.state.values() if not one.of_others), default=0)
        for broker, number in self._busy().items():
            most = self.limits.moves if broker is None else self.limits.moves_per_broker
            assert number <= max(most, at_once, before.get(broker, 0)), f"more copies at once than {most}"


@dataclass
class MemoryJournal:
    """A journal in memory whose last record survives a crash of the executor."""

    kafka: SimulatedKafka
    record: object

    def __post_init__(self):
        self.kafka.journal = self

    async def write(self, record):
        self.kafka._call()
        self.record = replace(record)
        self.kafka._called()

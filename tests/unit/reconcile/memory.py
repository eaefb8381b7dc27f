"""An in-memory Kafka for the port `KafkaAdmin`. It refuses, lags and records calls as a test requests."""

from collections.abc import Callable
from dataclasses import dataclass, field

from rackspan.reconcile.failures import Failure, FailureError
from rackspan.reconcile.ports import TopicConfig, TopicDescription
from rackspan.reconcile.runtime.threads import ThirdPartyPlacers
from rackspan.reconcile.topics.batch import reconcile_topics


@dataclass
class MemoryKafka:
    """Topics by name. `refusing` maps a name to its failure, `broken` an operation to the failure of the whole call."""

    replicas: dict[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    own: dict[str, dict[str, str]] = field(default_factory=dict)
    refusing: dict[str, Failure] = field(default_factory=dict)
    broken: dict[str, Failure] = field(default_factory=dict)
    lag: int = 0
    """How many reads do not show a new topic yet."""
    without_config: set[str] = field(default_factory=set)
    unread_configs: dict[str, Failure] = field(default_factory=dict)
    without_isr: dict[str, int] = field(default_factory=dict)
    ids: Callable[[str], str] = "id-of-{}".format
    calls: list[tuple[str, list[str]]] = field(default_factory=list)
    _hidden: dict[str, int] = field(default_factory=dict)
    cluster = replica_counts = remaining_replicas = hosted = default_min_insync = None
    cordoned = cordon = uncordon = None
    """Calls that only work in tests that define them."""

    async def topics(self, names):
        self._called("describe_topics", names)
        return {name: self._seen(name) for name in names}

    async def assignments(self):
        self._called("assignments", [])
        return dict(self.replicas)

    async def configs(self, names):
        self._called("describe_configs", names)
        found = {
            name: TopicConfig(dict(self.own[name]), int(self.own[name].get("min.insync.replicas", 1)))
            for name in names
            if name in self.replicas and name not in self.without_config
        }
        return {name: self.unread_configs.get(name, config) for name, config in found.items()}

    async def create_topics(self, topics):
        self._called("create_topics", [topic.name for topic in topics])
        for topic in topics:
            if topic.name not in self.refusing:
                self.replicas[topic.name] = topic.assignment or ((0, 1, 2),) * topic.partitions
                self.own[topic.name] = dict(topic.config)
                self._hidden[topic.name] = self.lag
        return {topic.name: self.refusing.get(topic.name) for topic in topics}

    async def create_partitions(self, topics):
        self._called("create_partitions", [topic.name for topic in topics])
        for topic in topics:
            if topic.name not in self.refusing:
                self.replicas[topic.name] += topic.assignment
        return {topic.name: self.refusing.get(topic.name) for topic in topics}

    async def alter_configs(self, changes):
        self._called("alter_configs", [change.name for change in changes])
        for change in changes:
            if change.name not in self.refusing:
                self.own[change.name].update(change.set)
        return {change.name: self.refusing.get(change.name) for change in changes}

    async def delete_topics(self, ids):
        self._called("delete_topics", ids)
        for name in ids:
            if name not in self.refusing:
                del self.replicas[name]
        return {name: self.refusing.get(name) for name in ids}

    async def connect(self, owner, kafka, credentials):
        return self

    async def close(self):
        pass

    def made(self, operation):
        """Return the names in each call of an operation."""
        return [names for name, names in self.calls if name == operation]

    def _seen(self, name):
        if name in self.refusing and name in self.replicas:
            return self.refusing[name]
        if self._hidden.get(name):
            self._hidden[name] -= 1
            return None
        if name not in self.replicas:
            return None
        return TopicDescription(name, self.ids(name), self.replicas[name], without_isr=self.without_isr.get(name, 0))

    def _called(self, operation, names):
        self.calls.append((operation, list(names)))
        if operation in self.broken:
            raise FailureError(self.broken[operation])


async def prepared(outcomes):
    """Return no objects to leave out: all are prepared."""
    return ()


async def reconciled(topics, where, admin, prepare=prepared, is_current=lambda _: True):
    """Return the outcomes of a batch of topics without quotas."""
    return await reconcile_topics(topics, where, admin, prepare, is_current, ThirdPartyPlacers(), {})

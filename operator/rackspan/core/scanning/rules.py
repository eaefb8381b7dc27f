"""The names of the rules, and the severity of breaking each."""

from enum import StrEnum


class Severity(StrEnum):
    """The severity of a finding, with the values of OpenReports; worst first."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    INFO = "info"

    @property
    def rank(self) -> int:
        """The position in the order of severities; 0 is the worst."""
        return SEVERITIES.index(self)


SEVERITIES = tuple(Severity)
ALARMING = frozenset({Severity.CRITICAL, Severity.HIGH})
"""The severities for which a checking command exits with code 1."""


class Rule(StrEnum):
    """The rule that a finding breaks."""

    OFFLINE = "Offline"
    BROKER_OFFLINE = "BrokerOffline"
    UNDER_REPLICATED = "UnderReplicated"
    NOT_COMPLIANT = "NotCompliant"
    UNSATISFIABLE = "Unsatisfiable"
    NOT_JUDGED = "NotJudged"
    REPLICA_ON_DRAINED_BROKER = "ReplicaOnDrainedBroker"
    MIN_INSYNC_TOO_SMALL = "MinInsyncTooSmall"
    MIN_INSYNC_TOO_LARGE = "MinInsyncTooLarge"
    REPLICATION_FACTOR_DIFFERS = "ReplicationFactorDiffers"
    REPLICATION_FACTOR_VARIES = "ReplicationFactorVaries"
    PINNED_UNFAIR = "PinnedUnfair"
    RACK_DRIFT = "RackDrift"
    MISSING_RACK = "MissingRack"
    LEADER_NOT_PREFERRED = "LeaderNotPreferred"
    UNMANAGED_TOPIC = "UnmanagedTopic"


RULES = tuple(Rule)

SEVERITY_OF = {
    Rule.OFFLINE: Severity.CRITICAL,
    Rule.BROKER_OFFLINE: Severity.MEDIUM,  # high if the broker is not in the cluster
    Rule.UNDER_REPLICATED: Severity.MEDIUM,  # critical if acks=all writes stop
    Rule.NOT_COMPLIANT: Severity.HIGH,
    Rule.UNSATISFIABLE: Severity.HIGH,
    Rule.NOT_JUDGED: Severity.HIGH,
    Rule.REPLICA_ON_DRAINED_BROKER: Severity.MEDIUM,
    Rule.MIN_INSYNC_TOO_SMALL: Severity.HIGH,
    Rule.MIN_INSYNC_TOO_LARGE: Severity.HIGH,
    Rule.REPLICATION_FACTOR_DIFFERS: Severity.MEDIUM,
    Rule.REPLICATION_FACTOR_VARIES: Severity.MEDIUM,
    Rule.PINNED_UNFAIR: Severity.LOW,
    Rule.RACK_DRIFT: Severity.MEDIUM,
    Rule.MISSING_RACK: Severity.HIGH,
    Rule.LEADER_NOT_PREFERRED: Severity.LOW,
    Rule.UNMANAGED_TOPIC: Severity.INFO,
}

TOPIC_RULES = frozenset(
    {
        Rule.NOT_JUDGED,
        Rule.MIN_INSYNC_TOO_SMALL,
        Rule.MIN_INSYNC_TOO_LARGE,
        Rule.REPLICATION_FACTOR_DIFFERS,
        Rule.REPLICATION_FACTOR_VARIES,
        Rule.UNMANAGED_TOPIC,
    }
)
"""Rules that a topic breaks as a whole: one finding per topic, however many partitions it has."""
PLACEMENT_RULES = frozenset({Rule.NOT_COMPLIANT, Rule.REPLICA_ON_DRAINED_BROKER})
"""Rules about the brokers that hold a partition's replicas; only partitions out of compliance break them."""
COUNTING_RULES = frozenset({Rule.BROKER_OFFLINE})
"""Rules whose findings count partitions in `excess`; the counts of portions are summed."""

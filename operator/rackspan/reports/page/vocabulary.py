"""The names and the order of severities and rules on a page."""

from typing import Final

from rackspan.core.scanning.messages import place
from rackspan.core.scanning.rules import SEVERITIES, Severity
from rackspan.reports.document import FindingRow

RULES: Final = {
    "Offline": "Offline",
    "BrokerOffline": "Broker offline",
    "UnderReplicated": "Under-replicated",
    "NotCompliant": "Unfair spread",
    "Unsatisfiable": "Too few brokers",
    "MinInsyncTooSmall": "min.insync.replicas too small",
    "MinInsyncTooLarge": "min.insync.replicas too large",
    "ReplicationFactorDiffers": "Replication factor differs",
    "ReplicationFactorVaries": "Replication factor varies",
    "PinnedUnfair": "Unfair by its assignment",
    "RackDrift": "Rack id drift",
    "MissingRack": "No rack",
    "ReplicaOnDrainedBroker": "On a drained broker",
    "LeaderNotPreferred": "Leader not preferred",
    "UnmanagedTopic": "No object",
    "NotJudged": "Not judged",
}
"""Short names of rules, in the order in which a reader looks for them. Other rules keep their own name."""


def rank(severity: str | None) -> int:
    """Return the rank of a severity, 0 for the worst. None and unknown severities come last."""
    return Severity(severity).rank if severity in SEVERITIES else len(SEVERITIES)


def worst(severities: list[str | None]) -> str | None:
    """Return the worst severity, None if no known severity is given."""
    found = min(severities, key=rank, default=None)
    return found if rank(found) < len(SEVERITIES) else None


def where(finding: FindingRow) -> str:
    """Return what a finding is about: `orders-3`, `orders`, `broker 7`, a domain, or `cluster`."""
    return place(finding.topic, finding.partition, finding.broker, finding.domain or "cluster")

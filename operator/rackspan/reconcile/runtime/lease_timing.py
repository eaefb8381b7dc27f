"""The duration of a Lease, and all intervals that depend on it."""

from dataclasses import dataclass

LEASE_SECONDS = 30
"""The default lease duration."""


@dataclass(frozen=True, slots=True)
class Timing:
    """All intervals in seconds, as fractions of the lease duration (`spec.leaseDurationSeconds`)."""

    lease_seconds: int = LEASE_SECONDS

    @property
    def renew_deadline_seconds(self) -> float:
        """How long the leader still acts after it sent its last successful renewal (client-go: RenewDeadline)."""
        return self.lease_seconds / 2

    @property
    def change_timeout_seconds(self) -> float:
        """Timeout of one change in Kafka or Kubernetes. Even a leader's last change ends before another can lead."""
        return self.lease_seconds / 3

    @property
    def retry_period_seconds(self) -> float:
        """Pause between two attempts to acquire or renew the Lease (client-go: RetryPeriod)."""
        return self.lease_seconds / 10

    @property
    def request_timeout_seconds(self) -> float:
        """Timeout of one attempt, short enough for another attempt before the renew deadline."""
        return self.lease_seconds / 6

    @property
    def catch_up_seconds(self) -> float:
        """How long a leader whose renewals had lapsed waits for missed watch events before it acts again."""
        return self.lease_seconds / 6

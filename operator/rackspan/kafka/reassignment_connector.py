"""`reconcile.reassignments.ports.ReassignmentConnector` over the two clients that move replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rackspan.kafka.answering import answering
from rackspan.kafka.client_config import client_properties
from rackspan.kafka.reassignments import KafkaReassignments

if TYPE_CHECKING:
    from rackspan.api.racktopology import KafkaSpec
    from rackspan.reconcile.ports import Credentials, Permit


class KafkaReassignmentConnector:
    """Makes clients that change nothing without a permit."""

    def __init__(self, permit: Permit | None = None) -> None:
        self._permit = permit

    async def connect(self, kafka: KafkaSpec, credentials: Credentials) -> KafkaReassignments:
        """A client that has answered once. Raises FailureError with the cause when it does not answer."""
        return await answering(KafkaReassignments(client_properties(kafka, credentials), self._permit))

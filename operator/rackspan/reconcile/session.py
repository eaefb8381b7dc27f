"""The connection to one Kafka cluster: made from the topology's spec and Secrets, and made anew when either changes."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackspan.reconcile.credentials import read_credentials
from rackspan.reconcile.failures import FailureError, Remedy

if TYPE_CHECKING:
    from rackspan.api.racktopology import KafkaSpec, RackTopology
    from rackspan.reconcile.ports import Cluster, Credentials, KafkaAdmin, KafkaConnector

_log = logging.getLogger("rackspan.reconcile")


@dataclass(frozen=True, slots=True)
class _Made:
    admin: KafkaAdmin
    kafka: KafkaSpec
    credentials: Credentials


class Session:
    """At most one client at a time."""

    def __init__(self, kafka: KafkaConnector, kube: Cluster) -> None:
        self._kafka = kafka
        self._kube = kube
        self._made: _Made | None = None
        self._last: tuple[KafkaSpec, Credentials] | None = None
        """What the last client was made of, for the time when Kafka fails and the API server is away as well."""

    @property
    def admin(self) -> KafkaAdmin | None:
        """The client, where there is one."""
        return self._made.admin if self._made else None

    async def connect(self, topology: RackTopology, *, fresh_secrets: bool) -> KafkaAdmin:
        """A client that fits the spec and, where they are to be read again, the Secrets. Raises FailureError."""
        made, kafka = self._made, topology.spec.kafka
        if made is not None and made.kafka == kafka and not (fresh_secrets and kafka.secret_names):
            return made.admin
        try:
            credentials = await read_credentials(kafka, topology.meta.namespace, self._kube)
        except FailureError as error:
            if self._last is None or self._last[0] != kafka or error.failure.remedy is not Remedy.RETRY:
                raise
            credentials = self._last[1]  # the API server is away, which is no reason to leave Kafka
        if made is not None and made.kafka == kafka and made.credentials == credentials:
            return made.admin
        admin = await self._kafka.connect(kafka, credentials)
        await self.close()
        self._made = _Made(admin, kafka, credentials)
        self._last = kafka, credentials
        _log.info("topology %s: connected to %s", topology.key, kafka.bootstrap_servers)
        return admin

    async def close(self) -> None:
        """Let go of the client."""
        made, self._made = self._made, None
        if made is not None:
            await made.admin.close()

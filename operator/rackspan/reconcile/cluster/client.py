"""The connection to one Kafka cluster: made from the topology's spec and Secrets, and made anew when either changes."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rackspan.reconcile.cluster.credentials import read_credentials
from rackspan.reconcile.cluster.group_commit import GroupedAdmin
from rackspan.reconcile.failures import FailureError, Remedy

if TYPE_CHECKING:
    from rackspan.api.racktopology import KafkaSpec, RackTopology
    from rackspan.reconcile.ports import Credentials, KafkaAdmin, KafkaConnector, KubeApi

_log = logging.getLogger("rackspan.reconcile")


class Session:
    """At most one client at a time."""

    def __init__(self, kafka: KafkaConnector, kube: KubeApi) -> None:
        self.admin: KafkaAdmin | None = None
        """The client, where there is one."""
        self._kafka = kafka
        self._kube = kube
        self._made_of: tuple[KafkaSpec, Credentials] | None = None
        """Of this client, or of the last one: when Kafka fails, the API server may be away as well."""

    async def connect(self, topology: RackTopology, *, fresh_secrets: bool) -> KafkaAdmin:
        """A client that fits the spec and, where they are to be read again, the Secrets. Raises FailureError."""
        kafka = topology.spec.kafka
        known = self._made_of[1] if self._made_of and self._made_of[0] == kafka else None
        if self.admin is not None and known is not None and not (fresh_secrets and kafka.secret_names):
            return self.admin
        try:
            credentials = await read_credentials(kafka, topology.meta.namespace, self._kube)
        except FailureError as error:
            if known is None or error.failure.remedy is not Remedy.RETRY:
                raise
            credentials = known  # the API server is away, which is no reason to leave Kafka
        if self.admin is not None and credentials == known:
            return self.admin
        admin = GroupedAdmin(await self._kafka.connect(kafka, credentials))
        await self.close()
        self.admin, self._made_of = admin, (kafka, credentials)
        _log.info("topology %s: connected to %s", topology.key, kafka.bootstrap_servers)
        return admin

    async def close(self) -> None:
        """Let go of the client."""
        admin, self.admin = self.admin, None
        if admin is not None:
            await admin.close()

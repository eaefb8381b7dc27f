"""The client of one Kafka cluster, replaced when the topology's spec or its Secrets change."""

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
    """Holds at most one client at a time."""

    def __init__(self, kafka: KafkaConnector, kube: KubeApi) -> None:
        self.admin: KafkaAdmin | None = None
        """The client, where there is one."""
        self._kafka = kafka
        self._kube = kube
        self._connected_with: tuple[KafkaSpec, Credentials] | None = None
        """Of the present or last client; kept to reconnect while the API server cannot be reached."""

    async def connect(self, topology: RackTopology, *, fresh_secrets: bool) -> KafkaAdmin:
        """A client for the topology's present spec and Secrets, which are read again if `fresh_secrets`.

        Raises FailureError where a Secret is missing or Kafka cannot be reached.
        """
        kafka = topology.spec.kafka
        last = self._connected_with[1] if self._connected_with and self._connected_with[0] == kafka else None
        if self.admin is not None and last is not None and not (fresh_secrets and kafka.secret_names):
            return self.admin
        try:
            credentials = await read_credentials(kafka, topology.meta.namespace, self._kube)
        except FailureError as error:
            if last is None or error.failure.remedy is not Remedy.RETRY:
                raise
            credentials = last  # the API server cannot be reached, but Kafka may be
        if self.admin is not None and credentials == last:
            return self.admin
        admin = GroupedAdmin(await self._kafka.connect(topology.key, kafka, credentials))
        await self.close()
        self.admin, self._connected_with = admin, (kafka, credentials)
        _log.info("topology %s: connected to %s", topology.key, kafka.bootstrap_servers)
        return admin

    async def close(self) -> None:
        """Close the client, if there is one."""
        admin, self.admin = self.admin, None
        if admin is not None:
            await admin.close()

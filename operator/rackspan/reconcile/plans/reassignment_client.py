"""The client that moves replicas of one topology, replaced when its spec changes or it was refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rackspan.reconcile.cluster.client import read_credentials

if TYPE_CHECKING:
    from rackspan.api.racktopology import KafkaSpec, RackTopology
    from rackspan.reconcile.ports import KubeApi
    from rackspan.reconcile.reassignment_ports import ClosableAdmin, ReassignmentConnector


class ReassignmentClient:
    """Holds at most one client at a time."""

    def __init__(self, connector: ReassignmentConnector, kube: KubeApi) -> None:
        self._connector = connector
        self._kube = kube
        self._admin: ClosableAdmin | None = None
        self._connected_with: KafkaSpec | None = None

    async def admin(self, topology: RackTopology) -> ClosableAdmin:
        """A client for the topology's spec, with the Secrets of when it was made. Raises FailureError."""
        kafka = topology.spec.kafka
        if self._admin is not None and self._connected_with == kafka:
            return self._admin
        await self.close()
        credentials = await read_credentials(kafka, topology.meta.namespace, self._kube)
        self._admin = await self._connector.connect(topology.key, kafka, credentials)
        self._connected_with = kafka
        return self._admin

    async def close(self) -> None:
        """Close the client, if there is one; the next one reads the Secrets again."""
        admin, self._admin = self._admin, None
        if admin is not None:
            await admin.close()

"""Sizes of replicas as brokers tell them; implements `reassignment_ports.ReplicaSizes`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rackspan.core.partitions import largest
from rackspan.reconcile.reassignments.reassignment_client import ReassignmentClient

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rackspan.api.racktopology import RackTopology
    from rackspan.core.reassignment import TopicPartition
    from rackspan.reconcile.ports import KubeApi
    from rackspan.reconcile.reassignments.executor_ports import ReassignmentConnector


class LogDirSizes:
    """Asks by a client of its own each time, which is seldom: a topology at rest has no connection for it."""

    def __init__(self, connector: ReassignmentConnector, kube: KubeApi) -> None:
        self._connector = connector
        self._kube = kube

    async def of(
        self, topology: RackTopology, partitions: Mapping[TopicPartition, Collection[int]]
    ) -> Mapping[TopicPartition, int]:
        """By one DescribeLogDirs to each broker, all at the same time; one that is away is left out."""
        connection = ReassignmentClient(self._connector, self._kube)
        try:
            admin = await connection.admin(topology)
            return largest(await admin.sizes(partitions))
        finally:
            await connection.close()

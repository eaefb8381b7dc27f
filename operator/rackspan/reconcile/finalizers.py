"""Writes our finalizer onto KafkaTopics and takes it off again: many side by side, and never too many."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rackspan.api.kafkatopic import KIND
from rackspan.reconcile.deletion import finalizers_for, without_finalizer
from rackspan.reconcile.ports import ObjectRef

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.reconcile.ports import Cluster, JsonObject

_AT_ONCE = 16


class Finalizers:
    """Shared by all topologies, so that one large one cannot flood the API server."""

    def __init__(self, kube: Cluster) -> None:
        self._kube = kube
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def put_on(self, topic: KafkaTopic) -> JsonObject | None:
        """The object with our finalizer; None where it changed meanwhile or is gone. Raises FailureError."""
        return await self._write(topic, finalizers_for(topic) or topic.meta.finalizers)

    async def take_off(self, topic: KafkaTopic) -> JsonObject | None:
        """The object without our finalizer; None where it changed meanwhile or is gone. Raises FailureError."""
        return await self._write(topic, without_finalizer(topic))

    async def _write(self, topic: KafkaTopic, finalizers: Sequence[str]) -> JsonObject | None:
        ref = ObjectRef(KIND, topic.key, topic.meta.uid)
        async with self._slots:
            return await self._kube.set_finalizers(ref, finalizers, topic.meta.resource_version)

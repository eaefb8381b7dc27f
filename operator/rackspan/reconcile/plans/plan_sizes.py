"""The bytes that the parts of a plan copy. They are kept apart from the plan, which does not depend on sizes.

Brokers are asked while a plan copies anything: when it copies other partitions than before, and then every five
minutes, or sooner while a size is not known. Statuses show bytes rounded to two digits, and change only if they are off
by a tenth, because sizes change all the time.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rackspan.core.partitions import largest
from rackspan.core.reassignment import TopicPartition, of_change
from rackspan.core.text import rounded
from rackspan.reconcile.cluster.client import ReassignmentClient
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.runtime.threads import in_planner_thread

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology
    from rackspan.core.planning import Change, TopicPlan
    from rackspan.reconcile.plans.topology_plan import WholePlan
    from rackspan.reconcile.ports import KubeApi, ReassignmentConnector


_log = logging.getLogger("rackspan.reconcile")
LOOK_SECONDS: Final = 300.0
"""The maximum age of sizes."""
_LEAST_SECONDS = 10.0
"""The minimum time between two requests, however often the plan changes. While a size is not known, the time until the
next request doubles from this up to LOOK_SECONDS: a size may stay unknown, as that of an offline partition does."""
_STEADY = 10
"""A size is not reported again while it differs from the reported one by at most a fraction of 1 / _STEADY."""


class PlanSizes:
    """The last reported sizes of the partitions that the current plan copies."""

    def __init__(self, connector: ReassignmentConnector, kube: KubeApi) -> None:
        self._connector = connector
        self._kube = kube
        self._asked_at = float("-inf")
        self._pause = LOOK_SECONDS
        self._retry_pause = _LEAST_SECONDS
        """The next pause after which brokers are asked again for a size that is not known."""
        self._asked: frozenset[TopicPartition] = frozenset()
        self._known: Mapping[TopicPartition, int] = {}
        self._bytes: Mapping[str, int | None] = {}
        """The bytes of the parts for whose partitions brokers have been asked, by the hashes of the parts."""

    def is_known(self, part: TopicPlan) -> bool:
        """Return whether brokers have been asked about this part, whatever their response."""
        return not part.moves or part.hash in self._bytes

    def of(self, part: TopicPlan) -> int | None:
        """Return the bytes that a part copies, or None if the size of any partition that it copies is not known."""
        return self._bytes.get(part.hash) if part.moves else 0

    def sized(self, parts: Mapping[ObjectKey, TopicPlan]) -> Mapping[ObjectKey, list[Change]]:
        """Return the changes of existing partitions, with the known sizes, by part."""
        return {
            key: [replace(one, size_bytes=self._known.get(of_change(one))) for one in part.changes if one.before]
            for key, part in parts.items()
        }

    async def look(self, topology: RackTopology, whole: WholePlan) -> None:
        """Ask brokers if it is time. Without a response, the known sizes stay. Never raises."""
        parts = {part.hash: part for part in whole.parts.values() if part.moves}
        now = asyncio.get_running_loop().time()
        new = [part for text, part in parts.items() if text not in self._bytes]
        due = now - self._asked_at >= self._pause
        if not due and new and now - self._asked_at >= _LEAST_SECONDS:
            due = not (await in_planner_thread(_copied, new)).keys() <= self._asked
        if parts and due:
            self._asked_at = now
            copied = await in_planner_thread(_copied, parts.values())
            try:
                self._known = await self._asked_sizes(topology, copied)
            except FailureError as error:
                _log.warning("topology %s: sizes of replicas are not known: %s", topology.key, error)
            self._asked, new = frozenset(copied), list(parts.values())
            if self._asked <= self._known.keys():
                self._pause, self._retry_pause = LOOK_SECONDS, _LEAST_SECONDS
            else:
                self._pause, self._retry_pause = self._retry_pause, min(2 * self._retry_pause, LOOK_SECONDS)
        known = {text: size for text, size in self._bytes.items() if text in parts}
        self._bytes = known | (await in_planner_thread(_bytes, new, self._known, self._asked) if new else {})

    async def _asked_sizes(
        self, topology: RackTopology, partitions: Mapping[TopicPartition, Collection[int]]
    ) -> Mapping[TopicPartition, int]:
        """Return the bytes of one replica of each partition: the largest that one of the given brokers reports.

        One DescribeLogDirs request goes to each broker, in parallel. Its client is closed then, so that an idle
        topology keeps no connection. Partitions that no broker reports are left out. Raises FailureError if none
        responds.
        """
        client = ReassignmentClient(self._connector, self._kube)
        try:
            return largest(await (await client.admin(topology)).sizes(partitions))
        finally:
            await client.close()


def steady(number: int, before: int | None) -> int:
    """Return bytes for a status: `before`, reported for the same plan, while about right, else `number` rounded."""
    return before if before is not None and abs(number - before) * _STEADY <= before else rounded(number)


def _copied(parts: Iterable[TopicPlan]) -> Mapping[TopicPartition, tuple[int, ...]]:
    """Return the partitions that are copied, and the brokers that hold them."""
    return {of_change(change): change.before for part in parts for change in part.changes if change.copied}


def _bytes(
    parts: Iterable[TopicPlan], known: Mapping[TopicPartition, int], asked: frozenset[TopicPartition]
) -> dict[str, int | None]:
    """Return the bytes of each part that was asked about, by its hash; None if a size is not known."""
    found: dict[str, int | None] = {}
    for part in parts:
        copied = [(change.copied, of_change(change)) for change in part.changes if change.copied]
        if all(at in asked for _, at in copied):
            sizes = [(replicas, known.get(at)) for replicas, at in copied]
            unknown = any(size is None for _, size in sizes)
            found[part.hash] = None if unknown else sum(replicas * (size or 0) for replicas, size in sizes)
    return found

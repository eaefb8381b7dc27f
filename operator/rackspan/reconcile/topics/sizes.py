"""How many bytes the parts of a plan copy. Known apart from the plan, which no size changes.

Brokers are asked while a plan copies anything: when it is another one, and then every five minutes. What is told of it
is rounded to two digits, and told anew once it is a tenth off, since sizes change all the time.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from rackspan.core.reassignment import TopicPartition
from rackspan.core.text import rounded
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.runtime.threads import in_planner_thread

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rackspan.api.racktopology import RackTopology
    from rackspan.core.planning import Change, TopicPlan
    from rackspan.reconcile.reassignment_ports import ReplicaSizes
    from rackspan.reconcile.topics.plan import WholePlan

_log = logging.getLogger("rackspan.reconcile")
LOOK_SECONDS: Final = 300.0
"""How old sizes may be."""
_LEAST_SECONDS = 10.0
"""Between two questions, however often the plan changes."""
_STEADY = 10
"""Sizes within one in so many of what was told are not told anew."""


class PlanSizes:
    """What brokers told last of the partitions that the present plan copies."""

    def __init__(self, sizes: ReplicaSizes) -> None:
        self._sizes = sizes
        self._plan = ""
        self._asked_at = float("-inf")
        self._known: Mapping[TopicPartition, int] = {}
        self._bytes: Mapping[str, int] = {}

    def is_known(self, whole: WholePlan) -> bool:
        """Whether brokers have been asked about this plan, whatever they said."""
        return self._plan == whole.hash

    def of(self, part: TopicPlan) -> int | None:
        """The bytes that a part copies; None while the size of any partition that it copies is not known."""
        return self._bytes.get(part.hash) if part.moves else 0

    def sized(self, changes: Iterable[Change]) -> list[Change]:
        """Changes with the sizes that are known."""
        return [replace(one, size_bytes=self._known.get(_partition(one))) for one in changes]

    async def look(self, topology: RackTopology, whole: WholePlan) -> None:
        """Ask brokers if it is time. Without an answer what was known of the same plan stays. Never raises."""
        parts = [part for part in whole.parts.values() if part.moves]
        now = asyncio.get_running_loop().time()
        if not parts:
            self._plan, self._known, self._bytes = whole.hash, {}, {}
            return
        if now - self._asked_at < (LOOK_SECONDS if self.is_known(whole) else _LEAST_SECONDS):
            return
        self._asked_at = now
        try:
            found = await self._sizes.of(topology, await in_planner_thread(partial(_copied, parts)))
        except FailureError as error:
            _log.warning("topology %s: sizes of replicas are not known: %s", topology.key, error)
            found = self._known
        self._bytes = await in_planner_thread(partial(_bytes, parts, found))
        self._plan, self._known = whole.hash, found


def steady(number: int, before: int | None) -> int:
    """A number of bytes as a status tells it; `before` is what it told of the same plan, and stays while about true."""
    return before if before is not None and abs(number - before) * _STEADY <= before else rounded(number)


def _copied(parts: Iterable[TopicPlan]) -> Mapping[TopicPartition, tuple[int, ...]]:
    """The partitions that are copied, and the brokers that hold them."""
    return {_partition(change): change.before for part in parts for change in part.changes if change.copied}


def _bytes(parts: Iterable[TopicPlan], known: Mapping[TopicPartition, int]) -> Mapping[str, int]:
    """The bytes of each part by its hash, without those of which a size is not known."""
    found = {}
    for part in parts:
        copied = [(change.copied, known.get(_partition(change))) for change in part.changes if change.copied]
        sizes = [replicas * size for replicas, size in copied if size is not None]
        if len(sizes) == len(copied):
            found[part.hash] = sum(sizes)
    return found


def _partition(change: Change) -> TopicPartition:
    return TopicPartition(change.topic, change.partition)

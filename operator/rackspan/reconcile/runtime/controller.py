"""Control loops over all objects of a kind: what wakes them, and that no failed pass ends one."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from rackspan import metrics
from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.runtime.waiting import wait_debounced

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rackspan.api.meta import Meta, ObjectKey
    from rackspan.api.racktopology import RackTopology
    from rackspan.reconcile.runtime.waiting import Liveness

_RETRY_SECONDS = 15.0


class LastAsked:
    """What each object asked for last. An object that asks for the same, as after a write of its status, is no news."""

    def __init__(self) -> None:
        self._last: dict[ObjectKey, object] = {}

    def is_new(self, key: ObjectKey, asked: object) -> bool:
        """Whether the object asks for something else than at the last call."""
        before, self._last[key] = self._last.get(key), asked
        return before != asked

    def forget(self, key: ObjectKey) -> None:
        """The object was deleted."""
        self._last.pop(key, None)


class Controller(ABC):
    """A level-triggered loop over all topologies: each pass starts from the present state, not from what changed."""

    name: ClassVar[str]
    watched: ClassVar[frozenset[str]] = frozenset()
    """Kinds of objects that the loop depends on, apart from RackTopologies."""
    debounce_seconds: ClassVar[float] = 0.5

    def __init__(self, liveness: Liveness) -> None:
        self._liveness = liveness
        self._asked = LastAsked()
        self._wake = asyncio.Event()

    @abstractmethod
    async def reconcile(self) -> float:
        """One pass over all topologies; the seconds until the next one. Raises FailureError."""

    def asked(self, topology: RackTopology) -> object:
        """What a topology asks of this loop."""
        return spec_version(topology.meta)

    def topology_changed(self, topology: RackTopology) -> None:
        """Run soon if the topology asks for something else than before."""
        if self._asked.is_new(topology.key, self.asked(topology)):
            self._wake.set()

    def topology_gone(self, key: ObjectKey) -> None:
        """Run soon: a topology was deleted."""
        self._asked.forget(key)
        self._wake.set()

    def changed(self, kind: str, namespace: str = "") -> None:  # noqa: ARG002 - for some loops it matters
        """Run soon if the loop depends on objects of this kind, one of which changed or was deleted."""
        if kind in self.watched:
            self._wake.set()

    async def run(self) -> None:
        """Loop until cancelled."""
        await run_guarded(self.name, self.reconcile, self._wake, self.debounce_seconds, self._liveness)


def spec_version(meta: Meta) -> tuple[str, int | None, bool]:
    """What changes with the spec of an object, and with its deletion, but not with its status."""
    return meta.uid, meta.generation, meta.is_deleting


async def run_guarded(
    name: str, reconcile: Callable[[], Awaitable[float]], wake: asyncio.Event, debounce: float, liveness: Liveness
) -> None:
    """Loop until cancelled: a pass, which gives the seconds until the next one; earlier if `wake` is set.

    After `wake`, `debounce` seconds gather a burst. A pass that fails is counted, logged under the loop's `name` and
    made again in 15 seconds.
    """
    log = logging.getLogger(f"rackspan.{name}")
    while True:
        pause = _RETRY_SECONDS
        try:
            with liveness.track(name):
                pause = await reconcile()
        except FailureError as error:
            metrics.count_error("", error.failure.remedy, error.failure.reason)
            log.warning("%s: %s", name, error)
        except Exception:
            metrics.count_error("", Remedy.RETRY, Reason.UNEXPECTED_ERROR)
            log.exception("%s: unexpected error", name)
        await wait_debounced(wake, pause, debounce)


def unexpected_failure(name: str, topology: ObjectKey, error: Exception) -> Failure:
    """One topology's failure from an error that nobody foresaw in the loop `name`: counted and logged."""
    metrics.count_error(str(topology), Remedy.RETRY, Reason.UNEXPECTED_ERROR)
    logging.getLogger(f"rackspan.{name}").error("topology %s: unexpected error", topology, exc_info=error)
    return Failure(Reason.UNEXPECTED_ERROR, f"{type(error).__name__}, see the operator's log", Remedy.RETRY)

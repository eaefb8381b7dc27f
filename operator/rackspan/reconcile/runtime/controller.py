"""Control loops over all objects of a kind. Changes wake a loop, and a failed pass does not end it."""

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
    """The last inputs of each object. An object with the same inputs, as after a write of its status, is not new."""

    def __init__(self) -> None:
        self._last: dict[ObjectKey, object] = {}

    def is_new(self, key: ObjectKey, asked: object) -> bool:
        """Return whether the object's inputs differ from those at the last call."""
        before, self._last[key] = self._last.get(key), asked
        return before != asked

    def forget(self, key: ObjectKey) -> None:
        """Forget an object that was deleted."""
        self._last.pop(key, None)


class Controller(ABC):
    """A level-triggered loop over all topologies: each pass starts from the current state, not from the changes."""

    name: ClassVar[str]
    watched: ClassVar[frozenset[str]] = frozenset()
    """The kinds of objects on which the loop depends, apart from RackTopologies."""
    debounce_seconds: ClassVar[float] = 0.5

    def __init__(self, liveness: Liveness) -> None:
        self._liveness = liveness
        self._asked = LastAsked()
        self._wake = asyncio.Event()

    @abstractmethod
    async def reconcile(self) -> float:
        """Run one pass over all topologies and return the seconds until the next pass. Raises FailureError."""

    def asked(self, topology: RackTopology) -> object:
        """Return the inputs that the loop takes from a topology. A change of the inputs wakes the loop."""
        return spec_version(topology.meta)

    def topology_changed(self, topology: RackTopology) -> None:
        """Run soon if the topology's inputs have changed."""
        if self._asked.is_new(topology.key, self.asked(topology)):
            self._wake.set()

    def topology_gone(self, key: ObjectKey) -> None:
        """Run soon, because a topology was deleted."""
        self._asked.forget(key)
        self._wake.set()

    def changed(self, kind: str, namespace: str = "") -> None:  # noqa: ARG002 - for some loops it matters
        """Run soon if the loop depends on this kind, of which an object was changed or deleted."""
        if kind in self.watched:
            self._wake.set()

    async def run(self) -> None:
        """Loop until cancelled."""
        await run_guarded(self.name, self.reconcile, self._wake, self.debounce_seconds, self._liveness)


def spec_version(meta: Meta) -> tuple[str, int | None, bool]:
    """Return a value that changes with an object's spec and with its deletion, but not with its status."""
    return meta.uid, meta.generation, meta.is_deleting


def request_version(meta: Meta) -> object:
    """Return a value that changes with whatever an object requests: its spec, its deletion, or a pause."""
    return spec_version(meta), meta.is_paused


async def run_guarded(
    name: str, reconcile: Callable[[], Awaitable[float]], wake: asyncio.Event, debounce: float, liveness: Liveness
) -> None:
    """Run passes until cancelled. A pass returns the seconds until the next pass, which begins earlier after `wake`.

    After `wake`, the loop waits for `debounce` seconds to gather a burst. A failed pass is counted, logged under the
    loop's `name` and retried in 15 seconds.
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
    """Count and log an unexpected error in the loop `name`, and return it as the failure of one topology."""
    metrics.count_error(str(topology), Remedy.RETRY, Reason.UNEXPECTED_ERROR)
    logging.getLogger(f"rackspan.{name}").error("topology %s: unexpected error", topology, exc_info=error)
    return Failure(Reason.UNEXPECTED_ERROR, f"{type(error).__name__}, see the operator's log", Remedy.RETRY)

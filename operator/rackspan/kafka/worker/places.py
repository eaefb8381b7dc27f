"""The worker process of a topology's clients, and when it may start. Pure: times are arguments, in seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.runtime.namespaces import NamespaceSet

if TYPE_CHECKING:
    from collections.abc import Collection

    from rackspan.api.meta import ObjectKey

TURN = 60.0
"""How long a worker of an untrusted namespace keeps its place while others wait for one."""
ISOLATION = 600.0
"""How long a topology that may have ended the shared worker has a worker of its own."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""The pause before a failed worker is started again. It doubles with each failure."""
_PATIENCE = 45.0
"""How long a boundary keeps its position in the queue without a retry: failed topologies retry every 15 s."""


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """The limits of worker processes; memory is in bytes.

    Topologies of `trusted` namespaces share a worker. Each other namespace has a separate worker, `most_untrusted` at a
    time.
    """

    trusted: NamespaceSet = field(default_factory=NamespaceSet)
    trusted_memory: int = 320 << 20
    untrusted_memory: int = 128 << 20
    most_untrusted: int = 4


@dataclass(frozen=True, slots=True)
class Boundary:
    """The clients that share a worker: of all trusted namespaces (no name), of one namespace, or of one topology."""

    name: str
    trusted: bool

    def __str__(self) -> str:
        return self.name or "trusted namespaces"


_SHARED = Boundary("", trusted=True)


@dataclass(frozen=True, slots=True)
class _Pause:
    seconds: float
    until: float
    failure: Failure


class Places:
    """The boundaries that run, that wait for a place, and that have failed."""

    def __init__(self, limits: WorkerLimits) -> None:
        self._limits = limits
        self._running: dict[Boundary, float] = {}
        """The start times."""
        self._waiting: dict[Boundary, float] = {}
        """The times of the latest requests, in the order of arrival."""
        self._pauses: dict[Boundary, _Pause] = {}
        self._isolated: dict[ObjectKey, float] = {}
        """The times at which the isolation ends."""

    def boundary(self, owner: ObjectKey, now: float) -> Boundary:
        """Return the boundary that the clients of this topology run in."""
        if owner.namespace not in self._limits.trusted:
            return Boundary(owner.namespace, trusted=False)
        if now < self._isolated.get(owner, now):
            return Boundary(str(owner), trusted=True)
        return _SHARED

    def enter(self, boundary: Boundary, now: float) -> Boundary | None:
        """Take a place, and return the boundary that has to leave, if any. Raises FailureError if it has to wait."""
        pause = self._pauses.get(boundary)
        if pause is not None and now < pause.until:
            raise FailureError(pause.failure)
        leaving = None if boundary.trusted else self._make_room(boundary, now)
        if leaving is not None:
            del self._running[leaving]
        self._running[boundary] = now
        return leaving

    def leave(self, boundary: Boundary) -> None:
        """Give up the place: the worker is no longer needed."""
        self._running.pop(boundary, None)

    def fail(self, boundary: Boundary, failure: Failure, suspects: Collection[ObjectKey], now: float) -> None:
        """Give up the place: the worker failed.

        `suspects` are the topologies with calls in progress. Trusted suspects are isolated for a while, so that a Kafka
        that crashes its client does not crash the clients of other topologies again.
        """
        lived = now - self._running.pop(boundary, now)
        self._pauses = {one: pause for one, pause in self._pauses.items() if now < pause.until + _LONGEST_PAUSE}
        before = self._pauses.get(boundary)
        seconds = _FIRST_PAUSE if before is None or lived >= TURN else min(before.seconds * 2, _LONGEST_PAUSE)
        self._pauses[boundary] = _Pause(seconds, now + seconds, failure)
        if boundary.trusted:
            self._isolated = {one: until for one, until in self._isolated.items() if now < until}
            self._isolated |= dict.fromkeys(suspects, now + ISOLATION)

    def _make_room(self, boundary: Boundary, now: float) -> Boundary | None:
        """Return the boundary that has to leave, or None if a place is free. Raises FailureError if it has to wait."""
        self._waiting = {one: at for one, at in self._waiting.items() if now - at < _PATIENCE}
        ahead = list(self._waiting).index(boundary) if boundary in self._waiting else len(self._waiting)
        untrusted = [one for one in self._running if not one.trusted]
        free = self._limits.most_untrusted - len(untrusted)
        leaving = None
        if ahead >= free:
            # Boundaries whose turn has ended leave one by one. Each boundary ahead in the queue keeps a place reserved.
            over = [one for one in untrusted if now - self._running[one] >= TURN]
            if ahead >= free + len(over):
                self._waiting[boundary] = now
                raise FailureError(_waiting(self._limits.most_untrusted))
            leaving = min(over, key=lambda one: self._running[one])
        self._waiting.pop(boundary, None)
        return leaving


def _waiting(most: int) -> Failure:
    """Return the Failure of a namespace that has no place yet. Its text is always the same."""
    return Failure(
        Reason.KAFKA_CLIENT_WAITING,
        f"the Kafka clients of {most} other namespaces run, and no more run at a time: namespaces take turns of "
        f"{TURN:g} s; to run more at a time, raise kafka.untrusted.max of the chart, or trust the namespace",
        Remedy.RETRY,
    )

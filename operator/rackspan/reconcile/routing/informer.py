"""Takes the watch events of one kind: whether they are news, and what is done then."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

from rackspan.api.errors import SpecError
from rackspan.reconcile.runtime.informer import key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rackspan.api.meta import ObjectKey
    from rackspan.reconcile.runtime.informer import ObjectVersions

_log = logging.getLogger("rackspan.reconcile")


class ResourceHandler(Protocol):
    """What the objects of one kind are to the operator."""

    def put(self, body: Mapping[str, Any]) -> None:
        """Remember an object, and wake loops that need not know the other kinds. Raises SpecError if unreadable."""

    def changed(self, key: ObjectKey) -> None:
        """An object may have changed: start what has to be done."""

    def drop(self, key: ObjectKey) -> None:
        """An object was deleted: forget it, and what was done for it."""


class Informer:
    """The way from a watch to a kind's `handler`. `relisted` is called where the API server listed the kind again."""

    def __init__(
        self, kind: str, handler: ResourceHandler, versions: ObjectVersions, relisted: Callable[[], None]
    ) -> None:
        self._kind = kind
        self._handler = handler
        self._versions = versions
        self._relisted = relisted

    def take(self, event_type: str | None, body: Mapping[str, Any]) -> None:
        """One event as kopf gives it: ADDED, MODIFIED or DELETED, and None for an object of a (re)list."""
        if event_type == "DELETED":
            self.gone(body)
        elif event_type is None:
            self.known(body, listed=True)
            self._relisted()
            self._handler.changed(key_of(body))
        else:
            self.seen(body)

    def known(self, body: Mapping[str, Any], *, listed: bool = False) -> None:
        """Remember an object, without `changed`: ignored where a newer one of the name is known."""
        if self._versions.record(self._kind, body, listed=listed):
            try:
                self._handler.put(body)
            except SpecError as error:
                _log.error("%s %s cannot be read: %s", self._kind, key_of(body), error)

    def seen(self, body: Mapping[str, Any]) -> None:
        """An object was added or modified."""
        self.known(body)
        self._handler.changed(key_of(body))

    def gone(self, body: Mapping[str, Any]) -> None:
        """An object was deleted. Ignored where a newer one of the same name is known."""
        if self._versions.record_deletion(self._kind, body):
            self._handler.drop(key_of(body))

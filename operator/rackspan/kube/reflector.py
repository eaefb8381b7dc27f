"""Lists objects, then watches them. For kinds with very many objects, of which Rackspan needs only a few fields.

Named after client-go's `tools/cache.Reflector`. The reflector reads a list in pages, with one page in memory at a time,
and decodes only the fields in `kube_objects.Pod`. A watch continues from the resourceVersion of the list, so that no
change is missed. If the API server no longer has that version, the reflector lists all objects again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec

from rackspan.api.reasons import Reason
from rackspan.kube.kube_objects import EVENT, POD, POD_PAGE, WHOLE
from rackspan.kube.paths import with_query
from rackspan.kube.rest import SILENT_SECONDS, ExpiredError, ForbiddenError, NotFoundError, not_now
from rackspan.metrics import count_error
from rackspan.reconcile.failures import DeniedError, Failure, FailureError, Remedy
from rackspan.reconcile.runtime.informer import key_of

if TYPE_CHECKING:
    from rackspan.kube.kube_objects import Event
    from rackspan.kube.paths import ApiPath
    from rackspan.kube.rest import Rest
    from rackspan.reconcile.ports import Listener

_log = logging.getLogger("rackspan.kube")
_WATCH_SECONDS: Final = 300
"""The API server ends a watch after this time. The next watch continues from there."""
_LATE_SECONDS: Final = 30
"""How long after that the response is abandoned, because its connection is dead."""
_LIST_ATTEMPTS: Final = 3
"""Attempts at a list that expires before its last page is read."""
_LEAST_PAUSE_SECONDS: Final = 0.5
_MOST_PAUSE_SECONDS: Final = 5.0
_pause = asyncio.sleep


class _Status(msgspec.Struct):
    """The `object` of an ERROR event."""

    code: int = 0
    message: str = ""


_status = msgspec.json.Decoder(_Status)


class KubeReflector:
    """Reports all objects of one collection to a listener; implements `reconcile.ports.Reflector`.

    `namespace` is the namespace of the collection, empty for all namespaces. `accept` are the media types of lists and
    of watches.
    """

    def __init__(
        self, rest: Rest, path: ApiPath, namespace: str, listener: Listener, accept: tuple[str, str] = (WHOLE, WHOLE)
    ) -> None:
        self._rest = rest
        self._path = path
        self._namespace = namespace
        self._listener = listener
        self._accept_list, self._accept_one = accept
        self._version = ""
        """The resourceVersion up to which all changes are known; empty if a list is needed."""
        self._failures = 0
        """The number of consecutive failures since the last event, or since a watch ended without an error."""

    async def list(self) -> None:
        """Report all objects and deletions. Raises FailureError, and DeniedError if the namespace may not be read."""
        for attempts_left in reversed(range(_LIST_ATTEMPTS)):
            try:
                self._version = await self._list()
            except ExpiredError:
                if not attempts_left:
                    raise
            except NotFoundError as error:
                raise not_now("GET", self._path, error) from error
            except ForbiddenError as error:
                if not self._namespace:
                    raise
                raise DeniedError(error.failure, frozenset((self._namespace,))) from error
            else:
                return

    async def _list(self) -> str:
        known = self._listener.known()
        gone = {key for key in known if not self._namespace or key.namespace == self._namespace}
        version = ""
        async for page in self._rest.pages("list_objects", self._path, POD_PAGE, accept=self._accept_list):
            for body in page:
                gone.discard(key_of(body))
                self._listener.seen(body)
            version = page.metadata.resourceVersion
        for key in gone:
            self._listener.gone(key)
        return version

    async def watch(self) -> None:
        """Report every change since the list, for ever. List again if needed. Never raises."""
        while True:
            try:
                if not self._version:
                    await self.list()
                await self._follow()
                self._failures = 0
            except ExpiredError:
                self._version = ""
                self._failures += 1
            except (FailureError, NotFoundError) as error:
                self._failures += 1
                # Meanwhile what is known becomes outdated. Another metric counts namespaces that are left out.
                if isinstance(error, FailureError) and not isinstance(error, DeniedError):
                    count_error("", error.failure.remedy, error.failure.reason)
                level = logging.DEBUG if self._failures > 1 else logging.WARNING
                _log.log(level, "watch of %s: %s", self._path, error)
            except Exception:
                self._failures += 1
                _log.exception("watch of %s: unexpected error", self._path)
            if self._failures > 1:
                self._version = ""  # the version may be the cause, for example after etcd was restored
            await _pause(min(_MOST_PAUSE_SECONDS, _LEAST_PAUSE_SECONDS * 2 ** min(self._failures, 10)))

    async def _follow(self) -> None:
        """Report changes until the watch ends. Raises ExpiredError, NotFoundError and FailureError."""
        asked: dict[str, str | int] = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": _WATCH_SECONDS,
        }
        clock = asyncio.get_running_loop().time
        begun, silent = clock(), True
        lines = self._rest.lines(with_query(self._path, asked), _WATCH_SECONDS + _LATE_SECONDS, self._accept_one)
        try:
            async with contextlib.aclosing(lines):
                async for line in lines:
                    silent = False
                    self._take(EVENT.decode(line))
                    self._failures = 0
        finally:
            if silent and clock() - begun >= SILENT_SECONDS:
                self._version = ""

    def _take(self, event: Event) -> None:
        if event.type == "ERROR":
            error = _status.decode(event.object)
            failure = Failure(Reason.API_SERVER_UNREACHABLE, f"{error.code} {error.message}", Remedy.RETRY)
            raise ExpiredError(failure) if error.code == HTTPStatus.GONE else FailureError(failure)
        body = POD.decode(event.object)
        if event.type == "DELETED":
            self._listener.gone(key_of(body))
        elif event.type != "BOOKMARK":
            self._listener.seen(body)
        self._version = body["metadata"]["resourceVersion"]

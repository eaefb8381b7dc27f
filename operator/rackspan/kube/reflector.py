"""Lists objects, then watches them: for kinds of which a cluster has very many, and of which few parts are needed.

Named after client-go's `tools/cache.Reflector`. A list comes in pages, of which one is in memory at once, and of each
object only what `_Object` names is decoded. A watch goes on from the version of the list, so that nothing is missed in
between; where the API server has forgotten that version, all is listed again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final, TypedDict

import msgspec

from rackspan.api.reasons import Reason
from rackspan.kube.paths import with_query
from rackspan.kube.rest import PAGE, ExpiredError, NotFoundError
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.runtime.object_versions import key_of

if TYPE_CHECKING:
    from rackspan.kube.paths import ApiPath
    from rackspan.kube.rest import Rest
    from rackspan.reconcile.ports import Listener

_log = logging.getLogger("rackspan.kube")
_WATCH_SECONDS: Final = 300
"""After so long the API server ends a watch, and the next one goes on from there."""
_LATE_SECONDS: Final = 30
"""How long after that an answer is given up: its connection is dead."""
_LIST_ATTEMPTS: Final = 3
"""Attempts at a list that expires before its last page is read."""
_LEAST_PAUSE_SECONDS: Final = 0.5
_MOST_PAUSE_SECONDS: Final = 5.0
_GONE: Final = 410


class _Metadata(TypedDict, total=False):
    name: str
    namespace: str
    resourceVersion: str
    labels: dict[str, str] | None
    annotations: dict[str, str] | None


class _Spec(TypedDict, total=False):
    nodeName: str


class _PodStatus(TypedDict, total=False):
    phase: str


class _Object(TypedDict, total=False):
    """All that Rackspan reads of Pods, Nodes and Namespaces."""

    metadata: _Metadata
    spec: _Spec
    status: _PodStatus


class _ListMetadata(msgspec.Struct):
    resourceVersion: str = ""  # noqa: N815
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _ListMetadata = msgspec.field(default_factory=_ListMetadata)
    items: list[_Object] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct):
    """What an ERROR event has for an object."""

    code: int = 0
    message: str = ""


_page = msgspec.json.Decoder(_Page)
_event = msgspec.json.Decoder(_Event)
_object = msgspec.json.Decoder(_Object)
_status = msgspec.json.Decoder(_Status)


class Reflector:
    """Tells a listener of all objects of one collection; implements `reconcile.ports.Reflector`.

    `namespace` is that of the collection, empty for one over all namespaces.
    """

    def __init__(self, rest: Rest, path: ApiPath, namespace: str, listener: Listener) -> None:
        self._rest = rest
        self._path = path
        self._namespace = namespace
        self._listener = listener
        self._version = ""
        """Up to which all is known; empty where it has to be listed."""

    async def list(self) -> None:
        """Tell of all objects, and of those that are gone. Raises FailureError."""
        for attempts_left in reversed(range(_LIST_ATTEMPTS)):
            try:
                self._version = await self._list()
            except ExpiredError:
                if not attempts_left:
                    raise
            except NotFoundError as error:
                what = f"GET {self._path}: {error}"
                raise FailureError(Failure(Reason.API_SERVER_UNREACHABLE, what, Remedy.RETRY)) from error
            else:
                return

    async def _list(self) -> str:
        known = self._listener.known()
        gone = {key for key in known if not self._namespace or key.namespace == self._namespace}
        token = ""
        while True:
            asked: dict[str, str | int] = {"limit": PAGE, **({"continue": token} if token else {})}
            page = _page.decode(await self._rest.read("list_objects", with_query(self._path, asked)))
            for body in page.items or ():
                gone.discard(key_of(body))
                self._listener.seen(body)
            token = page.metadata.continue_
            if not token:
                break
        for key in gone:
            self._listener.gone(key)
        return page.metadata.resourceVersion

    async def watch(self) -> None:
        """Tell of every change since the list, for ever. Lists again where that is needed; never raises."""
        failures = 0
        while True:
            try:
                if not self._version:
                    await self.list()
                await self._follow()
                failures = 0
            except ExpiredError:
                self._version = ""
                failures += 1
            except (FailureError, NotFoundError) as error:
                failures += 1
                _log.log(logging.DEBUG if failures > 1 else logging.WARNING, "watch of %s: %s", self._path, error)
            except Exception:
                failures += 1
                _log.exception("watch of %s: unexpected error", self._path)
            if failures > 1:
                self._version = ""  # what is refused twice may be refused for its version, as after a restored backup
            await _pause(min(_MOST_PAUSE_SECONDS, _LEAST_PAUSE_SECONDS * 2 ** min(failures, 10)))

    async def _follow(self) -> None:
        """Tell of changes until the watch ends. Raises ExpiredError, NotFoundError and FailureError."""
        asked: dict[str, str | int] = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": _WATCH_SECONDS,
        }
        lines = self._rest.lines(with_query(self._path, asked), _WATCH_SECONDS + _LATE_SECONDS)
        async with contextlib.aclosing(lines):
            async for line in lines:
                self._take(_event.decode(line))

    def _take(self, event: _Event) -> None:
        if event.type == "ERROR":
            error = _status.decode(event.object)
            failure = Failure(Reason.API_SERVER_UNREACHABLE, f"{error.code} {error.message}", Remedy.RETRY)
            raise ExpiredError(failure) if error.code == _GONE else FailureError(failure)
        body = _object.decode(event.object)
        if event.type == "DELETED":
            self._listener.gone(key_of(body))
        elif event.type != "BOOKMARK":
            self._listener.seen(body)
        self._version = body["metadata"]["resourceVersion"]


async def _pause(seconds: float) -> None:
    await asyncio.sleep(seconds)

"""Kopf's connection to the API server: kopf receives only the fields of objects that Rackspan reads.

Kopf requests pages of a fixed number of whole objects, decodes the whole response, and keeps each object in its own
task for a while. So a user who may write objects could make kopf use any amount of memory.

Kopf exits, and so does the operator, on many responses of the API server or of a proxy in front of it, although the
next response may be valid. This module replaces these responses by others after which kopf lists again. After some
responses kopf retries at once and without limit. This module delays those.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

import aiohttp
import kopf

from rackspan.kube.kube_objects import EVENT, reduced_event, reduced_page
from rackspan.kube.rest import SILENT_SECONDS, PageSize, TooLongError, lines_of, read_at_most
from rackspan.reconcile.runtime.workqueue import backoff

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable

    from aiohttp import ClientHandlerType, ClientRequest, ClientResponse

    from rackspan.kube.authentication import Login

_log = logging.getLogger("rackspan")
_NO_SUCH_VERSION: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.GONE)
"""The status codes of a watch whose resourceVersion is invalid or too old."""
_IN_NAMESPACE: Final = re.compile("/namespaces/([^/]+)/[^/]+$")
_EXPIRED: Final = b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n'
"""The only error of a watch after which kopf lists again. Kopf exits on all others."""
_SHORT_SECONDS: Final = 1.0
"""A watch that ends within this time was cut off."""
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 10.0
_pause = asyncio.sleep


@dataclass(frozen=True, kw_only=True)
class ApiSession(kopf.AiohttpSession):
    """A session that compares equal by its credentials, because kopf does not use rejected credentials again."""

    login: Login
    aiohttp_session: aiohttp.ClientSession = field(compare=False)


def connect(login: Login, survival: Survival, *, tls: ssl.SSLContext, trust_env: bool) -> ApiSession:
    """Return a new session with these credentials. Kopf closes the session."""
    known = kopf.ConnectionInfo(**asdict(login))
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=tls),
        headers=known.as_http_headers(),
        proxy=known.proxy_url,
        trust_env=trust_env,
        response_class=_Answer,
        middlewares=(survival, _SmallPages()),
    )
    return ApiSession(server=login.server, login=login, aiohttp_session=session)


class Survival:
    """Middleware that replaces responses on which kopf exits by errors on which kopf retries, with backoff.

    All sessions share one instance, because a session ends when its credentials expire, which may be during an outage.
    """

    def __init__(self, leave_out: Callable[[frozenset[str]], None] = lambda _: None) -> None:
        """`leave_out` is called with the namespaces that may not be read, whenever these change."""
        self._leave_out = leave_out
        self._refused: dict[str, str] = {}
        """The namespaces that may not be read, by path."""
        self._repeated: Counter[str] = Counter()
        """The number of consecutive refusals and watches that were cut off at once, by path."""
        self._lost: set[str] = set()
        """The paths to list again: the API server was unreachable, and etcd may have been restored from a backup."""

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        """Return the response, or one on which kopf does not exit, or raise an error after which kopf retries."""
        path = request.url.path
        try:
            answer = await handler(request)
        except aiohttp.ClientConnectionError:
            self._lost.add(path)
            raise
        if answer.ok:
            self._note_refusal(path, None)
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            self._lost.add(path)
        if answer.status == HTTPStatus.FORBIDDEN and (found := _IN_NAMESPACE.search(path)):
            answer.close()
            self._note_refusal(path, found[1])
            await self._hold_back(path)
            raise aiohttp.ClientPayloadError(f"{path}: may not be read")
        if answer.status == HTTPStatus.TOO_MANY_REQUESTS and not _is_short(answer.headers.get("Retry-After", "0")):
            answer.close()
            raise aiohttp.ClientConnectionError(f"{path}: the API server is busy")
        if "watch" in request.url.query:
            self._begin(answer)
        elif answer.status == HTTPStatus.GONE:
            answer.close()
            raise aiohttp.ClientPayloadError(f"{path}: the rest of the list has expired")
        elif answer.ok:
            self._lost.discard(path)
        return answer

    def _begin(self, watch: ClientResponse) -> None:
        """Replace the content of a watch by its reduced events, or by an error after which kopf lists again."""
        path = watch.url.path
        if watch.ok and path not in self._lost:
            watch.content = cast("aiohttp.StreamReader", _Events(watch.content, self._ended, self._lost.add, path))
        elif watch.ok or watch.status in _NO_SUCH_VERSION:
            why = "the API server was away, or silent" if watch.ok else f"a watch was answered with {watch.status}"
            _log.info("%s: %s: listing again", path, why)
            watch.status, watch.content = HTTPStatus.OK, cast("aiohttp.StreamReader", _Expired(watch.content))

    async def _ended(self, path: str, seconds: float) -> None:
        """Delay the end of a watch if the watch was cut off; `seconds` is its duration.

        Do not delay the next request instead: its session may be closed meanwhile because the token has expired.
        """
        if seconds >= _SHORT_SECONDS:
            del self._repeated[path]
        else:
            await self._hold_back(path)

    async def _hold_back(self, path: str) -> None:
        seconds = backoff(_FIRST_PAUSE_SECONDS, self._repeated[path])
        self._repeated[path] += 1
        await _pause(min(seconds, _LONGEST_PAUSE_SECONDS))

    def _note_refusal(self, path: str, namespace: str | None) -> None:
        """Record that `namespace`, the one in the path, may not be read; None means that it may be read."""
        if self._refused.get(path) == namespace:
            return
        if namespace is None:
            del self._refused[path]
        else:
            self._refused[path] = namespace
        self._leave_out(frozenset(self._refused.values()))


def _is_short(retry_after: str) -> bool:
    """Return whether kopf can wait so long, at most 99 seconds. The value may also be a date, or text of a proxy."""
    return retry_after.isdecimal() and len(retry_after) <= len("99")


class _SmallPages:
    """Middleware that requests so few objects at once that a page has few bytes."""

    def __init__(self) -> None:
        self._sizes: dict[str, PageSize] = {}
        """The page size of the current list, by path."""

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        query = request.url.query
        if "limit" not in query:
            return await handler(request)
        if "continue" not in query:
            self._sizes[request.url.path] = PageSize()
        # The first page of a list is unknown here if kopf has logged in again since.
        size = self._sizes.setdefault(request.url.path, PageSize())
        while True:
            request.url = request.url.update_query(limit=size.objects)
            answer = cast("_Answer", await handler(request))
            if answer.status != HTTPStatus.OK:
                return answer
            try:
                answer.page = await read_at_most(answer.content, size.bytes)
            except TooLongError:
                answer.close()
                size.shrink()
            else:
                size.fit(len(answer.page))
                return answer


class _Answer(aiohttp.ClientResponse):
    """A response whose lists are reduced to the fields that Rackspan reads."""

    page: bytes | None = None
    """The text of a page of a list; None for other responses."""

    async def json(self, **how: Any) -> Any:
        if self.page is None:
            return await super().json(**how)
        try:
            return reduced_page(self.page)
        except ValueError as error:  # not written by the API server
            raise aiohttp.ClientPayloadError(f"{self.url.path}: the answer is not a list: {error}") from error


class _Content:
    """The content of a watch, which kopf reads in chunks of lines."""

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)


class _Events(_Content):
    """The content of a watch that has begun.

    `ended` is awaited at its end, with its path and its duration in seconds. `lost` is called with its path if kopf
    cancels a watch that has received nothing since its start, at least SILENT_SECONDS ago.
    """

    def __init__(
        self,
        content: aiohttp.StreamReader,
        ended: Callable[[str, float], Awaitable[None]],
        lost: Callable[[str], None],
        path: str,
    ) -> None:
        super().__init__(content)
        self._ended = ended
        self._lost = lost
        self._path = path

    async def iter_chunked(self, _: int) -> AsyncIterator[bytes]:
        clock = asyncio.get_running_loop().time
        begun, silent = clock(), True
        try:
            async for line in lines_of(self._content):
                silent, event = False, _known_event(line)
                if event is None:
                    _log.info("a watch brought %r: listing again", line[:200])
                yield event or _EXPIRED
        except aiohttp.ClientError:
            pass  # kopf watches again, however a watch ends
        except asyncio.CancelledError:  # by kopf's inactivity_timeout, or because the operator ends
            if silent and clock() - begun >= SILENT_SECONDS:
                self._lost(self._path)
            raise
        seconds = clock() - begun
        await self._ended(self._path, seconds)
        if silent and seconds >= SILENT_SECONDS:
            yield _EXPIRED


def _known_event(line: bytes) -> bytes | None:
    """Return an event reduced to the fields that Rackspan reads; None for an error or an invalid line."""
    try:
        return None if EVENT.decode(line).type == "ERROR" else reduced_event(line) + b"\n"
    except ValueError:
        return None


class _Expired(_Content):
    """The content of a watch whose resourceVersion is no longer valid."""

    async def iter_chunked(self, _: int) -> AsyncIterator[bytes]:
        yield _EXPIRED

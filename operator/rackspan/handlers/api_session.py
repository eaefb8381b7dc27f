"""Kopf's connection to the API server: kopf gets only those fields of objects that Rackspan reads.

Kopf asks for pages of a fixed number of whole objects, decodes all of an answer, and holds each object in a task of its
own for a while. Whoever may write an object would choose how much memory that takes.

Many answers, of the API server or of a proxy before it, would end kopf and so the operator, although the next one may
be good. Kopf is told of these in the forms after which it lists again. After others it asks again at once, without end:
these are told to it late.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from dataclasses import asdict, dataclass, field
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
_OK: Final = 200
_GONE: Final = 410
_NO_SUCH_VERSION: Final = (400, _GONE)
"""Answers to a watch: its resourceVersion is none, or too old."""
_FORBIDDEN: Final = 403
_IN_NAMESPACE: Final = re.compile("/namespaces/([^/]+)/[^/]+$")
_BUSY: Final = 429
_SERVER_ERROR: Final = 500
_EXPIRED: Final = b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n'
"""The one error of a watch after which kopf lists again; all others end it."""
_SHORT_SECONDS: Final = 1.0
"""A watch that ends within so long was cut."""
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 10.0


@dataclass(frozen=True, kw_only=True)
class ApiSession(kopf.AiohttpSession):
    """A session by its credentials: kopf does not take those again that were refused."""

    login: Login
    aiohttp_session: aiohttp.ClientSession = field(compare=False)


def connect(login: Login, survival: Survival, *, tls: ssl.SSLContext, trust_env: bool) -> ApiSession:
    """A new session with these credentials, which kopf closes."""
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
    """A middleware that makes of answers that would end kopf what makes it ask again, and later if they repeat.

    One for all sessions: each ends with its credentials, which may be in an outage.
    """

    def __init__(self, leave_out: Callable[[frozenset[str]], None] = lambda _: None) -> None:
        """`leave_out` is told which namespaces may not be read, whenever they change."""
        self._leave_out = leave_out
        self._refused: dict[str, str] = {}
        """By path, the namespaces that may not be read."""
        self._repeated: Counter[str] = Counter()
        """Refusals, and watches that were cut at once, in a row by path."""
        self._lost: set[str] = set()
        """Paths that have to be listed: the API server was away, and may have come back with a backup of etcd."""

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        """The answer, or one that kopf survives; or raise an error after which it asks again."""
        path = request.url.path
        try:
            answer = await handler(request)
        except aiohttp.ClientConnectionError:
            self._lost.add(path)
            raise
        if answer.ok:
            self._note_refusal(path, None)
        if answer.status >= _SERVER_ERROR:
            self._lost.add(path)
        if answer.status == _FORBIDDEN and (found := _IN_NAMESPACE.search(path)):
            answer.close()
            self._note_refusal(path, found[1])
            await self._hold_back(path)
            raise aiohttp.ClientPayloadError(f"{path}: may not be read")
        if answer.status == _BUSY and not _is_short(answer.headers.get("Retry-After", "0")):
            answer.close()
            raise aiohttp.ClientConnectionError(f"{path}: the API server is busy")
        if "watch" in request.url.query:
            self._begin(answer)
        elif answer.status == _GONE:
            answer.close()
            raise aiohttp.ClientPayloadError(f"{path}: the rest of the list has expired")
        elif answer.ok:
            self._lost.discard(path)
        return answer

    def _begin(self, watch: ClientResponse) -> None:
        """Have kopf read the events of a watch reduced."""
        path = watch.url.path
        if watch.ok and path not in self._lost:
            watch.content = cast("aiohttp.StreamReader", _Events(watch.content, self._ended, self._lost.add, path))
        elif watch.ok or watch.status in _NO_SUCH_VERSION:
            why = "the API server was away, or silent" if watch.ok else f"a watch was answered with {watch.status}"
            _log.info("%s: %s: listing again", path, why)
            watch.status, watch.content = _OK, cast("aiohttp.StreamReader", _Expired(watch.content))

    async def _ended(self, path: str, seconds: float) -> None:
        """Wait before kopf is told of the end of a watch that lasted for so long, if that was cut.

        Not before the next request: the session may be closed meanwhile, with a token that has run out.
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
        """Remember that the namespace of this path may not be read, or that it may."""
        if self._refused.get(path) == namespace:
            return
        if namespace is None:
            del self._refused[path]
        else:
            self._refused[path] = namespace
        self._leave_out(frozenset(self._refused.values()))


async def _pause(seconds: float) -> None:
    await asyncio.sleep(seconds)


def _is_short(retry_after: str) -> bool:
    """Whether it is a number of seconds, for which kopf can wait; it may be a date, or any text of a proxy's."""
    return retry_after.isdecimal() and len(retry_after) <= len("99")


class _SmallPages:
    """A middleware that asks for so few objects at once that a page has few bytes."""

    def __init__(self) -> None:
        self._sizes: dict[str, PageSize] = {}
        """Of the list that is read, by path."""

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        query = request.url.query
        if "limit" not in query:
            return await handler(request)
        if "continue" not in query:
            self._sizes[request.url.path] = PageSize()
        size = self._sizes[request.url.path]
        while True:
            request.url = request.url.update_query(limit=size.objects)
            answer = cast("_Answer", await handler(request))
            if answer.status != _OK:
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
    """An answer of which lists are reduced."""

    page: bytes | None = None
    """The text of a list."""

    async def json(self, **how: Any) -> Any:
        if self.page is None:
            return await super().json(**how)
        try:
            return reduced_page(self.page)
        except ValueError as error:  # the API server did not write that
            raise aiohttp.ClientPayloadError(f"{self.url.path}: the answer is not a list: {error}") from error


class _Content:
    """The content of a watch, of which kopf reads lines in chunks."""

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)


class _Events(_Content):
    """One that has begun.

    `ended` is awaited at its end, with its path and how many seconds it lasted. `lost` is called with its path where
    kopf gives it up, and it has brought nothing.
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
            pass  # kopf asks again, however a watch ends
        except asyncio.CancelledError:  # by kopf's inactivity_timeout, or because the operator ends
            if silent and clock() - begun >= SILENT_SECONDS:
                self._lost(self._path)
            raise
        seconds = clock() - begun
        await self._ended(self._path, seconds)
        if silent and seconds >= SILENT_SECONDS:
            yield _EXPIRED


def _known_event(line: bytes) -> bytes | None:
    """An event of an object, reduced to what is read; None for an error, and for what the API server did not write."""
    try:
        return None if EVENT.decode(line).type == "ERROR" else reduced_event(line) + b"\n"
    except ValueError:
        return None


class _Expired(_Content):
    """One whose resourceVersion is none any more."""

    async def iter_chunked(self, _: int) -> AsyncIterator[bytes]:
        yield _EXPIRED

"""Kopf's connection to the API server: kopf gets only those fields of objects that Rackspan reads.

Kopf asks for pages of a fixed number of whole objects, decodes all of an answer, and holds each object in a task of its
own for a while. Whoever may write an object would choose how much memory that takes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import aiohttp
import kopf

from rackspan.kube.kube_objects import reduced_event, reduced_page
from rackspan.kube.rest import PageSize, TooLongError, lines_of, read_at_most

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp import ClientHandlerType, ClientRequest, ClientResponse

    from rackspan.kube.authentication import Login

_OK: Final = 200


@dataclass(frozen=True, kw_only=True)
class ApiSession(kopf.AiohttpSession):
    """A session by its credentials: kopf does not take those again that were refused."""

    login: Login
    aiohttp_session: aiohttp.ClientSession = field(compare=False)


def connect(login: Login, *, trust_env: bool) -> ApiSession:
    """A new session with these credentials, which kopf closes."""
    known = kopf.ConnectionInfo(**asdict(login))
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=known.as_ssl_context()),
        headers=known.as_http_headers(),
        proxy=known.proxy_url,
        trust_env=trust_env,
        response_class=_Answer,
        middlewares=(_SmallPages(),),
    )
    return ApiSession(server=login.server, login=login, aiohttp_session=session)


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
    """An answer of which lists and watches are reduced."""

    page: bytes | None = None
    """The text of a list."""

    async def start(self, connection: Any) -> ClientResponse:
        await super().start(connection)
        if self.status == _OK and "watch" in self.url.query:
            self.content = cast("aiohttp.StreamReader", _Events(self.content))
        return self

    async def json(self, **how: Any) -> Any:
        return await super().json(**how) if self.page is None else reduced_page(self.page)


class _Events:
    """The content of a watch, of which kopf reads lines in chunks."""

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def iter_chunked(self, _: int) -> AsyncIterator[bytes]:
        async for line in lines_of(self._content):
            yield reduced_event(line) + b"\n"

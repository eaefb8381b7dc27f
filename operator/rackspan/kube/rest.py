"""Plain JSON requests over the official client's connection, authentication and TLS.

The generated API classes build and validate a model per call; a status patch a topic needs neither.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import aiohttp
from kubernetes.aio import client

from rackspan.api.reasons import Reason
from rackspan.kube.authentication import Authentication, config
from rackspan.kube.kube_objects import WHOLE
from rackspan.kube.paths import ApiPath, with_query
from rackspan.metrics import KUBE_SECONDS
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import AlwaysPermitted
from rackspan.reconcile.runtime.waiting import progress

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from msgspec.json import Decoder

    from rackspan.kube.kube_objects import Page
    from rackspan.reconcile.ports import Permit

T = TypeVar("T")

_TIMEOUT_SECONDS = 30
_REQUESTS = 32
"""Requests under way at once. Watches, which never end, are not counted."""
_OK = 200
_UNAUTHORIZED = 401
_FORBIDDEN = 403
_NOT_FOUND = 404
_CONFLICT = 409
_GONE = 410
_UNPROCESSABLE = 422
_BUSY = 429
_SERVER_ERROR = 500
_TEST_FAILED = "the server rejected our request due to an error in our request"
"""All that the API server says of a JSON patch whose test fails; what it finds invalid, it names."""
_DENIED = (_UNAUTHORIZED, _FORBIDDEN)
_WEBHOOK = "admission webhook"
"""What the API server says first where it hands on the refusal of somebody's webhook."""
_PAGE_BYTES = 2 << 20
"""Of one page of a list, unless a single object is larger."""
_MOST_ON_PAGE = 500
_FIRST_ON_PAGE = 50
_LIST_ATTEMPTS = 3
"""Attempts at a list that expires before its last page is read."""
_BUSY_ATTEMPTS = 4
_BUSY_SECONDS = 1.0
_BUSY_MOST_SECONDS = 10.0
SILENT_SECONDS = 150.0
"""A watch that brings nothing for so long, not even a bookmark, of which the API server sends one a minute, is about a
version that this has not come to: etcd was restored from a backup."""


async def connect(kubeconfig: Path | None, manager: str = "rackspan") -> client.ApiClient:
    """
    A client with the credentials of the kubeconfig that is named, else the Pod's, else the default kubeconfig's.

    `manager` is the field manager of what it writes. Raises FailureError where there are no credentials.
    """
    access = Authentication(kubeconfig)
    try:
        await access.load()
    except config.ConfigException as error:
        raise FailureError(Failure(Reason.NOT_AUTHORIZED, f"no usable kubeconfig: {error}", Remedy.SPEC)) from error
    return KubeClient(access, manager)


@contextlib.asynccontextmanager
async def connected(kubeconfig: Path | None, manager: str = "rackspan") -> AsyncIterator[Rest]:
    """Requests over a connection of their own, for a command. Raises FailureError where there are no credentials."""
    rest = Rest(await connect(kubeconfig, manager))
    try:
        yield rest
    finally:
        await rest.close()


class KubeClient(client.ApiClient):
    """A client with these credentials, which it renews; `manager` is the field manager of what it writes."""

    def __init__(self, access: Authentication, manager: str = "rackspan") -> None:
        super().__init__(access.settings)
        self.rest_client.ssl_context = access.tls
        self.user_agent = manager  # of which the API server makes the field manager
        self.access = access


class NotFoundError(Exception):
    """There is no such object, or its kind is not served (404)."""


class ConflictError(Exception):
    """The object exists already, or has another uid or resource version than the one that was meant (409)."""


class BusyError(FailureError):
    """The API server takes no such request now (429): it is busy, or a PodDisruptionBudget does not allow it."""


class ForbiddenError(FailureError):
    """The credentials are good, and not for this (403)."""


class ExpiredError(FailureError):
    """The rest of a list is older than what the API server keeps (410): begin it again."""


class TooLongError(Exception):
    """An answer has more bytes than were asked for, and was not read to its end."""


class PageSize:
    """How many objects are asked for at once, so that a page has few bytes whatever the objects hold."""

    def __init__(self) -> None:
        self.objects = _FIRST_ON_PAGE

    @property
    def bytes(self) -> int | None:
        """Above which a page is not read to its end; None for a page of one object."""
        return _PAGE_BYTES if self.objects > 1 else None

    def shrink(self) -> None:
        """A page had too many bytes."""
        self.objects = max(1, self.objects // 4)

    def fit(self, size: int) -> None:
        """A page had so many bytes: the next one may have twice as many objects where it had few."""
        if size * 4 <= _PAGE_BYTES:
            self.objects = min(self.objects * 2, _MOST_ON_PAGE)


async def read_at_most(content: aiohttp.StreamReader, most: int | None) -> bytes:
    """The rest of an answer. Raises TooLongError where it has more than `most` bytes."""
    text = bytearray()
    async for chunk in content.iter_any():
        text += chunk
        if most is not None and len(text) > most:
            raise TooLongError
    return bytes(text)


async def lines_of(content: aiohttp.StreamReader) -> AsyncGenerator[bytes, None]:
    """The lines of an answer as they come; a last one without an end is left out."""
    parts: list[bytes] = []
    async for chunk in content.iter_any():
        first, *rest = chunk.split(b"\n")
        parts.append(first)
        for line in rest:
            yield b"".join(parts)
            parts = [line]


class _Request(NamedTuple):
    method: str
    path: ApiPath
    headers: Mapping[str, str]
    body: Mapping[str, Any] | Sequence[Any] | None = None


class Rest:
    """Requests to the API server: JSON in and out.

    `operation` is the label of the request in the metric of latencies. Each method raises NotFoundError (404),
    ConflictError (409, or a failed test of a JSON patch), ExpiredError (410), and FailureError for all other errors.
    """

    def __init__(self, api: client.ApiClient, permit: Permit | None = None) -> None:
        """Nothing is changed without the permit, which is looked at whenever a request is sent: it may have waited."""
        self._api: Any = api
        self._permit: Permit = permit or AlwaysPermitted()
        self._changes: set[asyncio.Future[Any]] = set()
        """Those under way."""
        self._access: Authentication | None = getattr(api, "access", None)
        self._slots = asyncio.Semaphore(_REQUESTS)

    async def get(self, operation: str, path: ApiPath, *, accept: str = WHOLE) -> dict[str, Any]:
        """Read one object or list."""
        return _decoded(await self.read(operation, path, accept))

    async def read(self, operation: str, path: ApiPath, accept: str, most: int | None = None) -> bytes:
        """The text of one object or list. Raises TooLongError where it has more than `most` bytes."""
        return await self._text(operation, _Request("GET", path, {"Accept": accept}), most)

    async def lines(self, path: ApiPath, seconds: float, accept: str = WHOLE) -> AsyncGenerator[bytes, None]:
        """The lines of an answer as they come, until it ends or `seconds` are over: a watch."""
        limit = aiohttp.ClientTimeout(total=seconds, sock_connect=_TIMEOUT_SECONDS)
        try:
            response = await self._permitted(_Request("GET", path, {"Accept": accept}), limit)
            try:
                if response.status != _OK:
                    raise _error("GET", path, response.status, await response.read())
                async for line in lines_of(response.response.content):
                    yield line
            finally:
                response.response.close()  # a watch that is left early is not read to its end
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._unreachable("GET", path, error) from error

    async def list_all(
        self,
        operation: str,
        path: ApiPath,
        page: Decoder[Page[T]],
        *,
        query: Mapping[str, str] = MappingProxyType({}),
        accept: str = WHOLE,
    ) -> list[T]:
        """Read all objects of a collection; begins again where the list expires meanwhile."""
        for _ in range(_LIST_ATTEMPTS - 1):
            with contextlib.suppress(ExpiredError):
                return [item async for some in self.pages(operation, path, page, query, accept) for item in some]
        return [item async for some in self.pages(operation, path, page, query, accept) for item in some]

    async def each(
        self,
        operation: str,
        path: ApiPath,
        page: Decoder[Page[T]],
        *,
        query: Mapping[str, str] = MappingProxyType({}),
        accept: str = WHOLE,
    ) -> AsyncIterator[T]:
        """The objects of a list, a page in memory at once; all of them again where the list expires meanwhile."""
        for tries_left in reversed(range(_LIST_ATTEMPTS)):
            try:
                async for some in self.pages(operation, path, page, query, accept):
                    for item in some:
                        yield item
            except ExpiredError:
                if not tries_left:
                    raise
            else:
                return

    async def pages(
        self,
        operation: str,
        path: ApiPath,
        page: Decoder[Page[T]],
        query: Mapping[str, str] = MappingProxyType({}),
        accept: str = WHOLE,
    ) -> AsyncIterator[Page[T]]:
        """The pages of a list, each of so few objects that its text is small; `page` decodes it."""
        token, size = "", PageSize()
        while True:
            asked: dict[str, str | int] = {**query, "limit": size.objects, **({"continue": token} if token else {})}
            try:
                text = await self.read(operation, with_query(path, asked), accept, size.bytes)
            except TooLongError:
                size.shrink()
                continue
            size.fit(len(text))
            try:
                found = page.decode(text)
            except ValueError as error:  # the API server did not write that
                raise FailureError(_failure(f"GET {path}: the answer is not a list: {error}")) from error
            yield found
            token = found.metadata.continue_
            if not token:
                return
            del found, text  # before the next one is read

    async def post(self, operation: str, path: ApiPath, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create one object."""
        return await self._call(operation, "POST", path, body)

    async def post_once(self, operation: str, path: ApiPath, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create one object, or raise BusyError at once where that is refused for now: the caller waits longer."""
        return await self._call(operation, "POST", path, body, attempts=1)

    async def merge_patch(self, operation: str, path: ApiPath, patch: Mapping[str, Any]) -> dict[str, Any]:
        """JSON merge patch (RFC 7396)."""
        return await self._call(operation, "PATCH", path, patch, "application/merge-patch+json")

    async def json_patch(self, operation: str, path: ApiPath, patch: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """JSON patch (RFC 6902). Raises ConflictError where one of its tests fails."""
        return await self._call(operation, "PATCH", path, patch, "application/json-patch+json")

    async def replace_status(
        self, operation: str, path: ApiPath, uid: str, status: Mapping[str, Any], version: str | None = None
    ) -> dict[str, Any]:
        """Make `status` the whole status of this very object, by JSON patch (RFC 6902) of its part `status`.

        A merge would leave what an earlier write put there when the answer to that write was lost. Raises ConflictError
        where another object has the name by now, or it is not at resourceVersion `version` any more, if one is given.
        """
        # Of a status, uids that differ are no conflict.
        patch: list[Mapping[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": uid}]
        if version is not None:
            patch.append({"op": "test", "path": "/metadata/resourceVersion", "value": version})
        return await self.json_patch(operation, path, [*patch, {"op": "add", "path": "/status", "value": status}])

    async def apply(
        self,
        operation: str,
        path: ApiPath,
        body: Mapping[str, Any],
        *,
        manager: str,
        query: Mapping[str, str] = MappingProxyType({}),
    ) -> dict[str, Any]:
        """Server-side apply: create, or make the fields that `manager` owns these and no others."""
        forced = with_query(path, {"fieldManager": manager, "force": "true", **query})
        return await self._call(operation, "PATCH", forced, body, "application/apply-patch+yaml")

    async def delete(self, operation: str, path: ApiPath, body: Mapping[str, Any]) -> dict[str, Any]:
        """Delete one object with these options."""
        return await self._call(operation, "DELETE", path, body)

    async def settled(self) -> None:
        """Wait until every change under way has been answered, or its time-out is over: it may take effect until then.

        Each goes on to its own end, even if whoever asked for it is cancelled.
        """
        while self._changes:
            await asyncio.wait(self._changes)

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()

    async def _call(
        self,
        operation: str,
        method: str,
        path: ApiPath,
        body: Mapping[str, Any] | Sequence[Any],
        content_type: str = WHOLE,
        *,
        attempts: int = _BUSY_ATTEMPTS,
    ) -> dict[str, Any]:
        """Change something; the object as answered."""
        request = _Request(method, path, {"Content-Type": content_type}, body)
        return _decoded(await self._text(operation, request, attempts=attempts))

    async def _text(
        self, operation: str, request: _Request, most: int | None = None, attempts: int = _BUSY_ATTEMPTS
    ) -> bytes:
        response, text = await self._send(operation, request, most)
        for _ in range(attempts - 1):
            if response.status != _BUSY:
                break
            await _pause(_retry_after_seconds(response.headers.get("Retry-After", "")))
            response, text = await self._send(operation, request, most)
        if 200 <= response.status < 300:  # noqa: PLR2004
            return text
        raise _error(request.method, request.path, response.status, text)

    async def _send(self, operation: str, request: _Request, most: int | None) -> tuple[Any, bytes]:
        """One request: the response, and its body."""
        async with self._slots:
            started = time.perf_counter()
            try:
                response = await self._permitted(request, _TIMEOUT_SECONDS)
                try:
                    return response, await read_at_most(response.response.content, most)
                finally:
                    response.response.release()  # closed, unless it was read to its end
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise self._unreachable(request.method, request.path, error) from error
            finally:
                KUBE_SECONDS.labels(operation).observe(time.perf_counter() - started)
                progress()

    async def _permitted(self, request: _Request, limit: float | aiohttp.ClientTimeout) -> Any:
        """The response to one request, which is sent again with new credentials where the first are refused."""
        token = self._access.token if self._access is not None else None
        response = await self._request(request, limit)
        if response.status == _UNAUTHORIZED and self._access is not None and token is not None:
            await response.read()
            await self._access.renew(rejected=token)
            response = await self._request(request, limit)
        return response

    async def _request(self, request: _Request, limit: float | aiohttp.ClientTimeout) -> Any:
        serialized = await self._api.param_serialize(  # which may wait for a credential plugin
            request.method,
            request.path,
            header_params=dict(request.headers),
            body=request.body,
            auth_settings=["BearerToken"],
        )
        if request.method == "GET":
            return await self._api.call_api(*serialized, _request_timeout=limit)
        self._permit.check()
        limit = min(_TIMEOUT_SECONDS, self._permit.change_timeout_seconds)
        change = asyncio.ensure_future(self._api.call_api(*serialized, _request_timeout=limit))
        self._changes.add(change)
        change.add_done_callback(self._on_end)
        return await asyncio.shield(change)

    def _unreachable(self, method: str, path: str, error: Exception) -> FailureError:
        if str(error):
            return FailureError(_failure(f"{method} {path}: {type(error).__name__}: {error}"))
        where = urlsplit(self._api.configuration.host).netloc.rpartition("@")[2]  # a log-in may stand before it
        return FailureError(_failure(f"the API server at {where} has not answered in time: {method} {path}"))

    def _on_end(self, change: asyncio.Future[Any]) -> None:
        self._changes.discard(change)
        if not change.cancelled():
            change.exception()  # whoever would look at it may have ended


def _decoded(text: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):  # a proxy's page, or an answer that was cut off
        raise FailureError(_failure("an answer of the API server is not a JSON object"))
    return answer


def _failure(what: str) -> Failure:
    return Failure(Reason.API_SERVER_UNREACHABLE, what, Remedy.RETRY)


def not_now(method: str, path: str, error: Exception) -> FailureError:
    """Why a request is made again: an API server that has just started may not serve custom resources yet."""
    return FailureError(_failure(f"{method} {path}: {error}"))


async def _pause(seconds: float) -> None:
    await asyncio.sleep(seconds)


def _retry_after_seconds(after: str) -> float:
    """Seconds until a busy API server is asked again: what its Retry-After says, ten at most, else one."""
    try:
        seconds = float(after[:20])
    except ValueError:  # it does not say, or it gives a date
        return _BUSY_SECONDS
    return min(seconds, _BUSY_MOST_SECONDS) if math.isfinite(seconds) and seconds > 0 else _BUSY_SECONDS


def _error(method: str, path: str, status: int, text: bytes) -> Exception:
    try:
        message = str(json.loads(text).get("message") or "")
    except (ValueError, AttributeError):
        message = text[:200].decode(errors="replace")
    if status == _NOT_FOUND:
        return NotFoundError(message)
    if status == _CONFLICT or (status == _UNPROCESSABLE and message == _TEST_FAILED):
        return ConflictError(message)
    what = f"{method} {path}: {status} {message}"
    if status == _GONE:
        return ExpiredError(Failure(Reason.API_SERVER_UNREACHABLE, what, Remedy.RETRY))
    if status in _DENIED and not message.startswith(_WEBHOOK):
        kind = ForbiddenError if status == _FORBIDDEN else FailureError
        return kind(Failure(Reason.NOT_AUTHORIZED, what, Remedy.ACCESS))
    if status == _BUSY:
        return BusyError(Failure(Reason.API_SERVER_UNREACHABLE, what, Remedy.RETRY))
    if status >= _SERVER_ERROR:
        return FailureError(Failure(Reason.API_SERVER_UNREACHABLE, what, Remedy.RETRY))
    # What is invalid stays so until an object changes. All else somebody else has to fix: a webhook, or a definition.
    remedy = Remedy.SPEC if status == _UNPROCESSABLE else Remedy.ACCESS
    return FailureError(Failure(Reason.API_SERVER_REFUSED, what, remedy))

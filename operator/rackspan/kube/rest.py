"""Plain JSON requests over the official client's connections, authentication and TLS.

The generated API classes build and validate a model per call. A status patch per topic needs neither.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import socket
import ssl
import time
from http import HTTPStatus
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
from rackspan.reconcile.runtime.informer import key_of
from rackspan.reconcile.runtime.waiting import progress

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from msgspec.json import Decoder

    from rackspan.kube.kube_objects import Page
    from rackspan.reconcile.ports import Permit

T = TypeVar("T")
_pause = asyncio.sleep

_TIMEOUT_SECONDS = 30
_REQUESTS = 32
"""The limit of concurrent requests. Watches do not count, because they never end."""
_TEST_FAILED = "the server rejected our request due to an error in our request"
"""The API server's whole message if a test of a JSON patch fails. The message for an invalid object has details."""
_DENIED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_WEBHOOK = "admission webhook"
"""The start of the API server's message if an admission webhook has rejected the request."""
_PAGE_BYTES = 2 << 20
"""The largest page of a list, unless a single object is larger."""
_MOST_ON_PAGE = 500
_FIRST_ON_PAGE = 50
_LIST_ATTEMPTS = 3
"""Attempts at a list that expires before its last page is read."""
_BUSY_ATTEMPTS = 4
_BUSY_SECONDS = 1.0
_BUSY_MOST_SECONDS = 10.0
SILENT_SECONDS = 150.0
"""The API server sends a bookmark each minute. A watch without any event for this long has a resourceVersion that the
API server has not reached, because etcd was restored from a backup."""


async def connect(kubeconfig: Path | None, manager: str = "rackspan") -> client.ApiClient:
    """Return a client with the credentials of the given kubeconfig, else of the Pod, else of the default kubeconfig.

    `manager` is the field manager of its writes. Raises FailureError if there are no credentials.
    """
    access = Authentication(kubeconfig)
    try:
        await access.load()
    except config.ConfigException as error:
        raise NoKubeconfigError(str(error)) from error
    return KubeClient(access, manager)


class NoKubeconfigError(FailureError):
    """There are no credentials for the API server. `hint` says where to name them."""

    hint = "pass --kubeconfig FILE, or set KUBECONFIG"

    def __init__(self, problem: str) -> None:
        super().__init__(Failure(Reason.NOT_AUTHORIZED, f"no usable kubeconfig: {problem}", Remedy.SPEC))


@contextlib.asynccontextmanager
async def connected(kubeconfig: Path | None, manager: str = "rackspan") -> AsyncIterator[Rest]:
    """Yield a Rest with its own connection, for a command. Raises FailureError if there are no credentials."""
    rest = Rest(await connect(kubeconfig, manager))
    try:
        yield rest
    finally:
        await rest.close()


class KubeClient(client.ApiClient):
    """A client with these credentials, which it renews. `manager` is the field manager of its writes."""

    def __init__(self, access: Authentication, manager: str = "rackspan") -> None:
        super().__init__(access.settings)
        self.rest_client.ssl_context = access.tls
        self.user_agent = manager  # from which the API server derives the field manager
        self.access = access


class NotFoundError(Exception):
    """The object does not exist, or the API server does not serve its kind (404)."""


class ConflictError(Exception):
    """The object already exists, or its uid or resourceVersion is not the expected one (409)."""


class BusyError(FailureError):
    """The API server does not accept the request now (429): it is busy, or a PodDisruptionBudget does not allow it."""


class ForbiddenError(FailureError):
    """The credentials are valid, but do not permit the request (403)."""


class ExpiredError(FailureError):
    """The API server no longer has the resourceVersion of a list or a watch (410). List the objects again."""


class TooLongError(Exception):
    """A response has more bytes than the limit, and was not read to its end."""


class PageSize:
    """The number of objects to request per page, adapted so that a page has few bytes even if objects are large."""

    def __init__(self) -> None:
        self.objects = _FIRST_ON_PAGE

    @property
    def bytes(self) -> int | None:
        """The size above which a page is not read to its end; None for a page of one object."""
        return _PAGE_BYTES if self.objects > 1 else None

    def shrink(self) -> None:
        """Request fewer objects, because a page had too many bytes."""
        self.objects = max(1, self.objects // 4)

    def fit(self, size: int) -> None:
        """Request twice as many objects if the last page had few bytes; `size` is its number of bytes."""
        if size * 4 <= _PAGE_BYTES:
            self.objects = min(self.objects * 2, _MOST_ON_PAGE)


async def read_at_most(content: aiohttp.StreamReader, most: int | None) -> bytes:
    """Return the rest of a response. Raises TooLongError if it has more than `most` bytes."""
    text = bytearray()
    async for chunk in content.iter_any():
        text += chunk
        if most is not None and len(text) > most:
            raise TooLongError
    return bytes(text)


async def lines_of(content: aiohttp.StreamReader) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a response as they arrive, without a last line that does not end in a newline."""
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
    """Sends JSON requests to the API server.

    `operation` is the label of the request in the latency metric. Each method raises NotFoundError (404),
    ConflictError (409, or a failed test of a JSON patch), ExpiredError (410), and FailureError for all other errors.
    """

    def __init__(self, api: client.ApiClient, permit: Permit | None = None) -> None:
        """Check `permit` before each change, when its request is sent: the request may have waited before that."""
        self._api: Any = api
        self._permit: Permit = permit or AlwaysPermitted()
        self._changes: set[asyncio.Future[Any]] = set()
        """The changes in progress."""
        self._access: Authentication | None = getattr(api, "access", None)
        self._slots = asyncio.Semaphore(_REQUESTS)

    async def get(self, operation: str, path: ApiPath, *, accept: str = WHOLE) -> dict[str, Any]:
        """Read one object or list."""
        return _decoded(await self.read(operation, path, accept))

    async def read(self, operation: str, path: ApiPath, accept: str, most: int | None = None) -> bytes:
        """Return the text of one object or list. Raises TooLongError if it has more than `most` bytes."""
        return await self._text(operation, _Request("GET", path, {"Accept": accept}), most)

    async def lines(self, path: ApiPath, seconds: float, accept: str = WHOLE) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a watch as they arrive, until the response ends or `seconds` have passed."""
        limit = aiohttp.ClientTimeout(total=seconds, sock_connect=_TIMEOUT_SECONDS)
        try:
            response = await self._permitted(_Request("GET", path, {"Accept": accept}), limit)
            try:
                if response.status != HTTPStatus.OK:
                    raise _error("GET", path, response.status, await response.read())
                async for line in lines_of(response.response.content):
                    yield line
            finally:
                response.response.close()  # a watch that is stopped early is not read to its end
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
        """Read all objects of a collection. Start again if the list expires meanwhile."""
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
        """Yield the objects of a list, with one page in memory. If the list expires meanwhile, yield all again."""
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
        """Yield the pages of a list, each with so few objects that its text is small. `page` decodes a page."""
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
            except ValueError as error:  # not written by the API server
                raise FailureError(_failure(f"GET {path}: the answer is not a list: {error}")) from error
            yield found
            token = found.metadata.continue_
            if not token:
                return
            del found, text  # frees the memory before the next page is read

    async def post(self, operation: str, path: ApiPath, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create one object."""
        return await self._call(operation, "POST", path, body)

    async def create(
        self,
        operation: str,
        path: ApiPath,
        body: Mapping[str, Any],
        reason: Reason = Reason.API_SERVER_REFUSED,
        remedy: Remedy = Remedy.RETRY,
    ) -> dict[str, Any] | None:
        """Create one object, or return None if its name is in use. A missing namespace or kind is a FailureError."""
        try:
            return await self.post(operation, path, body)
        except ConflictError:
            return None
        except NotFoundError as error:
            what = f"{body['kind']} {key_of(body)} cannot be made: {error}"
            raise FailureError(Failure(reason, what, remedy)) from error

    async def post_once(self, operation: str, path: ApiPath, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create one object. Raises BusyError without a retry, because the caller waits longer."""
        return await self._call(operation, "POST", path, body, attempts=1)

    async def merge_patch(self, operation: str, path: ApiPath, patch: Mapping[str, Any]) -> dict[str, Any]:
        """Send a JSON merge patch (RFC 7396)."""
        return await self._call(operation, "PATCH", path, patch, "application/merge-patch+json")

    async def json_patch(
        self, operation: str, path: ApiPath, patch: Sequence[Mapping[str, Any]], uid: str, version: str | None = None
    ) -> dict[str, Any]:
        """Send a JSON patch (RFC 6902) of this object, by uid and by resourceVersion if given, else ConflictError."""
        # The API server ignores the uid in a patch of a status, so the patch tests the uid.
        known = {"uid": uid} if version is None else {"uid": uid, "resourceVersion": version}
        tests = [{"op": "test", "path": f"/metadata/{name}", "value": value} for name, value in known.items()]
        return await self._call(operation, "PATCH", path, [*tests, *patch], "application/json-patch+json")

    async def replace_status(
        self, operation: str, path: ApiPath, uid: str, status: Mapping[str, Any], version: str | None = None
    ) -> dict[str, Any]:
        """Replace the whole status of this object (by uid), with a JSON patch (RFC 6902) of `/status`.

        A merge patch would keep values of an earlier write whose response was lost. Raises ConflictError if another
        object has the name now, or if `version` is given and is not the current resourceVersion.
        """
        patch = [{"op": "add", "path": "/status", "value": status}]
        return await self.json_patch(operation, path, patch, uid, version)

    async def apply(
        self,
        operation: str,
        path: ApiPath,
        body: Mapping[str, Any],
        *,
        manager: str,
        query: Mapping[str, str] = MappingProxyType({}),
    ) -> dict[str, Any]:
        """Send a server-side apply: create the object, or replace the fields that `manager` owns by these."""
        forced = with_query(path, {"fieldManager": manager, "force": "true", **query})
        return await self._call(operation, "PATCH", forced, body, "application/apply-patch+yaml")

    async def delete(self, operation: str, path: ApiPath, uid: str, **options: str) -> None:
        """Delete this object (by uid), with these options. Succeed if the object is already deleted."""
        with contextlib.suppress(ConflictError, NotFoundError):
            await self._call(operation, "DELETE", path, {**options, "preconditions": {"uid": uid}})

    async def settled(self) -> None:
        """Wait until each change in progress has a response or has timed out, since it may take effect until then.

        A change continues even if the task that requested it is cancelled.
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
        """Send a change and return the object in the response."""
        request = _Request(method, path, {"Content-Type": content_type}, body)
        return _decoded(await self._text(operation, request, attempts=attempts))

    async def _text(
        self, operation: str, request: _Request, most: int | None = None, attempts: int = _BUSY_ATTEMPTS
    ) -> bytes:
        response, text = await self._send(operation, request, most)
        for _ in range(attempts - 1):
            if response.status != HTTPStatus.TOO_MANY_REQUESTS:
                break
            await _pause(_retry_after_seconds(response.headers.get("Retry-After", "")))
            response, text = await self._send(operation, request, most)
        if 200 <= response.status < 300:  # noqa: PLR2004
            return text
        raise _error(request.method, request.path, response.status, text)

    async def _send(self, operation: str, request: _Request, most: int | None) -> tuple[Any, bytes]:
        """Send one request and return the response and its body."""
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
        """Return the response to a request, which is sent again with new credentials if the first are rejected."""
        token = self._access.token if self._access is not None else None
        response = await self._request(request, limit)
        if response.status == HTTPStatus.UNAUTHORIZED and self._access is not None and token is not None:
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
        where = urlsplit(self._api.configuration.host).netloc.rpartition("@")[2]  # without user name and password
        if isinstance(error, aiohttp.ClientConnectorError):
            return FailureError(_failure(f"the API server at {where} cannot be reached{_cause(error)}"))
        if str(error):
            return FailureError(_failure(f"{method} {path}: {type(error).__name__}: {error}"))
        return FailureError(_failure(f"the API server at {where} has not answered in time: {method} {path}"))

    def _on_end(self, change: asyncio.Future[Any]) -> None:
        self._changes.discard(change)
        if not change.cancelled():
            change.exception()  # marks it as retrieved, because the task that would do that may have ended


def _cause(error: aiohttp.ClientConnectorError) -> str:
    """Return why there is no connection, to end a sentence with."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        wrong = error.certificate_error
        return f": its certificate is not trusted: {getattr(wrong, 'verify_message', '') or wrong}"
    over = f" over the proxy {error.host}:{error.port}" if isinstance(error, aiohttp.ClientProxyConnectionError) else ""
    found = error.os_error
    # The numbers of these errors are not those of the system.
    if isinstance(found, ssl.SSLError | socket.gaierror) or not found.errno:
        return f"{over}: {found.strerror or found}"
    return f"{over}: {os.strerror(found.errno)}"


def _decoded(text: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):  # a proxy's page, or an incomplete response
        raise FailureError(_failure("an answer of the API server is not a JSON object"))
    return answer


def _failure(what: str) -> Failure:
    return Failure(Reason.API_SERVER_UNREACHABLE, what, Remedy.RETRY)


def not_now(method: str, path: str, error: Exception) -> FailureError:
    """Return a failure to retry: an API server that has just started may not serve custom resources yet."""
    return FailureError(_failure(f"{method} {path}: {error}"))


def _retry_after_seconds(after: str) -> float:
    """Return the seconds until the next request to a busy API server: its Retry-After, at most ten, else one."""
    try:
        seconds = float(after[:20])
    except ValueError:  # no value, or a date
        return _BUSY_SECONDS
    return min(seconds, _BUSY_MOST_SECONDS) if math.isfinite(seconds) and seconds > 0 else _BUSY_SECONDS


def _error(method: str, path: str, status: int, text: bytes) -> Exception:
    try:
        message = str(json.loads(text).get("message") or "")
    except (ValueError, AttributeError):
        message = text[:200].decode(errors="replace")
    if status == HTTPStatus.NOT_FOUND:
        return NotFoundError(message)
    if status == HTTPStatus.CONFLICT or (status == HTTPStatus.UNPROCESSABLE_ENTITY and message == _TEST_FAILED):
        return ConflictError(message)
    what = f"{method} {path}: {status} {message}"
    if status == HTTPStatus.GONE:
        return ExpiredError(Failure(Reason.API_SERVER_UNREACHABLE, what, Remedy.RETRY))
    if status in _DENIED and not message.startswith(_WEBHOOK):
        kind = ForbiddenError if status == HTTPStatus.FORBIDDEN else FailureError
        return kind(Failure(Reason.NOT_AUTHORIZED, what, Remedy.ACCESS))
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return BusyError(Failure(Reason.API_SERVER_UNREACHABLE, what, Remedy.RETRY))
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return FailureError(Failure(Reason.API_SERVER_UNREACHABLE, what, Remedy.RETRY))
    # An invalid object stays invalid until it changes. The other causes are outside the object: a webhook, or a CRD.
    remedy = Remedy.SPEC if status == HTTPStatus.UNPROCESSABLE_ENTITY else Remedy.ACCESS
    return FailureError(Failure(Reason.API_SERVER_REFUSED, what, remedy))

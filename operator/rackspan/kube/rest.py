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
from typing import TYPE_CHECKING, Any

import aiohttp
from kubernetes.aio import client

from rackspan.api.reasons import Reason
from rackspan.kube.authentication import Authentication
from rackspan.kube.paths import ApiPath, with_query
from rackspan.metrics import KUBE_SECONDS
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.runtime.liveness import progress

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
    from pathlib import Path

_TIMEOUT_SECONDS = 30
_REQUESTS = 32
"""Requests under way at once. Watches, which never end, are not counted."""
_OK = 200
_UNAUTHORIZED = 401
_NOT_FOUND = 404
_CONFLICT = 409
_GONE = 410
_UNPROCESSABLE = 422
_BUSY = 429
_SERVER_ERROR = 500
_TEST_FAILED = "the server rejected our request due to an error in our request"
"""All that the API server says of a JSON patch whose test fails; what it finds invalid, it names."""
_DENIED = (401, 403)
_WEBHOOK = "admission webhook"
"""What the API server says first where it hands on the refusal of somebody's webhook."""
PAGE = 500
"""Objects on one page of a list."""
_LIST_ATTEMPTS = 3
"""Attempts at a list that expires before its last page is read."""
_BUSY_ATTEMPTS = 4
_BUSY_SECONDS = 1.0
_BUSY_MOST_SECONDS = 10.0


async def connect(kubeconfig: Path | None, manager: str = "rackspan") -> client.ApiClient:
    """
    A client with the credentials of the kubeconfig that is named, else the Pod's, else the default kubeconfig's.

    `manager` is the field manager of what it writes. Raises ConfigException where there are no credentials.
    """
    access = Authentication(kubeconfig)
    await access.load()
    return client_of(access, manager)


def client_of(access: Authentication, manager: str = "rackspan") -> client.ApiClient:
    """A client with these credentials, which it renews; `manager` is the field manager of what it writes."""
    return _Client(access, manager)


class _Client(client.ApiClient):
    def __init__(self, access: Authentication, manager: str) -> None:
        super().__init__(access.settings)
        self.user_agent = manager  # of which the API server makes the field manager
        self.access = access


class NotFoundError(Exception):
    """There is no such object, or its kind is not served (404)."""


class ConflictError(Exception):
    """The object exists already, or has another uid or resource version than the one that was meant (409)."""


class BusyError(FailureError):
    """The API server takes no such request now (429): it is busy, or a PodDisruptionBudget does not allow it."""


class ExpiredError(FailureError):
    """The rest of a list is older than what the API server keeps (410): begin it again."""


class Rest:
    """Requests to the API server: JSON in and out.

    `operation` is the label of the request in the metric of latencies. Each method raises NotFoundError (404),
    ConflictError (409, or a failed test of a JSON patch), ExpiredError (410), and FailureError for all other errors.
    """

    def __init__(self, api: client.ApiClient) -> None:
        self._api: Any = api
        self._access: Authentication | None = getattr(api, "access", None)
        self._slots = asyncio.Semaphore(_REQUESTS)

    async def get(self, operation: str, path: ApiPath, *, accept: str = "application/json") -> dict[str, Any]:
        """Read one object or list."""
        return await self._call(operation, "GET", path, None, {"Accept": accept})

    async def read(self, operation: str, path: ApiPath) -> bytes:
        """The text of one object or list, for who wants only a part of it decoded."""
        return await self._text(operation, "GET", path, None, {"Accept": "application/json"})

    async def lines(self, path: ApiPath, seconds: float) -> AsyncGenerator[bytes, None]:
        """The lines of an answer as they come, until it ends or `seconds` are over: a watch."""
        limit = aiohttp.ClientTimeout(total=seconds, sock_connect=_TIMEOUT_SECONDS)
        try:
            response = await self._permitted("GET", path, None, {"Accept": "application/json"}, limit)
            try:
                if response.status != _OK:
                    raise _error("GET", path, response.status, await response.read())
                parts: list[bytes] = []
                async for chunk in response.response.content.iter_any():
                    first, *rest = chunk.split(b"\n")
                    parts.append(first)
                    for line in rest:
                        yield b"".join(parts)
                        parts = [line]
            finally:
                response.response.close()  # a watch that is left early is not read to its end
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable("GET", path, error) from error

    async def list_all(
        self,
        operation: str,
        path: ApiPath,
        *,
        query: Mapping[str, str] = MappingProxyType({}),
        accept: str = "application/json",
    ) -> list[dict[str, Any]]:
        """Read all objects of a collection, in pages of 500; begins again where the list expires meanwhile."""
        for _ in range(_LIST_ATTEMPTS - 1):
            with contextlib.suppress(ExpiredError):
                return [item async for page in self._pages(operation, path, query, accept) for item in page]
        return [item async for page in self._pages(operation, path, query, accept) for item in page]

    async def each(
        self, operation: str, path: ApiPath, *, accept: str = "application/json"
    ) -> AsyncIterator[dict[str, Any]]:
        """The objects of a list, a page in memory at once; all of them again where the list expires meanwhile."""
        for tries_left in reversed(range(_LIST_ATTEMPTS)):
            try:
                async for page in self._pages(operation, path, {}, accept):
                    for item in page:
                        yield item
            except ExpiredError:
                if not tries_left:
                    raise
            else:
                return

    async def _pages(
        self, operation: str, path: ApiPath, query: Mapping[str, str], accept: str
    ) -> AsyncIterator[list[dict[str, Any]]]:
        token = ""
        while True:
            asked: dict[str, str | int] = {**query, "limit": PAGE, **({"continue": token} if token else {})}
            page = await self.get(operation, with_query(path, asked), accept=accept)
            yield page.get("items") or []  # an empty list of metadata only is null
            token = page.get("metadata", {}).get("continue", "")
            if not token:
                return

    async def post(self, operation: str, path: ApiPath, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create one object."""
        return await self._call(operation, "POST", path, body, {"Content-Type": "application/json"})

    async def post_once(self, operation: str, path: ApiPath, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create one object, or raise BusyError at once where that is refused for now: the caller waits longer."""
        response, text = await self._send(operation, "POST", path, body, {"Content-Type": "application/json"})
        if 200 <= response.status < 300:  # noqa: PLR2004
            answer: dict[str, Any] = json.loads(text)
            return answer
        raise _error("POST", path, response.status, text)

    async def merge_patch(self, operation: str, path: ApiPath, patch: Mapping[str, Any]) -> dict[str, Any]:
        """JSON merge patch (RFC 7396)."""
        return await self._call(operation, "PATCH", path, patch, {"Content-Type": "application/merge-patch+json"})

    async def json_patch(self, operation: str, path: ApiPath, patch: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """JSON patch (RFC 6902). Raises ConflictError where one of its tests fails."""
        return await self._call(operation, "PATCH", path, patch, {"Content-Type": "application/json-patch+json"})

    async def replace_status(
        self, operation: str, path: ApiPath, uid: str, status: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Make `status` the whole status of this very object, by JSON patch (RFC 6902) of its part `status`.

        A merge would leave what an earlier write put there when the answer to that write was lost. Raises ConflictError
        where another object has the name by now.
        """
        patch: list[Mapping[str, Any]] = [
            {"op": "test", "path": "/metadata/uid", "value": uid},  # of a status, uids that differ are no conflict
            {"op": "add", "path": "/status", "value": status},
        ]
        return await self.json_patch(operation, path, patch)

    async def replace_status_at(
        self, operation: str, path: ApiPath, uid: str, version: str, status: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Make `status` the whole status of this very object as it was at resourceVersion `version`.

        Raises ConflictError where it has been changed since, or another object has the name by now.
        """
        patch: list[Mapping[str, Any]] = [
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "test", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": "/status", "value": status},
        ]
        return await self.json_patch(operation, path, patch)

    async def apply(self, operation: str, path: ApiPath, body: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        """Server-side apply: create, or make the fields that `manager` owns these and no others."""
        forced = with_query(path, {"fieldManager": manager, "force": "true"})
        return await self._call(operation, "PATCH", forced, body, {"Content-Type": "application/apply-patch+yaml"})

    async def delete(self, operation: str, path: ApiPath, body: Mapping[str, Any]) -> dict[str, Any]:
        """Delete one object with these options."""
        return await self._call(operation, "DELETE", path, body, {"Content-Type": "application/json"})

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()

    async def _call(
        self,
        operation: str,
        method: str,
        path: ApiPath,
        body: Mapping[str, Any] | Sequence[Any] | None,
        headers: dict[str, str],
    ) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(await self._text(operation, method, path, body, headers))
        return answer

    async def _text(
        self,
        operation: str,
        method: str,
        path: ApiPath,
        body: Mapping[str, Any] | Sequence[Any] | None,
        headers: dict[str, str],
    ) -> bytes:
        response, text = await self._send(operation, method, path, body, headers)
        for _ in range(_BUSY_ATTEMPTS - 1):
            if response.status != _BUSY:
                break
            await _pause(_retry_after_seconds(response.headers.get("Retry-After", "")))
            response, text = await self._send(operation, method, path, body, headers)
        if 200 <= response.status < 300:  # noqa: PLR2004
            return text
        raise _error(method, path, response.status, text)

    async def _send(
        self,
        operation: str,
        method: str,
        path: ApiPath,
        body: Mapping[str, Any] | Sequence[Any] | None,
        headers: dict[str, str],
    ) -> tuple[Any, bytes]:
        """One request: the response, and its body."""
        async with self._slots:
            started = time.perf_counter()
            try:
                response = await self._permitted(method, path, body, headers, _TIMEOUT_SECONDS)
                return response, await response.read()
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise _unreachable(method, path, error) from error
            finally:
                KUBE_SECONDS.labels(operation).observe(time.perf_counter() - started)
                progress()

    async def _permitted(
        self,
        method: str,
        path: ApiPath,
        body: Mapping[str, Any] | Sequence[Any] | None,
        headers: dict[str, str],
        limit: float | aiohttp.ClientTimeout,
    ) -> Any:
        """The response to one request, which is sent again with new credentials where the first are refused."""
        token = self._access.token if self._access is not None else None
        response = await self._request(method, path, body, headers, limit)
        if response.status == _UNAUTHORIZED and self._access is not None and token is not None:
            await response.read()
            await self._access.renew(rejected=token)
            response = await self._request(method, path, body, headers, limit)
        return response

    async def _request(
        self,
        method: str,
        path: ApiPath,
        body: Mapping[str, Any] | Sequence[Any] | None,
        headers: dict[str, str],
        limit: float | aiohttp.ClientTimeout,
    ) -> Any:
        request = await self._api.param_serialize(
            method, path, header_params=dict(headers), body=body, auth_settings=["BearerToken"]
        )
        return await self._api.call_api(*request, _request_timeout=limit)


def _unreachable(method: str, path: str, error: Exception) -> FailureError:
    what = f"{method} {path}: {type(error).__name__}: {error}"
    return FailureError(Failure(Reason.API_SERVER_UNREACHABLE, what, Remedy.RETRY))


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
        message = json.loads(text).get("message", "")
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
        return FailureError(Failure(Reason.NOT_AUTHORIZED, what, Remedy.ACCESS))
    if status == _BUSY:
        return BusyError(Failure(Reason.API_SERVER_UNREACHABLE, what, Remedy.RETRY))
    if status >= _SERVER_ERROR:
        return FailureError(Failure(Reason.API_SERVER_UNREACHABLE, what, Remedy.RETRY))
    # What is invalid stays so until an object changes. All else somebody else has to mend: a webhook, or a definition.
    remedy = Remedy.SPEC if status == _UNPROCESSABLE else Remedy.ACCESS
    return FailureError(Failure(Reason.API_SERVER_REFUSED, what, remedy))

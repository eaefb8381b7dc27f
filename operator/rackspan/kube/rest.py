"""Plain JSON requests over the official client's connection, authentication and TLS.

The generated API classes build and validate a model per call; a status patch a topic needs neither.
"""

from __future__ import annotations

import json
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from kubernetes.aio import client
from kubernetes.aio import config as _config

from rackspan.api.reasons import Reason
from rackspan.kube.paths import ApiPath, with_query
from rackspan.metrics import KUBE_SECONDS
from rackspan.reconcile.failures import Failure, FailureError, Remedy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

config: Any = _config  # its functions are not annotated

_TIMEOUT_SECONDS = 30
_NOT_FOUND = 404
_CONFLICT = 409
_UNPROCESSABLE = 422
_TEST_FAILED = "the server rejected our request due to an error in our request"
"""All that the API server says of a JSON patch whose test fails; what it finds invalid, it names."""
_DENIED = (401, 403)
_PAGE = 500


async def connect(kubeconfig: Path | None) -> client.ApiClient:
    """A client for the kubeconfig that is named, else the Pod's service account, else the default kubeconfig."""
    settings = client.Configuration()
    settings.connection_pool_maxsize = 32
    if kubeconfig is not None:
        await config.load_kube_config(config_file=str(kubeconfig), client_configuration=settings)
    else:
        try:
            config.load_incluster_config(client_configuration=settings)
        except config.ConfigException:
            await config.load_kube_config(client_configuration=settings)
    # The proxy is found once. Left to aiohttp, each request would look for it, and for a netrc file, in a thread.
    settings.client_session_kwargs = {"trust_env": False}
    settings.proxy = settings.proxy or _proxy(settings.host)
    return client.ApiClient(settings)


def _proxy(url: str) -> str | None:
    """What HTTPS_PROXY and NO_PROXY say about the API server."""
    host = urlsplit(url).hostname or ""
    return None if proxy_bypass(host) else getproxies().get("https")


class NotFoundError(Exception):
    """The object is gone."""


class ConflictError(Exception):
    """The object is not the one that was meant: another uid, or another resource version."""


class Rest:
    """Requests that are counted and whose errors are classed."""

    def __init__(self, api: client.ApiClient) -> None:
        self._api: Any = api

    async def get(self, operation: str, path: ApiPath, *, accept: str = "application/json") -> dict[str, Any]:
        """Read one object or list."""
        return await self._call(operation, "GET", path, None, {"Accept": accept})

    async def items(
        self,
        operation: str,
        path: ApiPath,
        *,
        query: Mapping[str, str] = MappingProxyType({}),
        accept: str = "application/json",
    ) -> list[dict[str, Any]]:
        """Read all objects of a list, page by page."""
        found: list[dict[str, Any]] = []
        token = ""
        while True:
            asked: dict[str, str | int] = {**query, "limit": _PAGE, **({"continue": token} if token else {})}
            page = await self.get(operation, with_query(path, asked), accept=accept)
            found += page.get("items") or ()  # an empty list of metadata only is null
            token = page.get("metadata", {}).get("continue", "")
            if not token:
                return found

    async def post(self, operation: str, path: ApiPath, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create one object."""
        return await self._call(operation, "POST", path, body, {"Content-Type": "application/json"})

    async def merge(self, operation: str, path: ApiPath, patch: Mapping[str, Any]) -> dict[str, Any]:
        """JSON merge patch (RFC 7396)."""
        return await self._call(operation, "PATCH", path, patch, {"Content-Type": "application/merge-patch+json"})

    async def replace_status(
        self, operation: str, path: ApiPath, uid: str, status: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Make `status` the whole status of this very object, by JSON patch (RFC 6902) of its part `status`.

        A merge would leave what an earlier write put there when the answer to that write was lost. Raises ConflictError
        where another object has the name by now.
        """
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": uid},  # of a status, uids that differ are no conflict
            {"op": "add", "path": "/status", "value": status},
        ]
        headers = {"Content-Type": "application/json-patch+json"}
        return await self._call(operation, "PATCH", path, patch, headers)

    async def apply(self, operation: str, path: ApiPath, body: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        """Server-side apply: create, or make the fields that `manager` owns these and no others."""
        forced = with_query(path, {"fieldManager": manager, "force": "true"})
        return await self._call(operation, "PATCH", forced, body, {"Content-Type": "application/apply-patch+yaml"})

    async def delete(self, operation: str, path: ApiPath, body: Mapping[str, Any]) -> dict[str, Any]:
        """Delete one object with these options."""
        return await self._call(operation, "DELETE", path, body, {"Content-Type": "application/json"})

    async def close(self) -> None:
        """Let go of the connections."""
        await self._api.close()

    async def _call(
        self,
        operation: str,
        method: str,
        path: ApiPath,
        body: Mapping[str, Any] | Sequence[Any] | None,
        headers: dict[str, str],
    ) -> dict[str, Any]:
        started = time.perf_counter()
        try:
            request = await self._api.param_serialize(
                method, path, header_params=headers, body=body, auth_settings=["BearerToken"]
            )
            response = await self._api.call_api(*request, _request_timeout=_TIMEOUT_SECONDS)
            text = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise FailureError(
                Failure(
                    Reason.API_SERVER_UNREACHABLE, f"{method} {path}: {type(error).__name__}: {error}", Remedy.RETRY
                )
            ) from error
        finally:
            KUBE_SECONDS.labels(operation).observe(time.perf_counter() - started)
        if 200 <= response.status < 300:  # noqa: PLR2004
            answer: dict[str, Any] = json.loads(text)
            return answer
        raise _error(method, path, response.status, text)


def _error(method: str, path: str, status: int, text: bytes) -> Exception:
    try:
        message = json.loads(text).get("message", "")
    except ValueError:
        message = text[:200].decode(errors="replace")
    if status == _NOT_FOUND:
        return NotFoundError(message)
    if status == _CONFLICT or (status == _UNPROCESSABLE and message == _TEST_FAILED):
        return ConflictError(message)
    what = f"{method} {path}: {status} {message}"
    if status in _DENIED:
        return FailureError(Failure(Reason.NOT_AUTHORIZED, what, Remedy.ACCESS))
    return FailureError(Failure(Reason.API_SERVER_UNREACHABLE, what, Remedy.RETRY))

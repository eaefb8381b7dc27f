"""Credentials and TLS for the API server, shared by kopf's watches and Rackspan's own requests.

A kubeconfig can name a program that prints a token (client-go's credential plugins), and a Pod's token is a file that
the kubelet rewrites. Such tokens are valid for minutes or hours. If a token has expired, or the API server rejects it,
one renewal gets a new token, and both clients use it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakSet

import yaml
from kubernetes.aio import client
from kubernetes.aio import config as _config
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import kube_config as _kube_config

from rackspan.core.text import few, shown
from rackspan.kube.kubeconfig_files import files_there, kubeconfig_files, kubeconfig_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

config: Any = _config  # its functions are not annotated
_library: Any = _kube_config
_log = logging.getLogger("rackspan.kube")

_TOKEN: Final = "BearerToken"  # noqa: S105 - where the client keeps it
_RENEW_BEFORE: Final = timedelta(seconds=1)
"""How long before its expiry a token is renewed."""
_PLUGIN_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 1.0
"""The minimum time between two attempts, so that a failing plugin does not run for each request."""
_TRIES: Final = 30
_NO_KUBECONFIG: Final = (yaml.YAMLError, UnicodeDecodeError, TypeError, AttributeError, KeyError)
_SHOWN: Final = 200
_MOST_IN_MEMORY: Final = 8
"""How many certificates and keys stay in memory, but for those in use. A login has up to three."""

_in_memory: Final[dict[bytes, int]] = {}
"""The descriptors of files in memory by their content, the one that was used last at the end."""
_authentications: Final[WeakSet[Authentication]] = WeakSet()


def _file_in_memory(content: bytes | str, *_: object) -> str:
    """Return the path of a file in memory with a certificate or key of a kubeconfig.

    The library writes these to temporary files on the disk, which stay there if a signal ends the process.
    """
    data = content.encode() if isinstance(content, str) else content
    descriptor = _in_memory.pop(data, None)
    if descriptor is None:
        descriptor = os.memfd_create("kubeconfig")
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
    _in_memory[data] = descriptor
    in_use = {path for one in _authentications for path in _paths(one.settings)}
    for old in list(_in_memory)[:-_MOST_IN_MEMORY]:  # a credential plugin may print new ones each hour
        if _path(_in_memory[old]) not in in_use:
            os.close(_in_memory.pop(old))
    return _path(descriptor)


def _path(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


def _paths(settings: Any) -> Sequence[str]:
    """Return the paths of the certificates and the key that the client uses."""
    return [path for path in (settings.ssl_ca_cert, settings.cert_file, settings.key_file) if path]


if hasattr(os, "memfd_create"):  # Linux
    _library._create_temp_file_with_content = _file_in_memory  # noqa: SLF001 - it has no other hook


@dataclass(frozen=True, slots=True)
class Login:
    """Address, TLS and credentials of the API server, with the names of kopf's `ConnectionInfo`. Paths name files."""

    server: str
    ca_path: str | None
    insecure: bool
    scheme: str | None
    token: str | None
    certificate_path: str | None
    private_key_path: str | None
    proxy_url: str | None


class Authentication:
    """The credentials of the given kubeconfig, else of the Pod's service account, else of the default kubeconfig."""

    def __init__(self, kubeconfig: Path | None) -> None:
        self.settings: Any = client.Configuration()
        self.tls: ReloadingContext
        """The context of all connections. `load` sets it."""
        self._kubeconfig = kubeconfig
        self._expires: datetime | None = None
        self._last_attempt = float("-inf")
        self._given_token: str | None = None
        """The token that `login` returned last."""
        self._renewal: asyncio.Task[None] | None = None
        """The latest attempt to renew the credentials."""
        _authentications.add(self)

    @property
    def token(self) -> str | None:
        """The scheme and the token of requests; None if a client certificate authenticates them."""
        found: str | None = self.settings.api_key.get(_TOKEN)
        return found

    async def load(self) -> None:
        """Read the credentials for the first time. Raises ConfigException if there are no usable credentials."""
        self.settings.connection_pool_maxsize = (
            0  # no limit: `Rest` limits the requests, and each watch keeps a connection open
        )
        await self._load()
        # Look up the proxy once. aiohttp would look for it, and for a netrc file, in a thread for each request.
        self.settings.client_session_kwargs = {"trust_env": False}
        self.settings.proxy = self.settings.proxy or _proxy(self.settings.host)
        self.tls = ReloadingContext(self.settings)

    async def renew(self, rejected: str | None = None) -> None:
        """Read the credentials again if the token has expired, or is the token that the API server has `rejected`.

        An attempt that fails or takes longer than a minute is logged, not raised: the next request fails. All callers
        wait for the same attempt. It continues if they stop waiting, because a plugin may exceed a request's timeout.
        """
        if not self._must_renew(rejected):
            return
        if self._renewal is None or self._renewal.done():
            now = asyncio.get_running_loop().time()
            if now < self._last_attempt + _PAUSE_SECONDS:
                return
            self._last_attempt = now
            self._renewal = asyncio.create_task(self._try_to_load(), name="credentials")
        await asyncio.shield(self._renewal)

    async def _try_to_load(self) -> None:
        try:
            async with asyncio.timeout(_PLUGIN_SECONDS):  # wait_for can swallow a cancellation up to Python 3.11
                await self._load()
        except Exception as error:
            _log.warning("no new token for the API server: %s", error)

    def forget_login(self) -> None:
        """Forget the token of the last login: the first login after a kopf restart does not mean a rejected token."""
        self._given_token = None

    async def login(self) -> Login:
        """Return credentials for kopf. Kopf calls this again when the API server has rejected the last token.

        In that case, wait up to about 30 seconds for another token.
        """
        for _ in range(_TRIES if self._given_token is not None else 0):
            await self.renew(rejected=self._given_token)
            if self.token != self._given_token:
                break
            await asyncio.sleep(_PAUSE_SECONDS)
        self._given_token = self.token
        scheme, _, token = (self.token or "").rpartition(" ")
        settings = self.settings
        return Login(
            server=settings.host,
            ca_path=settings.ssl_ca_cert,
            insecure=not settings.verify_ssl,
            scheme=scheme.capitalize() or None,
            token=token or None,
            certificate_path=settings.cert_file,
            private_key_path=settings.key_file,
            proxy_url=settings.proxy,
        )

    def _must_renew(self, rejected: str | None) -> bool:
        return (rejected is not None and self.token == rejected) or (
            self._expires is not None and datetime.now(UTC) >= self._expires - _RENEW_BEFORE
        )

    async def _load(self) -> None:
        if self._kubeconfig is None:
            try:
                config.load_incluster_config(client_configuration=self.settings)
            except config.ConfigException:
                _log.debug("no service account here")
            else:
                return  # the client reads its token again every minute
        named = kubeconfig_files(self._kubeconfig)
        files = files_there(named)
        if not files:
            raise config.ConfigException(f"{few(named)}: there is no such file")
        try:
            loader = await config.load_kube_config(os.pathsep.join(files), client_configuration=self.settings)
        except (config.ConfigException, OSError) as error:
            raise config.ConfigException(kubeconfig_problem(files) or str(error)) from error
        except _NO_KUBECONFIG as error:  # the library does not check the structure of the file
            found = kubeconfig_problem(files) or f"{few(files)} is not a kubeconfig: {shown(str(error), _SHOWN)}"
            raise config.ConfigException(found) from error
        self._expires = getattr(loader, "exec_plugin_expiry", None)
        self.settings.refresh_api_key_hook = lambda _: self.renew()


def _proxy(url: str) -> str | None:
    """Return the proxy for the API server from HTTPS_PROXY and NO_PROXY, or None for a direct connection."""
    host = urlsplit(url).hostname or ""
    return None if proxy_bypass(host) else getproxies().get("https")


class ReloadingContext(ssl.SSLContext):
    """Reads CA and client certificates again before a handshake if their files have changed.

    The kubelet rewrites a Pod's `ca.crt` when the cluster's CA is rotated. A context cannot remove a CA. So this class
    delegates handshakes to an inner context, and replaces that.
    """

    def __new__(cls, settings: Any) -> Self:  # noqa: ARG004
        """Return a context for clients."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, settings: Any) -> None:
        """Read the files that the client's `settings` name. Raises OSError if they cannot be read."""
        self._settings = settings
        self._files = self._stamps()
        self._current = self._read()

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """Begin a handshake."""
        files = self._stamps()
        if files != self._files:
            try:
                self._current, self._files = self._read(), files
            except OSError as error:  # another process may be writing it
                _log.warning("certificates for the API server cannot be read again: %s", error)
        return self._current.wrap_bio(*args, **kwargs)

    def _read(self) -> ssl.SSLContext:
        made: ssl.SSLContext = RESTClientObject(self._settings).ssl_context
        return made

    def _stamps(self) -> Sequence[object]:
        """Return values that change when the content of a file changes."""
        return [_stamp(path) for path in _paths(self._settings)]


def _stamp(path: str) -> object:
    try:
        found = Path(path).stat()
    except OSError:
        return path, None
    return path, found.st_ino, found.st_size, found.st_mtime_ns

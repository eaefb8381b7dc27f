"""A proxy in front of the API server that can refuse requests and end watches."""

import asyncio
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from dev.stack.certificates import Certificate
from tests.support.kubeconfigs import write_kubeconfig

_SECONDS = 300


class ApiProxy:
    """A proxy that forwards every request with the credentials of `settings`. It ends with its context."""

    def __init__(self, settings: Any, certificate: Certificate | None = None) -> None:
        """Use plain HTTP if there is no certificate."""
        self.port = 0
        self._certificate = certificate
        self._server = settings.host
        self._tls = ssl.create_default_context(cafile=settings.ssl_ca_cert)
        self._tls.load_cert_chain(settings.cert_file, settings.key_file)
        self._ready, self._loop = threading.Event(), asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    async def refuse(self, request: web.Request) -> web.Response | None:
        """Return the response instead of that of the API server, or None to forward the request. It may wait."""
        return None

    async def answered(self, request: web.Request) -> None:
        """Handle that the API server has responded to a request."""

    def watch_seconds(self, request: web.Request) -> float | None:
        """Return the seconds after which the proxy ends a watch, or None."""
        return None

    def kubeconfig(self, path: Path, user: Mapping[str, Any] | None = None, authority: Path | None = None) -> Path:
        """Write a kubeconfig for this proxy. `user` has the credentials, `authority` is the CA file for TLS."""
        scheme, trust = ("http", {}) if authority is None else ("https", {"certificate-authority": str(authority)})
        return write_kubeconfig(path, {"server": f"{scheme}://127.0.0.1:{self.port}", **trust}, user or {})

    def restart(self, certificate: Certificate) -> None:
        """Close all connections and listen again on the same port with another certificate."""
        self._certificate = certificate
        asyncio.run_coroutine_threadsafe(self._listen_again(), self._loop).result(_SECONDS)

    def set(self, event: asyncio.Event) -> None:
        """Set an event in the event loop of the proxy."""
        self._loop.call_soon_threadsafe(event.set)

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._open())
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._close())
        self._loop.close()

    async def _open(self) -> None:
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self._tls, limit=0))
        await self._listen()

    async def _listen(self) -> None:
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._pass)
        self._runner = web.AppRunner(app, shutdown_timeout=1)
        await self._runner.setup()
        tls = None
        if self._certificate is not None:
            tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            tls.load_cert_chain(self._certificate.cert, self._certificate.key)
        await web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=tls).start()
        self.port = self._runner.addresses[0][1]

    async def _listen_again(self) -> None:
        await self._runner.cleanup()
        await self._listen()

    async def _close(self) -> None:
        await self._session.close()
        await self._runner.cleanup()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        if request.app is not self._runner.app:  # its TLS handshake outlasted the restart
            request.transport.abort()
            return web.Response()
        refusal = await self.refuse(request)
        if refusal is not None:
            return refusal
        headers = {key: request.headers[key] for key in ("Accept", "Content-Type") if key in request.headers}
        url = f"{self._server}{request.raw_path}"
        body = await request.read()
        async with self._session.request(request.method, url, data=body or None, headers=headers) as answer:
            await self.answered(request)
            response = web.StreamResponse(
                status=answer.status, headers={"Content-Type": answer.headers["Content-Type"]}
            )
            await response.prepare(request)
            with suppress(TimeoutError, ConnectionError, aiohttp.ClientError):
                async with asyncio.timeout(self.watch_seconds(request) if "watch" in request.query else None):
                    async for chunk in answer.content.iter_any():
                        await response.write(chunk)
            return response

"""Metrics and probes over HTTP: `/metrics`, `/healthz` (liveness), `/readyz` (readiness)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol, cast

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

if TYPE_CHECKING:
    from collections.abc import Mapping


_MOST_CONNECTIONS: Final = 64
"""Maximum open connections. A kubelet's probes and each Prometheus server need one."""
_IDLE_SECONDS: Final = 75.0
_END_SECONDS: Final = 1.0
"""How long the shutdown waits for a client that does not read its response."""


class Probes(Protocol):
    """Answers the probes. `ok` is the result, other keys are details for people."""

    def alive(self) -> Mapping[str, object]:
        """Return the liveness, with the seconds since the last pass of each loop."""

    def ready(self) -> Mapping[str, object]:
        """Return the readiness, with the Kafka clusters that respond, or what the operator waits for."""


class HealthServer:
    """The HTTP server. Probes answer 200 or 503, with their details as JSON. `port` is the bound port.

    Every client that reaches the port may open connections. A new connection above the limit closes the oldest one, so
    that idle connections cannot block requests.
    """

    def __init__(self, probes: Probes, host: str, port: int) -> None:
        self._probes = probes
        self._host = host
        self._port = port
        self._runner: web.AppRunner | None = None
        self._socket: asyncio.Server | None = None
        self.port = port

    async def start(self) -> None:
        """Listen. Raises OSError if the port is in use."""
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/healthz", self._alive)
        app.router.add_get("/readyz", self._ready)
        self._runner = web.AppRunner(
            app, access_log=None, keepalive_timeout=_IDLE_SECONDS, shutdown_timeout=_END_SECONDS
        )
        await self._runner.setup()
        server = cast("web.Server", self._runner.server)

        def accept() -> asyncio.BaseProtocol:
            for oldest in server.connections[: 1 - _MOST_CONNECTIONS]:
                if oldest.transport is not None:
                    oldest.transport.abort()
            return server()

        self._socket = await asyncio.get_running_loop().create_server(accept, self._host, self._port)
        self.port = self._socket.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close the port."""
        if self._socket is not None:
            self._socket.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _alive(self, _: web.Request) -> web.Response:
        return _probe(self._probes.alive())

    async def _ready(self, _: web.Request) -> web.Response:
        return _probe(self._probes.ready())


def _probe(facts: Mapping[str, object]) -> web.Response:
    return web.json_response(dict(facts), status=200 if facts["ok"] else 503)

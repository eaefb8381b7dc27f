"""Probes and metrics get a response even if other clients keep connections open."""

import asyncio
import contextlib

import pytest

from rackspan.health import HealthServer


class Alive:
    def alive(self):
        return {"ok": True}

    def ready(self):
        return {"ok": False}


@pytest.fixture
async def server():
    found = HealthServer(Alive(), "127.0.0.1", 0)
    await found.start()
    yield found
    await found.stop()


async def ask(server, path):
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer.split()[1]


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"])
async def test_idle_connections_are_limited_and_do_not_block_probes(server, sent):
    idle = []
    for _ in range(400):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(sent)
        idle.append((reader, writer))
    assert await ask(server, "/healthz") == b"200"
    assert await ask(server, "/readyz") == b"503"
    assert len(server._runner.server.connections) <= 64
    await asyncio.gather(*(_until_closed(reader) for reader, _ in idle[:300]))
    for _, writer in idle:
        writer.close()


async def _until_closed(reader):
    with contextlib.suppress(ConnectionError):
        while await reader.read(1000):
            pass


async def test_connection_in_use_stays_open(server):
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    for _ in range(3):
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        await reader.readexactly(len(b'{"ok": true}'))
        assert await ask(server, "/healthz") == b"200"
    writer.close()

"""How a worker process handles requests in an unusual order."""

import asyncio

import msgspec

from rackspan.kafka.worker.calls import ClientKind, Request
from rackspan.kafka.worker.process import _Server


class Writer:
    def writelines(self, _):
        pass

    async def drain(self):
        pass


class Client:
    def __init__(self):
        self.answers = asyncio.Event()
        self.is_closed = False

    async def cluster(self):
        await self.answers.wait()

    async def close(self):
        self.is_closed = True


def request(number, call, *arguments):
    return Request(number, 7, call, msgspec.Raw(msgspec.msgpack.encode(arguments)), 0.0)


async def test_close_during_connect_closes_the_client_after_kafka_responds(monkeypatch):
    server, client = _Server(Writer(), 1 << 20), Client()
    monkeypatch.setattr(server, "_client", lambda *_: client)
    connecting = asyncio.create_task(server.answer(request(1, "connect", ClientKind.TOPICS, {})))
    await asyncio.sleep(0)
    await server.answer(request(2, "close"))
    client.answers.set()
    await connecting
    assert client.is_closed
    assert not server._clients

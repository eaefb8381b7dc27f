"""How a worker process handles requests in an unusual order."""

import asyncio

import msgspec

from rackspan.kafka.worker.calls import Answer, ClientKind, Request
from rackspan.kafka.worker.process import _Server
from rackspan.reconcile.failures import GIVEN_UP


class Writer:
    def writelines(self, frame):
        self.sent = frame

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


async def test_call_of_a_closed_client_fails_as_given_up():
    writer = Writer()
    await _Server(writer, 1 << 20).answer(request(1, "cluster"))
    assert msgspec.msgpack.decode(writer.sent[1], type=Answer).failure == GIVEN_UP

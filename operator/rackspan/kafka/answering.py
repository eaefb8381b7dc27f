"""A client is handed out once Kafka has answered it, so that a wrong address or password is told where it is used."""

from __future__ import annotations

from typing import Protocol, TypeVar


class Client(Protocol):
    """What asks Kafka, and is closed."""

    async def cluster(self) -> object: ...  # noqa: D102
    async def close(self) -> None: ...  # noqa: D102


C = TypeVar("C", bound=Client)


async def answering(client: C) -> C:
    """`client` after its first answer. Where there is none it is closed, and FailureError raised with the cause."""
    try:
        await client.cluster()
    except BaseException:
        await client.close()
        raise
    return client

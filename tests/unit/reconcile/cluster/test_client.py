"""The connection to Kafka while Secrets change and the API server is unreachable at times."""

import asyncio

import pytest
from tests.unit.reconcile.examples import topology
from tests.unit.reconcile.memory import MemoryKafka

from rackspan.api.reasons import Reason
from rackspan.reconcile.cluster.client import Session, read_credentials
from rackspan.reconcile.failures import Failure, FailureError, Remedy

SASL = {"mechanism": "SCRAM-SHA-512", "secretRef": {"name": "user"}}
TOPOLOGY = topology(kafka={"bootstrapServers": "kafka:9092", "sasl": SASL})
AWAY = FailureError(Failure(Reason.API_SERVER_UNREACHABLE, "no answer", Remedy.RETRY))
GONE = FailureError(Failure(Reason.SECRET_NOT_FOUND, "there is no Secret user", Remedy.ACCESS))


class World(MemoryKafka):
    """An API server with one Secret, and a Kafka that is the connector and all its clients."""

    def __init__(self):
        super().__init__()
        self.password, self.trouble = b"first", None
        self.passwords, self.closed = [], 0

    async def secret(self, namespace, name):
        if self.trouble is not None:
            raise self.trouble
        return {"username": b"rackspan", "password": self.password}

    async def connect(self, owner, kafka, credentials):
        self.passwords.append(credentials.password)
        return self

    async def close(self):
        self.closed += 1


@pytest.fixture
def world():
    return World()


@pytest.fixture
def session(world):
    return Session(world, world)


async def test_changed_secret_replaces_the_client_and_unchanged_secret_does_not(world, session):
    for password in (b"first", b"first", b"second"):
        world.password = password
        await session.connect(TOPOLOGY, fresh_secrets=True)
    assert world.passwords == ["first", "second"]
    assert world.closed == 1


async def test_new_client_is_closed_if_closing_the_old_one_was_cancelled(world, session):
    async def cancelled():
        await closed()
        raise asyncio.CancelledError

    closed, world.close = world.close, cancelled
    await session.connect(TOPOLOGY, fresh_secrets=True)
    world.close, world.password = closed, b"second"
    with pytest.raises(asyncio.CancelledError):
        await session.connect(TOPOLOGY, fresh_secrets=True)
    await session.close()
    assert world.closed == len(world.passwords) == 2


async def test_client_stays_while_the_api_server_is_unreachable(world, session):
    await session.connect(TOPOLOGY, fresh_secrets=True)
    world.trouble = AWAY
    await session.connect(TOPOLOGY, fresh_secrets=True)
    assert (world.passwords, world.closed) == (["first"], 0)


async def test_failed_client_is_replaced_with_known_secrets_while_the_api_server_is_unreachable(world, session):
    await session.connect(TOPOLOGY, fresh_secrets=True)
    await session.close()
    world.trouble = AWAY
    await session.connect(TOPOLOGY, fresh_secrets=True)
    assert world.passwords == ["first", "first"]


async def test_deleted_secret_is_not_replaced_by_its_last_content(world, session):
    await session.connect(TOPOLOGY, fresh_secrets=True)
    await session.close()
    world.trouble = GONE
    with pytest.raises(FailureError, match="there is no Secret"):
        await session.connect(TOPOLOGY, fresh_secrets=True)


async def test_known_secrets_are_not_sent_to_another_cluster(world, session):
    await session.connect(TOPOLOGY, fresh_secrets=True)
    await session.close()
    world.trouble = AWAY
    other = topology(kafka={"bootstrapServers": "other:9092", "sasl": SASL})
    with pytest.raises(FailureError, match="no answer"):
        await session.connect(other, fresh_secrets=True)


async def test_oauth_credentials_are_read_from_client_id_and_client_secret(world):
    found = {"login": {"clientId": b"me", "clientSecret": b"secret\n"}, "ca": {"ca.crt": b"PEM"}}

    async def secret(namespace, name):
        return found[name]

    world.secret = secret
    oauth = {"tokenEndpoint": "https://login.example.com/token", "caSecretRef": {"name": "ca"}}
    sasl = {"mechanism": "OAUTHBEARER", "secretRef": {"name": "login"}, "oauth": oauth}
    kafka = topology(kafka={"bootstrapServers": "kafka:9092", "sasl": sasl}).spec.kafka
    read = await read_credentials(kafka, "default", world)
    assert (read.username, read.password, read.token_ca_pem) == ("me", "secret", "PEM")
    assert "secret" not in repr(read)
    found["login"]["clientSecret"] = b""
    with pytest.raises(FailureError, match="Secret default/login: clientSecret is empty"):
        await read_credentials(kafka, "default", world)


@pytest.mark.parametrize("session", [{}, {"sessionToken": b"session\n"}])
async def test_aws_access_key_may_have_a_session_token(world, session):
    found = {"accessKeyId": b"me", "secretAccessKey": b"secret", **session}

    async def secret(namespace, name):
        return found

    world.secret = secret
    sasl = {"mechanism": "AWS_MSK_IAM", "secretRef": {"name": "aws"}, "mskIam": {"region": "eu-west-1"}}
    kafka = topology(kafka={"bootstrapServers": "kafka:9098", "tls": {}, "sasl": sasl}).spec.kafka
    read = await read_credentials(kafka, "default", world)
    assert (read.username, read.password, read.session_token) == ("me", "secret", "session" if session else None)
    assert repr(read) == "Credentials()"
    del found["secretAccessKey"]
    with pytest.raises(FailureError, match="Secret default/aws has no key secretAccessKey"):
        await read_credentials(kafka, "default", world)

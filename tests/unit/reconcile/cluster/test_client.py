"""The connection to Kafka, while Secrets change and the API server comes and goes."""

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
    """An API server with one Secret, and a Kafka: both as connector and as every client that it makes."""

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


async def test_a_secret_that_changed_makes_a_new_client_and_one_that_did_not_makes_none(world, session):
    for password in (b"first", b"first", b"second"):
        world.password = password
        await session.connect(TOPOLOGY, fresh_secrets=True)
    assert world.passwords == ["first", "second"]
    assert world.closed == 1


async def test_a_new_client_is_closed_though_the_end_came_while_that_of_before_was_closed(world, session):
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


async def test_while_the_api_server_is_away_the_client_stays(world, session):
    await session.connect(TOPOLOGY, fresh_secrets=True)
    world.trouble = AWAY
    await session.connect(TOPOLOGY, fresh_secrets=True)
    assert (world.passwords, world.closed) == (["first"], 0)


async def test_while_it_is_away_a_client_that_failed_is_replaced_by_one_with_the_secrets_of_before(world, session):
    await session.connect(TOPOLOGY, fresh_secrets=True)
    await session.close()
    world.trouble = AWAY
    await session.connect(TOPOLOGY, fresh_secrets=True)
    assert world.passwords == ["first", "first"]


async def test_a_secret_that_is_gone_is_not_replaced_by_what_it_was(world, session):
    await session.connect(TOPOLOGY, fresh_secrets=True)
    await session.close()
    world.trouble = GONE
    with pytest.raises(FailureError, match="there is no Secret"):
        await session.connect(TOPOLOGY, fresh_secrets=True)


async def test_another_cluster_gets_no_secrets_of_before(world, session):
    await session.connect(TOPOLOGY, fresh_secrets=True)
    await session.close()
    world.trouble = AWAY
    other = topology(kafka={"bootstrapServers": "other:9092", "sasl": SASL})
    with pytest.raises(FailureError, match="no answer"):
        await session.connect(other, fresh_secrets=True)


async def test_a_client_of_a_token_endpoint_has_keys_of_its_own(world):
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
async def test_an_access_key_of_aws_may_be_temporary(world, session):
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

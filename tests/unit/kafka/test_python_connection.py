"""What kafka-python's client leaves behind where it reaches nobody, and where it is closed meanwhile."""

import threading

import pytest
from kafka.errors import KafkaConnectionError

from rackspan.kafka import python_connection
from rackspan.kafka.admin import ConfluentAdmin
from rackspan.kafka.python_connection import PythonConnection
from rackspan.reconcile.failures import FailureError

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}


def test_a_client_that_reaches_nobody_leaves_no_thread(monkeypatch):
    monkeypatch.setattr(python_connection, "_BOOTSTRAP_MS", 100)
    before = set(threading.enumerate())
    with pytest.raises(FailureError, match="Unable to bootstrap"):
        PythonConnection(NOBODY).ask(lambda admin: admin.list_topics())
    assert not [one.name for one in set(threading.enumerate()) - before if one.name.startswith("kafka-io")]


class Admins:
    """Makes kafka-python's clients; `meanwhile` is called before each is whole."""

    def __init__(self):
        self.made = []
        self.closed = threading.Semaphore(0)
        self.meanwhile = lambda: None

    def __call__(self, **_):
        self.meanwhile()
        self.made.append(self)
        return self

    def close(self):
        self.closed.release()


@pytest.fixture
def admins(monkeypatch):
    admins = Admins()
    monkeypatch.setattr(python_connection, "PythonAdmin", admins)
    return admins


@pytest.fixture
def connection(admins):
    return PythonConnection(NOBODY)


def given_up(connection, question):
    with pytest.raises(FailureError, match=r"^the connection was given up$"):
        connection.ask(question)


def test_what_is_asked_while_a_client_is_closed_is_not_asked_again(admins, connection):
    asked = []

    def question(admin):
        asked.append(admin)
        connection.close()
        raise KafkaConnectionError("closed")

    given_up(connection, question)
    assert asked == admins.made == [admins]
    assert admins.closed.acquire(timeout=5)
    given_up(connection, question)
    assert len(asked) == 1


def test_a_client_that_is_made_while_it_is_closed_is_closed_and_asked_nothing(admins, connection):
    admins.meanwhile = connection.close
    given_up(connection, pytest.fail)
    assert admins.made
    assert admins.closed.acquire(timeout=5)


async def test_a_closed_client_connects_no_more_for_what_librdkafka_does_not_have(admins):
    admin = ConfluentAdmin({**NOBODY, "log_level": 0})
    await admin.close()
    given_up(admin._python_connection(), pytest.fail)
    assert not admins.made

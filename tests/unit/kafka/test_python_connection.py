"""Clients of kafka-python that cannot connect, or are closed during a call."""

import threading

import pytest
from kafka.errors import KafkaConnectionError

from rackspan.kafka import python_connection
from rackspan.kafka.admin import ConfluentAdmin
from rackspan.kafka.python_connection import PythonConnection
from rackspan.reconcile.failures import FailureError

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}


def test_client_that_cannot_connect_leaves_no_thread(monkeypatch):
    monkeypatch.setattr(python_connection, "_BOOTSTRAP_MS", 100)
    before = set(threading.enumerate())
    with pytest.raises(FailureError, match="Unable to bootstrap"):
        PythonConnection(NOBODY).ask(lambda admin: admin.list_topics())
    assert not [one.name for one in set(threading.enumerate()) - before if one.name.startswith("kafka-io")]


class Admins:
    """Creates fake clients of kafka-python. Calls `meanwhile` during each creation."""

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


def test_question_in_progress_is_not_retried_after_close(admins, connection):
    asked = []

    def question(admin):
        asked.append(admin)
        connection.close()
        raise KafkaConnectionError("closed")

    given_up(connection, question)
    assert asked == admins.made == [admins]
    assert admins.closed.acquire(timeout=300)
    given_up(connection, question)
    assert len(asked) == 1


def test_client_that_is_created_during_close_is_closed_and_not_used(admins, connection):
    admins.meanwhile = connection.close
    given_up(connection, pytest.fail)
    assert admins.made
    assert admins.closed.acquire(timeout=300)


async def test_closed_admin_creates_no_kafka_python_client(admins):
    admin = ConfluentAdmin({**NOBODY, "log_level": 0})
    await admin.close()
    given_up(admin._python_connection(), pytest.fail)
    assert not admins.made

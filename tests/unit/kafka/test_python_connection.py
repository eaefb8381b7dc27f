"""What kafka-python's client leaves behind where it reaches nobody."""

import threading

import pytest

from rackspan.kafka import python_connection
from rackspan.kafka.python_connection import PythonConnection
from rackspan.reconcile.failures import FailureError

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}


def test_a_client_that_reaches_nobody_leaves_no_thread(monkeypatch):
    monkeypatch.setattr(python_connection, "_BOOTSTRAP_MS", 100)
    before = set(threading.enumerate())
    with pytest.raises(FailureError, match="Unable to bootstrap"):
        PythonConnection(NOBODY).ask(lambda admin: admin.list_topics())
    assert not [one.name for one in set(threading.enumerate()) - before if one.name.startswith("kafka-io")]

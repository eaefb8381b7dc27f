"""An event is handed on whole, and kopf, which holds on to it, is left with its metadata."""

import pytest

from rackspan.handlers.watches import Memo


class Informer:
    taken = ()

    def take(self, event_type, body):
        self.taken = (event_type, dict(body))


class Manager:
    def __init__(self):
        self.informers = {"Reassignment": Informer()}


@pytest.mark.parametrize("body", [{"metadata": {"uid": "1"}, "spec": {"plan": "x"}, "status": {}}, {"metadata": {}}])
def test_what_is_heavy_is_taken_out_of_an_event_once_it_is_handed_on(body):
    manager, event, whole = Manager(), {"type": "ADDED", "object": body}, dict(body)
    Memo(manager, None, None).take("Reassignment", event)
    assert manager.informers["Reassignment"].taken == ("ADDED", whole)
    assert event["object"] == {"metadata": whole["metadata"]}

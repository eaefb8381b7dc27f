"""The informer gets the whole object. Kopf, which keeps the event in memory, keeps only its metadata."""

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
def test_take_passes_the_whole_object_and_leaves_only_its_metadata_in_the_event(body):
    manager, event, whole = Manager(), {"type": "ADDED", "object": body}, dict(body)
    Memo(manager, None, None).take("Reassignment", event)
    assert manager.informers["Reassignment"].taken == ("ADDED", whole)
    assert event["object"] == {"metadata": whole["metadata"]}

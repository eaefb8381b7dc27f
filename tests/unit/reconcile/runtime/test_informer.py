"""The known version of an object when lists, watch events and responses to writes arrive out of order."""

import pytest

from rackspan.api.kafkatopic import KIND
from rackspan.api.meta import ObjectKey
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.runtime.informer import Informer, ObjectVersions, ResourceHandler

KEY = ObjectKey("shop", "orders")


def body(version, uid="1", **spec):
    return {
        "metadata": {"namespace": "shop", "name": "orders", "uid": uid, "resourceVersion": version},
        "spec": {"topologyRef": {"name": "prod"}, "partitions": 1, "replicationFactor": 1, **spec},
    }


@pytest.fixture
def known():
    versions = ObjectVersions()
    assert versions.record(KIND, body("10"))
    return versions


@pytest.mark.parametrize("version", ["9", "10"])
def test_version_that_is_not_newer_is_ignored(known, version):
    assert not known.record(KIND, body(version))
    assert not known.record_response(KIND, body(version))


def test_versions_compare_as_numbers(known):
    assert not known.record(KIND, body("9"))
    assert known.record(KIND, body("100"))


def test_versions_that_are_not_numbers_are_accepted_in_order_of_arrival():
    versions = ObjectVersions()
    assert versions.record(KIND, body("b"))
    assert versions.record(KIND, body("a"))


def test_listed_object_is_accepted_even_with_an_older_version(known):
    assert known.record(KIND, body("7"), listed=True)
    assert known.record(KIND, body("8"))


def test_listed_object_with_an_older_uid_does_not_replace_the_current_one(known):
    assert not known.record(KIND, body("7", uid="0"), listed=True)


def test_event_of_an_earlier_object_does_not_replace_or_delete_the_current_one(known):
    assert not known.record(KIND, body("9", uid="0"))
    assert not known.record_deletion(KIND, body("9", uid="0"))
    assert known.record_deletion(KIND, body("11", uid="1"))
    assert known.latest(KIND, KEY) is None


def test_response_to_a_write_does_not_restore_a_deleted_object(known):
    known.record_deletion(KIND, body("11"))
    assert not known.record_response(KIND, body("12"))


def test_response_to_a_write_does_not_replace_an_object_created_since(known):
    assert not known.record_response(KIND, body("12", uid="0"))


def topology(version, uid="1", **spec):
    spec = {"kafka": {"bootstrapServers": "kafka:9092"}, "levels": [{"name": "zone"}], **spec}
    return body(version, uid) | {"spec": spec}


def seen(cache, topology):
    if cache.versions.record("RackTopology", topology):
        cache.put_topology(topology)


def test_response_to_a_write_does_not_replace_a_newer_spec_of_a_topology():
    cache = Cache()
    seen(cache, topology("10", drainBrokers=[1]))
    cache.put_topology_answer(topology("9"))
    assert cache.topologies[KEY].spec.drain_brokers == (1,)
    cache.put_topology_answer(topology("11"))
    assert cache.topologies[KEY].meta.resource_version == "11"


def test_response_to_a_write_does_not_restore_or_replace_a_topology():
    cache = Cache()
    cache.put_topology_answer(topology("9"))
    assert cache.topologies == {}
    seen(cache, topology("10", uid="2"))
    cache.put_topology_answer(topology("11", uid="1"))
    assert cache.topologies[KEY].meta.uid == "2"


class Told:
    """Records the calls of a handler in order."""

    def __init__(self, cache):
        self.cache, self.told = cache, []
        handler = ResourceHandler(self.put, self.drop, lambda key: self.told.append(("changed", str(key))))
        self.informer = Informer(KIND, handler, cache.versions, lambda: None)

    def put(self, body):
        self.told.append(("put", self.cache.put_topic(body).meta.uid))

    def drop(self, key):
        self.told.append(("drop", self.cache.drop_topic(key).meta.uid))


@pytest.mark.parametrize("event", [None, "ADDED", "MODIFIED"])
def test_recreated_object_drops_the_old_one_before_the_new_one_is_put(event):
    found = Told(Cache())
    found.informer.take("ADDED", body("1"))
    found.informer.take(event, body("3", uid="2"))
    found.informer.take("DELETED", body("2"))
    assert found.told == [
        ("put", "1"),
        ("changed", str(KEY)),
        ("drop", "1"),
        ("put", "2"),
        ("changed", str(KEY)),
    ]


@pytest.mark.parametrize("event", [None, "MODIFIED"])
def test_event_of_an_earlier_object_does_not_drop_the_current_one(event):
    found = Told(Cache())
    found.informer.take("ADDED", body("3", uid="2"))
    found.informer.take(event, body("1"))
    assert ("drop", "2") not in found.told
    assert found.cache.topics[KEY].meta.uid == "2"


def test_list_that_was_read_before_a_write_does_not_revert_the_write():
    found = Told(Cache())
    found.informer.take("ADDED", body("9"))
    written = body("10") | {"status": {"topicId": "id-1"}}
    found.cache.put_answer(written)
    found.informer.take(None, body("9"))
    assert found.cache.topics[KEY].status.topic_id == "id-1"


@pytest.mark.parametrize(("uid", "partitions"), [("1", 6), ("2", 1)])
def test_invalid_object_keeps_its_last_valid_version_but_not_an_earlier_object(uid, partitions):
    found = Told(Cache())
    found.informer.take("ADDED", body("1", partitions=6))
    found.informer.take("MODIFIED", body("2", uid, partitions="many"))
    assert (found.cache.topics[KEY].meta.uid, found.cache.topics[KEY].spec.partitions) == (uid, partitions)

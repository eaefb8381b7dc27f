"""ConfigMaps follow nodes, namespaces and topologies. Those of other owners do not change, and in doubt they stay."""

import asyncio
from dataclasses import dataclass, field, replace
from unittest.mock import MagicMock

import pytest
from msgspec import structs
from tests.support.loop_dependencies import rack_dependencies
from tests.support.manifests import TOPOLOGY, changed
from tests.unit.reconcile.examples import NOON

from rackspan.api.conditions import RACKS_PUBLISHED, find_condition
from rackspan.api.labels import BROKER_PODS_FOR, PUBLISH_RACKS, RACK_FILE_OF, TOPOLOGY_UID
from rackspan.api.meta import ObjectKey
from rackspan.core import rack_file
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import Listed, ObjectVersion, RackFileList, RackFileMeta
from rackspan.reconcile.racks import publish as loops
from rackspan.reconcile.racks.publish import RacksReconciler
from rackspan.reconcile.runtime.namespaces import EVERYWHERE, NamespaceSet

FORBIDDEN = Failure("NotAuthorized", "forbidden", Remedy.ACCESS)
FILE = ObjectKey("kafka", "prod-racks")
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


@dataclass
class MemoryFiles:
    """The ConfigMaps of a cluster. `strangers` are the keys of those that Rackspan did not create."""

    there: dict = field(default_factory=dict)
    strangers: set = field(default_factory=set)
    calls: list = field(default_factory=list)
    failing: set = field(default_factory=set)
    unlisted: dict = field(default_factory=dict)
    version: int = 0

    async def published(self):
        self.calls.append("list")
        seen = [key for key in self.there if not {key.namespace, EVERYWHERE} & self.unlisted.keys()]
        return RackFileList({key: self.there[key][0] for key in seen}, dict(self.unlisted))

    async def create(self, body):
        key = self._key("create", body)
        if key in self.there or key in self.strangers:
            return None
        return self._put(key, body, f"uid-{len(self.calls)}")

    async def replace(self, known, body):
        key = self._key("replace", body)
        if self.there.get(key, (None, None))[0] != known:
            return None
        return self._put(key, body, known.uid)

    async def delete(self, key, known):
        self._called("delete", key)
        self.there.pop(key, None)

    def edited(self, key):
        """Change the file as a user does by hand."""
        meta, _ = self.there[key]
        self.version += 1
        self.there[key] = replace(meta, version=str(self.version)), {"nodes": "edited"}

    def text(self, key=FILE):
        return self.there[key][1]["nodes"]

    def _key(self, verb, body):
        key = ObjectKey(body["metadata"]["namespace"], body["metadata"]["name"])
        self._called(verb, key)
        return key

    def _called(self, verb, key):
        self.calls.append(f"{verb} {key}")
        if key.namespace in self.failing:
            raise FailureError(FORBIDDEN)

    def _put(self, key, body, uid):
        self.version += 1
        metadata = body["metadata"]
        owner = ObjectKey(*metadata["annotations"][RACK_FILE_OF].split("/"))
        meta = RackFileMeta(uid, str(self.version), owner, metadata["labels"][TOPOLOGY_UID])
        self.there[key] = meta, dict(body["data"])
        return meta


class MemoryKube:
    def __init__(self):
        self.topologies = {}
        self.denied = frozenset()

    async def listed(self, kind):
        return Listed({key: ObjectVersion(uid, "") for key, uid in self.topologies.items()}, self.denied)


class World:
    def __init__(self, allowed=(EVERYWHERE,)):
        self.files, self.kube, self.cache, self.changed = MemoryFiles(), MemoryKube(), Cache(), []
        self.allowed = NamespaceSet(allowed)
        self.restart()
        self.namespace("kafka")
        self.node("n1", "eu", "a")
        self.topology()

    def restart(self, *watched):
        dependencies = rack_dependencies(self.cache, self.kube, self.files, allowed=self.allowed, watched=watched)
        self.loop = RacksReconciler(dependencies, self.changed.append)

    def namespace(self, name, **labels):
        self.cache.put_namespace({"metadata": {"name": name, "labels": labels}})

    def node(self, name, *racks):
        labels = dict(zip((REGION, ZONE), racks, strict=False))
        self.cache.put_node({"metadata": {"name": name, "labels": labels}})

    def topology(self, namespace="kafka", uid="rt-1", created="2026-01-01T00:00:00Z", **spec):
        metadata = {"name": "prod", "namespace": namespace, "uid": uid, "creationTimestamp": created, "generation": 1}
        self.kube.topologies[ObjectKey(namespace, "prod")] = uid
        return self.cache.put_topology(changed(TOPOLOGY, {"metadata": metadata, "spec": spec}))

    def topology_deleted(self, namespace="kafka"):
        self.cache.drop_topology(ObjectKey(namespace, "prod"))
        self.kube.topologies.pop(ObjectKey(namespace, "prod"), None)

    def condition(self, namespace="kafka"):
        topology = self.cache.topologies[ObjectKey(namespace, "prod")]
        return find_condition(self.loop.status(topology, topology.status, NOON).conditions, RACKS_PUBLISHED)

    async def writes(self):
        """Run one pass and return its requests, apart from lists."""
        before = len(self.files.calls)
        await self.loop.reconcile()
        return [call for call in self.files.calls[before:] if call != "list"]


@pytest.fixture
def relisting(monkeypatch):
    """Make every pass list the ConfigMaps."""
    monkeypatch.setattr(loops, "_RESYNC_SECONDS", 0)
    monkeypatch.setattr(loops, "_RETRY_SECONDS", 0)


async def test_file_deleted_with_its_namespace_does_not_count_as_published(relisting):
    world = World()
    topology = ObjectKey("kafka", "prod")
    world.namespace("shop", **{PUBLISH_RACKS: "kafka.prod"})
    await world.loop.reconcile()
    assert world.loop.published_rack(topology, "shop", "n1") == "/eu/a"
    del world.cache.namespaces["shop"], world.files.there[ObjectKey("shop", "prod-racks")]
    await world.loop.reconcile()
    assert world.loop.published_rack(topology, "shop", "n1") is None
    assert world.loop.published_rack(topology, "kafka", "n1") == "/eu/a"


async def test_published_rack_of_a_node_is_known_without_parsing_the_file(monkeypatch):
    world, topology = World(), ObjectKey("kafka", "prod")
    await world.loop.reconcile()
    parsed = MagicMock(wraps=rack_file.parse_rack)
    monkeypatch.setattr(rack_file, "parse_rack", parsed)
    assert world.loop.published_rack(topology, "kafka", "n1") == "/eu/a"
    assert world.loop.published_rack(topology, "kafka", "n2") is None
    world.node("n2", "eu", "b")
    assert world.loop.published_rack(topology, "kafka", "n2") is None, "it is not written yet"
    await world.loop.reconcile()
    assert world.loop.published_rack(topology, "kafka", "n2") == "/eu/b"
    assert not parsed.called


async def test_file_is_written_once_and_again_only_when_it_changes(relisting):
    world = World()
    assert await world.writes() == [f"create {FILE}"]
    assert "n1 /eu/a\n" in world.files.text()
    assert await world.writes() == []
    world.node("n2", "eu", "b")
    assert await world.writes() == [f"replace {FILE}"]
    assert "n2 /eu/b\n" in world.files.text()
    assert world.changed == [FILE._replace(name="prod")] * 2


async def test_file_is_replaced_once_after_its_topology_is_created_again(relisting):
    world = World()
    await world.writes()
    world.topology_deleted()
    world.topology(uid="rt-2")
    assert await world.writes() == [f"replace {FILE}"]
    assert world.files.there[FILE][0].topology_uid == "rt-2"
    assert await world.writes() == []


async def test_file_is_replaced_once_after_a_restart_of_the_operator(relisting):
    world = World()
    await world.writes()
    world.restart()
    assert await world.writes() == [f"replace {FILE}"]
    assert await world.writes() == []


async def test_edited_or_deleted_file_is_restored(relisting):
    world = World()
    await world.writes()
    world.files.edited(FILE)
    assert await world.writes() == [f"replace {FILE}"]
    assert "n1 /eu/a\n" in world.files.text()
    del world.files.there[FILE]
    assert await world.writes() == [f"create {FILE}"]


async def test_change_between_list_and_write_is_handled_in_the_next_pass():
    world = World()
    await world.writes()
    world.files.edited(FILE)
    world.node("n2", "eu", "b")
    assert await world.writes() == [f"replace {FILE}"]
    assert world.condition().reason == "ApiServerRefused"
    assert await world.writes() == [f"replace {FILE}"]
    assert "n2 /eu/b\n" in world.files.text()
    assert world.condition().status == "True"


async def test_file_is_deleted_if_its_namespace_removes_the_label(relisting):
    world = World()
    world.namespace("clients", **{PUBLISH_RACKS: "kafka.prod"})
    assert await world.writes() == [f"create {ObjectKey('clients', 'prod-racks')}", f"create {FILE}"]
    assert world.condition().message == "the racks of 1 node are in ConfigMap prod-racks of clients, kafka"
    world.namespace("clients")
    assert await world.writes() == ["delete clients/prod-racks"]
    assert FILE in world.files.there


async def test_files_of_a_deleted_topology_are_deleted(relisting):
    world = World()
    world.namespace("clients", **{PUBLISH_RACKS: "kafka.prod"})
    await world.writes()
    world.topology_deleted()
    assert sorted(await world.writes()) == ["delete clients/prod-racks", "delete kafka/prod-racks"]
    assert world.files.there == {}


async def test_files_stay_while_the_deletion_of_their_topology_waits(relisting):
    world = World()
    await world.writes()
    topology = world.cache.topologies[ObjectKey("kafka", "prod")]
    meta = structs.replace(topology.meta, deletion_timestamp=NOON)
    world.cache.topologies[topology.key] = structs.replace(topology, meta=meta)
    world.node("n2", "eu", "b")
    assert await world.writes() == [], "restarting brokers read the files, and no file changes"
    world.topology_deleted()
    assert await world.writes() == [f"delete {FILE}"]


async def test_file_of_a_topology_that_cannot_be_read_stays(relisting):
    world = World()
    await world.writes()
    world.cache.drop_topology(ObjectKey("kafka", "prod"))
    assert await world.writes() == []
    assert FILE in world.files.there


@pytest.mark.parametrize("uid", ["rt-1", "rt-2"])
async def test_file_stays_if_its_topology_becomes_readable_during_the_list(relisting, monkeypatch, uid):
    world = World()
    await world.writes()
    key = ObjectKey("kafka", "prod")
    world.topology_deleted()
    listed = world.kube.listed

    async def read_meanwhile(kind):
        world.topology(uid=uid)
        return await listed(kind)

    monkeypatch.setattr(world.kube, "listed", read_meanwhile)
    assert await world.writes() == []
    assert key in world.cache.topologies
    assert FILE in world.files.there


async def test_files_of_topologies_in_unreadable_namespaces_stay_and_others_are_deleted(relisting):
    world = World()
    world.namespace("other")
    world.topology("other", uid="rt-2", created="2026-02-01T00:00:00Z")
    await world.writes()
    world.kube.denied = frozenset({"kafka"})
    for namespace in ("kafka", "other"):
        world.topology_deleted(namespace)
    assert await world.writes() == ["delete other/prod-racks"]
    assert FILE in world.files.there


async def test_files_of_topologies_outside_the_watched_namespaces_stay(relisting):
    world = World()
    await world.writes()
    world.topology_deleted()
    world.restart("elsewhere")
    assert await world.writes() == []
    assert FILE in world.files.there


async def test_config_map_of_another_owner_is_reported_and_not_changed(relisting):
    world = World()
    world.files.strangers.add(FILE)
    await world.writes()
    assert world.files.there == {}
    found = world.condition()
    assert (found.status, found.reason) == ("False", "ConfigMapTaken")
    assert found.message == "ConfigMap kafka/prod-racks is there already and belongs to another owner: rename one"


async def test_condition_about_a_taken_config_map_does_not_name_the_other_topology(relisting):
    world = World()
    world.namespace("kafka", **{BROKER_PODS_FOR: "other"})
    brokers = {"namespace": "kafka", "podSelector": {"matchLabels": {"app": "kafka"}}}
    levels = [{"name": "zone", "nodeLabel": ZONE}]
    world.topology("other", uid="rt-2", created="2026-02-01T00:00:00Z", brokers=brokers, levels=levels)
    await world.writes()
    found = world.condition("other")
    assert (found.status, found.reason) == ("False", "ConfigMapTaken")
    assert found.message == (
        "ConfigMap kafka/prod-racks is there already and publishes the racks of another namespace's RackTopology: "
        "rename one"
    )


async def test_file_is_taken_over_by_another_topology_when_the_namespace_label_names_it(relisting):
    world = World()
    world.namespace("other")
    world.namespace("clients", **{PUBLISH_RACKS: "kafka.prod"})
    await world.writes()
    world.topology("other", uid="rt-2", created="2026-02-01T00:00:00Z")
    world.namespace("clients", **{PUBLISH_RACKS: "other.prod"})
    await world.writes()  # the first topology deletes its file, and the second cannot create one yet
    await world.writes()
    assert world.files.there[ObjectKey("clients", "prod-racks")][0].topology == ObjectKey("other", "prod")


async def test_failure_of_one_topology_does_not_affect_others(relisting):
    world = World()
    world.namespace("broken")
    world.files.failing.add("broken")
    world.topology("broken", uid="rt-0", created="2025-01-01T00:00:00Z")
    await world.writes()
    assert world.condition("broken").reason == "NotAuthorized"
    assert world.condition().status == "True"


@pytest.mark.parametrize(("how", "reason"), [("strangers", "ConfigMapTaken"), ("failing", "NotAuthorized")])
async def test_file_that_cannot_be_written_does_not_block_files_of_other_namespaces(relisting, how, reason):
    world = World()
    for name in ("billing", "clients"):
        world.namespace(name, **{PUBLISH_RACKS: "kafka.prod"})
    getattr(world.files, how).add(ObjectKey("billing", "prod-racks") if how == "strangers" else "billing")
    world.files.strangers.add(ObjectKey("clients", "prod-racks"))
    await world.writes()
    assert "n1 /eu/a\n" in world.files.text()
    found = world.condition()
    assert (found.status, found.reason) == ("False", reason), "the condition reports the first failure"


async def test_file_that_cannot_be_deleted_does_not_block_the_deletion_of_others(relisting):
    world = World()
    for name in ("billing", "clients"):
        world.namespace(name, **{PUBLISH_RACKS: "kafka.prod"})
    await world.writes()
    for name in ("billing", "clients"):
        world.namespace(name)
    world.files.failing.add("billing")
    world.node("n2")
    with pytest.raises(FailureError, match="forbidden"):
        await world.loop.reconcile()
    assert sorted(key.namespace for key in world.files.there) == ["billing", "kafka"]
    assert world.condition().message.startswith("the racks of 1 node are in ConfigMap prod-racks of kafka; 1 node is")
    world.files.failing.clear()
    assert await world.writes() == ["delete billing/prod-racks"]


@pytest.mark.parametrize("unlisted", ["shop", EVERYWHERE])
async def test_files_that_cannot_be_listed_stay_and_files_of_other_namespaces_are_written(relisting, unlisted):
    world = World()
    world.namespace("shop", **{PUBLISH_RACKS: "kafka.prod"})
    world.namespace("other")
    world.topology("other", uid="rt-2", created="2026-02-01T00:00:00Z")
    await world.writes()
    world.files.unlisted[unlisted] = FORBIDDEN
    world.node("n2", "eu", "b")
    everywhere = unlisted == EVERYWHERE
    assert await world.writes() == ([] if everywhere else [f"replace {FILE}", "replace other/prod-racks"])
    assert (world.condition().status, world.condition().message) == ("False", "forbidden")
    assert world.condition("other").status == ("False" if everywhere else "True")
    world.files.unlisted.clear()
    assert "replace shop/prod-racks" in await world.writes(), "the file is replaced, not created"
    assert world.condition().status == "True"


async def test_failed_list_is_retried_soon_and_forgotten_with_its_namespace():
    world = World()
    world.namespace("shop", **{PUBLISH_RACKS: "kafka.prod"})
    await world.writes()
    world.loop._list_due, world.files.unlisted["shop"] = 0, FORBIDDEN
    assert await world.loop.reconcile() == loops._RETRY_SECONDS
    due = world.loop._list_due
    world.loop._list_due = 0
    del world.cache.namespaces["shop"]
    assert await world.writes() == []
    assert due < asyncio.get_running_loop().time() + loops._RESYNC_SECONDS / 2
    assert world.condition().status == "True"


async def test_topologies_over_the_quota_publish_nothing(relisting):
    world = World()
    world.cache.quota = type(world.cache.quota)(0)
    world.topology(uid="rt-3")
    assert await world.writes() == []


async def test_no_request_is_made_if_no_namespace_is_allowed():
    world = World(allowed=())
    await world.loop.reconcile()
    assert world.files.calls == []
    assert world.condition() is None


async def test_condition_counts_nodes_without_labels():
    world = World()
    world.node("n2")
    await world.writes()
    assert world.condition().message == (
        "the racks of 1 node are in ConfigMap prod-racks of kafka; "
        "1 node is left out: node n2 has no label topology.kubernetes.io/region"
    )


@pytest.mark.parametrize("where", ["target_namespaces", "rack_text", "config_map"])
async def test_unexpected_error_in_one_topology_does_not_end_the_pass_for_others(relisting, monkeypatch, where):
    world, broken, real = World(), [], getattr(loops, where)

    def fails(topology, *rest):
        if topology.key.namespace in broken:
            raise RuntimeError("nobody expected this")
        return real(topology, *rest)

    monkeypatch.setattr(loops, where, fails)
    await world.writes()
    world.namespace("other")
    world.topology("other", uid="rt-2", created="2026-02-01T00:00:00Z")
    world.node("n2", "eu", "b")
    broken.append("kafka")
    before = world.files.text()
    if where == "rack_text":  # both have the same levels, so the text is computed once
        broken.append("other")
    writes = await world.writes()
    assert writes == ([] if where == "rack_text" else ["create other/prod-racks"])
    assert world.files.text() == before, "the file stays after the error"
    told = world.condition()
    assert (told.status.value, told.reason) == ("False", "UnexpectedError")
    assert told.message == "RuntimeError, see the operator's log"
    broken.clear()
    assert f"replace {FILE}" in await world.writes()
    assert world.condition().reason == "RacksPublished"


async def test_new_operator_keeps_the_condition_until_its_first_pass():
    world = World()
    await world.writes()
    topology = world.cache.topologies[ObjectKey("kafka", "prod")]
    status = world.loop.status(topology, topology.status, NOON)
    assert find_condition(status.conditions, RACKS_PUBLISHED).reason == "RacksPublished"
    world.restart()
    assert world.loop.status(topology, status, NOON) == status
    world.allowed = NamespaceSet(())
    world.restart()
    assert find_condition(world.loop.status(topology, status, NOON).conditions, RACKS_PUBLISHED) is None

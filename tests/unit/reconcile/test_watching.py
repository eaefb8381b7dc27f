"""With any order of events, restarts of watches and sweeps, the known objects are in the end those of the API server.

The model is an API server and kopf's watches. Events of one object arrive in order. Events of different objects arrive
in any order, even if both had the same name one after the other. A broken watch loses pending events and lists again.
A restore from a backup sets versions back.
"""

import asyncio
import copy
from unittest.mock import MagicMock, patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from tests.support.loop_dependencies import rack_dependencies, scan_dependencies
from tests.support.scan_setups import scan_setup
from tests.unit.reconcile.kube_memory import dependencies_of

from rackspan.api.meta import ObjectKey
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.manager import Manager
from rackspan.reconcile.ports import Listed
from rackspan.reconcile.runtime.informer import key_of, version_of
from rackspan.reconcile.topology_loops import TopologyLoops

SPECS = {
    "KafkaTopic": {"topologyRef": {"name": "prod"}, "partitions": 1, "replicationFactor": 1},
    "RackTopology": {"kafka": {"bootstrapServers": "kafka:9092"}, "levels": [{"name": "zone"}]},
    "ComplianceReport": {"topologyRef": {"name": "a"}},
    "Reassignment": {"topologyRef": {"name": "a"}, "planHash": "0123456789abcdef", "plan": "eJw="},
}
NAMES = ("a", "b")
kinds = st.sampled_from(sorted(SPECS))
names = st.sampled_from(NAMES)


class Quiet(TopologyLoops):
    """Reconciles nothing: no loop of a topology runs."""

    def start(self, key):
        return self._running.setdefault(key, (MagicMock(), None))[0]

    def topology_gone(self, topology):
        super().topology_gone(topology)
        self._running.pop(topology.key, None)


class ApiServer:
    """Objects by kind and key, and the events that are not delivered yet, by uid."""

    def __init__(self):
        self.version = 0
        self.made = 0
        self.objects = {kind: {} for kind in SPECS}
        self.events = {}
        self.hook = lambda: None

    def put(self, kind, name, *, anew):
        self.version += 1
        key = ObjectKey("shop", name)
        before = self.objects[kind].get(key)
        if before is not None and anew:
            self.delete(kind, key)
            before = None
        self.made += before is None
        uid = before["metadata"]["uid"] if before else f"uid-{self.made}"
        metadata = {"name": name, "uid": uid, "resourceVersion": str(self.version), "generation": self.version}
        metadata["namespace"] = key.namespace
        body = {"metadata": metadata, "spec": SPECS[kind], "status": {}}
        if kind == "ComplianceReport":
            body["spec"] = {"topologyRef": {"name": name}}
        self.objects[kind][key] = body
        self._tell(kind, "MODIFIED" if before else "ADDED", body)

    def delete(self, kind, key):
        body = self.objects[kind].pop(key, None)
        if body is not None:
            self.version += 1
            last = copy.deepcopy(body)
            last["metadata"]["resourceVersion"] = str(self.version)
            self._tell(kind, "DELETED", last)

    def _tell(self, kind, what, body):
        self.events.setdefault(body["metadata"]["uid"], []).append((kind, what, body))

    def relist(self):
        """Break and restart the watches. Pending events are lost."""
        self.events = {}
        for kind, objects in self.objects.items():
            for body in objects.values():
                self._tell(kind, None, body)

    def reflectors(self, kind, listener):
        return ()

    async def listed(self, kind):
        found = Listed({key: version_of(body) for key, body in self.objects[kind].items()})
        self.hook()
        return found

    async def find(self, kind, key):
        found = self.objects[kind].get(key)
        self.hook()
        return found


class Watching(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.server = ApiServer()
        self.backup = None
        self.start()

    def start(self):
        self.cache = Cache()
        scans = scan_dependencies(self.cache, self.server, None, scan_setup(None, None))
        racks = rack_dependencies(self.cache, self.server)
        with patch("rackspan.reconcile.manager.TopologyLoops", Quiet):
            self.controller = Manager(dependencies_of(self.cache, self.server), scans, racks, 300)

    @rule(kind=kinds, name=names, anew=st.booleans())
    def made_or_changed(self, kind, name, anew):
        self.server.put(kind, name, anew=anew)

    @rule(kind=kinds, name=names)
    def deleted(self, kind, name):
        self.server.delete(kind, ObjectKey("shop", name))

    @precondition(lambda self: self.server.events)
    @rule(data=st.data())
    def told(self, data):
        self.deliver(data.draw(st.sampled_from(sorted(self.server.events))))

    @rule()
    def watches_break(self):
        self.server.relist()

    @rule()
    def operator_restarts(self):
        self.start()
        self.server.relist()

    @rule()
    def backed_up(self):
        self.backup = copy.deepcopy((self.server.version, self.server.objects))

    @precondition(lambda self: self.backup)
    @rule()
    def restored_from_backup(self):
        self.server.version, self.server.objects = copy.deepcopy(self.backup)
        self.server.relist()

    @precondition(lambda self: self.backup)
    @rule()
    def restored_without_a_word(self):
        """Send no events to watches until the versions of the API server reach theirs again."""
        self.server.version, self.server.objects = copy.deepcopy(self.backup)
        self.server.events = {}

    @rule(data=st.data(), kind=kinds, name=names)
    def swept_while_things_happen(self, data, kind, name):
        def meanwhile():
            match data.draw(st.sampled_from(["nothing", "told", "deleted", "made anew"])):
                case "told" if self.server.events:
                    self.deliver(data.draw(st.sampled_from(sorted(self.server.events))))
                case "deleted":
                    self.deleted(kind, name)
                case "made anew":
                    self.server.put(kind, name, anew=True)

        self.server.hook = meanwhile
        try:
            asyncio.run(self.controller.sweep())
        finally:
            self.server.hook = lambda: None

    def teardown(self):
        while self.server.events:
            self.deliver(min(self.server.events))
        asyncio.run(self.controller.sweep())
        for kind, objects in self.server.objects.items():
            there = {key: body["metadata"] for key, body in objects.items()}
            assert self.uids(kind) == {key: meta["uid"] for key, meta in there.items()}, kind
            assert self.known(kind) == {key: meta["resourceVersion"] for key, meta in there.items()}, kind

    def uids(self, kind):
        """Return the uids of the known objects."""
        return {key: one.uid for key, one in self.cache.versions.known(kind).items()}

    def known(self, kind):
        """Return the resource versions of the known objects."""
        match kind:
            case "KafkaTopic":
                return {key: topic.meta.resource_version for key, topic in self.cache.topics.items()}
            case "RackTopology":
                return {key: topology.meta.resource_version for key, topology in self.cache.topologies.items()}
            case "Reassignment":
                return {key: one.meta.resource_version for key, one in self.cache.reassignments.items()}
            case "ComplianceReport":
                return {key: report.meta.resource_version for key, report in self.cache.reports.items()}

    def deliver(self, uid):
        """Deliver one event as at the start, when all objects are listed before the handlers are called."""
        queue = self.server.events[uid]
        kind, what, body = queue.pop(0)
        if not queue:
            del self.server.events[uid]
        informer = self.controller.informers[kind]
        if what != "DELETED":
            informer.known(body)
        informer.take(what, body)


Watching.TestCase.settings = settings(stateful_step_count=40)
TestWatching = Watching.TestCase


def test_object_stays_known_after_a_late_deletion_event_of_an_earlier_object():
    machine = Watching()
    for name in NAMES:
        for kind in SPECS:
            machine.server.put(kind, name, anew=False)
            machine.server.put(kind, name, anew=True)
    for uid in sorted(machine.server.events, reverse=True):
        while uid in machine.server.events:
            machine.deliver(uid)
    for kind, objects in machine.server.objects.items():
        assert machine.known(kind).keys() == objects.keys()


@pytest.mark.parametrize("kind", sorted(SPECS))
def test_sweep_keeps_an_object_that_is_recreated_during_its_list(kind):
    machine = Watching()
    machine.server.put(kind, "a", anew=False)
    machine.deliver(min(machine.server.events))
    (key,) = machine.server.objects[kind]
    machine.server.delete(kind, key)

    def made_anew():
        if not machine.server.objects[kind]:
            machine.server.put(kind, "a", anew=True)
            for uid in sorted(machine.server.events, reverse=True):
                machine.deliver(uid)

    machine.server.hook = made_anew
    asyncio.run(machine.controller.sweep())
    assert machine.known(kind).keys() == {key_of(body) for body in machine.server.objects[kind].values()}


@pytest.mark.parametrize("kind", sorted(SPECS))
def test_sweep_does_not_restore_an_object_that_is_deleted_while_it_is_read(kind):
    machine = Watching()
    server = machine.server
    server.put(kind, "a", anew=False)
    machine.deliver(min(server.events))
    server.put(kind, "a", anew=True)
    (key,) = server.objects[kind]

    def gone_once_it_was_read():
        if server.objects[kind] and machine.cache.versions.latest(kind, key) is None:
            server.delete(kind, key)
            while server.events:
                machine.deliver(min(server.events))

    server.hook = gone_once_it_was_read
    asyncio.run(machine.controller.sweep())
    assert machine.known(kind) == {}


@pytest.mark.parametrize("kind", sorted(SPECS))
def test_object_restored_from_a_backup_becomes_known(kind):
    machine = Watching()
    server = machine.server
    server.put(kind, "a", anew=False)
    machine.backed_up()
    server.put(kind, "a", anew=True)
    server.relist()
    machine.deliver(min(server.events))
    machine.restored_from_backup()
    machine.deliver(min(server.events))
    asyncio.run(machine.controller.sweep())
    assert machine.uids(kind) == dict.fromkeys(server.objects[kind], "uid-1")


@pytest.mark.parametrize("kind", sorted(SPECS))
@pytest.mark.parametrize("anew", [False, True])
def test_sweep_finds_changes_without_watch_events(kind, anew):
    machine = Watching()
    server = machine.server
    server.put(kind, "a", anew=False)
    machine.deliver(min(server.events))
    server.put(kind, "a", anew=anew)
    server.put(kind, "b", anew=False)
    server.events = {}
    asyncio.run(machine.controller.sweep())
    there = {key: body["metadata"]["resourceVersion"] for key, body in server.objects[kind].items()}
    assert machine.known(kind) == there
    assert len(there) == 2


@pytest.mark.parametrize("kind", sorted(SPECS))
def test_sweep_does_not_revert_an_object_that_a_watch_updates_while_it_is_read(kind):
    """The object that was read is older than the watch event, and the watch does not send the event again."""
    machine = Watching()
    server = machine.server
    server.put(kind, "a", anew=False)
    machine.deliver(min(server.events))
    server.put(kind, "a", anew=False)
    find = server.find

    async def changed_once_it_was_read(kind, key):
        found = await find(kind, key)
        server.put(kind, "a", anew=False)
        while server.events:
            machine.deliver(min(server.events))
        return found

    server.find = changed_once_it_was_read
    asyncio.run(machine.controller.sweep())
    (body,) = server.objects[kind].values()
    assert machine.known(kind) == {key_of(body): "3"} == {key_of(body): body["metadata"]["resourceVersion"]}

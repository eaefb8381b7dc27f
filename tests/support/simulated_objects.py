"""An in-memory API server for Reassignments, with versions, finalizers, and callers that crash at any call."""

import copy
from dataclasses import dataclass, field

from tests.support.simulated_kafka import SimulatedKafka

from rackspan.api.codec import encode
from rackspan.api.meta import ObjectKey
from rackspan.reconcile.ports import Listed
from rackspan.reconcile.runtime.informer import key_of


@dataclass
class SimulatedObjects:
    """Implements `ReassignmentObjects` and the part of `KubeApi` that they need. `kafka` counts its calls, too."""

    kafka: SimulatedKafka
    there: dict = field(default_factory=dict)
    topologies: dict = field(default_factory=dict)
    denied: frozenset = frozenset()
    """The namespaces that the operator may not read."""
    events: list = field(default_factory=list)
    version: int = 100
    made: int = 0
    now: str = "2026-01-31T12:00:00Z"
    writes: int = 0
    failing: dict = field(default_factory=dict)
    """The exception by the number of a status write. None means a conflict, as after a change by another client."""

    # -- actions of users ---------------------------------------------------------------------------------------------

    def edit(self, name, **spec):
        body = self._of(name)
        body["spec"] |= spec
        body["metadata"]["generation"] += 1
        return self._stored(body)

    def delete_by_hand(self, name):
        self._delete(self._of(name))

    def tear_away(self, name):
        """Remove the finalizers of an object and delete it, as an impatient user does."""
        self._of(name)["metadata"]["finalizers"] = []
        self._delete(self._of(name))

    def status(self, name):
        return self._of(name).get("status", {})

    def names(self):
        return sorted(key.name for key in self.there)

    # -- the ports ----------------------------------------------------------------------------------------------------

    async def create(self, body):
        self.kafka._call()
        key = key_of(body)
        if key in self.there:
            return None
        self.made += 1
        body = copy.deepcopy(body)
        body["metadata"] |= {"uid": f"uid-{self.made}", "generation": 1, "creationTimestamp": self.now}
        body["spec"] = {"paused": False, "cancelled": False, **body["spec"]}
        stored = self._stored(body)
        self.kafka._called()
        return stored

    async def plan(self, known):
        body = self.there.get(known.key)
        return body["spec"]["plan"] if body is not None and body["metadata"]["uid"] == known.meta.uid else None

    async def write_status(self, known, status):
        self.kafka._call()
        body = self.there.get(known.key)
        self.writes += 1
        if self.writes in self.failing:
            if (error := self.failing[self.writes]) is not None:
                raise error
            return None
        meta = body and body["metadata"]
        if meta is None or (meta["uid"], meta["resourceVersion"]) != (known.meta.uid, known.meta.resource_version):
            return None
        stored = self._stored({**copy.deepcopy(body), "status": copy.deepcopy(status)})
        self.kafka._called()
        return stored

    async def delete(self, known):
        body = self.there.get(known.key)
        if body is not None and body["metadata"]["uid"] == known.meta.uid:
            self._delete(body)

    async def set_finalizers(self, ref, finalizers, version, annotations):
        self.kafka._call()
        body = copy.deepcopy(self.there.get(ref.key))
        if body is None or body["metadata"]["resourceVersion"] != version:
            return None
        body["metadata"]["finalizers"] = list(finalizers)
        body["metadata"]["annotations"] = {**body["metadata"].get("annotations", {}), **annotations}
        stored = self._stored(body)
        if not finalizers and "deletionTimestamp" in body["metadata"]:
            del self.there[ref.key]
        self.kafka._called()
        return stored

    async def find(self, kind, key):
        return copy.deepcopy(self.there.get(key))

    async def listed(self, kind):
        return Listed(self.topologies, self.denied)

    async def with_finalizer(self, kind):
        return [body for body in self.there.values() if body["metadata"].get("finalizers")]

    async def objects(self, kind):
        found = self.there.values() if kind == "Reassignment" else map(_body, self.topologies.values())
        for body in list(found):
            yield copy.deepcopy(body)

    async def secret(self, namespace, name):
        return {}

    def record_event(self, event):
        self.events.append(event)

    def _of(self, name):
        return self.there[ObjectKey("kafka", name)]

    def _stored(self, body):
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.there[key_of(body)] = body
        return copy.deepcopy(body)

    def _delete(self, body):
        if body["metadata"].get("finalizers"):
            body["metadata"]["deletionTimestamp"] = self.now
            body["metadata"]["generation"] += 1
            self._stored(body)
        else:
            del self.there[key_of(body)]


def _body(topology):
    """Return the object of a RackTopology with the metadata and spec that tests need."""
    meta = topology.meta
    metadata = {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid, "resourceVersion": "1"}
    return {"metadata": metadata, "spec": encode(topology.spec)}

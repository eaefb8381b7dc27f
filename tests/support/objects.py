"""The objects of Rackspan on an API server."""

import dataclasses
import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from dev.stack.kubectl import Kubectl
from dev.stack.nodes import BROKER_LABELS, LEVELS, SIX_BROKERS, Site, create_sites, delete_node
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from tests.support.waiting import until

from rackspan.core.rack_path import parse_rack
from rackspan.core.topology import Broker, RackTree

Json = dict[str, Any]
T = TypeVar("T")
GROUP, VERSION = "rackspan.dev", "v1alpha1"
PLURALS = {"KafkaTopic": "kafkatopics", "RackTopology": "racktopologies", "Reassignment": "reassignments"}
TOPOLOGY = "kafka"


@contextmanager
def broker_pods(core: client.CoreV1Api, namespace: str, where: Sequence[Site]) -> Iterator[None]:
    """Create pods of brokers in a namespace, on new nodes `<namespace>-node-<id>`. Delete the nodes afterwards."""
    create_sites(core, namespace, where, node_prefix=f"{namespace}-")
    try:
        yield
    finally:
        for site in where:
            delete_node(core, f"{namespace}-{site.node}")


@contextmanager
def broker_namespace(api: client.ApiClient, kubectl: Kubectl, name: str) -> Iterator[str]:
    """Create a namespace with pods of the six brokers of the shared Kafka, on new nodes `<name>-node-<id>`."""
    core = client.CoreV1Api(api)
    kubectl("create", "namespace", name)
    try:
        with broker_pods(core, name, SIX_BROKERS):
            yield name
    finally:
        kubectl("delete", "namespace", name, "--wait=false")


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects of Rackspan in one namespace. Its name is the prefix of topics, to separate tests on one Kafka."""

    api: client.ApiClient
    namespace: str
    topology_namespace: str | None = None
    """The namespace of the default topology of topics. None means the same namespace."""

    @property
    def label(self) -> str:
        """The label `topology` of the default topology of topics in the operator's metrics."""
        return f"{self.topology_namespace or self.namespace}/{TOPOLOGY}"

    def elsewhere(self, namespace: str) -> "Objects":
        """Return the objects of another namespace, whose topics refer to the same topology."""
        where = self.topology_namespace or self.namespace
        return dataclasses.replace(self, namespace=namespace, topology_namespace=where)

    def kafka_name(self, name: str) -> str:
        """Return the name in Kafka of a KafkaTopic in this namespace."""
        return f"{self.namespace}.{name}"

    def topology_manifest(self, bootstrap: str, name: str = TOPOLOGY, **spec: Any) -> Json:
        """Return a RackTopology over region, zone and rack with the pods of this namespace; `spec` is merged into it.

        Other tests use the same Kafka, so drained brokers are not cordoned unless `spec` sets it.
        """
        return {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "RackTopology",
            "metadata": {"namespace": self.namespace, "name": name},
            "spec": {
                "kafka": {"bootstrapServers": bootstrap},
                "levels": [{"name": level, "nodeLabel": label} for level, label in LEVELS.items()],
                "brokers": {"podSelector": {"matchLabels": BROKER_LABELS}},
                "drain": {"cordon": False},
                "maxDeletionsPerMinute": 1000,  # tests share topologies and delete many topics
                **spec,
            },
        }

    def topic_manifest(self, name: str, **spec: Any) -> Json:
        """Return a KafkaTopic with 3 partitions and 3 replicas. `spec` is merged into its spec."""
        reference = {"name": TOPOLOGY}
        if self.topology_namespace is not None:
            reference["namespace"] = self.topology_namespace
        return {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "KafkaTopic",
            "metadata": {"namespace": self.namespace, "name": name},
            "spec": {
                "topologyRef": reference,
                "topicName": self.kafka_name(name),
                "partitions": 3,
                "replicationFactor": 3,
                **spec,
            },
        }

    def create(self, manifest: Json) -> Json:
        """Create an object. Raise ApiException if the API server rejects it."""
        return self._custom.create_namespaced_custom_object(
            GROUP, VERSION, manifest["metadata"]["namespace"], PLURALS[manifest["kind"]], manifest
        )

    def create_topology(self, bootstrap: str, name: str = TOPOLOGY, **spec: Any) -> Json:
        return self.create(self.topology_manifest(bootstrap, name, **spec))

    def create_topic(self, name: str, annotations: Mapping[str, str] | None = None, **spec: Any) -> Json:
        manifest = self.topic_manifest(name, **spec)
        manifest["metadata"]["annotations"] = dict(annotations or {})
        return self.create(manifest)

    def read(self, kind: str, name: str) -> Json | None:
        """Return the object, or None if it does not exist."""
        try:
            return self._custom.get_namespaced_custom_object(GROUP, VERSION, self.namespace, PLURALS[kind], name)
        except ApiException as error:
            if error.status == 404:
                return None
            raise

    def topic(self, name: str) -> Json:
        found = self.read("KafkaTopic", name)
        assert found is not None, f"there is no KafkaTopic {name}"
        return found

    def topology(self, name: str = TOPOLOGY) -> Json:
        found = self.read("RackTopology", name)
        assert found is not None, f"there is no RackTopology {name}"
        return found

    def topologies(self) -> list[str]:
        """Return the names of the RackTopologies of the namespace."""
        found = self._custom.list_namespaced_custom_object(GROUP, VERSION, self.namespace, "racktopologies")["items"]
        return [item["metadata"]["name"] for item in found]

    def topics(self) -> list[Json]:
        """Return all KafkaTopics of the namespace."""
        return self._custom.list_namespaced_custom_object(GROUP, VERSION, self.namespace, "kafkatopics")["items"]

    def patch(self, kind: str, name: str, patch: Mapping[str, Any]) -> Json:
        """Apply a JSON merge patch. None removes a key."""
        return self._custom.patch_namespaced_custom_object(
            GROUP, VERSION, self.namespace, PLURALS[kind], name, dict(patch), _content_type=_MERGE
        )

    def change_topic(self, name: str, **spec: Any) -> Json:
        return self.patch("KafkaTopic", name, {"spec": spec})

    def change_topology(self, name: str = TOPOLOGY, **spec: Any) -> Json:
        return self.patch("RackTopology", name, {"spec": spec})

    def annotate_topic(self, name: str, annotations: Mapping[str, str | None]) -> Json:
        return self.patch("KafkaTopic", name, {"metadata": {"annotations": dict(annotations)}})

    def delete(self, kind: str, name: str) -> None:
        self._custom.delete_namespaced_custom_object(GROUP, VERSION, self.namespace, PLURALS[kind], name)

    def events(self, name: str) -> list[Any]:
        """Return the Events about the object, the oldest first."""
        found = client.CoreV1Api(self.api).list_namespaced_event(
            self.namespace, field_selector=f"involvedObject.name={name}"
        )
        return sorted(found.items, key=lambda event: event.metadata.creation_timestamp)

    def until_event(self, name: str, reason: str) -> Any:
        """Wait for an Event with this reason about the object, and return the first one.

        The operator sends Events one by one. There may be thousands of other tests in the queue.
        """

        def found() -> Any:
            events = _if_answered(lambda: self.events(name)) or ()
            return next((event for event in events if event.reason == reason), None)

        return until(found, f"an Event {reason} of {self.namespace}/{name}")

    def until(
        self,
        kind: str,
        name: str,
        holds: Callable[[Json], Any],
        what: str = "to be as expected",
    ) -> Json:
        """Poll the object until `holds(object)` is true, and return the object."""
        last: Json | None = None

        def met() -> Json | None:
            nonlocal last
            last = _if_answered(lambda: self.read(kind, name))
            return last if last is not None and holds(last) else None

        try:
            return until(met, f"{kind} {self.namespace}/{name} {what}")
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{_described(last or {})}") from None

    def until_condition(self, kind: str, name: str, type_: str, status: str | None, reason: str | None = None) -> Json:
        """Wait for a condition of the latest generation, or until it is absent if `status` is None."""

        def met(obj: Json) -> bool:
            found = condition(obj, type_)
            if status is None:
                return found is None and obj.get("status", {}).get("observedGeneration") == _generation(obj)
            return (
                found is not None
                and found["status"] == status
                and (reason is None or found["reason"] == reason)
                and found["observedGeneration"] == _generation(obj)
            )

        return self.until(kind, name, met, f"to have {type_}={status} ({reason})")

    def until_ready(self, name: str) -> Json:
        """Wait until the KafkaTopic is Ready for its current spec."""
        return self.until_condition("KafkaTopic", name, "Ready", "True")

    def until_complete(self, name: str) -> Json:
        """Wait until the KafkaTopic is Ready and its status has all its fields.

        Some follow from a default of the brokers, which the operator may have to read again.
        """
        self.until_ready(name)
        return self.until(
            "KafkaTopic",
            name,
            lambda obj: {"minInSyncReplicas", "durability"} <= obj["status"].keys(),
            "to be complete",
        )

    def until_not_ready(self, name: str, reason: str) -> Json:
        return self.until_condition("KafkaTopic", name, "Ready", "False", reason)

    def until_stalled(self, name: str, reason: str) -> Json:
        return self.until_condition("KafkaTopic", name, "Stalled", "True", reason)

    def until_topology(
        self, type_: str = "Ready", status: str = "True", reason: str | None = None, name: str = TOPOLOGY
    ) -> Json:
        return self.until_condition("RackTopology", name, type_, status, reason)

    def until_gone(self, kind: str, name: str) -> None:
        until(lambda: _if_answered(lambda: self.read(kind, name) is None), f"{kind} {self.namespace}/{name} to be gone")

    @property
    def _custom(self) -> client.CustomObjectsApi:
        return client.CustomObjectsApi(self.api)


_MERGE = "application/merge-patch+json"


def _if_answered(read: Callable[[], T]) -> T | None:
    """Return the result, or None if the API server is too busy (429) or fails (5xx). A wait then reads it again."""
    try:
        return read()
    except ApiException as error:
        if error.status == 429 or error.status >= 500:
            return None
        raise


def _described(obj: Mapping[str, Any]) -> str:
    """Return what explains a wait that was in vain, the conditions first: logs may keep only the beginning."""
    status, metadata = dict(obj.get("status", {})), obj.get("metadata", {})
    lines = [
        f"{one['type']}={one['status']} {one['reason']} ({one.get('observedGeneration')}): {one['message']}"
        for one in status.pop("conditions", ())
    ]
    lines += [f"generation {metadata.get('generation')}, annotations {metadata.get('annotations')}"]
    return "\n".join([*lines, json.dumps(status)])


def condition(obj: Mapping[str, Any], type_: str) -> Json | None:
    """Return the condition of this type, or None."""
    conditions = obj.get("status", {}).get("conditions", ())
    return next((item for item in conditions if item["type"] == type_), None)


def message(obj: Mapping[str, Any], type_: str = "Ready") -> str:
    """Return the message of the condition of this type."""
    found = condition(obj, type_)
    assert found is not None, f"there is no condition {type_}"
    return str(found["message"])


def reasons(events: Sequence[Any]) -> list[str]:
    """Return the reasons of Events in their order."""
    return [event.reason for event in events]


def a_second_after(obj: Mapping[str, Any]) -> Callable[[], bool]:
    """Return a check whether a new object gets a later creation timestamp. Timestamps have whole seconds."""
    created = dt.datetime.fromisoformat(obj["metadata"]["creationTimestamp"])
    return lambda: dt.datetime.now(dt.UTC) >= created + dt.timedelta(seconds=1)


def _generation(obj: Mapping[str, Any]) -> int:
    return int(obj["metadata"]["generation"])


def rack_tree(where: Sequence[Site] = SIX_BROKERS) -> RackTree:
    """Return the expected rack tree of brokers at these sites."""
    return RackTree(tuple(LEVELS), tuple(Broker(site.broker, parse_rack(site.path)) for site in where))

"""What behaviour tests share: the operator as a process, Rackspan's objects on an API server, topics in Kafka."""

import dataclasses
import datetime as dt
import json
import re
import secrets
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)
from dev.stack.kubectl import Kubectl
from dev.stack.nodes import BROKER_LABELS, LEVELS, SIX_BROKERS, Site, create_sites, delete_node
from dev.stack.processes import Processes
from dev.waiting import eventually
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from prometheus_client.parser import text_string_to_metric_families

from rackspan.core.topology import Broker, RackTree, parse_rack

Json = dict[str, Any]
GROUP, VERSION = "rackspan.dev", "v1alpha1"
PLURALS = {"KafkaTopic": "kafkatopics", "RackTopology": "racktopologies"}
TOPOLOGY = "kafka"
RESYNC_SECONDS = 2


def until(condition: Callable[[], Any], timeout: float = 30, what: str = "the condition to hold") -> Any:
    """Poll `condition` until it is truthy, and return that. Raises TimeoutError with the last thing seen."""
    return eventually(condition, what, timeout=timeout, interval=0.1)


# -- the operator ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Operator:
    """One `rackspan operator`: a process that can be stopped, killed and started again under the same name."""

    processes: Processes
    kubeconfig: Path
    flags: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    name: str = field(default_factory=lambda: f"operator-{secrets.token_hex(3)}")
    _read_from: int = 0  # in bytes: where the output of the latest start begins

    def start(self) -> None:
        """Launch it, and return once it serves its probes and says that it is ready."""
        self.launch()
        self.until_ready()

    def launch(self) -> None:
        """Start the process."""
        path = self.processes.log(self.name)
        self._read_from = path.stat().st_size if path.exists() else 0
        command = [
            str(Path(sys.executable).with_name("rackspan")),
            "operator",
            f"--kubeconfig={self.kubeconfig}",
            f"--resync={RESYNC_SECONDS}",
            "--listen-host=127.0.0.1",
            "--listen-port=0",
            "--log-format=json",
            f"--lease-name={self.name}",
            f"--lease-identity={self.name}",  # started again after a crash, it has its Lease back at once
            *self.flags,
        ]
        self.processes.start(self.name, command, env=dict(self.environment))

    def until_ready(self) -> None:
        """Wait until it serves its probes and says that it is ready."""
        until(self._is_ready, 60, "the operator to be ready")

    def stop(self) -> None:
        """End it as Kubernetes does: SIGTERM. Fails when it does not end by itself."""
        self.processes.signal(self.name, signal.SIGTERM)
        until(lambda: not self.running, 30, "the operator to end after SIGTERM")

    def kill(self) -> None:
        """End it as a crash does."""
        self.processes.kill(self.name)

    @property
    def running(self) -> bool:
        return self.processes.pid(self.name) is not None

    @property
    def pid(self) -> int:
        pid = self.processes.pid(self.name)
        assert pid is not None, "the operator is not running"
        return pid

    @property
    def output(self) -> str:
        """All that it ever wrote, standard output and standard error."""
        return self.processes.log(self.name).read_text(errors="replace")

    @property
    def log(self) -> list[Json]:
        """The log lines since the latest start. Raises ValueError where one is not JSON."""
        return [json.loads(line) for line in self._latest().splitlines() if line.strip()]

    def get(self, path: str) -> tuple[int, str]:
        """HTTP status and body of `/metrics`, `/healthz` or `/readyz`."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port()}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metrics(self) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
        """Every sample: by name, then by its labels, sorted."""
        found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
        for family in text_string_to_metric_families(self.get("/metrics")[1]):
            for sample in family.samples:
                found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
        return found

    def metric(self, name: str, **labels: str) -> float:
        """The sum over all samples of that name whose labels include these; 0 where there is none."""
        wanted = set(labels.items())
        return sum(value for key, value in self.metrics().get(name, {}).items() if wanted <= set(key))

    def after_passes(self, count: int) -> None:
        """Wait until it has asked Kafka for topics so many times more."""

        def passes() -> float:
            return self.metric("rackspan_kafka_request_seconds_count", operation="describe_topics")

        start = passes()
        until(lambda: passes() >= start + count, 60, f"{count} more passes")

    def _latest(self) -> str:
        with self.processes.log(self.name).open("rb") as log:
            log.seek(self._read_from)
            return log.read().decode(errors="replace")

    def _port(self) -> int:
        found = re.search(r"metrics and probes on port (\d+)", self._latest())
        return int(found[1]) if found else 0

    def _is_ready(self) -> bool:
        self.processes.check(self.name)
        try:
            return self._port() > 0 and self.get("/readyz")[0] == 200
        except OSError:
            return False


def samples_of(operator: Operator, label: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """What a scrape tells of one topology, and of the operator itself, without histograms."""
    return {
        name: {labels: value for labels, value in found.items() if dict(labels).get("topology", label) == label}
        for name, found in operator.metrics().items()
        if name.startswith("rackspan_") and not name.endswith(("_bucket", "_sum", "_count"))
    }


@contextmanager
def private_operators(shared: Operator) -> Iterator[Callable[..., Operator]]:
    """Gives a factory of operators that end with the context: `factory("--namespace=x", environment={...})`.

    On the control plane of the shared one they stand in for it, which pauses: two would decide about the same objects.
    With `kubeconfig` they watch another control plane, and the shared one goes on.
    """
    started: list[Operator] = []

    def factory(*flags: str, kubeconfig: Path | None = None, environment: Mapping[str, str] | None = None) -> Operator:
        if kubeconfig is None and shared.running:
            shared.stop()
        operator = Operator(shared.processes, kubeconfig or shared.kubeconfig, flags, environment or {})
        started.append(operator)
        operator.start()
        return operator

    try:
        yield factory
    finally:
        for operator in started:
            operator.kill()


# -- Kubernetes ------------------------------------------------------------------------------------------------------


@contextmanager
def broker_namespace(api: client.ApiClient, kubectl: Kubectl, name: str) -> Iterator[str]:
    """A namespace with the pods of the shared Kafka's six brokers, on nodes of their own: `<name>-node-<id>`."""
    core = client.CoreV1Api(api)
    kubectl("create", "namespace", name)
    create_sites(core, name, SIX_BROKERS, node_prefix=f"{name}-")
    try:
        yield name
    finally:
        for site in SIX_BROKERS:
            delete_node(core, f"{name}-{site.node}")
        kubectl("delete", "namespace", name, "--wait=false")


@dataclass(frozen=True, slots=True)
class Objects:
    """Rackspan's objects in one namespace. Kafka topics are named after it, to keep tests on a shared Kafka apart."""

    api: client.ApiClient
    namespace: str
    topology_namespace: str | None = None
    """Where the topology is that topics refer to unless they say otherwise; None for the same namespace."""

    def elsewhere(self, namespace: str) -> "Objects":
        """The objects of another namespace, whose topics refer to the same topology."""
        where = self.topology_namespace or self.namespace
        return dataclasses.replace(self, namespace=namespace, topology_namespace=where)

    def kafka_name(self, name: str) -> str:
        """What a KafkaTopic of this namespace is called in Kafka."""
        return f"{self.namespace}.{name}"

    def topology_manifest(self, bootstrap: str, name: str = TOPOLOGY, **spec: Any) -> Json:
        """A RackTopology over region, zone and rack whose brokers are the pods of this namespace; `spec` adds to it."""
        return {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "RackTopology",
            "metadata": {"namespace": self.namespace, "name": name},
            "spec": {
                "kafka": {"bootstrapServers": bootstrap},
                "levels": [{"name": level, "nodeLabel": label} for level, label in LEVELS.items()],
                "brokers": {"podSelector": {"matchLabels": BROKER_LABELS}},
                "maxDeletionsPerMinute": 1000,  # the run's tests share topologies, and delete many topics
                **spec,
            },
        }

    def topic_manifest(self, name: str, **spec: Any) -> Json:
        """A KafkaTopic of 3 partitions with 3 replicas; `spec` adds to it and replaces."""
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
        """Create an object. Raises ApiException where the API server refuses it."""
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
        """The object, or None where there is none."""
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

    def topics(self) -> list[Json]:
        """Every KafkaTopic of the namespace."""
        return self._custom.list_namespaced_custom_object(GROUP, VERSION, self.namespace, "kafkatopics")["items"]

    def patch(self, kind: str, name: str, patch: Mapping[str, Any]) -> Json:
        """JSON merge patch: None removes a key."""
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
        """Events about the object of that name, the oldest first."""
        found = client.CoreV1Api(self.api).list_namespaced_event(
            self.namespace, field_selector=f"involvedObject.name={name}"
        )
        return sorted(found.items, key=lambda event: event.metadata.creation_timestamp)

    def until_event(self, name: str, reason: str) -> Any:
        """Wait for an Event about the object of that name, and return the first one of that reason."""

        def found() -> Any:
            return next((event for event in self.events(name) if event.reason == reason), None)

        return until(found, 30, f"an Event {reason} of {self.namespace}/{name}")

    def until(
        self, kind: str, name: str, holds: Callable[[Json], Any], what: str = "to be as expected", timeout: float = 30
    ) -> Json:
        """Poll the object until `holds(object)`, and return it."""
        last: Json | None = None

        def met() -> Json | None:
            nonlocal last
            last = self.read(kind, name)
            return last if last is not None and holds(last) else None

        try:
            return until(met, timeout, f"{kind} {self.namespace}/{name} {what}")
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{json.dumps((last or {}).get('status'), indent=1)}") from None

    def until_condition(
        self, kind: str, name: str, type_: str, status: str | None, reason: str | None = None, timeout: float = 30
    ) -> Json:
        """Wait for a condition that is about the object's latest generation; `status` None: that it is not there."""

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

        return self.until(kind, name, met, f"to have {type_}={status} ({reason})", timeout)

    def until_ready(self, name: str, timeout: float = 30) -> Json:
        """Wait until the KafkaTopic is Ready for what its spec says now."""
        return self.until_condition("KafkaTopic", name, "Ready", "True", timeout=timeout)

    def until_not_ready(self, name: str, reason: str, timeout: float = 30) -> Json:
        return self.until_condition("KafkaTopic", name, "Ready", "False", reason, timeout=timeout)

    def until_stalled(self, name: str, reason: str, timeout: float = 30) -> Json:
        return self.until_condition("KafkaTopic", name, "Stalled", "True", reason, timeout=timeout)

    def until_topology(
        self, type_: str = "Ready", status: str = "True", reason: str | None = None, name: str = TOPOLOGY
    ) -> Json:
        return self.until_condition("RackTopology", name, type_, status, reason)

    def until_gone(self, kind: str, name: str, timeout: float = 30) -> None:
        until(lambda: self.read(kind, name) is None, timeout, f"{kind} {self.namespace}/{name} to be gone")

    @property
    def _custom(self) -> client.CustomObjectsApi:
        return client.CustomObjectsApi(self.api)


_MERGE = "application/merge-patch+json"


def condition(obj: Mapping[str, Any], type_: str) -> Json | None:
    """The condition of that type, or None."""
    conditions = obj.get("status", {}).get("conditions", ())
    return next((item for item in conditions if item["type"] == type_), None)


def message(obj: Mapping[str, Any], type_: str = "Ready") -> str:
    """The sentence of the condition of that type."""
    found = condition(obj, type_)
    assert found is not None, f"there is no condition {type_}"
    return str(found["message"])


def reasons(events: Sequence[Any]) -> list[str]:
    """The reasons of Events, in their order."""
    return [event.reason for event in events]


def a_second_after(obj: Mapping[str, Any]) -> Callable[[], bool]:
    """Whether an object that is made now gets a later creation timestamp: they are in whole seconds."""
    created = dt.datetime.fromisoformat(obj["metadata"]["creationTimestamp"])
    return lambda: dt.datetime.now(dt.UTC) >= created + dt.timedelta(seconds=1)


def _generation(obj: Mapping[str, Any]) -> int:
    return int(obj["metadata"]["generation"])


# -- what the core says ----------------------------------------------------------------------------------------------


def rack_tree(where: Sequence[Site] = SIX_BROKERS) -> RackTree:
    """The tree that the operator should see over brokers at these sites."""
    return RackTree(tuple(LEVELS), tuple(Broker(site.broker, parse_rack(site.path)) for site in where))


# -- Kafka -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Topics:
    """What somebody at Kafka's own tools sees and does."""

    admin: AdminClient
    _gone: set[str] = field(default_factory=set)

    def create(
        self,
        name: str,
        assignment: Sequence[Sequence[int]] | None = None,
        *,
        partitions: int = 3,
        config: Mapping[str, str] | None = None,
    ) -> str:
        """Create a topic and return its id. With replicas where `assignment` says, else 3 where Kafka likes."""
        if assignment is None:
            new = NewTopic(name, partitions, 3, config=dict(config or {}))
        else:
            rows = [list(row) for row in assignment]
            new = NewTopic(name, len(rows), replica_assignment=rows, config=dict(config or {}))
        self.admin.create_topics([new])[name].result(30)
        self.replicas(name, len(assignment) if assignment is not None else partitions)
        return self.id(name)

    def exists(self, name: str) -> bool:
        return self._describe(name) is not None

    def existing(self, names: Iterable[str]) -> list[str]:
        """Those of the names that Kafka shows a topic of."""
        answers = self.admin.describe_topics(TopicCollection(list(names)))
        return [name for name, answer in answers.items() if _known(answer) is not None]

    def id(self, name: str) -> str:
        """The topic's id as Kafka's own tools print it. Brokers learn of a new topic one after the other."""
        return _id(until(lambda: self._describe(name), 10, f"topic {name} to be described"))

    def replicas(self, name: str, partitions: int = 1) -> tuple[tuple[int, ...], ...]:
        """Broker ids per partition, the preferred leader first, once the broker that is asked knows as many partitions.

        One broker may show for a moment what another one, which answers next, has not heard of yet.
        """

        def found() -> list[Any] | None:
            topic = self._describe(name)
            return topic.partitions if topic is not None and len(topic.partitions) >= partitions else None

        rows = sorted(until(found, 30, f"topic {name} to show {partitions} partitions"), key=lambda row: row.id)
        return tuple(tuple(node.id for node in row.replicas) for row in rows)

    def until_config(self, name: str, expected: Mapping[str, str]) -> None:
        """Wait until the topic's own configs are these."""
        until(lambda: self.config(name) == expected, 30, f"topic {name} to have just {dict(expected)}")

    def config(self, name: str) -> dict[str, str]:
        """The topic's own configs, without what is inherited."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        entries = until(lambda: self._configs(resource), 30, f"topic {name} to show")
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return {key: entry.value for key, entry in entries.items() if entry.source == own}

    def set_config(self, name: str, **config: str) -> None:
        """Set configs by hand; `_` in a keyword stands for a dot."""
        entries = [
            ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for key, value in config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        self.admin.incremental_alter_configs([resource])[resource].result(30)

    def delete(self, name: str) -> None:
        gone = self.id(name)
        self.admin.delete_topics([name])[name].result(30)
        self._gone.add(gone)

    def load(self) -> tuple[dict[int, int], dict[int, int]]:
        """Replicas and preferred leaders per broker, over all topics."""
        replicas: dict[int, int] = {}
        leaders: dict[int, int] = {}
        for topic in self.admin.list_topics(timeout=30).topics.values():
            for partition in topic.partitions.values():
                leaders[partition.replicas[0]] = leaders.get(partition.replicas[0], 0) + 1
                for broker in partition.replicas:
                    replicas[broker] = replicas.get(broker, 0) + 1
        return replicas, leaders

    def _describe(self, name: str) -> Any:
        """None also for a topic that was deleted here and that some broker still shows: ids are never used again."""
        found = _known(self.admin.describe_topics(TopicCollection([name]))[name])
        return None if found is None or _id(found) in self._gone else found

    def _configs(self, resource: ConfigResource) -> Any:
        return _known(self.admin.describe_configs([resource])[resource])


def _id(described: Any) -> str:
    return str(described.topic_id).translate(str.maketrans("+/", "-_"))


def _known(answer: Any) -> Any:
    """What Kafka says of a topic, or None where it knows of none."""
    try:
        return answer.result(30)
    except KafkaException as error:
        if error.args[0].name() == "UNKNOWN_TOPIC_OR_PART":
            return None
        raise

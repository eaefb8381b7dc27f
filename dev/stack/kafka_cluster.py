"""A KRaft Kafka cluster of several brokers, each in a given rack, on loopback.

It has one or more separate controllers and any number of brokers, so that every broker can be stopped without stopping
the cluster.
"""

import base64
import json
import shlex
import signal
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ClusterMetadata,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from dev.stack.certificates import Certificate, CertificateAuthority
from dev.stack.kafka_distribution import KafkaDistribution
from dev.stack.processes import Processes, free_ports
from dev.waiting import eventually

Listener = Literal["INTERNAL", "SASL_PLAINTEXT", "SASL_SSL", "SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]

CONTROLLER_ID = 3000
PATIENT = {"broker.session.timeout.ms": "60000", "broker.heartbeat.interval.ms": "2000"}
"""For clusters whose brokers are not killed or restarted: on a busy machine, a live broker may not respond for 9 s.

Kafka also keeps the session of a stopped broker, and rejects a new registration of this broker until the session ends.
"""
FAST_START = ("-XX:TieredStopAtLevel=1", "-XX:CICompilerCount=1")
_RECORD = "kafka.json"
_BROKER = "broker-"
_PROTOCOLS = {"INTERNAL": "PLAINTEXT", "SASL_PLAINTEXT": "SASL_PLAINTEXT", "SASL_SSL": "SASL_SSL", "SSL": "SSL"}
_SECURE_LISTENERS = ("SASL_PLAINTEXT", "SASL_SSL", "SSL")
# Sizes for many small brokers on one machine. None of them changes what a client sees.
_SMALL = {
    "num.network.threads": 1,
    "num.io.threads": 2,
    "num.replica.fetchers": 1,
    "background.threads": 2,
    "num.recovery.threads.per.data.dir": 1,
    "log.cleaner.threads": 1,
    "log.cleaner.dedupe.buffer.size": 4 * 2**20,
    "log.segment.bytes": 16 * 2**20,
    "log.index.size.max.bytes": 2**16,
    # Halve the CPU of idle brokers: followers fetch every two seconds if there is no new data, and the controller
    # writes no empty records that brokers would read.
    "replica.fetch.wait.max.ms": 2_000,
    "metadata.max.idle.interval.ms": 0,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "share.coordinator.state.topic.num.partitions": 4,
}


@dataclass(frozen=True, slots=True)
class Security:
    """Additional listeners of a cluster: SASL_SSL and SASL_PLAINTEXT (PLAIN, SCRAM), and SSL with client certificates.

    `users` maps user names to passwords. Each user can log in with every mechanism.
    """

    users: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RackCommand:
    """A command that a broker runs at each start. It prints `broker.rack=...`, like `rackspan rack-id`."""

    command: tuple[str, ...]


@dataclass(slots=True)
class _Record:
    """The settings of a cluster, stored with its data, so that a later process can manage the cluster."""

    cluster_id: str
    controller_ports: dict[str, int]  # by node id
    racks: dict[str, str | None]  # by broker id, as text because of JSON
    ports: dict[str, dict[str, int]]  # by broker id, then by listener
    jvm: list[str]
    properties: dict[str, str]
    broker_properties: dict[str, dict[str, str | None]] = field(default_factory=dict)  # by broker id
    rack_commands: dict[str, list[str]] = field(default_factory=dict)  # by broker id
    plugins: list[str] = field(default_factory=list)
    users: dict[str, str] = field(default_factory=dict)
    host: str = "127.0.0.1"
    disks: int = 1


class KafkaCluster:
    """A cluster in a directory, run by the Processes of its stack."""

    def __init__(self, directory: Path, processes: Processes, distribution: KafkaDistribution, record: _Record) -> None:
        self.directory = directory
        self.processes = processes
        self.distribution = distribution
        self._record = record

    @classmethod
    def start(
        cls,
        directory: Path,
        processes: Processes,
        distribution: KafkaDistribution,
        racks: Mapping[int, str | RackCommand | None] | Sequence[str | None],
        *,
        security: Security | None = None,
        properties: Mapping[str, str] | None = None,
        broker_properties: Mapping[int, Mapping[str, str | None]] | None = None,
        cluster_id: str | None = None,
        heap: str = "192m",
        jvm: Sequence[str] = FAST_START,
        host: str = "127.0.0.1",
        controllers: int = 1,
        disks: int = 1,
    ) -> Self:
        """Start a new cluster in a new directory and wait until every broker is registered.

        `racks` has `broker.rack` by broker id, or as a sequence for brokers 0, 1, 2, ... None leaves it unset. A
        RackCommand provides it at each start of the broker.
        `properties` apply to all brokers and controllers, `broker_properties` to single brokers, where None removes a
        property. `heap` is the heap of each JVM: 192m is enough for a few thousand replicas per broker, scale tests
        need 512m or more. Brokers listen at `host` and have `disks` log directories each.
        """
        by_id = dict(racks) if isinstance(racks, Mapping) else dict(enumerate(racks))
        listeners = ("INTERNAL", *(_SECURE_LISTENERS if security else ()))
        ports = free_ports(controllers + len(by_id) * len(listeners))
        supply = iter(ports)
        record = _Record(
            cluster_id=cluster_id or new_cluster_id(),
            controller_ports={str(CONTROLLER_ID + number): next(supply) for number in range(controllers)},
            racks={str(broker): rack if isinstance(rack, str) else None for broker, rack in by_id.items()},
            rack_commands={
                str(broker): list(rack.command) for broker, rack in by_id.items() if isinstance(rack, RackCommand)
            },
            ports={str(broker): {listener: next(supply) for listener in listeners} for broker in by_id},
            jvm=[f"-Xmx{heap}", *jvm],
            properties=dict(properties or {}),
            broker_properties={str(broker): dict(own) for broker, own in (broker_properties or {}).items()},
            plugins=list(map(str, distribution.plugins)),
            users=dict(security.users) if security else {},
            host=host,
            disks=disks,
        )
        directory.mkdir(parents=True, exist_ok=True)
        cluster = cls(directory, processes, distribution, record)
        cluster._save()
        if security:
            cluster.ca.server("broker")
            cluster.ca.client("client", "rackspan-dev-client")
        # Controllers first: a broker without a controller retries without a pause, which takes a second of CPU.
        for controller in cluster.controllers:
            cluster._format_controller(controller)
            cluster._launch(_controller_name(controller))
        for broker in by_id:
            cluster._prepare_broker(broker)
            cluster._launch(_broker_name(broker))
        cluster.wait_until_registered()
        return cluster

    @classmethod
    def running(cls, directory: Path, processes: Processes, distribution: KafkaDistribution) -> Self:
        """Return the running cluster that another process started in `directory`."""
        record = _Record(**json.loads((directory / _RECORD).read_text()))
        return cls(directory, processes, distribution.with_plugins(*map(Path, record.plugins)), record)

    # -- state -------------------------------------------------------------------------------------------------------

    @property
    def cluster_id(self) -> str:
        return self._record.cluster_id

    @property
    def racks(self) -> dict[int, str | None]:
        """The configured `broker.rack` by broker id, or None if it is unset or a command provides it."""
        return {int(broker): rack for broker, rack in self._record.racks.items()}

    @property
    def controllers(self) -> tuple[int, ...]:
        """The node ids of the controllers."""
        return tuple(map(int, self._record.controller_ports))

    @property
    def ca(self) -> CertificateAuthority:
        """The certificate authority of the TLS listeners. It can issue more client certificates."""
        return CertificateAuthority(self.directory / "pki")

    @property
    def client_certificate(self) -> Certificate:
        """A client certificate that the SSL listener accepts."""
        pki = self.directory / "pki"
        return Certificate(pki / "client.crt", pki / "client.key", pki / "client.pem")

    def broker_pids(self) -> dict[int, int]:
        """Return the process ids of the running brokers by broker id."""
        pids = self.processes.pids()
        return {broker: pids[name] for broker in self.racks if (name := self._process(_broker_name(broker))) in pids}

    def node_directory(self, broker: int) -> Path:
        """Return the directory of a broker, with its configuration and log directories."""
        return self.directory / _broker_name(broker)

    def process_log(self, broker: int) -> Path:
        """Return the path of the process log of a broker, which covers all its starts."""
        return self.processes.log(self._process(_broker_name(broker)))

    def bootstrap(self, listener: Listener = "INTERNAL") -> str:
        """Return `host:port,host:port,...` of all brokers. INTERNAL is plain text without authentication."""
        return ",".join(f"{self._record.host}:{ports[listener]}" for ports in self._record.ports.values())

    def client_config(
        self, listener: Listener = "INTERNAL", user: str | None = None, mechanism: Mechanism = "SCRAM-SHA-512"
    ) -> dict[str, str]:
        """Return the librdkafka configuration for `listener`. `user` defaults to the first user."""
        config = {"bootstrap.servers": self.bootstrap(listener), "security.protocol": _PROTOCOLS[listener]}
        if listener.endswith("SSL"):
            config["ssl.ca.location"] = str(self.ca.cert)
        if listener == "SSL":
            config["ssl.certificate.location"] = str(self.client_certificate.cert)
            config["ssl.key.location"] = str(self.client_certificate.key)
        if listener.startswith("SASL"):
            name = user or next(iter(self._record.users))
            password = self._record.users[name]
            config |= {"sasl.mechanism": mechanism, "sasl.username": name, "sasl.password": password}
        return config

    def admin(self) -> AdminClient:
        """Return a new admin client for INTERNAL. Keep a reference to it as long as its futures run."""
        return AdminClient({**self.client_config(), "log_level": 0})

    def known_to(self, broker: int) -> ClusterMetadata:
        """Return the metadata of one broker. The metadata of other brokers may be older or newer."""
        server = f"{self._record.host}:{self._record.ports[str(broker)]['INTERNAL']}"
        # Use a new client each time: a client that connected to a starting broker can stay broken.
        admin = AdminClient({"bootstrap.servers": server, "reconnect.backoff.max.ms": 200, "log_level": 0})
        return admin.list_topics(timeout=5)

    def registered_racks(self) -> dict[int, str | None]:
        """Return `broker.rack` by broker id as clients see it, for registered and unfenced brokers."""
        admin = self.admin()
        return {node.id: node.rack for node in admin.describe_cluster().result(300).nodes}

    def tool(self, main_class: str, *arguments: str) -> str:
        """Run a Kafka tool against this cluster and return its output: `tool("ConfigCommand", ...)`.

        Raises KafkaToolError.
        """
        return self.distribution.run_tool(main_class, "--bootstrap-server", self.bootstrap(), *arguments)

    def describe(self, *topics: str) -> str:
        """Return the output of `kafka-topics.sh --describe` for topics, or for all if none is given."""
        chosen = ("--topic", "|".join(topics)) if topics else ()
        return self.tool("TopicCommand", "--describe", *chosen)

    # -- operations and faults ----------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop all brokers, then the controllers, which brokers need for a clean shutdown. Data and ports are kept."""
        for broker in self.racks:
            self._signal_stop(_broker_name(broker))
        for broker in self.racks:
            self.stop_broker(broker)
        for controller in self.controllers:
            self._signal_stop(_controller_name(controller))
        for controller in self.controllers:
            self.processes.stop(self._process(_controller_name(controller)))

    def resume(self) -> None:
        """Start the processes of the cluster that are not running, for example after `stop`."""
        for name in (*map(_controller_name, self.controllers), *map(_broker_name, self.racks)):
            if self.processes.pid(self._process(name)) is None:
                self._launch(name)
        self.wait_until_registered()

    def destroy(self) -> None:
        """Kill all processes of the cluster, like a power failure. `resume` starts them again."""
        for name in (*map(_broker_name, self.racks), *map(_controller_name, self.controllers)):
            self.processes.kill(self._process(name))

    def stop_broker(self, broker: int) -> None:
        """Shut down one broker cleanly, so that it first moves its leaders. This may take up to four minutes."""
        self.processes.stop(self._process(_broker_name(broker)), grace=240)

    def kill_broker(self, broker: int) -> None:
        """Kill one broker, like a crash. The controller fences it after the session timeout of nine seconds."""
        self.processes.kill(self._process(_broker_name(broker)))

    def kill_controller(self, controller: int) -> None:
        """Kill one controller, like a crash. `resume` starts it again."""
        self.processes.kill(self._process(_controller_name(controller)))

    def active_controller(self) -> int:
        """Return the node id of the active controller, from the status of the metadata quorum."""
        said = self.tool("MetadataQuorumCommand", "describe", "--status")
        return next(int(line.split()[1]) for line in said.splitlines() if line.startswith("LeaderId:"))

    def freeze_broker(self, broker: int) -> None:
        """Stop the process of a broker by SIGSTOP: its connections stay open, but it does not respond."""
        self.processes.signal(self._process(_broker_name(broker)), signal.SIGSTOP)

    def thaw_broker(self, broker: int) -> None:
        """Let a frozen broker continue."""
        self.processes.signal(self._process(_broker_name(broker)), signal.SIGCONT)

    def start_broker(self, broker: int) -> None:
        """Start a stopped broker and wait until it is registered. After a crash, its old session must end first."""
        self._launch(_broker_name(broker))
        self.wait_until_registered([broker])

    def restart_broker(self, broker: int, properties: Mapping[str, str | None]) -> None:
        """Restart one broker with additional broker properties. None removes a property."""
        self.stop_broker(broker)
        self._record.broker_properties.setdefault(str(broker), {}).update(properties)
        self._save()
        self._configure_broker(broker)
        self.start_broker(broker)

    def move_broker(self, broker: int, rack: str | None) -> None:
        """Restart one broker with another `broker.rack`, as if its machine had been moved to another rack."""
        self.stop_broker(broker)
        self._record.racks[str(broker)] = rack
        self._save()
        self._configure_broker(broker)
        self.start_broker(broker)

    def add_broker(self, broker: int, rack: str | None) -> None:
        """Add a broker to the running cluster and wait until it is registered."""
        listeners = next(iter(self._record.ports.values()))
        self._record.racks[str(broker)] = rack
        self._record.ports[str(broker)] = dict(zip(listeners, free_ports(len(listeners)), strict=True))
        self._save()
        self._prepare_broker(broker)
        self.start_broker(broker)

    def set_password(self, user: str, password: str) -> None:
        """Set the password of an existing or new user for both SCRAM mechanisms. PLAIN keeps the initial password."""
        admin = self.admin()
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):  # one request cannot hold both
            change = UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), password.encode())
            admin.alter_user_scram_credentials([change])[user].result(300)
        self._record.users[user] = password
        self._save()

    def wait_until_registered(self, brokers: Iterable[int] | None = None, timeout: float = 240) -> None:
        """Wait until the brokers (by default all) are unfenced and every running broker knows it.

        The brokers are queried, too, because others list a crashed broker until its session has ended.
        """
        wanted = set(self.racks if brokers is None else brokers)
        running = [self._process(_broker_name(broker)) for broker in wanted]
        if len(self.controllers) == 1:
            running.append(self._process(_controller_name(CONTROLLER_ID)))

        def registered() -> bool:
            for process in running:
                self.processes.check(process)
            return all(wanted <= self.known_to(broker).brokers.keys() for broker in self._awake())

        what = f"brokers {sorted(wanted)} to register"
        eventually(registered, what, timeout=timeout, interval=0.2, retry_on=(KafkaException, psutil.NoSuchProcess))

    def wait_until_agreed(self) -> None:
        """Wait until all running brokers return the same topics and replicas. A client may query any of them."""

        def agreed() -> bool:
            return len({_replicas(self.known_to(broker)) for broker in self._awake()}) == 1

        eventually(agreed, "all brokers to give the same topics and replicas", retry_on=KafkaException)

    # -- processes and files ------------------------------------------------------------------------------------------

    def _process(self, name: str) -> str:
        """Return the name of a node among the processes of the stack."""
        return f"{self.directory.name}.{name}"

    def _awake(self) -> list[int]:
        """Return the brokers that run and are not frozen."""
        running = self.broker_pids()
        return [broker for broker, pid in running.items() if psutil.Process(pid).status() != psutil.STATUS_STOPPED]

    def _signal_stop(self, name: str) -> None:
        self.processes.signal(self._process(name), signal.SIGTERM)

    def _launch(self, name: str) -> None:
        node = self.directory / name
        jvm = tuple(self._record.jvm)
        rack_command = self._record.rack_commands.get(name.removeprefix(_BROKER))
        if rack_command is None:
            command = self.distribution.command("kafka.Kafka", node / "server.properties", jvm=jvm)
        else:
            kafka = self.distribution.command("kafka.Kafka", node / "started.properties", jvm=jvm)
            lines = (
                f"{shlex.join(rack_command)} > rack.properties",
                "cat server.properties rack.properties > started.properties",
                f"exec {shlex.join(kafka)}",
            )
            command = ["sh", "-c", " && ".join(lines)]
        self.processes.start(self._process(name), command, cwd=node)

    def _save(self) -> None:
        path = self.directory / _RECORD
        path.touch(mode=0o600)
        path.write_text(json.dumps(asdict(self._record), indent=1))

    def _format_controller(self, controller: int) -> None:
        node = self.directory / _controller_name(controller)
        node.mkdir()
        address = f"CONTROLLER://{self._record.host}:{self._record.controller_ports[str(controller)]}"
        own = {"process.roles": "controller", "node.id": controller, "listeners": address, "log.dirs": node / "data"}
        file = _write_properties(node, {**own, **self._common_properties(["INTERNAL"])})
        scram = [
            f"--add-scram={mechanism}=[name={user},password={password}]"
            for user, password in self._record.users.items()
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        ]
        arguments = ("format", f"--cluster-id={self.cluster_id}", f"--config={file}", *scram)
        self.distribution.run_tool("kafka.tools.StorageTool", *arguments)

    def _prepare_broker(self, broker: int) -> None:
        """Configure a broker and format its log directories. A node that is not a controller only needs one file."""
        self._configure_broker(broker)
        for data in {*self._log_directories(broker), self._metadata_directory(broker)}:
            data.mkdir()
            meta = {"version": 1, "cluster.id": self.cluster_id, "node.id": broker, "directory.id": _random_uuid()}
            (data / "meta.properties").write_text(_properties(meta))

    def _log_directories(self, broker: int) -> list[Path]:
        names = ["data", *(f"data-{number}" for number in range(2, self._record.disks + 1))]
        return [self.node_directory(broker) / name for name in names]

    def _metadata_directory(self, broker: int) -> Path:
        """Return the directory of the metadata. With several disks it is separate, because a broker ends without it."""
        return self.node_directory(broker) / ("data" if self._record.disks == 1 else "metadata")

    def _configure_broker(self, broker: int) -> None:
        node = self.node_directory(broker)
        node.mkdir(exist_ok=True)
        rack = self.racks[broker]
        ports = self._record.ports[str(broker)]
        addresses = ",".join(f"{listener}://{self._record.host}:{port}" for listener, port in ports.items())
        own = {
            "process.roles": "broker",
            "node.id": broker,
            "listeners": addresses,
            "advertised.listeners": addresses,
            "log.dirs": ",".join(map(str, self._log_directories(broker))),
            "metadata.log.dir": self._metadata_directory(broker),
        }
        with_rack = {} if rack is None else {"broker.rack": rack}
        security = self._security_properties() if self._record.users else {}
        private = self._record.broker_properties.get(str(broker), {})
        every = {**own, **with_rack, **security, **self._common_properties(ports), **private}
        _write_properties(node, {key: value for key, value in every.items() if value is not None})

    def _common_properties(self, listeners: Iterable[str]) -> dict[str, object]:
        replicas = min(3, len(self.racks))
        protocols = {"CONTROLLER": "PLAINTEXT", **{listener: _PROTOCOLS[listener] for listener in listeners}}
        return {
            "controller.quorum.voters": ",".join(
                f"{controller}@{self._record.host}:{port}" for controller, port in self._record.controller_ports.items()
            ),
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "INTERNAL",
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "auto.create.topics.enable": "false",
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
            "group.initial.rebalance.delay.ms": 0,
            "broker.heartbeat.interval.ms": 500,  # a stopping broker waits for the next heartbeat response
            "initial.broker.registration.timeout.ms": 240_000,  # a dozen JVMs on two cores start slowly
            "offsets.topic.replication.factor": replicas,
            # Otherwise the controller elects preferred leaders every five minutes, sometimes before the tested code.
            "auto.leader.rebalance.enable": "false",
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": 1,
            **_SMALL,
            **self._record.properties,
        }

    def _security_properties(self) -> dict[str, object]:
        pki = self.directory / "pki"
        users = self._record.users
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        properties: dict[str, object] = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": pki / "broker.pem",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": pki / "ca.crt",
            "listener.name.ssl.ssl.client.auth": "required",
        }
        for listener in ("sasl_ssl", "sasl_plaintext"):
            prefix = f"listener.name.{listener}"
            passwords = " ".join(f'user_{user}="{password}"' for user, password in users.items())
            properties[f"{prefix}.sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
            properties[f"{prefix}.plain.sasl.jaas.config"] = f"{plain} {passwords};"
            properties[f"{prefix}.scram-sha-256.sasl.jaas.config"] = scram
            properties[f"{prefix}.scram-sha-512.sasl.jaas.config"] = scram
        return properties


def new_cluster_id() -> str:
    """Return a random cluster id, like those of Kafka's tool."""
    return _random_uuid()


def _random_uuid() -> str:
    """Return a random UUID in Kafka's notation: URL-safe base64 without padding."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):  # the format tool would parse an option
            return text


def _replicas(metadata: ClusterMetadata) -> frozenset[tuple[str, int, tuple[int, ...]]]:
    """Return topic, partition and broker ids of each replica list, the preferred leader first."""
    return frozenset(
        (name, number, tuple(partition.replicas))
        for name, topic in metadata.topics.items()
        for number, partition in topic.partitions.items()
    )


def _broker_name(broker: int) -> str:
    return f"{_BROKER}{broker}"


def _controller_name(controller: int) -> str:
    return "controller" if controller == CONTROLLER_ID else f"controller-{controller}"


def _properties(values: Mapping[str, Any]) -> str:
    return "".join(f"{key}={value}\n" for key, value in values.items())


def _write_properties(node: Path, values: Mapping[str, Any]) -> Path:
    file = node / "server.properties"
    file.touch(mode=0o600)
    file.write_text(_properties(values))
    return file

"""The acts about racks: brokers get their racks from their nodes, and a consumer reads from the nearest broker."""

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ElectionType,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from dev.demo.stage import IN_SHOP, Stage
from dev.demo.terminal import DemoError, Terminal
from dev.stack.kafka_cluster import RackCommand
from dev.stack.named_stacks import BROKER_NAMESPACE
from dev.stack.nodes import Site
from dev.waiting import eventually

_TOPIC = "clicks"
_LEADER, _FOLLOWER = 3, 2
_READER = "/eu/eu-1a/r9"
"""A rack without a broker, in the zone of the follower."""
_MESSAGES, _MESSAGE = 200, 5_000
_SELECTOR = "dev.rackspan.kafka.NearestReplicaSelector"
_SECONDS = 120


@dataclass(frozen=True, slots=True)
class PublishedRacks:
    """A file with the published racks of all nodes, in place of the ConfigMap that a kubelet mounts in broker pods."""

    file: Path

    def command(self, site: Site) -> RackCommand:
        """Return the command of the init container of a broker pod. It waits until its node is in the file."""
        program = str(Path(sys.executable).with_name("rackspan"))
        options = ("--nodes-file", str(self.file), "--node", site.node, "--wait", "10m", "--format", "properties")
        return RackCommand((program, "rack-id", *options))

    def publish(self, terminal: Terminal) -> None:
        """Let the operator publish the racks of nodes in the namespace of the broker pods."""
        terminal.say(
            "The pods of the brokers are in a separate namespace, which allows topologies of shop to read them. The "
            "operator publishes the rack of each node there:"
        )
        terminal.run(f"kubectl label namespace {BROKER_NAMESPACE} rackspan.dev/broker-pods-for=shop")
        terminal.run(f"kubectl apply {IN_SHOP} --filename examples/racktopology.yaml")
        terminal.run(f"kubectl wait racktopology/main {IN_SHOP} --for=condition=RacksPublished --timeout=300s")
        terminal.say(
            "A kubelet mounts the ConfigMap in pods of brokers. These nodes have no kubelet, so the demo uses a file:"
        )
        self.file.parent.mkdir()
        self.mount(terminal)

    def mount(self, terminal: Terminal) -> None:
        """Replace the file atomically by the currently published racks."""
        file, new = shlex.quote(str(self.file)), shlex.quote(f"{self.file}.new")
        published = f"kubectl get configmap main-racks -n {BROKER_NAMESPACE} -o jsonpath='{{.data.nodes}}'"
        terminal.run(f"{published} > {new} && mv {new} {file} && cat {file}")

    def taken(self, stage: Stage) -> None:
        """Check the racks of the started brokers. Raises DemoError."""
        terminal, sites = stage.terminal, stage.running.sites
        terminal.say("The brokers waited for the file. Their start scripts ran this command, and then Kafka:")
        terminal.show(f"{shlex.join(self.command(sites[_LEADER]).command)} > rack.properties")
        terminal.run(f"grep . {stage.running.kafka.directory}/broker-*/rack.properties | sed 's|.*/broker|broker|'")
        told = stage.running.kafka.registered_racks()
        terminal.check(
            told == {site.broker: site.path for site in sites}, "every broker reports the rack of its node to Kafka"
        )


@dataclass(frozen=True, slots=True)
class ReadingNear:
    """The act. `plugins` are the jars that brokers can load. They are empty if Java cannot be compiled."""

    stage: Stage
    racks: PublishedRacks
    plugins: Sequence[Path]

    def play(self) -> None:
        """Play the act. Raise DemoError if a claim does not hold."""
        if self.plugins:
            self._fill()
            self._read("before", _LEADER)
        self._restart()
        if self.plugins:
            self._lead()
            self._read("after", _FOLLOWER)
            admin = self.stage.running.kafka.admin()
            admin.delete_topics([_TOPIC])[_TOPIC].result(300)
        else:
            self.stage.terminal.say("The reads of consumers are skipped: the plug-in for brokers needs a JDK.")

    def _fill(self) -> None:
        kafka = self.stage.running.kafka
        self.stage.terminal.say(
            f"{_TOPIC}, {_MESSAGES * _MESSAGE:,} bytes, has its leader on broker {_LEADER} and a replica on broker "
            f"{_FOLLOWER} in /eu/eu-1a/r2. A consumer is in the next rack, client.rack={_READER}:"
        )
        admin = kafka.admin()
        admin.create_topics([NewTopic(_TOPIC, num_partitions=1, replica_assignment=[[_LEADER, _FOLLOWER]])])[
            _TOPIC
        ].result(300)
        producer = Producer({**kafka.client_config(), "acks": "all", "log_level": "0"})
        for number in range(_MESSAGES):
            producer.produce(_TOPIC, str(number).zfill(_MESSAGE), partition=0)
        if producer.flush(_SECONDS):
            raise DemoError(f"{_TOPIC} could not be filled")

    def _restart(self) -> None:
        terminal, kafka = self.stage.terminal, self.stage.running.kafka
        wanted = f"and {_SELECTOR} as its replica.selector.class" if self.plugins else ""
        terminal.say(
            f"Broker {_LEADER} is restarted, which fixes its drift: it reads the current rack of its node from the "
            f"published racks, {wanted}:"
        )
        self.racks.mount(terminal)
        kafka.restart_broker(_LEADER, {"replica.selector.class": _SELECTOR} if self.plugins else {})
        rack = kafka.registered_racks()[_LEADER]
        terminal.check(rack == "/us/us-1a/r1", f"broker {_LEADER} reports the rack {rack} to Kafka")
        terminal.run(f"kubectl wait racktopology/main {IN_SHOP} --for=condition=RacksInSync --timeout=300s")

    def _lead(self) -> None:
        """Make the broker the leader again, which another broker was while it was down."""
        kafka, partition = self.stage.running.kafka, TopicPartition(_TOPIC, 0)
        admin = kafka.admin()

        def leads() -> bool:
            elected = admin.elect_leaders(ElectionType.PREFERRED, [partition]).result(300)
            metadata = kafka.known_to(_LEADER).topics[_TOPIC].partitions[0]
            return metadata.leader == _LEADER and len(metadata.isrs) == len(metadata.replicas) and bool(elected)

        eventually(leads, f"broker {_LEADER} to lead {_TOPIC}", timeout=_SECONDS, retry_on=KafkaException)

    def _read(self, when: str, source: int) -> None:
        """Read the topic by one consumer until it reads from `source`. Brokers have to catch up first."""
        what = f"{_TOPIC} to be read from broker {source}"
        near = eventually(lambda: self._read_from(source), what, timeout=_SECONDS)
        rack = self.stage.running.kafka.registered_racks()[source]
        self.stage.terminal.check(near, f"{when}: all of {_TOPIC} was read from broker {source} in {rack}")

    def _read_from(self, source: int) -> bool:
        received: dict[int, int] = {}

        def told(statistics: str) -> None:
            for broker in json.loads(statistics)["brokers"].values():
                received[broker["nodeid"]] = broker["rxbytes"]

        config = {"group.id": "reader", "client.rack": _READER, "statistics.interval.ms": 100, "log_level": 0}
        consumer = Consumer({**self.stage.running.kafka.client_config(), **config, "stats_cb": told})
        consumer.assign([TopicPartition(_TOPIC, 0, OFFSET_BEGINNING)])
        whole = _MESSAGES * _MESSAGE

        def all_read() -> bool:
            consumer.consume(_MESSAGES, timeout=0.2)
            return sum(received.values()) >= whole

        try:
            eventually(all_read, f"{_TOPIC} to be read", timeout=_SECONDS, interval=0)
        finally:
            consumer.close()
        sent = {broker: count for broker, count in sorted(received.items()) if broker in (_LEADER, _FOLLOWER)}
        self.stage.terminal.say(
            f"The consumer received {' and '.join(f'{n:,} bytes from broker {b}' for b, n in sent.items())}."
        )
        return sent.get(source, 0) >= whole

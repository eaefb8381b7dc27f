"""An archive of parsed classes (class-data sharing), with which a broker JVM starts about three times faster."""

import tempfile
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from dev.progress import exclusive, say
from dev.stack.kafka_cluster import FAST_START, new_cluster_id
from dev.stack.kafka_distribution import KafkaDistribution, archive_path
from dev.stack.processes import Processes, free_ports
from dev.waiting import eventually


def ensure_archive(distribution: KafkaDistribution) -> KafkaDistribution:
    """Return the distribution with its archive. Record the archive if it is missing."""
    archive = archive_path(distribution)
    with exclusive(archive.with_suffix(".lock")):
        if not archive.exists():
            say(f"recording Kafka {distribution.version}'s classes for fast starts: about half a minute, once")
            with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
                _record(distribution, Path(scratch)).replace(archive)
    return distribution.sharing_archive(archive)


def _record(distribution: KafkaDistribution, scratch: Path) -> Path:
    """Run a node that is broker and controller, so that one archive serves both, with load. Return the archive."""
    broker, controller = free_ports(2)
    settings = scratch / "server.properties"
    settings.write_text(f"""\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
log.dirs={scratch / "data"}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=4194304
""")
    distribution.run_tool(
        "kafka.tools.StorageTool", "format", f"--cluster-id={new_cluster_id()}", f"--config={settings}"
    )
    archive = scratch / "classes.jsa"
    command = distribution.writing_archive(archive).command("kafka.Kafka", settings, jvm=("-Xmx192m", *FAST_START))
    with Processes.attached(scratch / "run") as processes:
        processes.start("node", command)
        _work(processes, f"127.0.0.1:{broker}")
        processes.stop("node", grace=120)  # the JVM writes the archive when it ends
    return archive


def _work(processes: Processes, bootstrap: str) -> None:
    def registered() -> bool:
        processes.check("node")
        return bool(AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=5).brokers)

    eventually(registered, "the node to register", interval=0.2, retry_on=KafkaException)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic("training", num_partitions=4, replication_factor=1)]).values():
        created.result(300)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(1000):
        producer.produce("training", str(number))
    producer.flush(60)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "training", "auto.offset.reset": "earliest"})
    consumer.subscribe(["training"])
    consumer.consume(1000, timeout=30)
    consumer.close()

"""Moves of replicas on real brokers: the `apply` command, and the state of Kafka."""

import asyncio
import json
import secrets
import subprocess
from contextlib import contextmanager

from confluent_kafka import Producer
from tests.support.command import cli
from tests.support.processes import command
from tests.support.waiting import until

from rackspan.core.reassignment import Setting, SettingKind
from rackspan.core.reassignment.throttles import FOLLOWERS, LEADERS, RATES
from rackspan.kafka.kafka_reassignments import KafkaReassignments

LEVELS = ("--levels", "region,zone,rack")
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
SLOW = 5_000_000
"""Bytes of a partition. Even with a minimal throttle, Kafka copies 1 MB every 11 s, so this takes almost a minute."""


class Apply:
    """The command for one topic of a cluster, with its own directory for the journal."""

    def __init__(self, kafka, topic, home):
        self._kafka = kafka
        self.journal = home / "journal.json"
        self._cluster = ("--bootstrap-server", kafka.bootstrap())
        self._ours = (*self._cluster, *LEVELS, "--topic", topic)
        self.arguments = (*self._ours, "--journal", self.journal)

    def plan(self, *wishes):
        """Return the plan once all brokers agree, because `apply` may ask another broker and must get the same plan."""
        self._kafka.wait_until_agreed()
        ran = cli("plan", *self._ours, *wishes, "-o", "json")
        assert ran.code == 0, ran.err
        return ran.json

    def apply(self, *arguments):
        return cli("apply", *self.arguments, *arguments)

    def applied(self, *wishes):
        """Approve and apply the plan. Return the plan and the events."""
        plan = self.plan(*wishes)
        ran = self.apply(*wishes, "--approve", plan["hash"], "--throttle", "50MB/s", "-o", "json")
        assert ran.code == 0, ran.err
        return plan, [json.loads(line) for line in ran.out.splitlines()]

    def start(self, *arguments):
        """Start the command as a process, which a test can end. The command itself is a child in the same group."""
        return subprocess.Popen(
            command("apply", *self.arguments, *arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def watch(self):
        """Return the output of `watch` for the journal of a running apply."""
        return cli("watch", *self._cluster, "--journal", self.journal, "--once", "-o", "json")

    def record(self):
        """Return the current journal from disk."""
        return json.loads(self.journal.read_text()) if self.journal.exists() else {"throttles": [], "started": []}


@contextmanager
def moved_topic(topics, rows):
    """Create a topic with these replicas and yield its name. Delete the topic afterwards."""
    name = f"moves-{secrets.token_hex(4)}"
    topics.create(name, [list(row) for row in rows])
    yield name
    topics.admin.delete_topics([name])[name].result(120)


def filled(kafka, topic, partitions, size=1_000_000):
    producer = Producer({**kafka.client_config(), "compression.type": "none"})
    for partition in range(partitions):
        for _ in range(size // 50_000):
            producer.produce(topic, secrets.token_bytes(50_000), partition=partition)
    assert producer.flush(300) == 0


def ask(kafka, question):
    """Return the result of a call of the admin client: `ask(kafka, lambda admin: admin.settings(...))`."""

    async def asking():
        admin = KafkaReassignments(kafka.client_config())
        try:
            return await question(admin)
        finally:
            await admin.close()

    return asyncio.run(asking())


def throttles(kafka, topic):
    """Return the throttles that are set on brokers and on the topic."""
    settings = [
        *(Setting(SettingKind.BROKER, str(broker), key) for broker in kafka.racks for key in RATES),
        *(Setting(SettingKind.TOPIC, topic, key) for key in (LEADERS, FOLLOWERS)),
    ]
    found = ask(kafka, lambda admin: admin.settings(settings))
    return {one: value for one, value in found.items() if value is not None}


def under_way(kafka, topic):
    """Return the partitions of the topic that are being reassigned."""
    return [at for at, one in ask(kafka, lambda admin: admin.partitions([topic])).items() if one.under_way]


def until_sizes(topics, topic, size):
    """Wait until the queried broker knows `size` replicas of each partition."""
    until(lambda: {len(replicas) for replicas in topics.replicas(topic, 2)} == {size}, f"{size} replicas")


def nothing_left_over(kafka, topic, journal):
    """Check that Kafka's tool lists no reassignment, that no throttle is set, and that no journal exists."""
    until(lambda: "No partition reassignments found" in kafka.tool(REASSIGN, "--list"), "no reassignment")
    until(lambda: not throttles(kafka, topic), "no throttle")
    assert not journal.exists()

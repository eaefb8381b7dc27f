"""Files of pull requests: some that can never be applied or become Ready, and some that are valid.

`# here` marks the line of the error. `refused` is the message of the API server, or None if the API server accepts the
object. In that case, only the brokers show that the object can never become Ready.
"""

from typing import NamedTuple

from tests.support.command import cluster, topic

RACKS = {
    broker: f"/eu/{zone}/{rack}"
    for broker, (zone, rack) in enumerate((zone, rack) for zone in ("eu-1a", "eu-1b", "eu-1c") for rack in ("r1", "r2"))
}
"""One region, three zones, six racks and brokers."""
LEVELS = ("--levels", "region,zone,rack")


def prod():
    """Return the snapshot of the cluster for these files."""
    return cluster(
        topic("orders", [0, 2, 4], [2, 4, 0], [4, 0, 2], config={"retention.ms": "604800000"}),
        topic("a.b", [1, 3, 5]),
        racks=RACKS,
    )


class File(NamedTuple):
    """The text of a file, the error message for it, and the response of the API server."""

    text: str
    sentence: str
    refused: str | None = None

    @property
    def line(self):
        """The line of the error."""
        (found,) = [number for number, line in enumerate(self.text.splitlines(), 1) if line.endswith("# here")]
        return found


def manifest(*spec, name="wish", partitions="partitions: 3", replicas="replicationFactor: 3", version="v1alpha1"):
    lines = ["topologyRef: {name: kafka}", partitions, replicas, *spec]
    body = "\n".join(f"  {line}" for line in lines if line)
    head = f"apiVersion: rackspan.dev/{version}\nkind: KafkaTopic\nmetadata:\n  name: {name}\nspec:\n"
    return f"{head}{body}\n"


BAD = {
    "an unknown field": File(
        manifest("replicas: 3 # here"), "spec.replicas: there is no such field", 'unknown field "spec.replicas"'
    ),
    "an unknown field of a list": File(
        manifest("placement:", "  spread:", "  - level: zone", "    skew: 2 # here"),
        "spec.placement.spread[0].skew: there is no such field",
        'unknown field "spec.placement.spread[0].skew"',
    ),
    "a text for a number": File(
        manifest(partitions='partitions: "3" # here'),
        "spec.partitions must be a whole number, not '3'.",
        "spec.partitions: Invalid value",
    ),
    "a number out of bounds": File(
        manifest(partitions="partitions: 0 # here"),
        "spec.partitions: must be from 1 to 100,000, not 0",
        "spec.partitions: Invalid value: 0",
    ),
    "a version that is not served": File(
        manifest(version="v1").replace("rackspan.dev/v1", "rackspan.dev/v1 # here"),
        "the API server serves KafkaTopic as rackspan.dev/v1alpha1 only",
        "404",
    ),
    "min.insync.replicas above the replication factor": File(
        manifest("config:", "  min.insync.replicas: 4 # here"),
        "spec.config min.insync.replicas: is 4, above the replicationFactor of 3: lower it, or raise "
        "spec.replicationFactor",
        "min.insync.replicas is 4, above the replicationFactor of 3",
    ),
    "min.insync.replicas below 1": File(
        manifest("config:", "  min.insync.replicas: 0 # here"),
        'spec.config min.insync.replicas: "0" is not a whole number of 1 or more',
        "min.insync.replicas must be a whole number of 1 or more.",
    ),
    "durability that contradicts itself": File(
        manifest("config:", "  min.insync.replicas: 3", "durability:", "  tolerate: {zone: 1} # here"),
        "spec.durability.tolerate: without 1 domain at most 2 replicas are left, "
        "fewer than the min.insync.replicas of 3",
        "tolerate and min.insync.replicas contradict each other",
    ),
    "an assignment of too few rows": File(
        manifest("placement:", "  assignment:", "  - [0, 2, 4] # here"),
        "spec.placement.assignment: has 1 row, for 3 partitions",
        "The assignment has 1 rows, but partitions is 3",
    ),
    "a config that is the operator's": File(
        manifest("config:", '  leader.replication.throttled.replicas: "*" # here'),
        "spec.config leader.replication.throttled.replicas: throttled replicas are set by the operator: use the "
        "RackTopology's reassignment.throttle",
        "Throttled replicas are set and cleared by the operator",
    ),
    "more replicas than brokers": File(
        manifest(replicas="replicationFactor: 9 # here"),
        "replicationFactor 9 needs 9 eligible brokers, there are 6: lower it to 6 or add 3 brokers",
    ),
    "a region tolerated where there is one": File(
        manifest("durability:", "  tolerate: {region: 1} # here"),
        "tolerate region: 1 would leave partition 0 no replica, it has them in 1 domain: remove it",
    ),
    "the same of a topic that exists": File(
        manifest("durability:", "  tolerate: {region: 1} # here", name="orders"),
        "tolerate region: 1 would leave partition 0 no replica, it has them in 1 domain: remove it",
    ),
    "more domains than there are": File(
        manifest("durability:", "  minDomains: {zone: 4} # here", replicas="replicationFactor: 5"),
        "minDomains zone: 4 needs replicas in 4 domains, partition 0 has them in 3: lower it to 3",
    ),
    "a name that collides in metrics": File(
        manifest("topicName: a_b # here"),
        "topic a_b collides with topic a.b in Kafka's metrics, where . is _: name it otherwise",
    ),
    "a config that Kafka does not have": File(
        manifest("config:", "  retention.msec: 5 # here"),
        "spec.config retention.msec: Kafka has no such config of a topic",
    ),
    "a value that Kafka refuses": File(
        manifest("config:", "  retention.ms: a week # here"),
        'spec.config retention.ms: "a week" is not a whole number from -1 to 9223372036854775807',
    ),
    "a policy that Kafka does not have": File(
        manifest("config:", "  cleanup.policy: compact,remove # here"),
        'spec.config cleanup.policy: "compact,remove" is no list of compact, delete',
    ),
    "fewer partitions than there are": File(
        manifest(name="orders", partitions="partitions: 2 # here"),
        "topic orders has 3 partitions and Kafka cannot remove any: set spec.partitions to 3 or more",
    ),
    "a broker that is not there": File(
        manifest("placement:", "  assignment: [[0, 2, 77]] # here", partitions="partitions: 1"),
        "spec.placement.assignment names brokers that are not in the cluster: 77; there are 0, 1, 2, 3, 4, 5",
    ),
    "a level that is not there": File(
        manifest("durability:", "  tolerate: {datacentre: 1} # here"),
        "durability names level 'datacentre'; topology cluster/prod has: region, zone, rack",
    ),
    "a placer that is not there": File(
        manifest("placement:", "  placer: Nowhere # here"),
        "there is no placer 'Nowhere'; installed are: MultiLevel, Rings, Simple, Striped",
    ),
}
GOOD = {
    "a new topic": manifest(),
    "a topic that is there": manifest(name="orders"),
    "more partitions": manifest(name="orders", partitions="partitions: 12"),
    "fewer replicas": manifest(name="orders", replicas="replicationFactor: 2"),
    "as many replicas as brokers": manifest(replicas="replicationFactor: 6"),
    "a zone tolerated": manifest("durability:", "  tolerate: {zone: 1}", "  minDomains: {zone: 2}"),
    "an explicit assignment": manifest("placement:", "  assignment: [[0, 2, 4], [1, 3, 5], [2, 4, 0]]"),
    "configs of all types": manifest(
        "config:",
        "  min.insync.replicas: 2",
        "  cleanup.policy: compact, delete",
        '  min.cleanable.dirty.ratio: "0.5"',
        '  preallocate: "TRUE"',
        "  retention.ms: -1",
    ),
    "two zones": manifest("placement:", "  brokers: {include: [/eu/eu-1a, /eu/eu-1b]}"),
    "leaders in a zone": manifest("placement:", "  leaders: [/eu/eu-1a]"),
}

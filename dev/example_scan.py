"""The scan document of an invented cluster. It has findings of every rule, and its figures are consistent.

`python -m dev.example_scan > scan.json` writes it. The tests of the page and the pictures in the docs use it.
"""

import sys
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from random import Random
from typing import Any

from rackspan.core.consumers.group_locality import ReplicaPlaces
from rackspan.core.rack_path import parse_rack
from rackspan.core.scanning import BrokerLocations
from rackspan.core.snapshot import table
from rackspan.core.topology import BrokerLocation
from rackspan.core.write_locality import write_counts
from rackspan.jobs.batches import aggregates
from rackspan.jobs.batches.arrow_batches import write_table
from rackspan.jobs.scan import document_rows
from rackspan.reports import document as d

LEVELS = ("region", "zone", "rack")
FINISHED = datetime(2026, 11, 20, 6, 4, 11, tzinfo=UTC)
_FAMILIES = ("payments", "orders", "stock", "clicks", "shipping", "fraud", "search", "ledger")
_KINDS = ("events", "state", "audit", "dlq", "retries")
_GIB = 2**30
_OLD_RACK = "/us/us-1a/r1"
_SEVERITY = {
    "Offline": "critical", "BrokerOffline": "medium", "UnderReplicated": "high", "NotCompliant": "high",
    "MinInsyncTooSmall": "high",
    "ReplicaOnDrainedBroker": "medium", "ReplicationFactorDiffers": "medium", "RackDrift": "medium",
    "MissingRack": "medium", "MinInsyncTooLarge": "medium", "LeaderNotPreferred": "low", "UnmanagedTopic": "low",
    "NotJudged": "info", "Unsatisfiable": "high", "ReplicationFactorVaries": "medium", "PinnedUnfair": "low",
}  # fmt: skip
_ORDER = ("critical", "high", "medium", "low", "info")


@dataclass(frozen=True, slots=True)
class _Partition:
    topic: str
    number: int
    replicas: tuple[int, ...]
    size: int
    min_insync: int


@dataclass(frozen=True)
class _Cluster:
    """`racks` has the rack path of each broker id. `offline` and `draining` are broker ids."""

    racks: dict[int, str]
    partitions: list[_Partition]
    offline: frozenset[int]
    draining: frozenset[int]

    @cached_property
    def held(self) -> dict[int, list[_Partition]]:
        """Return the partitions by the brokers of their replicas."""
        found: dict[int, list[_Partition]] = {}
        for partition in self.partitions:
            for broker in partition.replicas:
                found.setdefault(broker, []).append(partition)
        return found

    @cached_property
    def leads(self) -> Counter[int]:
        """Return the number of preferred leaders by broker."""
        return Counter(partition.replicas[0] for partition in self.partitions)

    def alive(self, partition: _Partition, lost: frozenset[int] = frozenset()) -> list[int]:
        return [broker for broker in partition.replicas if broker not in self.offline | lost]

    def domain(self, broker: int, level: int) -> str:
        return "/".join(self.racks[broker].split("/")[: level + 2])


def example(regions: int = 2, zones: int = 3, racks: int = 2, brokers: int = 2, topics: int = 40) -> d.ScanDocument:
    """Return the scan of an invented cluster, the same for the same arguments. `brokers` is the number per rack."""
    random = Random(36)
    cluster = _draw(random, _paths(regions, zones, racks, brokers), topics)
    findings = _found(random, cluster)
    by_topic = Counter(finding.topic for finding in findings if finding.topic)
    unfair = {(f.topic, f.partition) for f in findings if f.rule == "NotCompliant"}
    partitions = cluster.partitions
    moves = sum(finding.moves for finding in findings)
    sizes: dict[tuple[str | None, int | None], int] = {(one.topic, one.number): one.size for one in partitions}
    copied = sum(finding.moves * sizes.get((finding.topic, finding.partition), _GIB) for finding in findings)
    summary = d.Summary(
        topics=len({partition.topic for partition in partitions}),
        partitions=len(partitions),
        replicas=sum(len(partition.replicas) for partition in partitions),
        brokers=len(cluster.racks),
        non_compliant=len(unfair),
        non_compliant_topics=len({topic for topic, _ in unfair}),
        offline=sum(finding.rule == "Offline" for finding in findings),
        under_replicated=sum(finding.rule == "UnderReplicated" for finding in findings),
        moves=moves,
        move_bytes=copied,
        bytes=sum(partition.size * len(partition.replicas) for partition in partitions),
        findings=len(findings),
        by_rule=dict(Counter(finding.rule for finding in findings)),
        by_severity=dict(Counter(finding.severity for finding in findings)),
        unfair={"region": 0, "zone": len(unfair), "rack": len(unfair) // 3},
    )
    listed = findings[: d.MAX_FINDINGS]
    return d.ScanDocument(
        scan_id="main-29397484",
        cluster="kafka/main",
        cluster_id="4L6g3nShT-eMCtK--X86sw",
        started_at=_stamp(FINISHED - timedelta(seconds=11.4)),
        finished_at=_stamp(FINISHED),
        levels=list(LEVELS),
        throttle=50 << 20,
        summary=summary,
        changes=d.ScanChanges(
            since=_stamp(FINISHED - timedelta(minutes=30)),
            new=9,
            cleared=4,
            new_findings=[f for f in listed if f.rule in ("Offline", "UnderReplicated")][:6],
            cleared_findings=[f for f in listed if f.rule == "LeaderNotPreferred"][-4:],
        ),
        domains=_domains(cluster, listed),
        brokers=_brokers(cluster, listed),
        findings=listed,
        topics=_topics(cluster, listed, by_topic)[: d.MAX_TOPICS],
        groups=_groups(random, partitions),
        writes=_writes(cluster),
        trend=_trend(random, len(partitions), len(findings), len(unfair)),
        history="/var/lib/rackspan/history",
        warnings=["2 topics were deleted while the scan was reading them"],
        seconds={"connect": 0.4, "read": 3.1, "judge": 1.9, "plan": 2.2, "history": 3.3, "page": 0.5},
    )


def failed() -> d.ScanDocument:
    """Return a scan that could not reach the cluster."""
    return d.ScanDocument(
        scan_id="main-29397485",
        cluster="kafka/main",
        started_at=_stamp(FINISHED),
        finished_at=_stamp(FINISHED + timedelta(seconds=30)),
        state=d.ScanOutcome.FAILED,
        reason="KafkaUnreachable",
        message="None of kafka-0:9092, kafka-1:9092 answered within 30 s: connection refused.",
    )


def fine() -> d.ScanDocument:
    """Return the first scan of a small cluster without findings."""
    loss = d.WhatIf(offline=0, not_writable=0, last_replica=0, replicas=12, bytes=3 * _GIB)
    zones = ("a", "b", "c")
    return d.ScanDocument(
        scan_id="small-1",
        cluster="kafka/small",
        started_at=_stamp(FINISHED),
        finished_at=_stamp(FINISHED + timedelta(seconds=2)),
        levels=["zone"],
        summary=d.Summary(topics=3, partitions=12, replicas=36, brokers=3),
        domains=[d.DomainRow("zone", f"/{zone}", 1, 12, 4, loss) for zone in zones],
        brokers=[d.BrokerRow(at, f"/{zone}", f"/{zone}", 12, 4, 4, loss) for at, zone in enumerate(zones)],
    )


def _paths(regions: int, zones: int, racks: int, brokers: int) -> list[str]:
    names = [f"{name}-{turn}" if turn else name for turn in range(regions) for name in ("eu", "us", "ap")][:regions]
    return [
        f"/{region}/{region}-1{chr(97 + zone)}/r{rack + 1}"
        for region in names
        for zone in range(zones)
        for rack in range(racks)
        for _ in range(brokers)
    ]


def _draw(random: Random, racks: list[str], topics: int) -> _Cluster:
    ids = range(len(racks))
    zones: dict[str, list[int]] = {}
    for broker in ids:
        zones.setdefault(racks[broker].rsplit("/", 1)[0], []).append(broker)
    regions: dict[str, list[str]] = {}
    for zone in zones:
        regions.setdefault(zone.rsplit("/", 1)[0], []).append(zone)
    partitions = []
    held = Counter(ids)
    for at in range(topics):
        family, kind = _FAMILIES[at % len(_FAMILIES)], _KINDS[at // len(_FAMILIES) % len(_KINDS)]
        name = f"{family}.{kind}" + (f".v{at // 40 + 1}" if at >= len(_FAMILIES) * len(_KINDS) else "")
        careless = at % 7 == 3
        width = random.choice((6, 12, 12, 24, 24, 48))
        weight = random.choice((1, 1, 2, 8, 30))
        for number in range(width):
            chosen = [
                min(zones[zone], key=lambda broker: (held[broker], random.random()))
                for zone in random.sample([z for r in sorted(regions) for z in regions[r]], 3)
            ]
            zone = racks[chosen[0]].rsplit("/", 1)[0]
            if careless and zone.endswith(("eu-1b", "us-1a")):
                near = zones[zone]
                chosen = [chosen[0], *(b for b in random.sample(near, 2) if b != chosen[0]), chosen[1]][:3]
            held.update(chosen)
            size = int(weight * _GIB * random.uniform(0.6, 1.4))
            partitions.append(_Partition(name, number, tuple(chosen), size, 1 if at % 11 == 5 else 2))
    return _Cluster(dict(enumerate(racks)), partitions, frozenset({ids[-1] * 2 // 3}), frozenset({ids[-1] // 4}))


class _Findings:
    """Collects findings. Their ids do not change between scans."""

    def __init__(self, random: Random, cluster: _Cluster) -> None:
        self.rows: list[d.FindingRow] = []
        self._random = random
        self._cluster = cluster

    def add(self, rule: str, message: str, fix: str, days: float, **more: Any) -> None:
        """Add a finding that was first seen `days` before the scan."""
        identity = f"{self._random.getrandbits(64):016x}"
        seen = _stamp(FINISHED - timedelta(days=days))
        self.rows.append(d.FindingRow(identity, rule, _SEVERITY[rule], message, fix, first_seen=seen, **more))

    def about_partition(self, partition: _Partition, days: float) -> None:
        (gone,), (drained,) = self._cluster.offline, self._cluster.draining
        where = {"topic": partition.topic, "partition": partition.number}
        self._about_spread(partition, days, where)
        slow = gone - 1
        if slow in partition.replicas and partition.number % 4 == 0:
            seen = f"{len(partition.replicas) - 1} of {len(partition.replicas)} replicas are in sync"
            fix = f"Relieve broker {slow}, or drain it."
            self.add("UnderReplicated", f"{seen}; broker {slow} lags", fix, 0.02, broker=slow, **where)
        if drained in partition.replicas and partition.number % 6 == 1:
            fix = f"Copy it elsewhere: rackspan plan --drain-broker {drained}"
            message = f"broker {drained} is drained and holds a replica"
            self.add("ReplicaOnDrainedBroker", message, fix, 2.3, broker=drained, moves=1, **where)
        if self._random.random() < 0.015 and partition.replicas[0] % 3 == 0:
            preferred, leader = partition.replicas[:2]
            message = f"broker {leader} leads, the preferred leader is {preferred}"
            fix = "Elect preferred leaders: kafka-leader-election.sh --election-type preferred"
            self.add("LeaderNotPreferred", message, fix, 0.9, broker=preferred, **where)

    def _about_spread(self, partition: _Partition, days: float, where: dict[str, Any]) -> None:
        zones = Counter(self._cluster.domain(broker, 1) for broker in partition.replicas)
        zone, number = zones.most_common(1)[0]
        if number < 2:
            return
        crowded = next(broker for broker in reversed(partition.replicas) if self._cluster.domain(broker, 1) == zone)
        excess = number - 1
        message = f"zone {zone} holds {excess} too many of the replicas {list(partition.replicas)}"
        fix = f"Copy {excess} of them to another zone: rackspan plan --topic '{partition.topic}'"
        more = {"level": "zone", "domain": zone, "broker": crowded, "excess": excess, "moves": excess}
        self.add("NotCompliant", message, fix, days, **more, **where)

    def about_topic(self, at: int, topic: str) -> None:
        if at % 11 == 5:
            message = "min.insync.replicas is 1, but tolerating the loss of a zone needs 2"
            self.add("MinInsyncTooSmall", message, "Set min.insync.replicas to 2, or leave it out.", 11.5, topic=topic)
        if at % 13 == 4:
            message = "no KafkaTopic manages it; it was judged by the topology's defaults"
            self.add("UnmanagedTopic", message, "Adopt it with a KafkaTopic of its name.", 26.0, topic=topic)
        if at == 2:
            message = "min.insync.replicas is 3 of 3 replicas: one lost broker stops writes"
            self.add("MinInsyncTooLarge", message, "Set it to 2.", 4.0, topic=topic)
        if at == 9:
            message, fix = "3 replicas, but the KafkaTopic asks for 4", "Copy one more replica of each partition."
            self.add("ReplicationFactorDiffers", message, fix, 3.1, topic=topic, moves=12)
        if at == 10:
            self.add("ReplicationFactorVaries", "its partitions differ by 1 replica", "Choose one.", 3.1, topic=topic)
            self.add(
                "PinnedUnfair", "the assignment does not spread it fairly", "Remove it.", 3.1, topic=topic, moves=1
            )
        if at == 11:
            fix = "Add 1 broker, or lower its replication factor by 1."
            self.add("Unsatisfiable", "1 more replica than brokers that may hold it", fix, 3.1, topic=topic, excess=1)
        if at == 12:
            message = "its placement is Manual and names brokers that the tree does not know"
            self.add("NotJudged", message, "Correct its assignment.", 8.0, topic=topic)


def _found(random: Random, cluster: _Cluster) -> list[d.FindingRow]:
    found = _Findings(random, cluster)
    topics = list(dict.fromkeys(partition.topic for partition in cluster.partitions))
    for partition in cluster.partitions:
        found.about_partition(partition, _age(topics.index(partition.topic)))
    (gone,) = cluster.offline
    held = [each for each in cluster.partitions if gone in each.replicas]
    message = f"broker {gone} is not online: {len(held)} partitions have a replica there"
    fix = f"Bring it back; if it is gone for good: rackspan plan --drain-broker {gone}"
    found.add("BrokerOffline", message, fix, 0.02, broker=gone, excess=len(held))
    for partition in held[:3]:
        message = f"no replica in sync is online: {list(partition.replicas)}"
        where = {"topic": partition.topic, "partition": partition.number, "broker": gone}
        found.add("Offline", message, f"Bring broker {gone} back.", 0.02, **where)
    for at, topic in enumerate(topics):
        found.about_topic(at, topic)
    last = len(cluster.racks) - 2
    message = f"broker.rack is {_OLD_RACK}, but its node stands in {cluster.racks[last]}"
    found.add("RackDrift", message, "Set broker.rack to the node's rack and restart the broker.", 1.4, broker=last)
    message = "broker.rack is not set, so clients cannot read from it nearby"
    found.add("MissingRack", message, "Set broker.rack.", 29.0, broker=last - 3)
    return sorted(found.rows, key=lambda row: _ORDER.index(row.severity))


def _age(topic: int) -> float:
    """Return for how many days the replicas of a topic have been spread unfairly."""
    return 18.2 if topic % 2 else 6.4


def _worst(findings: list[d.FindingRow]) -> str | None:
    return min((finding.severity for finding in findings), key=_ORDER.index, default=None)


def _loss(cluster: _Cluster, lost: frozenset[int]) -> d.WhatIf:
    offline = not_writable = last = replicas = size = 0
    for partition in {id(each): each for broker in lost for each in cluster.held.get(broker, ())}.values():
        hit = lost & set(partition.replicas)
        left = len(cluster.alive(partition, lost))
        replicas += len(hit)
        size += len(hit) * partition.size
        offline += left == 0
        not_writable += left < partition.min_insync
        last += left == 1
    return d.WhatIf(offline, not_writable, last, replicas, size)


def _domains(cluster: _Cluster, findings: list[d.FindingRow]) -> list[d.DomainRow]:
    rows = []
    for level, name in enumerate(LEVELS):
        members: dict[str, set[int]] = {}
        for broker in cluster.racks:
            members.setdefault(cluster.domain(broker, level), set()).add(broker)
        for domain, brokers in sorted(members.items()):
            about = [finding for finding in findings if finding.domain == domain]
            loss = _loss(cluster, frozenset(brokers))
            leaders = sum(cluster.leads[broker] for broker in brokers)
            rows.append(
                d.DomainRow(
                    name, domain, len(brokers), loss.replicas, leaders, loss, loss.bytes, len(about), _worst(about)
                )
            )
    return rows


def _brokers(cluster: _Cluster, findings: list[d.FindingRow]) -> list[d.BrokerRow]:
    rows = []
    for broker, rack in cluster.racks.items():
        about = [finding for finding in findings if finding.broker == broker]
        rules = {finding.rule for finding in about}
        loss = _loss(cluster, frozenset({broker}))
        leaders = cluster.leads[broker]
        leading = sum((cluster.alive(each) or [-1])[0] == broker for each in cluster.held.get(broker, ()))
        rows.append(
            d.BrokerRow(
                id=broker,
                rack=rack,
                reported_rack=None if "MissingRack" in rules else _OLD_RACK if "RackDrift" in rules else rack,
                replicas=loss.replicas,
                leaders=leaders,
                leading=leading,
                what_if=loss,
                bytes=loss.bytes,
                online=broker not in cluster.offline,
                draining=broker in cluster.draining,
                cordoned=broker in cluster.draining,
                findings=len(about),
                worst=_worst(about),
                flaps=3 if broker in cluster.offline else 0,
            )
        )
    return rows


def _topics(cluster: _Cluster, findings: list[d.FindingRow], by_topic: Counter[str]) -> list[d.TopicRow]:
    rows = []
    names = list(dict.fromkeys(partition.topic for partition in cluster.partitions))
    for topic, number in by_topic.items():
        about = [finding for finding in findings if finding.topic == topic]
        mine = [partition for partition in cluster.partitions if partition.topic == topic]
        unfair = {finding.partition for finding in about if finding.rule == "NotCompliant"}
        first = min((finding.first_seen or "" for finding in about), default=None)
        days = _age(names.index(topic))
        rows.append(
            d.TopicRow(
                name=topic,
                partitions=len(mine),
                replication_factor=3,
                min_insync_replicas=mine[0].min_insync,
                non_compliant=len(unfair),
                findings=number,
                moves=sum(finding.moves for finding in about),
                worst=_worst(about) or "info",
                managed=all(finding.rule != "UnmanagedTopic" for finding in about),
                bytes=sum(partition.size * 3 for partition in mine),
                first_seen=first,
                violation_minutes=days * 1440 if unfair else 0.0,
            )
        )
    return sorted(rows, key=lambda row: (_ORDER.index(row.worst), -row.non_compliant, -row.findings))


def _groups(random: Random, partitions: list[_Partition]) -> list[d.GroupRow]:
    rows = []
    sizes = Counter(partition.topic for partition in partitions)
    for at, (topic, number) in enumerate(list(sizes.items())[:18]):
        near = round(number * random.uniform(0.3, 0.6))
        now = 0 if at % 4 == 1 else round(near * random.uniform(0.2, 1.0))
        could = min(number, round(near * random.uniform(1.2, 1.9)))
        crossing = None if at % 9 == 8 else (number - now) * random.uniform(0.1, 2.5) * 2**20
        without = 2 if at % 4 == 1 else 0
        name = f"{topic.split('.')[0]}-{('indexer', 'billing', 'exporter', 'alerts')[at % 4]}-{topic.split('.')[1]}"
        rows.append(d.GroupRow(name, max(1, number // 4), number, near, now, could, without, crossing))
    return sorted(rows, key=lambda row: -(row.cross_bytes_per_second or 0))


def _writes(cluster: _Cluster) -> d.Writes | None:
    """Two producers are in the first rack, and one is in the last."""
    producers = {min(cluster.racks.values()): 2, max(cluster.racks.values()): 1}
    brokers = tuple(BrokerLocation(broker, rack, parse_rack(rack)) for broker, rack in cluster.racks.items())
    locations = BrokerLocations(LEVELS, brokers)
    names = tuple(dict.fromkeys(partition.topic for partition in cluster.partitions))
    rows = []
    for one in cluster.partitions:
        alive = cluster.alive(one)
        rows.append((names.index(one.topic), one.number, list(one.replicas), alive, next(iter(alive), None), one.size))
    counts = write_counts(ReplicaPlaces(locations.tree, brokers, table(names, rows)), producers)
    written = write_table(names, tuple(producers), counts)
    by_topic = aggregates.written_afar(aggregates.written_by_topic(written, producers), d.MAX_WRITES)
    by_rack = aggregates.written_by_rack(written)
    return document_rows.writes(by_rack.to_pylist(), by_topic.to_pylist(), producers, locations)


def _trend(random: Random, partitions: int, findings: int, unfair: int) -> list[d.Day]:
    rows = []
    for ago in range(29, -1, -1):
        grown = 0.12 if ago > 18 else 0.45 if ago > 6 else 1.0
        wrong = unfair * grown * random.uniform(0.94, 1.0) if ago else float(unfair)
        rows.append(
            d.Day(
                date=(FINISHED - timedelta(days=ago)).date().isoformat(),
                scans=48 if ago else 12,
                compliant_share=1 - wrong / max(partitions, 1),
                findings=findings if not ago else round(findings * (0.3 + 0.5 * grown) * random.uniform(0.95, 1.05)),
                critical=3 if ago in (0, 17) else 0,
                violation_minutes=round(6 * grown) * (1440.0 if ago else 364.0),
            )
        )
    return rows


def _stamp(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


if __name__ == "__main__":
    sys.stdout.buffer.write(d.encode(example()))

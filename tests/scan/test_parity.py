"""The rules have the same results on both engines, on the command line and in the operator."""

import json
import random
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace as replace_struct
from tests.scan.conftest import NOON, Given
from tests.support.command import cli
from tests.support.progress import Steps
from tests.support.random_clusters import random_cluster
from tests.unit.jobs.tables import contents
from tests.unit.reconcile import examples

from rackspan.core.durability import Durability
from rackspan.core.outage import min_insync_replicas
from rackspan.core.placer import Spread
from rackspan.core.requirements import ClusterRequirements, TopicRequirements
from rackspan.core.scanning import BrokerLocations, examine, examine_brokers, reported_locations
from rackspan.core.scanning.findings import RULES, SEVERITIES, Findings
from rackspan.core.scanning.rules import Rule
from rackspan.core.snapshot import NONE, table
from rackspan.jobs import scan_job
from rackspan.jobs.batches.arrow_batches import partition_batches
from rackspan.jobs.batches.batch_judging import Criteria
from rackspan.jobs.batches.judged import Judged
from rackspan.jobs.batches.schemas import PARTITIONS
from rackspan.jobs.history.scan_history import History
from rackspan.jobs.scan import cluster_scan
from rackspan.jobs.scan.cluster_scan import ScanRun, scan_cluster
from rackspan.jobs.scan.engines import in_process
from rackspan.jobs.sources.scanned_cluster import ScannedCluster, from_file
from rackspan.jobs.spark.spark_engine import on_spark
from rackspan.reconcile.cluster.racks import locations_of_topology
from rackspan.reconcile.specs import placement
from rackspan.reconcile.specs.ownership import cluster_requirements
from rackspan.snapshots import parse_snapshot

LEVELS = ("region", "zone", "rack")
SEEDS = (0, 2, 3, 5, 7)
SLICES = (2, 7)


def made(criteria, partitions, least, slices=1):
    """Return a cluster with these partitions, in slices of whole topics."""
    every = pa.Table.from_batches(partition_batches(partitions, least), schema=PARTITIONS)
    parts = [every.filter(pa.array(partitions.topic % slices == at)) for at in range(slices)]
    return ScannedCluster("prod", criteria, Given(parts), len(every))


def judged_by(engine, *cluster):
    """Return the result of an engine for a cluster from `made`."""
    return Judged.merged(list(engine(made(*cluster), (), lambda *_: None)))


def told_by_engine(judged):
    return {
        (
            *(row[name] for name in ("id", "rule", "severity", "topic", "partition", "broker", "level", "domain")),
            *(row[name] for name in ("reason", "excess", "moves")),
        )
        for row in judged.findings.to_pylist()
    }


def told_in_process(criteria, partitions, found):
    tree = criteria.locations.tree
    ids = found.ids(criteria.cluster_id, partitions.names, tree).tolist()
    severities = [str(SEVERITIES[rank]) for rank in found.severity.tolist()]
    return {
        (
            *(number, str(facts.rule), severity, facts.topic, facts.partition, facts.broker),
            *(facts.level, facts.domain, facts.reason, facts.excess, facts.moves),
        )
        for number, severity, facts in zip(ids, severities, found.facts(partitions.names, tree), strict=True)
    }


def random_wishes(chance, snapshot):
    """Return requirements of every kind for some of the topics."""
    brokers = [broker.id for broker in snapshot.brokers]
    of_topic = {}
    for name in snapshot.partitions.names:
        some = tuple(str(broker) for broker in chance.sample(brokers, 1))
        wishes = [
            None,
            TopicRequirements(replication_factor=chance.randint(1, 4)),
            TopicRequirements(spread=(Spread("zone", 2),)),
            TopicRequirements(exclude=some),
            TopicRequirements(replication_factor=3, durability=Durability({"region": 2})),
            TopicRequirements(durability=Durability(tolerate={"zone": 1})),
            TopicRequirements(assignment=tuple(tuple(chance.sample(brokers, 2)) for _ in range(chance.randint(1, 5)))),
        ]
        if (wish := chance.choice(wishes)) is not None:
            of_topic[name] = wish
    return ClusterRequirements(of_topic, TopicRequirements(durability=Durability({"zone": 2})), managed=True)


def random_criteria(seed):
    """Return a snapshot, and criteria with rack drift, drained or offline brokers, missing racks and requirements."""
    chance = random.Random(seed)
    document = random_cluster(seed, name=f"cluster-{seed}", missing=seed % 3 == 2)
    snapshot = parse_snapshot(json.dumps(document).encode())
    drained = set(chance.sample([broker.id for broker in snapshot.brokers], seed % 3))
    locations = reported_locations(snapshot, LEVELS, drained)
    if seed % 2:
        moved = tuple(
            replace(one, reported_rack="/elsewhere") if at < 2 else one for at, one in enumerate(locations.brokers)
        )
        locations = BrokerLocations(locations.levels, moved, ignore_missing=seed % 4 == 3)
    if seed % 5 == 2:  # one broker is offline, and another one is missing
        gone, offline, *others = locations.brokers
        locations = replace(locations, brokers=(replace(offline, online=False), *others))
        assert gone.id not in locations.online
    racks = [broker.reported_rack for broker in locations.brokers if broker.reported_rack]
    producers = {rack: chance.randint(1, 3) for rack in [*chance.sample(racks, 2), "/nowhere"]} if seed % 2 else {}
    criteria = Criteria(f"cluster-{seed}", locations, random_wishes(chance, snapshot), producers)
    return criteria, snapshot


@pytest.mark.parametrize("seed", SEEDS)
def test_each_engine_has_the_findings_of_core_for_any_number_of_slices(engine, seed):
    criteria, snapshot = random_criteria(seed)
    partitions, least = snapshot.partitions, min_insync_replicas(snapshot.configs)
    examined = examine(criteria.locations, partitions, least, criteria.requirements)
    expected = told_in_process(criteria, partitions, examined.findings)
    assert len(expected) > 10
    for slices in SLICES:
        judged = judged_by(engine, criteria, partitions, least, slices)
        assert told_by_engine(judged) == expected, slices
        tallied = judged.topics.to_pylist()
        assert sum(row["non_compliant"] for row in tallied) == np.count_nonzero(examined.broken)
        assert sum(row["moves"] for row in tallied) == examined.moves_of.sum()
        assert sum(row["partitions"] for row in tallied) == len(partitions)
        unfair = {row["level"]: row["partitions"] for row in judged.unfair.to_pylist()}
        assert unfair == dict(examined.unfair)


@pytest.mark.parametrize("seed", SEEDS)
def test_both_engines_write_the_same_rows_and_documents_for_any_part_size(spark, tmp_path, monkeypatch, seed):
    """Two scans for each way to split the cluster. The second scan lacks some of the partitions."""
    criteria, snapshot = random_criteria(seed)
    partitions, least = snapshot.partitions, min_insync_replicas(snapshot.configs)
    later = partitions.rows(np.flatnonzero(np.arange(len(partitions)) % 3 != seed % 3))
    told = []
    ways = (("at once", in_process, 1, 10**6), ("parts", in_process, 5, 1), ("spark", on_spark(spark, 2), 4, 10**6))
    for name, engine, slices, part in ways:
        monkeypatch.setattr(cluster_scan, "_PART", part)
        history = History(str(tmp_path / name))
        for at, some in enumerate((partitions, later)):
            run = ScanRun(f"scan-{at}", NOON + timedelta(hours=at), history)
            document = scan_cluster(engine, made(criteria, some, least, slices), run, Steps(), print)
            told.append(replace_struct(document, finished_at="", seconds={}, history=None))
        assert document.changes.cleared > 0
        assert (document.writes is not None) == bool(criteria.producers)
        told.append(contents(history))
    assert told[:3] == told[3:6] == told[6:]


def test_scan_selects_the_engine_by_partitions_clusters_and_options(monkeypatch, tmp_path):
    taken = []

    @contextmanager
    def spark(*_):
        yield lambda *_: taken.append("spark") or iter(())

    monkeypatch.setattr(scan_job, "_spark", spark)
    monkeypatch.setattr(scan_job, "in_process", lambda *_: taken.append("local") or iter(()))
    one, many = tmp_path / "one" / "a.json", tmp_path / "many"
    for file in (one, many / "a.json", many / "b.json"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(random_cluster(1, name="a")))
    for arguments, engines in (
        (("--synthetic", 199_999), ["local"]),
        (("--synthetic", 200_000), ["spark"]),
        (("--synthetic", 200_000, "--engine", "local"), ["local"]),
        (("--synthetic", 10, "--engine", "spark"), ["spark"]),
        (("--synthetic", 10, "--master", "local[1]"), ["spark"]),
        (("--snapshot", one), ["local"]),
        (("--snapshot", one.parent), ["local"]),
        (("--snapshot", many), ["spark", "spark"]),
    ):
        taken.clear()
        cli("scan", *arguments)
        assert taken == engines, arguments
    monkeypatch.setenv(scan_job.SUBMITTED, "1")
    taken.clear()
    cli("scan", "--snapshot", one)
    assert taken == ["spark"], "spark-submit has started the process"


@pytest.mark.parametrize("seed", [1, 5])
def test_scan_and_check_report_the_same_findings(rackspan, tmp_path, seed):
    document = random_cluster(seed, name=f"cluster-{seed}")
    file = tmp_path / "what-people-call-it.json"
    file.write_text(json.dumps(document))
    levels = ("--levels", ",".join(LEVELS))
    checked = rackspan("check", "--snapshot", file, *levels, "-o", "json")
    scanned = rackspan("scan", "--snapshot", file, *levels, "-o", "json")
    assert checked.code == scanned.code == 1
    keys = ("id", "rule", "severity", "topic", "partition", "broker", "message", "fix", "excess", "moves")
    by_id = [
        {row["id"]: {key: row.get(key) for key in keys} for row in ran.json["findings"]} for ran in (checked, scanned)
    ]
    for found in by_id[1].values():  # a document omits values that are the defaults of its schema
        found["excess"], found["moves"] = found["excess"] or 0, found["moves"] or 0
    assert by_id[0] == by_id[1]
    summary = scanned.json["summary"]
    assert summary["findings"] == len(by_id[1]) == checked.json["summary"]["findings"]
    assert summary["nonCompliant"] == checked.json["summary"]["nonCompliant"]
    assert summary["moves"] == checked.json["summary"]["moves"]
    assert summary["byRule"] == checked.json["summary"]["byRule"]


def operator_s_topics():
    """Yield KafkaTopics with placements, and the replica lists of their topics."""
    yield examples.topic("plain"), [(0, 2, 3), (0, 1, 2), (3, 4, 5), (4, 2, 0)]
    yield examples.topic("narrow", replicationFactor=2), [(0, 3), (0, 1), (4, 5), (2, 2)]
    yield examples.topic("wide", replicationFactor=5), [(0, 1, 2, 3, 4), (0, 1, 2, 3, 9), (1, 3, 4, 5, 0)]
    placement = {"spread": [{"level": "zone", "maxSkew": 2}]}
    yield examples.topic("loose", placement=placement), [(0, 1, 3), (0, 1, 2), (3, 4, 5)]
    placement = {"spread": [{"level": "region", "maxSkew": 3, "whenUnsatisfiable": "Best"}]}
    yield examples.topic("best", placement=placement), [(0, 1, 2), (3, 4, 5), (0, 2, 3)]
    yield examples.topic("without", placement={"brokers": {"exclude": ["/us"]}}), [(0, 1, 2), (0, 2, 3), (3, 4, 5)]
    yield examples.topic("only", placement={"brokers": {"include": ["0", "2", "3"]}}), [(0, 2, 3), (1, 2, 3)]


@pytest.mark.parametrize("spec", [{}, {"drainBrokers": [3]}, {"drainRacks": ["/eu/eu-1a"]}])
def test_scan_judges_every_partition_like_the_operator(spec):
    topics = list(operator_s_topics())
    state = examples.state(**spec)
    status = {"brokers": [{"id": broker, "rack": rack, "online": True} for broker, rack in examples.SIX.items()]}
    topology = examples.topology(status=status, **spec)
    rows = [
        (at, number, replicas, replicas, replicas[0], None)
        for at, (_, lists) in enumerate(topics)
        for number, replicas in enumerate(lists)
    ]
    partitions = table([one.topic_name for one, _ in topics], rows)
    locations = locations_of_topology(topology)
    criteria = Criteria("kafka/prod", locations, cluster_requirements(topology, [one for one, _ in topics]))
    judged = judged_by(in_process, criteria, partitions, np.ones(len(topics), dtype=np.int64), 3)
    wrong = {}
    for row in judged.findings.to_pylist():
        if row["rule"] in (Rule.NOT_COMPLIANT, Rule.REPLICA_ON_DRAINED_BROKER):
            wrong.setdefault(row["topic"], {})[row["partition"]] = row["moves"]
    for one, lists in topics:
        width = max(map(len, lists))
        padded = [(*row, *(NONE,) * (width - len(row))) for row in lists]
        assessment = placement.judged(one.spec, padded, state).compliance
        broken = {at: int(assessment.moves_of[at]) for at in np.flatnonzero(assessment.broken).tolist()}
        assert wrong.get(one.topic_name, {}) == broken, one.topic_name
    assert wrong


def test_scan_has_the_same_broker_findings_as_examine_brokers(scans, tmp_path):
    document = random_cluster(2, name="prod", missing=True)
    scans(document, "a", levels=LEVELS)
    found = examine_brokers(from_file(tmp_path / "prod.json", LEVELS).criteria.locations)
    assert len(found) == 2
    expected = sorted((str(RULES[rule]), broker) for rule, broker in zip(found.rule, found.broker, strict=True))
    rows = [(row["rule"], row["broker"]) for row in scans.rows("findings") if row["topic"] is None]
    assert sorted(rows) == expected
    assert isinstance(found, Findings)

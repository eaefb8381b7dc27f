"""Lossless conversion between Arrow and the columns of core, and results of portions that add up to the whole."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackspan.core.requirements import ClusterRequirements
from rackspan.core.scanning import BrokerLocations
from rackspan.core.snapshot import table
from rackspan.core.topology import BrokerLocation
from rackspan.jobs.batches import arrow_batches, batch_judging
from rackspan.jobs.batches.arrow_batches import partition_batches, partitions_of
from rackspan.jobs.batches.batch_judging import Criteria, judge_slice
from rackspan.jobs.batches.judged import Judged
from rackspan.jobs.batches.schemas import JUDGED, PARTITIONS

TRUTH = BrokerLocations(
    ("region", "zone"),
    tuple(BrokerLocation(broker, f"/eu/z{broker % 3}", ("eu", f"z{broker % 3}")) for broker in range(7)),
)
PRODUCERS = {"/eu/z0": 2, "/eu/z1": 1, "elsewhere": 1}
COLUMNS = ("topic", "number", "replicas", "in_sync", "leader", "size_bytes")


@st.composite
def clusters(draw):
    """Draw partitions of a few topics with mixed replication factors, and min.insync.replicas of each topic."""
    sizes = draw(st.lists(st.integers(1, 5), max_size=4))
    rows = []
    for topic, count in enumerate(sizes):
        for number in range(count):
            replicas = draw(st.lists(st.integers(0, 8), max_size=5, unique=True))
            in_sync = draw(st.sets(st.sampled_from(replicas))) if replicas else set()
            leader = draw(st.none() | st.sampled_from(replicas)) if replicas else None
            rows.append((topic, number, replicas, in_sync, leader, draw(st.none() | st.integers(0, 2**50))))
    least = draw(st.lists(st.integers(1, 6), min_size=len(sizes), max_size=len(sizes)))
    return table([f"tópic-{at}" for at in range(len(sizes))], rows), np.array(least, dtype=np.int64)


def as_table(partitions, least):
    return pa.Table.from_batches(partition_batches(partitions, least), schema=PARTITIONS)


@given(clusters())
@settings(max_examples=settings.default.max_examples // 3)
def test_partitions_round_trip_through_arrow(cluster):
    partitions, least = cluster
    found, told, fewest = partitions_of(as_table(partitions, least))
    assert found.names == partitions.names
    assert told.tolist() == least.tolist()
    assert fewest.tolist() == partitions.fewest_replicas.tolist()
    for column in COLUMNS:
        assert getattr(found, column).tolist() == getattr(partitions, column).tolist(), column


@pytest.mark.parametrize("size", [2**57, 2**62, 2**63 - 1])
def test_implausible_sizes_are_unknown_and_do_not_stop_judging(size):
    rows = [(0, number, [0, 1, 2], {0, 1, 2}, 0, size) for number in range(4)]
    found = as_table(table(["orders"], rows), np.array([2], dtype=np.int64))
    assert partitions_of(found)[0].size_bytes.tolist() == [-1] * 4
    assert len(_judged(found).topics) == 1


@pytest.mark.parametrize(("size", "told"), [(2**51, 2**57), (2**51 + 2**46, None), (2**57, None), (2**63 - 1, None)])
def test_total_size_of_many_batches_is_unknown_if_it_is_implausible(monkeypatch, size, told):
    """Each batch may be plausible although the sum is not, or does not fit into 64 bits."""
    monkeypatch.setattr(arrow_batches, "_LARGEST_BATCH", 1)
    found = as_table(table(["orders"], [(0, at, [at % 3], {at % 3}, at % 3, size) for at in range(64)]), np.array([1]))
    judged = _judged(found)
    assert judged.topics["bytes"].to_pylist() == [told]
    zones = [row["bytes"] for row in judged.holdings.to_pylist() if row["level"] == "zone"]
    assert (sum(zones) if told else set(zones)) == (told or {None})


def test_empty_table_of_partitions_can_be_read_back():
    nothing = as_table(table((), []), np.array([], dtype=np.int64))
    found, least, fewest = partitions_of(nothing)
    assert (len(found), found.names, least.tolist(), fewest.tolist()) == (0, (), [], [])


def _judged(rows):
    """Return the result for rows of PARTITIONS as one slice."""
    return judge_slice(Criteria("prod", TRUTH, ClusterRequirements(), PRODUCERS), rows.to_batches())


def _sums(judged):
    """Return the numbers of a result that can be summed."""
    sums = {}
    for name in ("topics", "holdings", "unfair", "writes"):
        for row in getattr(judged, name).to_pylist():
            key = (name, *(row.get(column) for column in ("topic", "level", "domain", "client_rack")))
            counts = ("partitions", "replicas", "leaders", "offline", "not_writable", "moves", "bytes", "non_compliant")
            for count in (*counts, "near", "same_rack", "near_same_rack", "could_be_near"):
                if row.get(count):
                    sums[(*key, count)] = row[count]
    return sums


def _findings(judged):
    return {(row["id"], row["severity"]) for row in judged.findings.to_pylist()}


@given(clusters(), st.data())
@settings(max_examples=settings.default.max_examples // 6)
def test_merged_results_of_portions_equal_the_result_of_the_whole(cluster, data):
    partitions, least = cluster
    chosen = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(partitions), max_size=len(partitions))), dtype=bool
    )
    every = as_table(partitions, least)
    whole, parts = _judged(every), [_judged(every.filter(pa.array(some))) for some in (chosen, ~chosen)]
    merged = Judged.merged(parts)
    assert _sums(merged) == _sums(whole)
    # min.insync.replicas is compared with each topic as a whole, so an excess may come from one portion only.
    assert _findings(merged) >= _findings(whole)
    assert {one for one, _ in _findings(merged)} == {one for one, _ in _findings(whole)}


@given(clusters())
@settings(max_examples=settings.default.max_examples // 6)
def test_slice_judged_in_portions_has_the_same_result(cluster):
    partitions, least = cluster
    rows = as_table(partitions, least)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_judging, "_ROWS", 2)
        judged = judge_slice(
            Criteria("prod", TRUTH, ClusterRequirements(), PRODUCERS), rows.to_batches(max_chunksize=1)
        )
    assert _sums(judged) == _sums(_judged(rows))
    assert _findings(judged) >= _findings(_judged(rows))


def test_judged_tables_have_the_declared_columns():
    partitions = table(["orders"], [(0, 0, [0, 3, 1], [0], 0, 100)])
    for judged in (_judged(as_table(partitions, np.array([2]))), Judged.merged([])):
        assert {name: getattr(judged, name).schema for name in JUDGED} == JUDGED


@pytest.mark.parametrize("leader", [None, 1])
def test_partitions_without_replicas_are_judged(leader):
    """Kafka has no such partitions, but a response may contain them, even for all partitions of a slice."""
    judged = judge_slice(
        Criteria("c", TRUTH, ClusterRequirements()),
        partition_batches(table(["orders"], [(0, 0, (), (), leader, None)]), np.ones(1, dtype=np.int64)),
    )
    assert judged.topics.to_pylist()[0]["replicas"] == 0

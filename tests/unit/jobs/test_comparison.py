"""Comparison of a scan with the previous one, part by part."""

from datetime import timedelta
from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.jobs.tables import NOON

from rackspan.jobs.batches.schemas import JUDGED, TABLES
from rackspan.jobs.scan.comparison import Comparison

LATER = NOON + timedelta(minutes=7.5)
ids = st.sets(st.sampled_from([-(2**63), -5, -1, 0, 1, 2, 3, 9, 2**63 - 1]))
names = st.sets(st.sampled_from("abcd"))


class Previous:
    """A previous scan with these finding ids, each a day older than the previous, and these non-compliant topics."""

    def __init__(self, found, violated):
        rows = [
            {"id": one, "rule": "Offline", "severity": "high", "first_seen": NOON - timedelta(days=at)}
            for at, one in enumerate(found)
        ]
        self._findings = pa.Table.from_pylist(rows, schema=TABLES["findings"])
        self.first_seen = self._findings.select(["id", "first_seen"])
        self.non_compliant_topics = pa.array(violated, pa.string())

    def findings(self):
        for at in range(len(self._findings)):
            yield self._findings.slice(at, 1)

    def minutes_until(self, now):
        return (now - NOON).total_seconds() / 60


def in_parts(rows, cuts):
    bounds = sorted({0, len(rows), *(cut % (len(rows) + 1) for cut in cuts)})
    return [rows[start:stop] for start, stop in pairwise(bounds)]


@given(ids, st.permutations(sorted([-(2**63), -5, -1, 0, 1, 2, 3, 9, 2**63 - 1])), ids, st.lists(st.integers(0, 9)))
def test_findings_are_new_known_or_cleared_by_id_however_they_are_split(now, order, earlier, cuts):
    before = [one for one in order if one in earlier]
    known = {one: NOON - timedelta(days=at) for at, one in enumerate(before)}
    compared = Comparison(Previous(before, []), LATER)
    for part in in_parts(sorted(now), cuts):
        table = pa.Table.from_pylist([{"id": one} for one in part], schema=JUDGED["findings"])
        for row in compared.findings(table).to_pylist():
            assert row["new"] == (row["id"] not in known)
            assert row["first_seen"] == known.get(row["id"], LATER)
    cleared = known.keys() - now
    assert compared.cleared == len(cleared)
    assert set(compared.worst_cleared()["id"].to_pylist()) == cleared


@given(names, names, st.lists(st.integers(0, 9)))
def test_topic_that_was_non_compliant_gets_minutes_even_if_it_is_fixed_or_deleted(now, violated, cuts):
    compared = Comparison(Previous([], sorted(violated)), LATER)
    for part in in_parts(sorted(now), cuts):
        topics = pa.table({"topic": pa.array(part, pa.string())})
        for row in compared.topics(topics).to_pylist():
            assert row["violation_minutes"] == (7.5 if row["topic"] in violated else 0.0)
    assert set(compared.gone.to_pylist()) == violated - now


def test_duplicate_finding_of_the_previous_scan_is_cleared_once_and_only_if_it_is_gone():
    """Duplicates come from a Kafka that lists a partition twice."""
    for found, cleared in (([7, 7], 0), ([], 1)):
        compared = Comparison(Previous([7, 7, 9], []), LATER)
        compared.findings(pa.table({"id": pa.array([9, *found], pa.int64())}))
        assert compared.cleared == cleared

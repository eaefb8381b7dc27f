"""The merged digests of the parts of a scan equal the digest of the whole scan."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackspan.core.scanning.rules import SEVERITIES, Rule
from rackspan.jobs.batches import aggregates, digests
from rackspan.jobs.batches.digests import digest, merged
from rackspan.jobs.batches.judged import Judged
from rackspan.jobs.batches.schemas import JUDGED, TABLES

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
PRODUCERS = {"a": 2, "b": 1}
FOUND = pa.schema([*JUDGED["findings"], TABLES["findings"].field("first_seen"), ("new", pa.bool_())])
MOST = 3
numbers = st.integers(0, 4)
sizes = st.none() | st.integers(0, 9)


few_letters = st.none() | st.sampled_from("xy")


@st.composite
def topics(draw):
    """Draw a topic with or without findings: its row, its findings, and its counts of writes."""
    name = "t" + draw(st.uuids()).hex[:6]
    row = {"topic": name, "partitions": 3, "replicas": 9, "replication_factor": 3, "min_insync": 2}
    row |= {key: draw(numbers) for key in ("non_compliant", "offline", "under_replicated", "moves")}
    row |= {"bytes": draw(sizes), "move_bytes": draw(sizes)}
    found = [
        {
            "id": draw(st.integers(-(2**63), 2**63 - 1)),
            "rule": str(draw(st.sampled_from(list(Rule)))),
            "severity": str(draw(st.sampled_from(SEVERITIES))),
            "topic": name,
            "partition": number,
            "broker": draw(st.none() | numbers),
            "level": "zone",
            "domain": draw(few_letters),
            "first_seen": NOON - timedelta(days=draw(numbers)),
            "new": draw(st.booleans()),
        }
        for number in range(draw(st.integers(0, 3)))
    ]
    counts = {"near": st.integers(0, 3), "could_be_near": st.integers(0, 3), "same_rack": st.integers(0, 3)}
    writes = [
        {"topic": name, "client_rack": rack, "partitions": 3, "near_same_rack": 0}
        | {key: draw(count) for key, count in counts.items()}
        for rack in PRODUCERS
    ]
    return row, found, writes


@st.composite
def scans(draw):
    """Draw parts of a scan, each with its own topics, and with holdings of up to two domains."""

    def held(domain):
        counts = dict.fromkeys(JUDGED["holdings"].names[2:], draw(numbers))
        return {"level": "zone", "domain": domain, **counts, "bytes": draw(sizes)}

    parts = range(draw(st.integers(1, 4)))
    domains = st.sets(st.sampled_from("xy"))
    return [(draw(st.lists(topics(), max_size=4)), [held(one) for one in draw(domains)]) for _ in parts]


def digested(parts):
    rows = [row for some, _ in parts for row, _, _ in some]
    found = pa.Table.from_pylist([one for some, _ in parts for _, found, _ in some for one in found], schema=FOUND)
    counted = aggregates.with_findings(pa.Table.from_pylist(rows, schema=JUDGED["topics"]), found)
    counted = counted.append_column("violation_minutes", pa.array([0.5] * len(rows), pa.float64()))
    tables = {
        "writes": [one for some, _ in parts for _, _, writes in some for one in writes],
        "holdings": [one for _, held in parts for one in held],
        "unfair": [{"level": "zone", "partitions": row["non_compliant"]} for row in rows],
    }
    judged = Judged.of(**{name: pa.Table.from_pylist(some, schema=JUDGED[name]) for name, some in tables.items()})
    return digest(judged, found, counted, PRODUCERS)


def said(one):
    """Return all rows of a digest, sorted unless their order matters, with floats rounded to nine digits."""

    def row(values):
        return {key: round(value, 9) if isinstance(value, float) else value for key, value in values.items()}

    ordered = ("findings", "new", "topics", "writes")
    tables = {name: [*map(row, getattr(one, name).to_pylist())] for name in digests.Digest.__slots__}
    return {name: rows if name in ordered else sorted(rows, key=repr) for name, rows in tables.items()}


@given(scans())
def test_merged_digests_of_parts_equal_the_digest_of_the_whole(parts):
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MAX_FINDINGS", "MAX_CHANGED", "MAX_TOPICS", "MAX_WRITES"):
            patch.setattr(digests, name, MOST)
        whole = digested(parts)
        each = [digested([part]) for part in parts]
        assert said(merged(each)) == said(whole)
        assert said(merged([merged(each[:1]), *each[1:]])) == said(whole)

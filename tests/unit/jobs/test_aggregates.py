"""Sums and counts over Arrow tables, compared with the same in plain Python."""

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackspan.core.scanning.rules import COUNTING_RULES, SEVERITIES, TOPIC_RULES, Rule
from rackspan.jobs.batches import aggregates
from rackspan.jobs.batches.schemas import JUDGED, TABLES

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
RANK = {str(severity): severity.rank for severity in SEVERITIES}
numbers = st.integers(0, 4)
findings = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(0, 9),
            "rule": st.sampled_from([str(rule) for rule in Rule]),
            "severity": st.sampled_from(list(RANK)),
            "topic": st.none() | st.sampled_from("ab"),
            "partition": st.none() | numbers,
            "broker": st.none() | numbers,
            "level": st.sampled_from(["zone", "rack"]),
            "domain": st.none() | st.sampled_from(["/a", "/b"]),
            "excess": st.integers(-3, 3),
            "moves": numbers,
        }
    ),
    max_size=12,
)


def judged(rows):
    return pa.Table.from_pylist(rows, schema=JUDGED["findings"])


def kept(rows):
    """Return the findings of a scan, each id once."""
    once = {row["id"]: {**row, "first_seen": NOON - timedelta(days=row["id"])} for row in rows}
    return pa.Table.from_pylist(list(once.values()), schema=TABLES["findings"])


def by_key(table, *key):
    return {tuple(row[name] for name in key): row for row in table.to_pylist()}


@given(findings)
def test_topic_findings_are_merged_with_the_largest_absolute_excess_and_the_sum_of_moves(rows):
    found = aggregates.findings(judged(rows)).to_pylist()
    about_topics = {str(rule) for rule in TOPIC_RULES}
    farthest, moves = defaultdict(list), Counter()
    for row in rows:
        if row["rule"] in about_topics:
            farthest[row["id"]].append((-abs(row["excess"]), row["excess"]))
            moves[row["id"]] += row["moves"]
    assert {row["id"]: (row["excess"], row["moves"]) for row in found if row["rule"] in about_topics} == {
        number: (min(excesses)[1], moves[number]) for number, excesses in farthest.items()
    }
    each = [str(rule) for rule in set(Rule) - TOPIC_RULES - COUNTING_RULES]
    assert sum(row["rule"] in each for row in found) == sum(row["rule"] in each for row in rows)


@given(findings)
def test_findings_that_count_partitions_are_summed(rows):
    counting = {str(rule) for rule in COUNTING_RULES}
    every = [name for name in rows[0] if name not in ("excess", "moves")] if rows else []

    def summed(table):
        sums = defaultdict(Counter)
        for row in table:
            if row["rule"] in counting:
                sums[tuple(row[name] for name in every)].update(excess=row["excess"], moves=row["moves"])
        return sums

    found = [row for row in aggregates.findings(judged(rows)).to_pylist() if row["rule"] in counting]
    assert summed(found) == summed(rows)
    assert len(found) == len(summed(rows))


@given(findings)
def test_findings_are_counted_by_broker_domain_and_topic_with_the_worst_severity(rows):
    found = kept(rows)
    for key in (("broker",), ("level", "domain"), ("topic",)):
        worst = defaultdict(list)
        for row in found.to_pylist():
            if row[key[-1]] is not None:
                worst[tuple(row[name] for name in key)].append(row["severity"])
        assert {
            at: (row["findings"], row["worst"])
            for at, row in by_key(aggregates.counted(aggregates.each(found), *key), *key).items()
        } == {at: (len(severities), min(severities, key=RANK.get)) for at, severities in worst.items()}


@given(findings)
def test_topics_get_the_count_worst_severity_and_first_seen_of_their_findings(rows):
    found = kept(rows)
    topics = pa.Table.from_pylist([{"topic": name} for name in "abc"], schema=JUDGED["topics"])
    for row in aggregates.with_findings(topics, found).to_pylist():
        own = [one for one in found.to_pylist() if one["topic"] == row["topic"]]
        assert row["findings"] == len(own)
        assert row["worst"] == min((one["severity"] for one in own), key=RANK.get, default=None)
        assert row["first_seen"] == min((one["first_seen"] for one in own), default=None)


def test_move_bytes_of_a_topic_are_unknown_if_those_of_a_portion_are_unknown():
    sizes = [("a", 3), ("a", 4), ("b", 3), ("b", None)]
    rows = [{"topic": topic, "move_bytes": size} for topic, size in sizes]
    found = aggregates.topics(pa.Table.from_pylist(rows, schema=JUDGED["topics"])).to_pylist()
    assert {row["topic"]: row["move_bytes"] for row in found} == {"a": 7, "b": None}


def test_bytes_of_a_domain_are_known_if_a_portion_with_replicas_knows_them():
    """A portion without replicas in a domain reports 0 bytes, or null if it knows no size at all."""
    held = {"/a": [(1, None), (0, 0)], "/b": [(1, None), (2, 5), (0, 0)], "/c": [(0, None), (0, 0)], "/d": [(0, None)]}
    rows = [
        {"level": "zone", "domain": domain, "replicas": replicas, "bytes": size}
        for domain, parts in held.items()
        for replicas, size in parts
    ]
    found = aggregates.holdings(pa.Table.from_pylist(rows, schema=JUDGED["holdings"]))
    assert {row["domain"]: row["bytes"] for row in found.to_pylist()} == {"/a": None, "/b": 5, "/c": 0, "/d": None}


@given(findings, st.integers(0, 5))
def test_worst_findings_come_first_and_those_without_a_topic_before_others(rows, most):
    found = kept(rows)

    def order(row):
        nulls_first = [-1 if row[name] is None else row[name] for name in ("partition", "broker")]
        return (RANK[row["severity"]], row["rule"], row["topic"] or "", *nulls_first, row["id"])

    assert aggregates.worst(found, most).to_pylist() == sorted(found.to_pylist(), key=order)[:most]


@given(
    st.lists(st.tuples(st.sampled_from([None, *RANK]), numbers, numbers), max_size=12),
    st.integers(0, 5),
)
def test_worst_topics_come_first_and_topics_without_findings_are_omitted(rows, most):
    names = (f"topic-{at}" for at in range(len(rows)))
    topics = [
        {"topic": name, "findings": count if worst else 0, "worst": worst if count else None, "moves": moves}
        for name, (worst, count, moves) in zip(names, rows, strict=True)
    ]
    table = pa.Table.from_pylist(topics, schema=TABLES["topics"])

    def order(row):
        return (RANK[row["worst"]], -row["moves"], -row["findings"], row["topic"])

    wanted = sorted((row for row in table.to_pylist() if row["findings"]), key=order)[:most]
    assert aggregates.worst_topics(table, most).to_pylist() == wanted


@pytest.mark.parametrize(
    ("summed", "period"),
    [
        (aggregates.days, lambda at: at.date()),
        (aggregates.hours, lambda at: at.replace(minute=0)),
    ],
)
@given(st.lists(st.tuples(st.integers(0, 9), numbers, numbers, st.floats(0, 100)), max_size=8))
def test_days_and_hours_summarize_scans_in_chronological_order(summed, period, scans):
    rows = [
        {
            "finished_at": NOON + timedelta(minutes=25) * when * when,
            "partitions": wrong + fair,
            "non_compliant": wrong,
            "findings": wrong * 2,
            "critical": fair,
            "violation_minutes": minutes,
        }
        for when, wrong, fair, minutes in scans
    ]
    found = summed(pa.Table.from_pylist(rows, schema=TABLES["scans"])).to_pylist()
    assert [row["date"] for row in found] == sorted({period(row["finished_at"]) for row in rows})
    for row in found:
        same = [one for one in rows if period(one["finished_at"]) == row["date"]]
        shares = [1 - one["non_compliant"] / max(one["partitions"], 1) for one in same]
        assert row["scans"] == len(same)
        assert abs(row["compliant_share"] - sum(shares) / len(shares)) < 1e-9
        assert row["findings"] == max(one["findings"] for one in same)
        assert row["critical"] == max(one["critical"] for one in same)
        assert abs(row["violation_minutes"] - sum(one["violation_minutes"] for one in same)) < 1e-6


@given(st.lists(st.lists(st.tuples(numbers, st.none() | st.booleans()), max_size=5), max_size=4))
def test_flaps_count_the_changes_of_each_broker_over_all_parts(parts):
    tables = [
        pa.Table.from_pylist(
            [{"broker": broker, "changed": changed} for broker, changed in part], schema=TABLES["brokers"]
        )
        for part in parts
    ]
    flaps = {row["broker"]: row["changed"] or 0 for row in aggregates.flaps(tables).to_pylist()}
    counted = defaultdict(int)
    for part in parts:
        for broker, changed in part:
            counted[broker] += bool(changed)
    assert flaps == counted

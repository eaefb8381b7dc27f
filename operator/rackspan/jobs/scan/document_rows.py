"""Parts of the scan document, from rows of the tables."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa

from rackspan.api import times
from rackspan.core.compliance import BROKER_LEVEL
from rackspan.core.scanning import BrokerTruth, Truth
from rackspan.core.scanning.findings import Facts
from rackspan.core.scanning.messages import fix, message, shown_id
from rackspan.core.scanning.rules import Rule, Severity
from rackspan.core.text import be, plural
from rackspan.core.topology import domain_name
from rackspan.reports.document import (
    MAX_TOPICS,
    BrokerRow,
    Day,
    DomainRow,
    FindingRow,
    Summary,
    TopicRow,
    WhatIf,
)

Row = Mapping[str, Any]
_UNREAD_NAMES, _UNREAD_REASONS, _UNREAD_WORDS = 5, 3, 200


def timestamp(when: datetime | None) -> str | None:
    """A time as Kubernetes writes it (RFC 3339, UTC, seconds); None for None."""
    return None if when is None else times.timestamp(when)


def finding_rows(rows: Iterable[Row]) -> list[FindingRow]:
    """Findings with their messages and fixes. `rows` have the columns of the table `findings`."""
    return [_finding(row) for row in rows]


def _finding(row: Row) -> FindingRow:
    facts = Facts(
        Rule(row["rule"]),
        row["topic"],
        row["partition"],
        row["broker"],
        row["level"],
        row["domain"],
        row["reason"],
        row["excess"],
        row["moves"],
    )
    return FindingRow(
        id=shown_id(row["id"]),
        rule=row["rule"],
        severity=row["severity"],
        message=message(facts),
        fix=fix(facts),
        topic=facts.topic,
        partition=facts.partition,
        broker=facts.broker,
        level=facts.level,
        domain=facts.domain,
        excess=facts.excess,
        moves=facts.moves,
        first_seen=timestamp(row.get("first_seen")),
    )


def unread_warnings(unread: Mapping[str, str]) -> list[str]:
    """The warning about topics that could not be read, as a list of one or no sentence. `unread` is why, by topic."""
    if not unread:
        return []
    named = ", ".join(sorted(unread)[:_UNREAD_NAMES]) + (", …" if len(unread) > _UNREAD_NAMES else "")
    why = "; ".join(sorted({reason[:_UNREAD_WORDS] for reason in unread.values()})[:_UNREAD_REASONS])
    count = plural(len(unread), "topic")
    return [f"{count} could not be read and {be(len(unread))} told as the scan before found it: {named} ({why})"]


def summary(topics: pa.Table, counted: Iterable[Row], unfair: Iterable[Row], truth: Truth, unread: int = 0) -> Summary:
    """
    Sum up a scan.

    `topics` are all topics, with and without findings; `counted` the number of findings by rule and severity; `unfair`
    that of unfairly split partitions by level; `unread` the number of topics that could not be read, for which `topics`
    has the rows of the previous scan, where that had any.
    """
    by_rule: dict[str, int] = {}
    by_severity: dict[str, int] = {}
    for row in counted:
        by_rule[row["rule"]] = by_rule.get(row["rule"], 0) + row["count"]
        by_severity[row["severity"]] = by_severity.get(row["severity"], 0) + row["count"]
    sizes = pa.compute.sum(topics["bytes"]).as_py()
    return Summary(
        topics=len(topics),
        partitions=_sum(topics, "partitions"),
        replicas=_sum(topics, "replicas"),
        brokers=len(truth.brokers),
        non_compliant=_sum(topics, "non_compliant"),
        non_compliant_topics=pa.compute.sum(pa.compute.greater(topics["non_compliant"], 0)).as_py() or 0,
        offline=_sum(topics, "offline"),
        under_replicated=_sum(topics, "under_replicated"),
        moves=_sum(topics, "moves"),
        bytes=None if sizes is None else int(sizes),
        findings=sum(by_rule.values()),
        by_rule=dict(sorted(by_rule.items())),
        by_severity={str(one): by_severity[one] for one in Severity if one in by_severity},
        unfair={row["level"]: row["partitions"] for row in unfair},
        unread_topics=unread,
    )


def _sum(rows: pa.Table, column: str) -> int:
    return int(pa.compute.sum(rows[column]).as_py() or 0)


def what_if(row: Row) -> WhatIf:
    """What the loss of the domain of a row of `holdings` would do."""
    return WhatIf(row["offline"], row["not_writable"], row["last_replica"], row["replicas"], row["bytes"])


def domain_rows(holdings: Iterable[Row], truth: Truth, wrong: Iterable[Row]) -> list[DomainRow]:
    """Domains that hold anything, level by level from the top, in the tree's order. `wrong` are findings by domain."""
    told = {(row["level"], row["domain"]): row for row in wrong}
    held = {(row["level"], row["domain"]): row for row in holdings}
    found = []
    for level in truth.tree.nodes[1:-1]:
        for path in level.paths:
            key = (level.name, domain_name(path))
            row, bad = held.get(key), told.get(key)
            if row is not None:
                found.append(
                    DomainRow(
                        level=level.name,
                        domain=key[1],
                        brokers=row["brokers"],
                        replicas=row["replicas"],
                        leaders=row["leaders"],
                        what_if=what_if(row),
                        bytes=row["bytes"],
                        findings=bad["findings"] if bad else 0,
                        worst=bad["worst"] if bad else None,
                    )
                )
    return found


def rack_name(broker: BrokerTruth) -> str | None:
    """A broker's rack as a path, None where it has none."""
    return None if broker.rack is None else domain_name(broker.rack)


def broker_rows(
    holdings: Iterable[Row], truth: Truth, wrong: Iterable[Row], flaps: Mapping[int, int]
) -> list[BrokerRow]:
    """All brokers by id. `wrong` are findings by broker, `flaps` how often each came or went in the last days."""
    told = {row["broker"]: row for row in wrong}
    held = {row["domain"]: row for row in holdings if row["level"] == BROKER_LEVEL}
    found = []
    for broker in sorted(truth.brokers, key=lambda one: one.id):
        row, bad = held.get(str(broker.id)), told.get(broker.id)
        found.append(
            BrokerRow(
                id=broker.id,
                rack=rack_name(broker),
                reported_rack=broker.reported,
                replicas=row["replicas"] if row else 0,
                leaders=row["leaders"] if row else 0,
                leading=row["leading"] if row else 0,
                what_if=what_if(row) if row else WhatIf(0, 0, 0, 0),
                bytes=row["bytes"] if row else None,
                online=broker.online,
                draining=broker.draining,
                findings=bad["findings"] if bad else 0,
                worst=bad["worst"] if bad else None,
                flaps=flaps.get(broker.id, 0),
            )
        )
    return found


def topic_rows(
    topics: pa.Table, managed: Mapping[str, object], minutes: Mapping[str, float], since: Mapping[str, datetime]
) -> list[TopicRow]:
    """
    At most MAX_TOPICS topics with findings, the worst first.

    `managed` are topics that have an object, `minutes` violation minutes by topic, `since` when the oldest finding of a
    topic was first seen.
    """
    order = {str(severity): severity.rank for severity in Severity}
    wrong = topics.filter(pa.compute.greater(topics["findings"], 0)).to_pylist()
    wrong.sort(key=lambda row: (order[row["worst"]], -row["moves"], -row["findings"], row["topic"]))
    return [
        TopicRow(
            name=row["topic"],
            partitions=row["partitions"],
            replication_factor=row["replication_factor"],
            min_insync_replicas=row["min_insync"],
            non_compliant=row["non_compliant"],
            findings=row["findings"],
            moves=row["moves"],
            worst=row["worst"],
            managed=row["topic"] in managed,
            bytes=row["bytes"],
            first_seen=timestamp(since.get(row["topic"])),
            violation_minutes=round(minutes.get(row["topic"], 0.0), 1),
        )
        for row in wrong[:MAX_TOPICS]
    ]


def trend(days: Iterable[Row]) -> list[Day]:
    """Days of the history, from rows of `trends.days`."""
    return [
        Day(
            date=row["date"].isoformat(),
            scans=row["scans"],
            compliant_share=round(row["compliant_share"], 6),
            findings=row["findings"],
            critical=row["critical"],
            violation_minutes=round(row["violation_minutes"], 1),
        )
        for row in days
    ]

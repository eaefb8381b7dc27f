"""Parts of the scan document, from rows of the tables."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from rackspan.api import codec
from rackspan.core.compliance import BROKER_LEVEL
from rackspan.core.rack_path import domain_name
from rackspan.core.scanning import BrokerLocations
from rackspan.core.scanning.findings import Facts
from rackspan.core.scanning.messages import fix, message, shown_id
from rackspan.core.scanning.rules import Rule, Severity
from rackspan.core.text import be, plural
from rackspan.core.topology import BrokerLocation
from rackspan.core.write_locality import WriteCounts, WriteShares
from rackspan.reports.document import (
    MAX_TOPICS,
    MAX_WRITES,
    BrokerRow,
    Day,
    DomainRow,
    FindingRow,
    ProducersRow,
    Summary,
    TopicRow,
    WhatIf,
    Writes,
    WritesRow,
)

Row = Mapping[str, Any]
_SUMMED = ("partitions", "replicas", "non_compliant", "offline", "under_replicated", "moves")
_OF_TOPIC = ("partitions", "replication_factor", "non_compliant", "findings", "moves", "worst", "bytes")
_NOTHING = dict.fromkeys(("offline", "not_writable", "last_replica", "replicas", "leaders", "leading"), 0) | {
    "bytes": None
}
_UNREAD_NAMES, _UNREAD_REASONS, _UNREAD_REASON_LENGTH = 5, 3, 200


def timestamp(when: datetime | None) -> str | None:
    """A time as Kubernetes writes it (RFC 3339, UTC, seconds); None for None."""
    return None if when is None else codec.timestamp(when)


def finding_rows(rows: Iterable[Row], topology: str | None = None, away: Collection[int] = ()) -> list[FindingRow]:
    """
    Findings with their messages and fixes.

    `rows` have the columns of the table `findings`. `topology` is the key of the RackTopology by which they are found,
    `away` are all brokers that are not online and hold replicas.
    """
    return [_finding(row, topology, away) for row in rows]


def _finding(row: Row, topology: str | None, away: Collection[int]) -> FindingRow:
    about = _pick(row, "topic", "partition", "broker", "level", "domain", "excess", "moves")
    facts = Facts(rule=Rule(row["rule"]), reason=row["reason"], **about)
    return FindingRow(
        id=shown_id(row["id"]),
        rule=row["rule"],
        severity=row["severity"],
        message=message(facts),
        fix=fix(facts, topology=topology, away=away),
        first_seen=timestamp(row.get("first_seen")),
        **about,
    )


def _pick(row: Row, *names: str) -> dict[str, Any]:
    """The columns that have the same names in the document, as far as the row has them."""
    return {name: row[name] for name in names if name in row}


def unread_warnings(unread: Mapping[str, str]) -> list[str]:
    """The warning about topics that could not be read, as a list of one or no sentence. `unread` is why, by topic."""
    if not unread:
        return []
    named = ", ".join(sorted(unread)[:_UNREAD_NAMES]) + (", …" if len(unread) > _UNREAD_NAMES else "")
    why = "; ".join(sorted({reason[:_UNREAD_REASON_LENGTH] for reason in unread.values()})[:_UNREAD_REASONS])
    count = plural(len(unread), "topic")
    return [f"{count} could not be read and {be(len(unread))} reported as in the scan before: {named} ({why})"]


def summary(
    topics: pa.Table, counted: Iterable[Row], unfair: Iterable[Row], locations: BrokerLocations, unread: int = 0
) -> Summary:
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
    copied = pa.compute.sum(topics["move_bytes"], skip_nulls=False, min_count=0).as_py()
    return Summary(
        topics=len(topics),
        brokers=len(locations.brokers),
        **{name: _sum(topics, name) for name in _SUMMED},
        non_compliant_topics=pa.compute.sum(pa.compute.greater(topics["non_compliant"], 0)).as_py() or 0,
        bytes=None if sizes is None else int(sizes),
        move_bytes=None if copied is None else int(copied),
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


def domain_rows(holdings: Iterable[Row], locations: BrokerLocations, wrong: Iterable[Row]) -> list[DomainRow]:
    """Domains that hold anything, level by level from the top, in the tree's order. `wrong` are findings by domain."""
    by_domain = {(row["level"], row["domain"]): row for row in wrong}
    held = {(row["level"], row["domain"]): row for row in holdings}
    keys = [(level.name, domain_name(path)) for level in locations.tree.nodes[1:-1] for path in level.paths]
    return [
        DomainRow(
            level=level,
            domain=domain,
            what_if=what_if(held[level, domain]),
            **_pick(held[level, domain], "brokers", "replicas", "leaders", "bytes"),
            **_pick(by_domain.get((level, domain), {}), "findings", "worst"),
        )
        for level, domain in keys
        if (level, domain) in held
    ]


def rack_name(broker: BrokerLocation) -> str | None:
    """A broker's rack as a path, None where it has none."""
    return None if broker.rack is None else domain_name(broker.rack)


def broker_rows(
    holdings: Iterable[Row], locations: BrokerLocations, wrong: Iterable[Row], flaps: Mapping[int, int]
) -> list[BrokerRow]:
    """All brokers by id. `wrong` are findings by broker, `flaps` how often each came or went in the last days."""
    by_broker = {row["broker"]: row for row in wrong}
    held = {row["domain"]: row for row in holdings if row["level"] == BROKER_LEVEL}
    return [
        BrokerRow(
            id=broker.id,
            rack=rack_name(broker),
            reported_rack=broker.reported_rack,
            what_if=what_if(held.get(str(broker.id), _NOTHING)),
            online=broker.online,
            draining=broker.draining,
            cordoned=broker.cordoned,
            flaps=flaps.get(broker.id, 0),
            **_pick(held.get(str(broker.id), _NOTHING), "replicas", "leaders", "leading", "bytes"),
            **_pick(by_broker.get(broker.id, {}), "findings", "worst"),
        )
        for broker in sorted(locations.brokers, key=lambda one: one.id)
    ]


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
            min_insync_replicas=row["min_insync"],
            managed=row["topic"] in managed,
            first_seen=timestamp(since.get(row["topic"])),
            violation_minutes=round(minutes.get(row["topic"], 0.0), 1),
            **_pick(row, *_OF_TOPIC),
        )
        for row in wrong[:MAX_TOPICS]
    ]


def writes(counted: pa.Table, producers: Mapping[str, int], locations: BrokerLocations) -> Writes | None:
    """
    How near producers write, None where none are named.

    `counted` are counts of writes by topic and rack, in this order; `producers` how many have each `client.rack`.
    """
    if not producers:
        return None
    racks = sorted(producers)
    of = {name: counted[name].to_numpy().reshape(-1, len(racks)) for name in counted.column_names}
    topics, partitions = of.pop("topic")[:, 0], of.pop("partitions")[:, 0]
    del of["client_rack"]
    shares = WriteShares.of(WriteCounts(np.arange(len(topics)), partitions, **of))
    each = np.stack([shares.near, shares.near_by_rack, shares.could_be_near])
    by_rack = partitions @ each / max(1, partitions.sum())
    weights = np.array([producers[rack] for rack in racks]) / sum(producers.values())
    by_topic = each @ weights
    afar = np.lexsort((topics.astype(str), -partitions * (1 - by_topic[0])))
    reported = {broker.reported_rack for broker in locations.brokers}
    return Writes(
        **_shares(by_rack @ weights),
        racks=[
            ProducersRow(rack, producers[rack], reported=rack in reported, **_shares(by_rack[:, at]))
            for at, rack in enumerate(racks)
        ],
        topics=[
            WritesRow(topics[at], int(partitions[at]), **_shares(by_topic[:, at]))
            for at in afar[:MAX_WRITES]
            if by_topic[0, at] < 1
        ],
    )


def _shares(shares: Iterable[float]) -> dict[str, float]:
    names = ("near", "near_by_rack", "could_be_near")
    return {name: round(float(share), 6) for name, share in zip(names, shares, strict=True)}


def trend(days: Iterable[Row]) -> list[Day]:
    """Days or hours of the history, from rows of `aggregates.days` or `aggregates.hours`."""
    return [
        Day(
            date=f"{row['date']:%Y-%m-%dT%H}" if isinstance(row["date"], datetime) else row["date"].isoformat(),
            scans=row["scans"],
            compliant_share=round(row["compliant_share"], 6),
            findings=row["findings"],
            critical=row["critical"],
            violation_minutes=round(row["violation_minutes"], 1),
        )
        for row in days
    ]

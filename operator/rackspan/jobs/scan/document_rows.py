"""Builds parts of the scan document from rows of the tables."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from rackspan.api import codec
from rackspan.core.compliance import BROKER_LEVEL
from rackspan.core.rack_path import domain_name
from rackspan.core.scanning import BrokerLocations
from rackspan.core.scanning.findings import Facts
from rackspan.core.scanning.messages import fix, message, shown_id
from rackspan.core.scanning.rules import Rule, Severity
from rackspan.core.text import be, few, plural
from rackspan.core.topology import BrokerLocation
from rackspan.jobs.batches.aggregates import SHARES
from rackspan.reports.document import (
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
_SUMMED = (
    *("topics", "non_compliant_topics", "partitions", "replicas", "non_compliant", "offline", "under_replicated"),
    *("moves", "bytes", "move_bytes"),
)
_OF_TOPIC = ("partitions", "replication_factor", "non_compliant", "findings", "moves", "worst", "bytes")
_NOTHING = dict.fromkeys(("offline", "not_writable", "last_replica", "replicas", "leaders", "leading"), 0) | {
    "bytes": None
}
_KNOWN: Final = frozenset(Rule)
_UNREAD_NAMES, _UNREAD_REASONS, _UNREAD_REASON_LENGTH = 5, 3, 200


def timestamp(when: datetime | None) -> str | None:
    """Return a time in Kubernetes' format (RFC 3339, UTC, seconds), or None for None."""
    return None if when is None else codec.timestamp(when)


def finding_rows(rows: Iterable[Row], topology: str | None = None, away: Collection[int] = ()) -> list[FindingRow]:
    """Return findings with their messages and fixes.

    `rows` have the columns of the table `findings`. Rows of an unknown rule, written by a newer version, are left out.
    `topology` is the key of the RackTopology by which the cluster is judged. `away` are all brokers that are offline
    and hold replicas.
    """
    return [_finding(row, topology, away) for row in rows if row["rule"] in _KNOWN]


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
    """Return those of the columns `names` that the row has. They have the same names in the document."""
    return {name: row[name] for name in names if name in row}


def unread_warnings(unread: Mapping[str, str]) -> list[str]:
    """Return the warning about unread topics, as a list of one sentence or none. `unread` is the reason by topic."""
    if not unread:
        return []
    named = ", ".join(sorted(unread)[:_UNREAD_NAMES]) + (", …" if len(unread) > _UNREAD_NAMES else "")
    why = "; ".join(sorted({reason[:_UNREAD_REASON_LENGTH] for reason in unread.values()})[:_UNREAD_REASONS])
    count = plural(len(unread), "topic")
    return [f"{count} could not be read and {be(len(unread))} reported as in the scan before: {named} ({why})"]


def loss_warnings(locations: BrokerLocations) -> list[str]:
    """Return the warning that losses of domains do not count all brokers, as a list of one sentence or none."""
    if not locations.missing:
        return []
    brokers = f"broker{'' if len(locations.missing) == 1 else 's'} {few([*map(str, locations.missing)])}"
    return [f"no rack is known of {brokers}: the loss of a domain may take more than is counted"]


def summary(
    totals: Row, counted: Iterable[Row], unfair: Iterable[Row], locations: BrokerLocations, unread: int
) -> Summary:
    """Return the summary of a scan.

    `totals` are sums over all topics, with and without findings. `counted` has the number of findings by rule and
    severity, and when the oldest was first seen. `unfair` has the number of unfairly split partitions by level.
    `unread` is the number of topics that could not be read; `totals` has their rows of the previous scan, if any.
    """
    by_rule: dict[str, int] = {}
    by_severity: dict[str, int] = {}
    since: dict[str, datetime] = {}
    for row in counted:
        by_rule[row["rule"]] = by_rule.get(row["rule"], 0) + row["findings"]
        by_severity[row["severity"]] = by_severity.get(row["severity"], 0) + row["findings"]
        since[row["rule"]] = min(since.get(row["rule"], row["first_seen"]), row["first_seen"])
    return Summary(
        brokers=len(locations.brokers),
        **{name: totals[name] for name in _SUMMED},
        findings=sum(by_rule.values()),
        by_rule=dict(sorted(by_rule.items())),
        by_severity={str(one): by_severity[one] for one in Severity if one in by_severity},
        since_by_rule={rule: codec.timestamp(when) for rule, when in sorted(since.items())},
        unfair={row["level"]: row["partitions"] for row in unfair},
        unread_topics=unread,
    )


def what_if(row: Row) -> WhatIf:
    """Return the effect of losing the domain in a row of `holdings`."""
    return WhatIf(row["offline"], row["not_writable"], row["last_replica"], row["replicas"], row["bytes"])


def domain_rows(holdings: Iterable[Row], locations: BrokerLocations, wrong: Iterable[Row]) -> list[DomainRow]:
    """Return domains with holdings, level by level from the top, in the tree's order. `wrong`: findings by domain."""
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
    """Return a broker's rack as a path, or None if it has no rack."""
    return None if broker.rack is None else domain_name(broker.rack)


def broker_rows(
    holdings: Iterable[Row], locations: BrokerLocations, wrong: Iterable[Row], flaps: Mapping[int, int]
) -> list[BrokerRow]:
    """Return all brokers by id. `wrong` are findings by broker, `flaps` recent changes of online and offline."""
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


def topic_rows(topics: Iterable[Row], managed: Mapping[str, object], minutes: Mapping[str, float]) -> list[TopicRow]:
    """Return rows of topics. `managed` are the topics that have an object, `minutes` violation minutes by topic."""
    return [
        TopicRow(
            name=row["topic"],
            min_insync_replicas=row["min_insync"],
            managed=row["topic"] in managed,
            first_seen=timestamp(row["first_seen"]),
            violation_minutes=round(minutes.get(row["topic"], 0.0), 1),
            **_pick(row, *_OF_TOPIC),
        )
        for row in topics
    ]


def writes(
    by_rack: Iterable[Row], by_topic: Iterable[Row], producers: Mapping[str, int], locations: BrokerLocations
) -> Writes | None:
    """Return how near producers write, or None if no producers are given.

    The rows are those of `aggregates.written_by_rack` and `written_by_topic`. `producers` is the number of producers by
    `client.rack`.
    """
    if not producers:
        return None
    of = {row["client_rack"]: {name: row[name] / row["partitions"] for name in SHARES} for row in by_rack}
    of = {rack: of.get(rack, dict.fromkeys(SHARES, 0.0)) for rack in sorted(producers)}
    every = sum(producers.values())
    reported = {broker.reported_rack for broker in locations.brokers}
    return Writes(
        **_shares({name: sum(of[rack][name] * producers[rack] for rack in of) / every for name in SHARES}),
        racks=[
            ProducersRow(rack, producers[rack], reported=rack in reported, **_shares(shares))
            for rack, shares in of.items()
        ],
        topics=[WritesRow(row["topic"], row["partitions"], **_shares(row)) for row in by_topic],
    )


def _shares(row: Row) -> dict[str, float]:
    return {name: round(row[name], 6) for name in SHARES}


def trend(days: Iterable[Row]) -> list[Day]:
    """Return days or hours of the history, from rows of `aggregates.days` or `aggregates.hours`."""
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

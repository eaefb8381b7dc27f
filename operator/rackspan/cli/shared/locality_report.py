"""How near consumer groups read, as a table with what to change, and as a document."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from rackspan.cli.rendering.tables import console, count, print_hidden, table
from rackspan.cli.shared.live_groups import LiveGroups
from rackspan.core.consumers.advice import Advice, advise
from rackspan.core.consumers.group_locality import GroupSeen, Locality, Selector
from rackspan.core.text import plural, size
from rackspan.reports.group_rows import worst_first

_ROWS = 20
_GB = 10**9
_SECONDS_PER_MONTH = 730 * 3600
"""730 hours, the month that cloud providers bill."""


@dataclass(frozen=True, slots=True)
class Price:
    """The price of 10⁹ bytes between domains. The currency is only a label."""

    per_gb: float
    currency: str

    def per_month(self, bytes_per_second: float) -> float:
        """Return the cost of a month of 730 hours at a rate."""
        return bytes_per_second * _SECONDS_PER_MONTH / _GB * self.per_gb


@dataclass(frozen=True, slots=True)
class GroupLocality:
    """One group, how near it reads, and the changes that let it read nearer."""

    group: GroupSeen
    found: Locality
    advice: tuple[Advice, ...]


@dataclass(frozen=True, slots=True)
class LocalityReport:
    """Groups, the worst first. `seconds` is how long offsets were sampled, None if they were not."""

    level: str
    selector: Selector
    rows: tuple[GroupLocality, ...]
    seconds: float | None
    price: Price | None

    @classmethod
    def of(cls, seen: LiveGroups, seconds: float | None, price: Price | None) -> Self:
        """Return the report on groups."""
        ordered = worst_first(seen.replicas, seen.groups, seen.host_racks, seen.selector, seen.rates_of)
        rows = tuple(
            GroupLocality(group, found, advise(seen.replicas, group, found, seen.selector)) for group, found in ordered
        )
        return cls(seen.replicas.level, seen.selector, rows, seconds, price)

    @property
    def cross_bytes_per_second(self) -> float | None:
        """The sum over all groups, None if no rate is known."""
        known = [row.found.cross_bytes_per_second for row in self.rows]
        rates = [rate for rate in known if rate is not None]
        return sum(rates) if rates else None


def document(report: LocalityReport) -> Mapping[str, Any]:
    """Return the report for programs."""
    return {
        "level": report.level,
        "selector": str(report.selector),
        "sampleSeconds": report.seconds,
        "pricePerGb": report.price.per_gb if report.price else None,
        "currency": report.price.currency if report.price else None,
        "crossBytesPerSecond": report.cross_bytes_per_second,
        "costPerMonth": monthly_cost(report.price, report.cross_bytes_per_second),
        "groups": _groups(report),
    }


def _groups(report: LocalityReport) -> Iterator[Mapping[str, Any]]:
    for row in report.rows:
        found = row.found
        yield {
            "group": row.group.name,
            "protocol": str(row.group.protocol),
            "assignor": row.group.assignor or None,
            "members": found.members,
            "membersWithoutRack": found.members_without_rack,
            "partitions": found.partitions,
            "near": found.near,
            "readsNear": found.reads_near,
            "readsFar": found.reads_far,
            "couldBeNear": found.could_be_near,
            "shareNotReadNear": round(found.share_not_read_near, 6),
            "crossBytesPerSecond": found.cross_bytes_per_second,
            "costPerMonth": monthly_cost(report.price, found.cross_bytes_per_second),
            "advice": [{"code": str(one.code), "message": one.message} for one in row.advice],
        }


def monthly_cost(price: Price | None, rate: float | None) -> float | None:
    """Return the monthly cost of a rate for a document, None if the price or the rate is not known."""
    return None if price is None or rate is None else round(price.per_month(rate), 2)


def print_report(report: LocalityReport, *, show_all: bool) -> None:
    """Print the report for people: groups that have members, the worst first, then what to change."""
    screen = console()
    reading = [row for row in report.rows if row.found.members]
    idle = len(report.rows) - len(reading)
    shown = reading if show_all else reading[:_ROWS]
    for line in _summary(report, reading):
        screen.print(line)
    if shown:
        sampled = report.seconds is not None
        rates = rate_headings("#from afar", report.price, sampled=sampled)
        rows = table("group", "#members", "#partitions", "#near", "#reads near", "#could be near", *rates)
        for row in shown:
            found = row.found
            numbers = (f"{one:,}" for one in (found.members, found.partitions, found.near, found.reads_near))
            could_be_near = count(found.could_be_near, "yellow" if found.could_be_near > found.near else "")
            cells = rate_cells(found.cross_bytes_per_second, report.price, sampled=sampled)
            rows.add_row(row.group.name, *numbers, could_be_near, *cells)
        screen.print(rows)
    print_hidden(screen, len(reading) - len(shown), "more group")
    for row in shown:
        for one in row.advice:
            screen.print(f"{row.group.name}: {one.message}")
    if idle:
        screen.print(f"{plural(idle, 'group')} without members {'reads' if idle == 1 else 'read'} nothing")


def _summary(report: LocalityReport, reading: list[GroupLocality]) -> Iterator[str]:
    partitions = sum(row.found.partitions for row in reading)
    near = sum(row.found.reads_near for row in reading)
    far = sum(row.found.reads_far for row in reading)
    unknown = partitions - near - far
    yield (
        f"{plural(len(reading), 'group')} {'reads' if len(reading) == 1 else 'read'} "
        f"{plural(partitions, 'partition')}: {near:,} in the member's own {report.level}, {far:,} from another"
        + (f", of {unknown:,} it is not known" if unknown else "")
    )
    if report.seconds is None:
        return
    rate, price = report.cross_bytes_per_second, report.price
    across = "bytes from other domains are not known" if rate is None else f"{size(rate)}/s from other domains"
    cost = ""
    if price is not None and rate is not None:
        cost = f": {price.per_month(rate):,.2f} {price.currency} a month of 730 hours, at {price.per_gb:g} per GB"
    yield f"{across}, by offsets committed in {report.seconds:g} s{cost}"


def rate_headings(heading: str, price: Price | None, *, sampled: bool) -> list[str]:
    """Return the headings for `rate_cells`: bytes per second if `sampled`, and the monthly cost if there is a price."""
    return [*([heading] if sampled else []), *([f"#{price.currency} a month"] if price else [])]


def rate_cells(rate: float | None, price: Price | None, *, sampled: bool) -> Iterator[str]:
    """Yield the cells for the columns of `rate_headings`. `rate` is in bytes per second, None if not known."""
    if sampled:
        yield "?" if rate is None else f"{size(rate)}/s"
    if price is not None:
        yield "?" if rate is None else f"{price.per_month(rate):,.2f}"

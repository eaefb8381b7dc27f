"""How near producers write, as a table with possible improvements, and as a document."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Self

from rackspan.cli.rendering.tables import console, print_hidden, table
from rackspan.cli.shared.live_groups import LiveGroups
from rackspan.cli.shared.locality_report import Price, monthly_cost, rate_cells, rate_headings
from rackspan.core.text import plural, size
from rackspan.core.write_locality import WriteLocality, write_localities

_ROWS = 20
_near, _near_by_rack, _could_be_near = map(attrgetter, ("near", "near_by_rack", "could_be_near"))


@dataclass(frozen=True, slots=True)
class WritesReport:
    """Topics, those with the most writes from afar first.

    `foreign` are producers' rack ids that no broker reports. `sampled` says whether the bytes of any topic are known.
    """

    level: str
    rows: tuple[WriteLocality, ...]
    foreign: tuple[str, ...]
    producers: int
    price: Price | None
    sampled: bool

    @classmethod
    def of(cls, seen: LiveGroups, producers: Mapping[str, int], price: Price | None) -> Self:
        """Return the report on topics."""
        rows = write_localities(seen.replicas, producers, seen.written)
        worst = sorted(rows, key=lambda row: (-_afar(row.near, row), row.near, row.topic))
        foreign = tuple(rack for rack in producers if not seen.replicas.is_reported(rack))
        sampled = any(row.bytes_per_second is not None for row in rows)
        return cls(seen.replicas.level, tuple(worst), foreign, len(producers), price, sampled)

    def share(self, near: Callable[[WriteLocality], float]) -> float:
        """Return the near share of all writes, by bytes if they are known, else by partitions."""
        known = any(row.bytes_per_second for row in self.rows)
        weights = [row.bytes_per_second or 0.0 if known else row.partitions for row in self.rows]
        whole = sum(weights)
        return sum(weight * near(row) for weight, row in zip(weights, self.rows, strict=True)) / whole if whole else 0.0

    def afar(self, near: Callable[[WriteLocality], float]) -> float | None:
        """Return the bytes per second to other domains, None if no rate is known."""
        known = [row for row in self.rows if row.bytes_per_second is not None]
        return sum(_afar(near(row), row) for row in known) if known else None


def document(report: WritesReport) -> Mapping[str, Any]:
    """Return the report for programs."""
    return {
        "near": round(report.share(_near), 6),
        "nearByRack": round(report.share(_near_by_rack), 6),
        "couldBeNear": round(report.share(_could_be_near), 6),
        "crossBytesPerSecond": report.afar(_near),
        "costPerMonth": monthly_cost(report.price, report.afar(_near)),
        "unreportedRacks": list(report.foreign),
        "topics": [
            {
                "topic": row.topic,
                "partitions": row.partitions,
                "near": round(row.near, 6),
                "nearByRack": round(row.near_by_rack, 6),
                "couldBeNear": round(row.could_be_near, 6),
                "bytesPerSecond": row.bytes_per_second,
            }
            for row in report.rows
        ],
    }


def print_report(report: WritesReport, *, show_all: bool) -> None:
    """Print the report for people: the topics that producers in other domains write to, the worst first."""
    screen = console()
    screen.print("")
    for line in _summary(report):
        screen.print(line)
    far = [row for row in report.rows if row.near < 1]
    shown = far if show_all else far[:_ROWS]
    if shown:
        rates = rate_headings("#to afar", report.price, sampled=report.sampled)
        rows = table("topic", "#partitions", "#near", "#by rack", "#could be near", *rates)
        for row in shown:
            shares = (f"{share:.0%}" for share in (row.near, row.near_by_rack, row.could_be_near))
            rate = None if row.bytes_per_second is None else _afar(row.near, row)
            cells = rate_cells(rate, report.price, sampled=report.sampled)
            rows.add_row(row.topic, f"{row.partitions:,}", *shares, *cells)
        screen.print(rows)
    print_hidden(screen, len(far) - len(shown), "more topic")
    if report.share(_could_be_near) > report.share(_near):
        screen.print("could be near: with spec.placement.leaders of a KafkaTopic where most of its producers are")
    if report.foreign:
        screen.print(
            f"no broker reports {plural(len(report.foreign), 'rack id')} of producers, such as {report.foreign[0]}: "
            "partitioner.rack.aware compares whole ids (KIP-1123)"
        )


def _summary(report: WritesReport) -> Iterator[str]:
    yield (
        f"producers in {plural(report.producers, 'rack')} write to {plural(len(report.rows), 'topic')}: "
        f"{report.share(_near):.0%} to leaders in their own {report.level}, with partitioner.rack.aware "
        f"{report.share(_near_by_rack):.0%} of records without a key, with other leaders "
        f"{report.share(_could_be_near):.0%}"
    )
    rate = report.afar(_near)
    if rate is not None:
        cost = f": {report.price.per_month(rate):,.2f} {report.price.currency} a month" if report.price else ""
        yield f"{size(rate)}/s to other domains{cost}"


def _afar(near: float, row: WriteLocality) -> float:
    return (row.bytes_per_second or 0.0) * (1 - near)

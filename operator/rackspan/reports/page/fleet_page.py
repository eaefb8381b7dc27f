"""The page of a fleet: a row per cluster, with a link to the page of its scan. It has no scripts."""

from collections.abc import Sequence

from rackspan.reports.document import Day
from rackspan.reports.page.fleet import FleetRow
from rackspan.reports.page.rendering import environment, static_text

_WIDTH, _HEIGHT, _MARGIN = 96, 22, 2
_FLOOR = 0.9
"""The lower end of a trend's axis, unless a share is lower."""


def render_fleet(rows: Sequence[FleetRow]) -> str:
    """Return the page. Every text is escaped, and the page's own policy forbids scripts and requests."""
    template = environment().get_template("fleet.html.j2")
    return template.render(
        rows=rows,
        trends={row.scan.cluster: sparkline(row.scan.trend) for row in rows},
        width=_WIDTH,
        height=_HEIGHT,
        policy="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'",
        style=static_text("style.css"),
    )


def sparkline(days: Sequence[Day]) -> str:
    """Return the points of a line of compliant shares by day, for SVG's `polyline`. Empty for fewer than two days."""
    shares = [day.compliant_share for day in days]
    if len(shares) < 2:  # noqa: PLR2004 - a line has two ends
        return ""
    floor = min(_FLOOR, *shares)
    step = (_WIDTH - 2 * _MARGIN) / (len(shares) - 1)
    rise = (_HEIGHT - 2 * _MARGIN) / (1 - floor)
    return " ".join(
        f"{_MARGIN + at * step:.1f},{_HEIGHT - _MARGIN - (share - floor) * rise:.1f}" for at, share in enumerate(shares)
    )

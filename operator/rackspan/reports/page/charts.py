"""The charts, as Bokeh's JSON: the trend by day, and the heat maps of replicas and leaders.

The browser sets the colours, because only the browser knows whether the page is light or dark. Bokeh's formatters in
JavaScript are not used: they need `eval`, which the policy of the page forbids.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bokeh.core.properties import value as constant
from bokeh.embed import json_item
from bokeh.models import (
    BasicTicker,
    ColumnDataSource,
    DatetimeTicker,
    DatetimeTickFormatter,
    HoverTool,
    NumeralTickFormatter,
    PrintfTickFormatter,
    Range1d,
)
from bokeh.plotting import figure
from bokeh.resources import Resources

from rackspan.reports.document import BrokerRow, Day, ScanDocument
from rackspan.reports.page.formats import day, duration, is_hour, share, time
from rackspan.reports.page.tree import Box, rack_tree

_PANEL_HEIGHT = 104
_ROW_HEIGHT = 26
_BROKER_ROW = 1.5  # it holds two lines
_HOUR_MILLISECONDS, _DAY_MILLISECONDS = 3_600_000, 86_400_000
_FONT = "Inter, system-ui, sans-serif"
_BARE: Mapping[str, Any] = {
    "toolbar_location": None,
    "background_fill_color": None,
    "border_fill_color": None,
    "outline_line_color": None,
    "output_backend": "canvas",
}


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart to embed: `item` is Bokeh's JSON, `target` the id of the element for it in the page."""

    target: str
    item: Any


def library() -> str:
    """Return the text of Bokeh's own JavaScript, to be embedded in the page."""
    return "\n".join(Resources(mode="inline", components=["bokeh"]).js_raw)


def trend_charts(days: Sequence[Day]) -> list[Chart]:
    """Return three small charts of the same days or hours: compliant share, findings, minutes of violation."""
    if not days:
        return []
    dated = [(at.timestamp() * 1000, row) for row in days if (at := time(_start(row.date)))]
    unit = _HOUR_MILLISECONDS if is_hour(days[0].date) else _DAY_MILLISECONDS
    data: dict[str, list[Any]] = {
        "at": [at for at, _ in dated],
        "share": [100 * row.compliant_share for _, row in dated],
        "critical": [row.critical for _, row in dated],
        "findings": [row.findings for _, row in dated],
        "minutes": [row.violation_minutes for _, row in dated],
        "day": [day(row.date) for _, row in dated],
        "share_words": [share(row.compliant_share, 1) for _, row in dated],
        "minutes_words": [duration(row.violation_minutes) for _, row in dated],
        "scans": [row.scans for _, row in dated],
    }
    return [
        _panel("trend-share", data, unit, _draw_share, "@day: @share_words, @scans scans"),
        _panel("trend-findings", data, unit, _draw_findings, "@day: @findings, of them @critical critical"),
        _panel("trend-minutes", data, unit, _draw_minutes, "@day: @minutes_words"),
    ]


def _start(date: str) -> str:
    """Return the start of a day or an hour, as RFC 3339."""
    return f"{date}:00:00+00:00" if is_hour(date) else f"{date}T00:00:00+00:00"


def heat_charts(document: ScanDocument) -> list[Chart]:
    """Return two icicle charts of the same brokers: a row per level, a column per broker, coloured by fair share."""
    if not document.brokers:
        return []
    return [
        _icicle("heat-replicas", document, lambda row: row.replicas),
        _icicle("heat-leaders", document, lambda row: row.leaders),
    ]


def _panel(
    target: str, data: dict[str, list[Any]], unit: int, draw: Callable[[Any, Any, int], None], tooltip: str
) -> Chart:
    first, last = (min(data["at"], default=0), max(data["at"], default=0))
    plot = figure(
        height=_PANEL_HEIGHT,
        sizing_mode="stretch_width",
        x_axis_type="datetime",
        x_range=Range1d(start=first - unit * 0.7, end=last + unit * 0.7),
        tools=[HoverTool(tooltips=tooltip, mode="vline", point_policy="follow_mouse")],
        **_BARE,
    )
    draw(plot, ColumnDataSource(data), unit)
    hours = "%e %b" if unit == _DAY_MILLISECONDS else "%H:%M"
    plot.xaxis.formatter = DatetimeTickFormatter(
        days="%e %b", months="%b", years="%Y", hours=hours, hourmin=hours, minutes=hours
    )
    plot.xaxis.ticker = DatetimeTicker(desired_num_ticks=6)
    plot.yaxis.ticker = BasicTicker(desired_num_ticks=3)
    plot.xgrid.visible = False
    plot.axis.minor_tick_line_color = None
    plot.axis.major_tick_line_color = None
    plot.axis.major_label_text_font = _FONT
    plot.axis.major_label_text_font_size = "11px"
    plot.yaxis.axis_line_color = None
    plot.min_border_left = 48
    return Chart(target, _json(plot, target))


def _draw_share(plot: Any, source: Any, _unit: int) -> None:
    lowest = min(source.data["share"], default=0)
    missing = 100 - lowest
    floor = max(0, lowest - max(1, missing * 0.25))
    plot.y_range = Range1d(start=floor, end=100 + max(0.2, missing * 0.08))
    plot.varea("at", y1=floor, y2="share", source=source, fill_alpha=0.14, name="accent")
    plot.line("at", "share", source=source, line_width=2, name="accent")
    plot.scatter("at", "share", source=source, size=3, line_color=None, name="accent")
    plot.yaxis.formatter = PrintfTickFormatter(format="%.0f %%" if lowest < 97 else "%.1f %%")  # noqa: PLR2004


def _draw_findings(plot: Any, source: Any, unit: int) -> None:
    _bars(plot, source, unit, "findings", "soft")
    _bars(plot, source, unit, "critical", "critical")
    plot.y_range.start = 0
    plot.yaxis.formatter = NumeralTickFormatter(format="0,0")


def _draw_minutes(plot: Any, source: Any, unit: int) -> None:
    _bars(plot, source, unit, "minutes", "accent")
    plot.y_range.start = 0
    plot.yaxis.formatter = NumeralTickFormatter(format="0[.]0a")


def _bars(plot: Any, source: Any, unit: int, column: str, name: str) -> None:
    plot.vbar("at", top=column, width=unit * 0.72, source=source, line_color=None, name=name)


def _icicle(target: str, document: ScanDocument, value: Callable[[BrokerRow], int]) -> Chart:
    depth, fair = len(document.levels), sum(map(value, document.brokers)) / len(document.brokers)
    cells = list(_cells(rack_tree(document), 0, depth, fair, value))
    columns = {name: [cell[name] for cell in cells] for name in cells[0]}
    plot = figure(
        height=int(_ROW_HEIGHT * (depth + _BROKER_ROW)) + 2,
        sizing_mode="stretch_width",
        x_range=Range1d(start=0, end=len(document.brokers)),
        y_range=Range1d(start=depth + _BROKER_ROW, end=0),
        tools=[HoverTool(tooltips="@where: @value{0,0}, @against", point_policy="follow_mouse")],
        **_BARE,
    )
    source = ColumnDataSource(columns, name=f"{target}-cells")
    plot.quad(
        left="left", right="right", top="top", bottom="bottom", source=source, fill_color="gray", line_width=1,
        name="cells",
    )  # fmt: skip
    plot.text(
        x="middle", y="row", text="text", source=source, text_align="center", text_baseline="middle",
        text_font_size="11px", text_font=constant(_FONT), name="labels",
    )  # fmt: skip
    plot.axis.visible = False
    plot.grid.visible = False
    plot.min_border = 0
    return Chart(target, _json(plot, target))


def _cells(box: Box, left: int, depth: int, fair: float, value: Callable[[BrokerRow], int]) -> Iterator[dict[str, Any]]:
    """Yield the cells of an icicle chart. All brokers have width 1, so a domain's width is its number of brokers."""
    for inner in box.boxes:
        brokers = inner.every_broker()
        if brokers:
            level = len(inner.domain.strip("/").split("/")) - 1
            held = sum(map(value, brokers))
            yield _cell(level, level + 1, left, len(brokers), held, fair, inner.name, inner.domain)
            yield from _cells(inner, left, depth, fair, value)
            left += len(brokers)
    for broker in box.brokers:
        number = str(broker.id)
        yield _cell(depth, depth + _BROKER_ROW, left, 1, value(broker), fair, number, f"broker {number}")
        left += 1


def _cell(
    top: int, bottom: float, left: int, width: int, value: int, fair: float, name: str, where: str
) -> dict[str, Any]:
    ratio = value / (fair * width) if fair else 1.0
    return {
        "left": left, "right": left + width, "top": top, "bottom": bottom, "middle": left + width / 2,
        "row": (top + bottom) / 2, "ratio": ratio, "value": value, "name": name, "text": "", "where": where,
        "against": _against(ratio),
    }  # fmt: skip


def _against(ratio: float) -> str:
    percent = round(100 * (ratio - 1))
    if not percent:
        return "a fair share"
    return f"{abs(percent)} % {'more' if percent > 0 else 'less'} than a fair share"


def _json(plot: Any, target: str) -> Any:
    """Return Bokeh's JSON with ids per chart. Bokeh's own ids count up, so the same chart would differ each time."""
    ids: dict[str, str] = {}

    def renamed(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: renamed(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [renamed(item) for item in value]
        return ids.setdefault(value, f"{target}-{len(ids)}") if key in ("id", "root_id") else value

    return renamed(json_item(plot, target))  # type: ignore[arg-type]

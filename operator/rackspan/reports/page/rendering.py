"""The page: a template, its style and scripts, and a scan document, in one HTML file that needs no network."""

import base64
import hashlib
import json
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec import to_builtins

from rackspan.core.scanning.rules import SEVERITIES
from rackspan.core.text import plural, size
from rackspan.reports.document import ScanDocument, ScanOutcome
from rackspan.reports.page import formats
from rackspan.reports.page.assessment import assessment
from rackspan.reports.page.charts import heat_charts, library, trend_charts
from rackspan.reports.page.smallest_loss import smallest_loss
from rackspan.reports.page.tree import rack_tree
from rackspan.reports.page.vocabulary import RULES, where

_SCRIPTS = ("page.js", "map.js", "findings.js", "whatif.js", "charts.js")


def render(document: ScanDocument) -> str:
    """Return the page of a scan.

    The template escapes every text of the document. The page's own policy allows its scripts by their hashes and
    forbids everything else, so a text that is not escaped still cannot run.
    """
    template = environment().get_template("page.html.j2")
    failed = document.state is ScanOutcome.FAILED
    charts = [] if failed else [*trend_charts(document.hours or document.trend), *heat_charts(document)]
    scripts = ([_bokeh()] if charts else []) + [_own_script()]
    data = {
        "document": to_builtins(document),
        "charts": [asdict(chart) for chart in charts],
        "rules": RULES,
        "severities": SEVERITIES,
        "loss": to_builtins(smallest_loss(document)),
    }
    return template.render(
        scan=document,
        failed=failed,
        assessment=assessment(document),
        root=rack_tree(document),
        loss=data["loss"],
        rules=RULES,
        severities=SEVERITIES,
        data=_inert(data),
        style=static_text("style.css"),
        scripts=scripts,
        policy=_policy(scripts),
    )


@cache
def environment() -> Environment:
    """Return the templates, with filters for numbers and times. They escape all texts."""
    made = Environment(
        loader=PackageLoader("rackspan.reports.page", "static"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        {name: getattr(formats, name) for name in ("share", "duration", "moment", "day", "ago")}
        | {"plural": plural, "size": size, "where": where}
    )
    return made


def static_text(name: str) -> str:
    """Return the text of a file in the directory of the templates."""
    return files("rackspan.reports.page").joinpath("static", name).read_text(encoding="utf-8")


@cache
def _own_script() -> str:
    return "\n".join(static_text(name) for name in _SCRIPTS)


@cache
def _bokeh() -> str:
    return library().replace("\r", "")  # browsers remove it, and then the hash differs


def _policy(scripts: list[str]) -> str:
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _inert(data: Any) -> str:
    """Return JSON that cannot close the HTML element that contains it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")

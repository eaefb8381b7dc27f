"""A scan as text: Markdown for people and their tickets, CSV of its findings for spreadsheets."""

import csv
import io
import re
from collections.abc import Iterable, Iterator

from msgspec import to_builtins
from msgspec.structs import fields

from rackspan.core.text import plural, shown
from rackspan.reports.document import FindingRow, ScanDocument
from rackspan.reports.page.assessment import assessment
from rackspan.reports.page.formats import moment
from rackspan.reports.page.vocabulary import RULES, where

_ROWS = 50
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~]|(?<=www)\.)", re.IGNORECASE)
_LIVE = re.compile(r"(@|#|[a-z]:(?=/)|(?:mailto|xmpp):|GH-(?=\d))", re.IGNORECASE)
"""Texts that GitHub and GitLab turn into links and notifications after they parse Markdown, even with a backslash."""
_NO_LINK = "&#8203;"
"""A zero-width space."""
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def markdown(document: ScanDocument) -> str:
    """Return assessment, counts by rule and worst findings as Markdown. Texts of the cluster cannot become markup."""
    said = assessment(document)
    summary = document.summary
    lines = [f"# {plain(document.cluster)}, {moment(document.finished_at)}", ""]
    lines += [" ".join((f"**{plain(said.headline)}**", *map(plain, said.details))), ""]
    lines += [line for warning in document.warnings for line in (f"Warning: {plain(warning)}", "")]
    if summary.by_rule:
        rows = [(plain(RULES.get(rule, rule)), f"{summary.by_rule[rule]:,}") for rule in _in_order(summary.by_rule)]
        lines += [*_table(("rule", "findings"), rows), ""]
    if document.findings:
        listed = document.findings[:_ROWS]
        headings = ("severity", "rule", "where", "what is wrong", "to fix it", "to copy")
        lines += _table(headings, (_row(finding) for finding in listed))
        left = max(summary.findings, len(document.findings)) - len(listed)
        lines += ["", *([f"and {plural(left, 'more finding')}"] if left else [])]
    return "\n".join(lines).rstrip() + "\n"


def comma_separated(document: ScanDocument) -> str:
    """Return the listed findings as CSV. The heading line has the field names of the scan document.

    Texts that look like a formula to a spreadsheet get an apostrophe in front, against CSV injection (OWASP).
    """
    written = io.StringIO()
    names = [field.encode_name for field in fields(FindingRow)]
    writer = csv.DictWriter(written, names, lineterminator="\n")
    writer.writeheader()
    for finding in document.findings:
        writer.writerow({name: _cell(value) for name, value in to_builtins(finding).items()})
    return written.getvalue()


def _in_order(rules: Iterable[str]) -> list[str]:
    order = list(RULES)
    return sorted(rules, key=lambda rule: order.index(rule) if rule in order else len(order))


def _row(finding: FindingRow) -> tuple[str, ...]:
    texts = (finding.severity, RULES.get(finding.rule, finding.rule), where(finding), finding.message, finding.fix)
    return (*map(plain, texts), f"{finding.moves:,}")


def _table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield f"|{'---|' * len(headings)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def plain(text: str) -> str:
    """Return Markdown that shows a text literally, without markup, links, or mentions of users and issues."""
    escaped = _SPECIAL.sub(r"\\\1", shown(" ".join(text.split())).replace("&", "&amp;"))
    return _LIVE.sub(rf"\1{_NO_LINK}", escaped)


def code(name: str) -> str:
    """Return Markdown that shows a name as code if it is a valid Kafka name, else as plain text."""
    return f"`{name}`" if _NAME.fullmatch(name) else plain(name)


def _cell(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value

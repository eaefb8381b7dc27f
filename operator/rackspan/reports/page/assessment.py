"""The assessment: what is wrong, since when, and what a fix costs, in sentences."""

from dataclasses import dataclass

from rackspan.core.copy_costs import time_to_copy
from rackspan.core.scanning.messages import not_judged
from rackspan.core.scanning.rules import SEVERITIES, Rule
from rackspan.core.text import be, plural, size
from rackspan.reports.document import ScanDocument, ScanOutcome
from rackspan.reports.page.formats import ago


@dataclass(frozen=True, slots=True)
class Assessment:
    """`tone` is a severity, `fine` or `failed`. `headline` is the main sentence, `details` are further sentences."""

    tone: str
    headline: str
    details: tuple[str, ...]


def assessment(document: ScanDocument) -> Assessment:
    """Return a summary of the scan: what is wrong, since when, and what a fix copies."""
    if document.state is ScanOutcome.FAILED:
        said = document.message or "Nobody wrote down why."
        return Assessment("failed", "This scan failed, so it says nothing about the cluster.", (said,))
    summary = document.summary
    unknown = _unknown(document)
    if not summary.findings and not summary.non_compliant:
        if unknown:
            return Assessment("medium", unknown, ("Nothing is wrong with the others.",))
        return Assessment("fine", "Nothing is wrong.", (_all_fine(document),))
    details = (_since(document), _cost(document), _never_mended(document), unknown)
    tone = next((name for name in SEVERITIES if summary.by_severity.get(name)), "medium")
    return Assessment(tone, _headline(document), tuple(filter(None, details)))


def _all_fine(document: ScanDocument) -> str:
    summary = document.summary
    if not summary.partitions:
        return f"The cluster has {plural(summary.brokers, 'broker')} and no partitions yet."
    levels = " and ".join(filter(None, (", ".join(document.levels[:-1]), *document.levels[-1:])))
    over = f"fairly over every {levels}" if levels else "fairly over the brokers"
    partitions = f"{plural(summary.partitions, 'partition')} of {plural(summary.topics, 'topic')}"
    those = "The only partition is" if summary.partitions == 1 else f"All {partitions} are"
    return f"{those} online, fully replicated and spread {over}."


def _headline(document: ScanDocument) -> str:
    summary = document.summary
    said = [(number, what) for number, what, _ in _wrong(document) if number]
    if not said:
        lesser = (
            f"{plural(summary.findings, 'finding')} of {'a lesser kind' if summary.findings == 1 else 'lesser kinds'}"
        )
        those = "Every partition that can be judged" if _unknown(document) else "Every partition"
        return f"{those} is where it should be, but there {be(summary.findings)} {lesser}."
    (number, what), *rest = said
    parts = [f"{number:,} of {plural(summary.partitions, 'partition')} {be(number)} {what}"]
    parts += [f"{number:,} {be(number)} {what}" for number, what in rest]
    return f"{_and(parts)}."


def _wrong(document: ScanDocument) -> list[tuple[int, str, str]]:
    """Return partition counts, what is wrong with the partitions, and the rule of the finding, the worst first."""
    summary = document.summary
    return [
        (summary.offline, "offline", "Offline"),
        (summary.under_replicated, "under-replicated", "UnderReplicated"),
        (summary.non_compliant, "spread unfairly", "NotCompliant"),
    ]


def _since(document: ScanDocument) -> str:
    rules = [(what, rule) for number, what, rule in _wrong(document) if number]
    lasting = [(what, _lasted(document, rule)) for what, rule in rules]
    parts = [f"{what} for {lasted}" for what, lasted in lasting if lasted]
    if not rules and (lasted := _lasted(document)):
        parts = [f"the oldest for {lasted}"]
    return f"{', '.join(parts).capitalize()}." if parts else ""


def _lasted(document: ScanDocument, rule: str = "") -> str:
    """Return the time since the oldest finding of a rule, or of all rules, was first seen. Empty if not known."""
    known = document.summary.since_by_rule
    seen = [since for one, since in known.items() if rule in ("", one)]
    if not known:  # an earlier version wrote the document
        seen = [row.first_seen for row in document.findings if row.first_seen and rule in ("", row.rule)]
    return ago(min(seen, default=None), document.finished_at)


def _cost(document: ScanDocument) -> str:
    summary = document.summary
    if not summary.moves:
        return "" if _never_mended(document) or _unknown(document) else "A fix copies no data."
    number = summary.move_bytes
    cost = "" if number is None else f" ({size(number)}){time_to_copy(number, document.throttle)}"
    return f"A fix copies {plural(summary.moves, 'replica')}{cost}."


def _never_mended(document: ScanDocument) -> str:
    never = document.summary.by_rule.get(Rule.UNSATISFIABLE, 0)
    it = "it" if never == 1 else "them"
    return f"No move fixes {plural(never, 'partition')}: too few brokers may hold {it}." if never else ""


def _unknown(document: ScanDocument) -> str:
    topics = not_judged(document.summary.unread_topics, document.summary.by_rule)
    return f"{topics}." if topics else ""


def _and(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"

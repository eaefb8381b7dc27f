"""Findings of `rackspan check` for CI: SARIF 2.1.0 for code scanning, and JUnit's XML for reports of tests."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from rackspan.core.scanning.rules import ALARMING, RULES, SEVERITY_OF, Severity
from rackspan.core.text import shown
from rackspan.reports.page.vocabulary import RULES as NAMES

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {
    Severity.CRITICAL: "error",
    Severity.HIGH: "error",
    Severity.MEDIUM: "warning",
    Severity.LOW: "warning",
    Severity.INFO: "note",
}
_BRACKETS: Final = str.maketrans({"\\": r"\\", "[": r"\[", "]": r"\]"})
"""In SARIF's messages, text in brackets is a link."""
Finding = Mapping[str, Any]
"""One of the documents that `check -o json` lists."""


def sarif(findings: Iterable[Finding], source: str, version: str) -> dict[str, Any]:
    """
    Give a log of one run, to be printed as JSON. `source` is the file or the cluster that was looked at.

    A finding is about partitions and brokers. Tools that show files show it at the first line of the source.
    """
    rules = [
        {
            "id": str(rule),
            "shortDescription": {"text": NAMES.get(rule, str(rule))},
            "defaultConfiguration": {"level": _LEVELS[SEVERITY_OF[rule]]},
        }
        for rule in RULES
    ]
    driver = {"name": "rackspan", "version": version, "rules": rules}
    results = [_result(finding, quote(source)) for finding in findings]
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _result(finding: Finding, uri: str) -> dict[str, Any]:
    text = ". ".join(filter(None, (finding["message"], finding["fix"])))
    about = subject(finding)
    location = {
        "physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": 1}},
        "logicalLocations": [{"fullyQualifiedName": about, "kind": "resource"}],
    }
    return {
        "ruleId": finding["rule"],
        "ruleIndex": RULES.index(finding["rule"]),
        "level": _LEVELS[Severity(finding["severity"])],
        "message": {"text": f"{about}: {shown(text)}".translate(_BRACKETS)},
        "locations": [location],
        "partialFingerprints": {"rackspan/v1": finding["id"]},
    }


def junit(findings: Iterable[Finding], topics: Sequence[str]) -> Iterator[str]:
    """
    Give the lines of a report with a test for each topic, and for each broker with a finding.

    A test fails where `check` ends with exit code 1: for findings that are critical or high. Others are its output.
    """
    ordered = sorted(findings, key=_test)
    by_test = {name: [*some] for name, some in groupby(ordered, key=_test)}
    tests = dict.fromkeys([*(("topic", name) for name in topics), *by_test])
    failures = sum(any(Severity(one["severity"]) in ALARMING for one in some) for some in by_test.values())
    counts = f'tests="{len(tests)}" failures="{failures}" errors="0"'
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f'<testsuites name="rackspan check" {counts}>'
    yield f'<testsuite name="rackspan check" {counts} skipped="0">'
    for kind, name in sorted(tests):
        start = f"<testcase classname={quoteattr(f'rackspan.{kind}')} name={quoteattr(shown(name))}"
        some = by_test.get((kind, name))
        if some is None:
            yield f"{start}/>"
            continue
        yield f"{start}>"
        yield from _outcome(some)
        yield "</testcase>"
    yield "</testsuite>"
    yield "</testsuites>"


def _outcome(findings: Sequence[Finding]) -> Iterator[str]:
    bad = [one for one in findings if Severity(one["severity"]) in ALARMING]
    others = [one for one in findings if Severity(one["severity"]) not in ALARMING]
    if bad:
        message = f"{subject(bad[0])}: {shown(bad[0]['message'])}"
        yield f"<failure type={quoteattr(bad[0]['rule'])} message={quoteattr(message)}>{_lines(bad)}</failure>"
    if others:
        yield f"<system-out>{_lines(others)}</system-out>"


def _lines(findings: Iterable[Finding]) -> str:
    return escape("\n".join(f"{one['rule']}: {subject(one)}: {shown(one['message'])} {one['fix']}" for one in findings))


def _test(finding: Finding) -> tuple[str, str]:
    if finding["topic"] is not None:
        return "topic", finding["topic"]
    return ("broker", str(finding["broker"])) if finding["broker"] is not None else ("cluster", "cluster")


def subject(finding: Finding) -> str:
    """What a finding is about: `orders-3`, `orders`, `broker 7` or `cluster`."""
    topic, partition, broker = finding["topic"], finding["partition"], finding["broker"]
    if topic is not None:
        return shown(topic if partition is None else f"{topic}-{partition}")
    return f"broker {broker}" if broker is not None else "cluster"

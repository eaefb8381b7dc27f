"""Findings of `rackspan check` for CI: SARIF 2.1.0 for code scanning, and JUnit's XML for reports of tests."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from rackspan.core.scanning.messages import place
from rackspan.core.scanning.rules import ALARMING, PLACEMENT_RULES, RULES, SEVERITY_OF, Rule, Severity
from rackspan.core.text import be, plural, shown
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
    """Return a log of one run, to be printed as JSON. `source` is the file or the cluster that was checked.

    Findings are about partitions and brokers, not lines. Tools that show files show them at line 1 of the source.
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
    about = subject(finding)
    location = {
        "physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": 1}},
        "logicalLocations": [{"fullyQualifiedName": about, "kind": "resource"}],
    }
    return {
        "ruleId": finding["rule"],
        "ruleIndex": RULES.index(finding["rule"]),
        "level": _LEVELS[Severity(finding["severity"])],
        "message": {"text": _sentences(finding).translate(_BRACKETS)},
        "locations": [location],
        "partialFingerprints": {"rackspan/v1": finding["id"]},
    }


def junit(findings: Iterable[Finding], broken: Mapping[str, int]) -> Iterator[str]:
    """Yield the lines of a report with a test for each topic, and for each broker with a finding.

    `broken` is the number of non-compliant partitions of each topic. A test fails for these, and for critical and high
    findings, which also make `check` end with exit code 1. Other findings are the output of the test.
    """
    tests: dict[tuple[str, str], list[Finding]] = {("topic", name): [] for name in broken}
    for one in findings:
        tests.setdefault(_test(one), []).append(one)
    for name, count in broken.items():
        some = tests["topic", name]
        if count and not any(one["rule"] in PLACEMENT_RULES for one in some):
            some.append(_out_of_compliance(name, count))
    failures = sum(any(map(_fails, some)) for some in tests.values())
    counts = f'tests="{len(tests)}" failures="{failures}" errors="0"'
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f'<testsuites name="rackspan check" {counts}>'
    yield f'<testsuite name="rackspan check" {counts} skipped="0">'
    for (kind, name), some in sorted(tests.items(), key=itemgetter(0)):
        start = f"<testcase classname={quoteattr(f'rackspan.{kind}')} name={quoteattr(shown(name))}"
        if not some:
            yield f"{start}/>"
            continue
        yield f"{start}>"
        yield from _outcome(some)
        yield "</testcase>"
    yield "</testsuite>"
    yield "</testsuites>"


def _outcome(findings: Sequence[Finding]) -> Iterator[str]:
    bad = [one for one in findings if _fails(one)]
    others = [one for one in findings if not _fails(one)]
    if bad:
        message = f"{subject(bad[0])}: {shown(bad[0]['message'])}"
        yield f"<failure type={quoteattr(bad[0]['rule'])} message={quoteattr(message)}>{_lines(bad)}</failure>"
    if others:
        yield f"<system-out>{_lines(others)}</system-out>"


def _fails(finding: Finding) -> bool:
    return finding["rule"] in PLACEMENT_RULES or Severity(finding["severity"]) in ALARMING


def _out_of_compliance(topic: str, partitions: int) -> Finding:
    """Return the finding that fails a topic's test if the cause is only reported in findings about offline brokers."""
    message = f"{plural(partitions, 'partition')} {be(partitions)} out of compliance"
    about = {"topic": topic, "partition": None, "broker": None}
    return {**about, "rule": Rule.NOT_COMPLIANT, "severity": Severity.HIGH, "message": message, "fix": ""}


def _lines(findings: Iterable[Finding]) -> str:
    return escape("\n".join(f"{one['rule']}: {_sentences(one)}" for one in findings))


def _sentences(finding: Finding) -> str:
    """Return the subject of a finding, what is wrong, and what fixes it."""
    return f"{subject(finding)}: {shown('. '.join(filter(None, (finding['message'], finding['fix']))))}"


def _test(finding: Finding) -> tuple[str, str]:
    if finding["topic"] is not None:
        return "topic", finding["topic"]
    return ("broker", str(finding["broker"])) if finding["broker"] is not None else ("cluster", "cluster")


def subject(finding: Finding) -> str:
    """Return what a finding is about: `orders-3`, `orders`, `broker 7` or `cluster`."""
    return shown(place(finding["topic"], finding["partition"], finding["broker"]))

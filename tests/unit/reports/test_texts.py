"""Markdown and CSV of a scan."""

import csv
import io

import msgspec
from dev import example_scan

from rackspan.reports.document import FindingRow
from rackspan.reports.texts import comma_separated, markdown


def test_markdown_has_the_verdict_the_rules_and_the_worst_findings():
    document = example_scan.example()
    text = markdown(document)
    assert text.startswith("# kafka/main, 20 Nov 2026, 06:04 UTC\n\n**3 of 726 partitions are offline")
    assert "| Unfair spread | 34 |" in text
    first = document.findings[0]
    assert f"| critical | Offline | {first.topic}-{first.partition} |" in text
    assert f"and {document.summary.findings - 50} more findings" in text


def test_markdown_of_a_failed_scan_says_why():
    assert "connection refused" in markdown(example_scan.failed())


def test_texts_cannot_become_markdown():
    row = FindingRow("id", "Odd", "high", "a | b\n\n<b>*bold*</b> [x](y)", "fix", topic="t`")
    text = markdown(msgspec.structs.replace(example_scan.example(), findings=[row]))
    line = next(line for line in text.splitlines() if line.startswith("| high"))
    assert r"a \| b \<b\>\*bold\*\</b\> \[x\](y)" in line
    assert r"t\`" in line


def test_csv_has_every_listed_finding_and_every_field():
    document = example_scan.example()
    rows = list(csv.DictReader(io.StringIO(comma_separated(document))))
    assert len(rows) == len(document.findings)
    assert rows[0]["topic"] == document.findings[0].topic
    assert rows[0]["firstSeen"] == document.findings[0].first_seen
    assert rows[-1].keys() == msgspec.to_builtins(document.findings[0]).keys()


def test_a_spreadsheet_gets_no_formula():
    row = FindingRow("id", "Odd", "high", '=HYPERLINK("x")', "-1+1", topic="@t", excess=-1)
    text = comma_separated(msgspec.structs.replace(example_scan.example(), findings=[row]))
    (read,) = csv.DictReader(io.StringIO(text))
    assert (read["message"], read["fix"], read["topic"], read["excess"]) == ('\'=HYPERLINK("x")', "'-1+1", "'@t", "-1")

"""Markdown and CSV of a scan."""

import csv
import io

import msgspec
import pytest
from dev import example_scan

from rackspan.reports.document import FindingRow
from rackspan.reports.texts import code, comma_separated, markdown, plain


def test_markdown_has_the_assessment_the_rules_and_the_worst_findings():
    document = example_scan.example()
    text = markdown(document)
    assert text.startswith("# kafka/main, 20 Nov 2026, 06:04 UTC\n\n**3 of 726 partitions are offline")
    assert "| Unfair spread | 34 |" in text
    first = document.findings[0]
    assert f"| critical | Offline | {first.topic}-{first.partition} |" in text
    assert f"and {document.summary.findings - 50} more findings" in text


def test_markdown_of_a_failed_scan_has_the_error():
    assert "connection refused" in markdown(example_scan.failed())


def test_markdown_escapes_texts_of_findings():
    row = FindingRow("id", "Odd", "high", "a | b\n\n<b>*bold*</b> [x](y)", "fix", topic="t`")
    text = markdown(msgspec.structs.replace(example_scan.example(), findings=[row]))
    line = next(line for line in text.splitlines() if line.startswith("| high"))
    assert r"a \| b \<b\>\*bold\*\</b\> \[x\](y)" in line
    assert r"t\`" in line


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("@org/team", "@&#8203;org/team"),
        ("see https://evil.example/x", "see https:&#8203;//evil.example/x"),
        ("HTTP://evil.example", "HTTP:&#8203;//evil.example"),
        ("mailto:a@evil.example", "mailto:&#8203;a@&#8203;evil.example"),
        ("www.evil.example", r"www\.evil.example"),
        ("WWW.evil.example", r"WWW\.evil.example"),
        ("org/repo#1 GH-2", "org/repo#&#8203;1 GH-&#8203;2"),
        ("&copy; &#64;org", "&amp;copy; &amp;#&#8203;64;org"),
        ("orders-7 needs 2 of /eu/eu-1a", "orders-7 needs 2 of /eu/eu-1a"),
    ],
)
def test_markdown_has_no_links_or_mentions_from_texts(text, written):
    assert plain(text) == written
    row = FindingRow("id", text, "high", text, text, topic=text)
    example = example_scan.example()
    summary = msgspec.structs.replace(example.summary, by_rule={text: 1})
    shown = markdown(msgspec.structs.replace(example, cluster=text, findings=[row], summary=summary))
    assert text not in shown or text == written


def test_invalid_kafka_name_is_not_formatted_as_code():
    assert (code("orders.v1-a_b"), code("www.evil.example")) == ("`orders.v1-a_b`", "`www.evil.example`")
    assert code("a`@org") == r"a\`@&#8203;org"


def test_csv_has_all_listed_findings_and_all_fields():
    document = example_scan.example()
    rows = list(csv.DictReader(io.StringIO(comma_separated(document))))
    assert len(rows) == len(document.findings)
    assert rows[0]["topic"] == document.findings[0].topic
    assert rows[0]["firstSeen"] == document.findings[0].first_seen
    assert rows[-1].keys() == msgspec.to_builtins(document.findings[0]).keys()


def test_csv_escapes_spreadsheet_formulas():
    row = FindingRow("id", "Odd", "high", '=HYPERLINK("x")', "-1+1", topic="@t", excess=-1)
    text = comma_separated(msgspec.structs.replace(example_scan.example(), findings=[row]))
    (read,) = csv.DictReader(io.StringIO(text))
    assert (read["message"], read["fix"], read["topic"], read["excess"]) == ('\'=HYPERLINK("x")', "'-1+1", "'@t", "-1")

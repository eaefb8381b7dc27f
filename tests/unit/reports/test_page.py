"""The text of the page, without a browser: assessment, formats, rack tree and content security policy."""

import base64
import hashlib
import json
import re
import subprocess
import sys

import msgspec
import pytest
from dev import example_scan
from rich.console import Console

from rackspan.cli.rendering.scan_text import print_scan
from rackspan.reports.document import (
    BrokerRow,
    DomainRow,
    FindingRow,
    ProducersRow,
    ScanDocument,
    Summary,
    WhatIf,
    Writes,
)
from rackspan.reports.page import formats
from rackspan.reports.page.assessment import assessment
from rackspan.reports.page.rendering import render
from rackspan.reports.page.smallest_loss import smallest_loss
from rackspan.reports.page.tree import rack_tree
from rackspan.reports.page.vocabulary import rank, where, worst
from rackspan.reports.texts import markdown

AT = "2026-11-20T06:00:00Z"
NOTHING = WhatIf(0, 0, 0, 0)


def scan(**fields):
    return ScanDocument("scan-1", "kafka/main", AT, AT, **fields)


def finding(rule="NotCompliant", severity="high", **fields):
    return FindingRow("id", rule, severity, "message", "fix", **fields)


def broker(number, rack=None, loss=NOTHING, **fields):
    return BrokerRow(number, rack, rack, 3, 1, 1, loss, **fields)


# -- words -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "whole", "said"),
    [(0, 0, "–"), (0, 5, "0 %"), (1, 1000, "<1 %"), (1, 2, "50 %"), (999_999, 1_000_000, "99.9 %"), (7, 7, "100 %")],  # noqa: RUF001
)
def test_share_is_100_percent_only_for_all_and_0_percent_only_for_none(part, whole, said):
    assert formats.share(part, whole) == said


@pytest.mark.parametrize(
    ("minutes", "said"), [(0, "0 min"), (0.2, "<1 min"), (59, "59 min"), (61, "1 h 1 min"), (4380, "3 d 1 h")]
)
def test_duration_has_its_two_largest_units(minutes, said):
    assert formats.duration(minutes) == said


@pytest.mark.parametrize(
    ("since", "said"),
    [
        ("2026-11-20T05:59:59Z", "less than a minute"),
        ("2026-11-20T05:58:00Z", "2 minutes"),
        ("2026-11-19T05:58:00Z", "24 hours"),
        ("2026-11-02T07:00:00+01:00", "18 days"),
        ("2026-11-21T06:00:00Z", "less than a minute"),
        ("yesterday", ""),
        ("2026-11-20T05:00:00", ""),
        (None, ""),
    ],
)
def test_ago_returns_the_time_since_a_moment(since, said):
    assert formats.ago(since, AT) == said


def test_invalid_time_is_shown_unchanged():
    assert formats.moment("soon") == "soon"
    assert formats.moment(AT) == "20 Nov 2026, 06:00 UTC"


# -- assessment -----------------------------------------------------------------------------------------------------


def test_assessment_has_the_worst_first_with_its_age_and_the_cost_of_a_fix():
    document = scan(
        summary=Summary(
            partitions=200, offline=1, non_compliant=12, findings=13, moves=14, by_severity={"critical": 1}
        ),
        findings=[finding("Offline", "critical"), finding(first_seen="2026-11-02T06:00:00Z")],
    )
    said = assessment(document)
    assert said.tone == "critical"
    assert said.headline == "1 of 200 partitions is offline and 12 are spread unfairly."
    assert said.details == ("Spread unfairly for 18 days.", "A fix copies 14 replicas.")
    summary = msgspec.structs.replace(document.summary, move_bytes=2_400 << 20)
    known = msgspec.structs.replace(document, summary=summary, throttle=10 << 20)
    cost = "A fix copies 14 replicas (2.3 GiB), up to 4 min at 10.0 MiB/s and broker."
    assert assessment(known).details == ("Spread unfairly for 18 days.", cost)


def test_age_is_that_of_the_oldest_finding_even_if_it_is_not_listed():
    counts = {"by_rule": {"NotCompliant": 3000}, "since_by_rule": {"NotCompliant": "2026-01-01T00:00:00Z"}}
    summary = Summary(partitions=3000, non_compliant=3000, findings=3000, **counts)
    listed = [finding(first_seen="2026-01-30T00:00:00Z")]
    document = ScanDocument("a", "b", AT, "2026-01-31T00:00:00Z", summary=summary, findings=listed)
    assert assessment(document).details[0] == "Spread unfairly for 30 days."


def test_low_findings_are_assessed_as_low():
    document = scan(summary=Summary(partitions=5, findings=1, by_severity={"low": 1}), findings=[finding("X", "low")])
    said = assessment(document)
    assert said.tone == "low"
    assert said.headline == "Every partition is where it should be, but there is 1 finding of a lesser kind."
    assert said.details == ("A fix copies no data.",)


def test_topics_that_are_not_judged_are_not_assessed_as_fine():
    counts = {"findings": 1, "by_severity": {"high": 1}, "by_rule": {"NotJudged": 2}, "unread_topics": 1}
    said = assessment(scan(summary=Summary(partitions=5, **counts), findings=[finding("X", "high")]))
    assert said.headline.startswith("Every partition that can be judged is where it should be, but")
    assert said.details == ("1 topic could not be read; 2 topics cannot be judged without the racks of all brokers.",)


def test_page_shows_no_share_of_fair_partitions_if_some_are_not_judged():
    assert "100 %" in render(scan(summary=Summary(partitions=5)))
    some = Summary(partitions=5, by_rule={"NotJudged": 2})
    assert "100 %" not in render(scan(summary=some))
    assert "≤ 80 %" in render(scan(summary=msgspec.structs.replace(some, non_compliant=1)))


def test_cluster_without_findings_is_assessed_as_fine():
    said = assessment(example_scan.fine())
    assert (said.tone, said.headline) == ("fine", "Nothing is wrong.")
    assert said.details == (
        "All 12 partitions of 3 topics are online, fully replicated and spread fairly over every zone.",
    )


def test_assessment_of_one_partition_is_in_the_singular():
    said = assessment(scan(summary=Summary(partitions=1, topics=1), levels=["zone"]))
    assert said.details == ("The only partition is online, fully replicated and spread fairly over every zone.",)


def test_cluster_with_unread_topics_is_not_assessed_as_fine():
    document = scan(summary=Summary(partitions=1, topics=1, unread_topics=2), warnings=["2 topics: not_authorized"])
    said = assessment(document)
    assert (said.tone, said.headline) == ("medium", "2 topics could not be read.")
    assert said.details == ("Nothing is wrong with the others.",)
    assert "\nWarning: 2 topics: not\\_authorized\n" in markdown(document)
    screen = Console(record=True, width=100)
    print_scan(screen, document)
    assert "2 topics could not be read; the others are fine" in screen.export_text()
    wrong = Summary(partitions=5, findings=1, by_severity={"low": 1}, unread_topics=1)
    assert assessment(scan(summary=wrong)).details[-1] == "1 topic could not be read."


def test_failed_scan_is_assessed_as_failed_with_its_error():
    said = assessment(example_scan.failed())
    assert said.tone == "failed"
    assert "connection refused" in said.details[0]


# -- tree and losses -------------------------------------------------------------------------------------------------


def test_rack_tree_has_the_brokers_in_their_domains_even_without_domain_rows():
    document = scan(
        levels=["zone", "rack"],
        domains=[DomainRow("zone", "/b", 1, 0, 0, NOTHING, worst="low")],
        brokers=[broker(7, "/b/r1", worst="high"), broker(3, "/a"), broker(1)],
    )
    root = rack_tree(document)
    assert [(box.name, box.level) for box in root.boxes] == [("a", "zone"), ("b", "zone")]
    assert [row.id for row in root.brokers] == [1]
    inner = root.boxes[1].boxes[0]
    assert (inner.domain, inner.level, [row.id for row in inner.brokers]) == ("/b/r1", "rack", [7])
    assert [row.id for row in root.every_broker()] == [3, 7, 1]
    assert root.boxes[1].worst() == "high"


def test_smallest_loss_is_the_smallest_kind_with_an_effect():
    hurts, stops = WhatIf(3, 5, 0, 9), WhatIf(0, 2, 0, 4)
    domains = [DomainRow("zone", "/a", 2, 9, 3, hurts), DomainRow("rack", "/a/r1", 1, 4, 1, hurts)]
    brokers = [broker(0, "/a/r1", stops)]
    levels = ["zone", "rack"]
    loss = smallest_loss(scan(levels=levels, domains=domains, brokers=brokers))
    assert (loss.kind, loss.name, loss.effect, loss.partitions) == ("rack", "/a/r1", "offline", 3)
    loss = smallest_loss(scan(levels=levels, brokers=brokers))
    assert (loss.kind, loss.name, loss.effect, loss.partitions) == ("broker", "0", "not writable", 2)
    assert smallest_loss(scan(brokers=[broker(0)])) is None


def test_smallest_loss_ignores_partitions_that_are_offline_already():
    lost, also = WhatIf(1, 2, 0, 9), WhatIf(1, 4, 0, 3)
    brokers = [broker(0, loss=lost), broker(1, loss=lost, online=False)]
    document = scan(summary=Summary(partitions=5, offline=1), brokers=brokers)
    assert smallest_loss(document) is None
    loss = smallest_loss(msgspec.structs.replace(document, brokers=[*brokers, broker(2, loss=also)]))
    assert (loss.name, loss.effect, loss.partitions) == ("2", "not writable", 2)


def test_smallest_loss_ignores_partitions_that_are_not_writable_already():
    brokers = [broker(0, loss=WhatIf(0, 1, 1, 1)), broker(1, loss=WhatIf(0, 1, 0, 0))]
    document = scan(summary=Summary(partitions=5, by_severity={"critical": 1}), brokers=brokers)
    assert smallest_loss(document) is None
    loss = smallest_loss(msgspec.structs.replace(document, brokers=[*brokers, broker(2, loss=WhatIf(0, 3, 0, 4))]))
    assert (loss.name, loss.effect, loss.partitions) == ("2", "not writable", 2)


@pytest.mark.parametrize("online", [True, False])
def test_partition_whose_leader_is_about_to_return_hides_no_loss(online):
    """It has no leader and counts as offline, but its in-sync replica is online, so that a loss does not count it."""
    brokers = [broker(0, loss=WhatIf(1, 1, 0, 1)), broker(1, online=online)]
    document = scan(summary=Summary(partitions=2, offline=1, by_severity={"critical": 1}), brokers=brokers)
    loss = smallest_loss(document)
    assert (loss.name, loss.effect, loss.partitions) == ("0", "offline", 1)


def test_page_says_that_no_domain_hurts_only_if_all_racks_are_known():
    fine, unknown = "No single domain takes a partition offline", "Racks are not known of all brokers"
    for brokers, levels, said in (
        ([broker(0, "/a"), broker(1, "/b")], ["rack"], fine),
        ([broker(0, "/a"), broker(1)], ["rack"], unknown),
        ([broker(0), broker(1)], [], fine),
    ):
        page = render(scan(levels=levels, brokers=brokers))
        assert (fine in page, unknown in page) == (said == fine, said == unknown)


def test_severities_are_ordered_with_unknown_ones_last():
    assert worst(["low", None, "critical", "dreadful"]) == "critical"
    assert worst([None, "dreadful"]) is None
    assert rank("info") < rank("dreadful") == rank(None)


def test_where_returns_the_subject_of_a_finding():
    about = [{"topic": "t", "partition": 0}, {"topic": "t"}, {"broker": 0}, {"domain": "/a"}, {}]
    assert [where(finding(**fields)) for fields in about] == ["t-0", "t", "broker 0", "/a", "cluster"]


# -- page ------------------------------------------------------------------------------------------------------------


def test_content_security_policy_allows_exactly_the_scripts_of_the_page():
    page = render(example_scan.example())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1].replace("&#39;", "'")
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    hashes = {base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts}
    assert set(re.findall(r"'sha256-([^']*)'", policy)) == hashes
    assert len(hashes) == 2
    assert policy.startswith("default-src 'none'; script-src")
    assert "unsafe-eval" not in policy
    assert "http" not in policy


def test_page_contains_the_whole_document():
    document = example_scan.example()
    page = render(document)
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert msgspec.convert(data["document"], ScanDocument) == document


def test_page_has_a_section_on_producers_if_the_scan_has_writes():
    writes = Writes(0.25, 0.5, 1, [ProducersRow("/eu/<b>", 3, 0.25, 0.5, 1, reported=False)], [])
    page = render(scan(levels=["region", "zone"], summary=Summary(partitions=4), brokers=[broker(0)], writes=writes))
    part = re.search(r'<section id="producers".*?</section>', page, re.DOTALL)[0]
    assert "25 % of records go to a leader in the producer's own zone" in part
    assert "/eu/&lt;b&gt;" in part
    assert "no broker reports this id" in part
    assert "<b>25 %</b> · 100 % · 50 %" in part
    assert '<a href="#producers">' in page
    assert 'id="producers"' not in render(scan(levels=["zone"], brokers=[broker(0)]))


def test_rendering_is_deterministic():
    assert render(example_scan.example()) == render(example_scan.example())


def test_page_without_charts_is_small():
    assert len(render(example_scan.failed())) < 80_000


def test_command_line_does_not_import_the_plotting_library():
    program = "import sys, rackspan.cli; print(*{'bokeh', 'jinja2', 'tornado'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == ""

"""A thousand brokers and two thousand findings."""

import msgspec
import pytest
from dev import example_scan
from tests.page.conftest import count_of

from rackspan.reports.document import MAX_FINDINGS
from rackspan.reports.page import render

MEBI = 2**20


@pytest.fixture(scope="module")
def big():
    drawn = example_scan.example(regions=4, zones=5, racks=5, brokers=10, topics=500)
    more = [
        msgspec.structs.replace(row, id=f"{row.id}-{turn}", partition=turn)
        for turn in range(MAX_FINDINGS)
        for row in drawn.findings
    ]
    return msgspec.structs.replace(drawn, findings=more[:MAX_FINDINGS])


def test_its_page_stays_small(big):
    assert (len(big.brokers), len(big.findings)) == (1000, 2000)
    assert len(render(big).encode()) < 10 * MEBI


def test_its_page_is_ready_within_two_seconds(show, chrome, big, tmp_path):
    """Processor time of the page's main thread, which does not depend on what else the machine does."""
    file = tmp_path / "big.html"
    file.write_text(render(big), encoding="utf-8")
    context = chrome.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    devtools = context.new_cdp_session(page)
    devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-ready]", state="attached")
    figures = {row["name"]: row["value"] for row in devtools.send("Performance.getMetrics")["metrics"]}
    context.close()
    assert 0.05 < figures["TaskDuration"] < 2.0


def test_its_findings_can_be_searched_and_all_be_listed(show, big):
    page = show(big)
    assert count_of(page)[:2] == (2000, 2000)
    assert page.locator("tr.finding").count() <= 100
    page.locator("#search").fill("offline")
    assert 0 < count_of(page)[0] < 2000

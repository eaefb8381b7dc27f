"""A thousand brokers and two thousand findings."""

import msgspec
import pytest
from dev import example_scan
from tests.page.conftest import count_of

from rackspan.reports.document import MAX_FINDINGS
from rackspan.reports.page.rendering import render

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


def test_its_page_holds_few_elements_to_lay_out(show, big):
    """What a browser works on grows with these: some for each broker, none for a finding that is not shown."""
    elements = show(big).locator("*").count()
    assert 1000 < elements < 20 * len(big.brokers)


def test_its_findings_can_be_searched_and_all_be_listed(show, big):
    page = show(big)
    assert count_of(page)[:2] == (2000, 2000)
    assert page.locator("tr.finding").count() <= 100
    page.locator("#search").fill("offline")
    assert 0 < count_of(page)[0] < 2000

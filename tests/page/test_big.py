"""The page of a scan with 1000 brokers and 2000 findings."""

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


def test_page_of_a_large_cluster_is_smaller_than_10_mib(big):
    assert (len(big.brokers), len(big.findings)) == (1000, 2000)
    assert len(render(big).encode()) < 10 * MEBI


def test_page_of_a_large_cluster_has_few_elements(show, big):
    """Layout time grows with the elements. Each broker has some. A finding that is not shown has none."""
    elements = show(big).locator("*").count()
    assert 1000 < elements < 20 * len(big.brokers)


def test_page_of_a_large_cluster_lists_and_searches_all_findings(show, big):
    page = show(big)
    assert count_of(page)[:2] == (2000, 2000)
    assert page.locator("tr.finding").count() <= 100
    page.locator("#search").fill("offline")
    assert 0 < count_of(page)[0] < 2000

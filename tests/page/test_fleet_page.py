"""The page of a fleet in a browser: it is readable, sends no requests and links to the page of each scan."""

import msgspec
import pytest
from dev import example_scan
from tests.page import probes

from rackspan.cli.shared.scan_files import write_fleet
from rackspan.reports.page.fleet import fleet_rows

HOSTILE = "</title><img src=x onerror=alert(1)>\"'& {{7*7}}"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    scans = [(example_scan.fine(), "kafka/a"), (example_scan.example(), HOSTILE), (example_scan.failed(), "kafka/c")]
    write_fleet(folder, fleet_rows(msgspec.structs.replace(one, cluster=cluster) for one, cluster in scans))
    return folder


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_fleet_page_sorts_the_clusters_and_links_to_their_scans(chrome, site, scheme, width):
    context = chrome.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page, requests, errors = context.new_page(), [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda said: errors.append(said.text) if said.type in ("error", "warning") else None)
    page.on("dialog", lambda dialog: (errors.append(dialog.message), dialog.dismiss()))
    page.goto((site / "index.html").as_uri())
    assert requests == [(site / "index.html").as_uri()]
    assert page.locator("h1").inner_text() == "Something is wrong in 2 of 3 clusters."
    assert page.locator(".fleet a").all_inner_texts() == ["kafka/c", HOSTILE, "kafka/a"]
    assert page.evaluate(probes.POOR_CONTRAST) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator(".fleet a").nth(1).click()
    page.wait_for_selector("html[data-ready]", state="attached")
    assert page.locator(".brand span").inner_text() == HOSTILE
    assert errors == []
    context.close()

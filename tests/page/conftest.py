"""A scan's page in a real Chromium, which writes down what goes wrong in it."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from dev import chromium
from playwright.sync_api import sync_playwright

from rackspan.reports.page.rendering import render

# Whatever the page's policy forbids is told to the page before its own scripts run.
_WATCH = "addEventListener('securitypolicyviolation', (event) => console.error(`forbidden: ${event.blockedURI}`))"


# Not for the whole session: while Playwright's driver lives, an event loop counts as running in this thread, and
# whatever calls asyncio.run() in a later test would be refused.
@pytest.fixture(scope="module")
def chrome():
    """A browser without a head."""
    why = chromium.why_missing()
    if why:
        pytest.skip(why)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=str(chromium.find_chromium()), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


@dataclass
class Seen:
    """What a page did beside being shown."""

    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture
def show(chrome, tmp_path):
    """Render a document and open it: `show(document, width=400, scheme="dark")`. Its `seen` is checked at the end.

    Nothing moves by itself: what is clicked while the page glides there is not always what was aimed at.
    """
    opened = []

    def open_page(document, *, width=1280, height=900, scheme="light", motion="reduce"):
        file = tmp_path / f"{len(opened)}.html"
        file.write_text(render(document), encoding="utf-8")
        context = chrome.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion=motion
        )
        page, seen = context.new_page(), Seen()
        page.add_init_script(_WATCH)
        page.on("pageerror", lambda error: seen.errors.append(str(error)))
        page.on("console", lambda said: seen.errors.append(said.text) if said.type in ("error", "warning") else None)
        page.on("dialog", lambda dialog: (seen.errors.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: seen.requests.append(request.url))
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        opened.append(SimpleNamespace(context=context, seen=seen, url=file.as_uri()))
        page.seen = seen
        return page

    yield open_page
    for each in opened:
        each.context.close()
    for each in opened:
        assert each.seen.errors == []
        assert each.seen.requests == [each.url]


def count_of(page):
    """The three numbers of `12 of 80 listed, 95 in all`."""
    words = page.locator("#findings-count").inner_text().replace(",", "").split()
    return int(words[0]), int(words[2]), int(words[4])

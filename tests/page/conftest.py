"""Fixtures that open the page of a scan in a real Chromium and record its errors."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from dev import chromium
from playwright.sync_api import sync_playwright

from rackspan.reports.page.rendering import render

# Runs before the scripts of the page and logs each violation of its content security policy.
_WATCH = "addEventListener('securitypolicyviolation', (event) => console.error(`forbidden: ${event.blockedURI}`))"


# Not for the whole session: as long as Playwright's driver runs, this thread has a running event loop, and
# asyncio.run() in a later test would raise an error.
@pytest.fixture(scope="module")
def chrome():
    """Yield a headless browser."""
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
    """The errors and the requests of a page."""

    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture
def show(chrome, tmp_path):
    """Yield a function that opens the page of a document: `show(document, width=400, scheme="dark")`.

    The page has no animation by default, because a click during a scroll may hit another element. Its `seen` is
    checked at the end.
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
    """Return the three numbers of `12 of 80 listed, 95 in all`."""
    words = page.locator("#findings-count").inner_text().replace(",", "").split()
    return int(words[0]), int(words[2]), int(words[4])

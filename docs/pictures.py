# ruff: noqa: INP001  # a script that stands beside what it writes, and no package
"""Takes the pictures of docs/report.md anew, in Chromium: `python docs/pictures.py`, after the page has changed."""

import sys
import tempfile
from pathlib import Path

from msgspec import structs
from playwright.sync_api import Browser, sync_playwright

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from dev import chromium, example_scan  # noqa: E402 - the repository is no package that could be installed

from rackspan.cli.shared.scan_files import write_fleet  # noqa: E402
from rackspan.reports.page.fleet import fleet_rows  # noqa: E402
from rackspan.reports.page.rendering import render  # noqa: E402


def take(browser: Browser, page: Path, name: str, scheme: str, width: int, height: int, *, top: str = "") -> None:
    """Write `img/report-<name>.png`: the first `height` pixels from the section `top` on, or from the start."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    shown = context.new_page()
    shown.goto(page.as_uri())
    shown.wait_for_selector("html[data-ready]", state="attached")
    shown.locator(".cell.offline").click()
    shown.evaluate("document.activeElement.blur()")
    start = shown.evaluate(
        "(id) => id ? document.getElementById(id).getBoundingClientRect().top + scrollY - 20 : 0", top
    )
    picture = HERE / "img" / f"report-{name}.png"
    shown.screenshot(path=picture, full_page=True, clip={"x": 0, "y": start, "width": width, "height": height})
    context.close()
    print(f"{picture} {picture.stat().st_size / 1024:.0f} KiB")  # noqa: T201


def take_fleet(browser: Browser, folder: Path) -> None:
    """Write `img/report-fleet.png`: the example, a cluster where nothing is wrong, and one that does not answer."""
    scans = [(example_scan.fine(), "kafka/small"), (example_scan.example(), "kafka/main")]
    scans.append((example_scan.failed(), "kafka/east"))
    write_fleet(folder, fleet_rows(structs.replace(scan, cluster=name) for scan, name in scans))
    shown = browser.new_page(viewport={"width": 1280, "height": 490}, color_scheme="light")
    shown.goto((folder / "index.html").as_uri())
    shown.screenshot(path=HERE / "img" / "report-fleet.png")


def main() -> None:
    """Draw the example's page and take every picture."""
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as driver:
        page = Path(scratch) / "page.html"
        page.write_text(render(example_scan.example()), encoding="utf-8")
        browser = driver.chromium.launch(executable_path=str(chromium.ensure_chromium()), args=["--no-sandbox"])
        take(browser, page, "light", "light", 1280, 1240)
        take(browser, page, "dark", "dark", 1280, 1290, top="loss")
        take(browser, page, "narrow", "light", 400, 1180)
        take_fleet(browser, Path(scratch) / "fleet")
        browser.close()


if __name__ == "__main__":
    main()

"""The site: links to repository files point to the forge, dead links are reported, each version is a folder."""

import json
import re
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from dev import chromium
from dev.paths import REPOSITORY
from dev.website.links import problems
from dev.website.pages import gather
from dev.website.versions import connect, releases
from playwright.sync_api import expect, sync_playwright

FORGE, ADDRESS = "https://forge.example/rackspan", "https://pages.example/rackspan/"
PUBLISHED = "https://rackspan.github.io/rackspan/"


@pytest.fixture
def gathered(tmp_path):
    """Return a function that returns the text of docs/reference/page.md as the site gets it."""

    def read(text, ref="main"):
        source = tmp_path / "source"
        for name in ("examples/topic.yaml", "docs/other.md", "docs/img/icon.svg", "docs/generate.py", "CHANGELOG.md"):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_text(name)
        (source / "docs/reference").mkdir()
        (source / "docs/reference/page.md").write_text(text)
        gather(source, tmp_path / "pages", FORGE, ref)
        return (tmp_path / "pages/reference/page.md").read_text()

    return read


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("../../examples/topic.yaml", f"{FORGE}/blob/main/examples/topic.yaml"),
        ("../../examples", f"{FORGE}/tree/main/examples"),
        ("../../examples/", f"{FORGE}/tree/main/examples"),
        ("../../CHANGELOG.md#fixed", f"{FORGE}/blob/main/CHANGELOG.md#fixed"),
        ("../other.md#heading", "../other.md#heading"),
        ("../img/icon.svg", "../img/icon.svg"),
        ("../../missing.yaml", "../../missing.yaml"),
        ("../../../beside", "../../../beside"),
        ("#heading", "#heading"),
        ("https://kafka.apache.org", "https://kafka.apache.org"),
    ],
)
def test_link_to_a_file_outside_the_docs_points_to_the_forge(gathered, written, read):
    assert gathered(f"see [here]({written}).\n") == f"see [here]({read}).\n"


def test_pages_of_a_tag_link_to_the_files_of_the_tag(gathered):
    link = "see [here](../../examples/topic.yaml).\n"
    assert gathered(link, "v0.1.2") == f"see [here]({FORGE}/blob/v0.1.2/examples/topic.yaml).\n"


def test_gather_copies_pages_and_images_only(gathered, tmp_path):
    gathered("")
    files = {str(path.relative_to(tmp_path / "pages")) for path in (tmp_path / "pages").rglob("*") if path.is_file()}
    assert files == {"other.md", "img/icon.svg", "reference/page.md"}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("1. a\n\n   ```\n   b\n     c\n   ```\n\n2. d\n", "1. a\n\n    ```\n    b\n      c\n    ```\n\n2. d\n"),
        ("- a\n\n  b\n\nc\n\n  d\n", "- a\n\n    b\n\nc\n\n  d\n"),
        ("```yaml\n- a\n  b: c\n```\n- d\n  e\n", "```yaml\n- a\n  b: c\n```\n- d\n    e\n"),
    ],
)
def test_list_content_is_indented_by_four_columns_and_code_blocks_keep_their_text(gathered, written, read):
    assert gathered(written) == read


@pytest.fixture
def site(tmp_path):
    """Return a function that returns the problems of a site with the given files."""

    def check(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return list(problems(tmp_path, ADDRESS))

    return check


def test_valid_links_are_not_reported(site):
    assert not site(
        index_html='<h1 id="a-b">A</h1><a href="#a-b">b</a><a href="sub/page.html#ü">c</a><img src="icon.svg">',
        sub__page_html='<i id="ü"></i><a href="../index.html">d</a><a href="..">e</a><a href="/rackspan/#a-b">f</a>'
        f'<a href="{ADDRESS}sub/page.html#%C3%BC">g</a><a href="https://elsewhere.example/#h">h</a>',
        icon_svg="",
    )


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("<a href='gone.html'>", "gone.html leads to no page"),
        ("<a href='gone/'>", "gone/ leads to no page"),
        ("<a href='/rackspan/gone.html'>", "/rackspan/gone.html leads to no page"),
        ("<a href='page.html#gone'>", "page.html#gone leads to no heading of its page"),
        ("<a href='#gone'>", "#gone leads to no heading of its page"),
        ("<a href='../gone.yaml'>", "../gone.yaml leads out of the site"),
        ("<a href='/gone.html'>", "/gone.html leads out of the site"),
        ("<img src='gone.png'>", "gone.png leads to no page"),
        ("<link rel='next' href='gone.html'>", "gone.html leads to no page"),
        ("<script src='//cdn.example/a.js'></script>", "//cdn.example/a.js is loaded from elsewhere"),
        ("<img srcset='https://a.example/b.png 2x'>", "https://a.example/b.png is loaded from elsewhere"),
        (
            "<link rel='stylesheet' href='https://fonts.example/css'>",
            "https://fonts.example/css is loaded from elsewhere",
        ),
    ],
)
def test_dead_link_and_external_resource_are_reported_with_their_page(site, link, problem):
    assert site(page_html=f"<h1 id='here'></h1>{link}") == [f"page.html: {problem}"]


@pytest.mark.parametrize("rule", ["@import 'https://fonts.example/a';", "p { background: url(//fonts.example/a) }"])
def test_external_resource_of_a_style_sheet_is_reported(site, rule):
    (problem,) = site(a_css=rule + "p { background: url(b.png) }")
    assert problem.endswith("//fonts.example/a is loaded from elsewhere")


def test_releases_are_the_newest_patch_of_each_minor_version_newest_first():
    tags = ["v0.10.0", "v0.2.9", "v0.2.10", "v1.0.0", "v0.2.1"]
    assert list(releases(tags).items()) == [("1.0", "v1.0.0"), ("0.10", "v0.10.0"), ("0.2", "v0.2.10")]


@pytest.mark.parametrize(
    "tag",
    [
        *("0.1.0", "v0.1", "v0.1.0.1", "v0.1.0-rc.1", "v01.1.0", "v0.1.0\n", " v0.1.0", "V0.1.0", "latest", ""),
        *(
            "v../.././1",
            "--output=v0.1.0",
            "v1.1.1/../../x",
            "v0.1.0;ls",
            "v$(id).1.0",
            "v\u0661.1.0",
            f"v{9:05000}.1.0",
            f"v{'9' * 5000}.1.0",
        ),
    ],
)
def test_tag_that_is_not_a_release_is_ignored(tag):
    assert releases(["v0.1.0", tag]) == {"0.1": "v0.1.0"}


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    """Build a site of two releases and main in a separate repository, with the environment of `make site`."""
    python = REPOSITORY / "build" / "site-venv" / "bin" / "python"
    ready = ["make", f"PYTHON={sys.executable}", "build/site-venv/.ready"]
    subprocess.run(ready, cwd=REPOSITORY, check=True, capture_output=True)
    repository = tmp_path_factory.mktemp("repository")
    shutil.copytree(REPOSITORY / "dev" / "website", repository / "dev" / "website")
    for name in ("dev/__init__.py", "dev/paths.py", "pyproject.toml"):
        shutil.copy(REPOSITORY / name, repository / name)
    settings = repository / "dev" / "website" / "zensical.toml"
    few = 'nav = ["index.md", "reference/topics.md"]'
    settings.write_text(re.sub(r"^nav = \[.*?^\]", few, settings.read_text(), flags=re.MULTILINE | re.DOTALL))
    docs = repository / "docs"
    (docs / "reference").mkdir(parents=True)
    shutil.copytree(REPOSITORY / "docs" / "img", docs / "img")
    (docs / "index.md").write_text("# Start\n\n[Topics](reference/topics.md#a-topic), [changes](../CHANGELOG.md).\n")
    (repository / "CHANGELOG.md").write_text("")

    def git(*arguments):
        author = ("-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *author, *arguments], cwd=repository, check=True, capture_output=True)

    git("init")
    for tag in ("v0.1.0", "v0.1.1", "v0.2.0", "v0.3.0-rc.1", "--output=x", "main"):
        (docs / "reference" / "topics.md").write_text(f"# Topics\n\n## A topic\n\nAs of {tag}.\n")
        git("add", ".")
        git("commit", "--message", tag)
        git("update-ref", f"refs/tags/{tag}", "HEAD")
    build = [python, "-m", "dev.website", "--releases"]
    done = subprocess.run(build, cwd=repository, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return repository / "build" / "site"


def test_folder_of_a_release_has_the_pages_of_its_newest_patch(versions):
    pages = {path.parent.parent.name: path.read_text() for path in versions.glob("*/reference/topics.html")}
    said = {folder: re.findall(r"As of ([^ <]+)\.<", page) for folder, page in pages.items()}
    assert said == {"0.1": ["v0.1.1"], "0.2": ["v0.2.0"], "dev": ["main"]}


def test_version_selector_lists_all_versions_and_old_pages_have_a_warning(versions):
    offered = json.loads((versions / "versions.json").read_text())
    assert [(one["version"], one["aliases"]) for one in offered] == [("0.2", ["latest"]), ("0.1", []), ("dev", [])]
    page = (versions / "0.1" / "index.html").read_text()
    assert json.loads(re.search(r'id="__config"[^>]*>(.*?)</script>', page)[1])["version"] == {"provider": "mike"}
    assert "These pages do not describe the newest release" in page


@pytest.mark.parametrize("folder", ["0.1", "0.2", "dev"])
def test_links_of_a_version_stay_in_its_folder_except_to_the_newest_release(versions, folder):
    address = f"{PUBLISHED}{folder}/"
    left = {one for one in problems(versions / folder, address) if not one.endswith(".. leads out of the site")}
    assert left == set()
    sitemap = re.findall("<loc>(.*)</loc>", (versions / folder / "sitemap.xml").read_text())
    assert sitemap == [address, f"{address}reference/topics.html"]  # the version selector finds the same page by it


def test_built_version_links_to_the_files_of_its_tag(versions):
    linked = {
        folder: re.findall(r"/blob/(.*?)/CHANGELOG", (versions / folder / "index.html").read_text())
        for folder in ("0.1", "0.2", "dev")
    }
    assert linked == {"0.1": ["v0.1.1"], "0.2": ["v0.2.0"], "dev": ["main"]}


def test_url_without_a_version_redirects_to_the_newest_release(versions):
    assert 'location.replace("0.2/index.html"' in (versions / "index.html").read_text()
    assert 'url=../0.2/reference/topics.html"' in (versions / "reference" / "topics.html").read_text()
    assert (versions / "404.html").read_text() == (versions / "0.2" / "404.html").read_text()


@pytest.fixture
def opened(versions):
    """Yield a function that opens a page of the site in a real browser. Errors of the page fail the test."""
    if why := chromium.why_missing():
        pytest.skip(why)
    errors = []
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=versions)) as server,
        sync_playwright() as driver,
    ):
        threading.Thread(target=server.serve_forever).start()
        browser = driver.chromium.launch(
            executable_path=str(chromium.find_chromium()), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        page = browser.new_page(base_url=f"http://127.0.0.1:{server.server_port}/")
        page.on("pageerror", lambda error: errors.append(str(error)))

        def open_page(address):
            page.goto(address)
            return page

        yield open_page
        browser.close()
        server.shutdown()
    assert errors == []


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def test_version_selector_opens_the_same_page_and_heading_of_another_version(opened):
    page = opened("0.1/reference/topics.html#a-topic")
    warning = page.get_by_text("These pages do not describe the newest release")
    expect(warning).to_be_visible()
    page.get_by_role("button", name="Select version").focus()
    page.get_by_role("link", name="0.2", exact=True).click()
    page.wait_for_url("**/0.2/reference/topics.html#a-topic")
    expect(warning).to_be_hidden()


def test_redirect_of_a_url_without_a_version_keeps_the_heading(opened):
    opened("reference/topics.html#a-topic").wait_for_url("**/0.2/reference/topics.html#a-topic")


def test_site_without_releases_redirects_to_the_dev_version(tmp_path):
    (tmp_path / "dev").mkdir()
    for page in ("index.html", "404.html"):
        (tmp_path / "dev" / page).write_text(page)
    connect(tmp_path, ["dev"])
    assert json.loads((tmp_path / "versions.json").read_text()) == [
        {"version": "dev", "title": "dev", "aliases": ["latest"]}
    ]
    assert 'href="dev/index.html"' in (tmp_path / "index.html").read_text()

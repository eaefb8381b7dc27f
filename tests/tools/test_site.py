"""The site's links: those to the repository's files lead to its forge, and a dead one fails the build."""

import pytest
from dev.website.links import problems
from dev.website.pages import gather

FORGE, ADDRESS = "https://forge.example/rackspan", "https://pages.example/rackspan/"


@pytest.fixture
def gathered(tmp_path):
    """The text of a page docs/reference/page.md as the site reads it."""

    def read(text):
        source = tmp_path / "source"
        for name in ("examples/topic.yaml", "docs/other.md", "docs/img/icon.svg", "docs/generate.py", "CHANGELOG.md"):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_text(name)
        (source / "docs/reference").mkdir()
        (source / "docs/reference/page.md").write_text(text)
        gather(source, tmp_path / "pages", FORGE)
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
def test_a_link_to_a_file_beside_the_docs_leads_to_the_forge(gathered, written, read):
    assert gathered(f"see [here]({written}).\n") == f"see [here]({read}).\n"


def test_pages_and_pictures_are_gathered_and_programs_are_not(gathered, tmp_path):
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
def test_what_belongs_to_an_item_is_four_columns_in_and_code_is_as_it_was(gathered, written, read):
    assert gathered(written) == read


@pytest.fixture
def site(tmp_path):
    """What is wrong with a site of these files."""

    def check(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return list(problems(tmp_path, ADDRESS))

    return check


def test_links_that_lead_somewhere_are_no_problem(site):
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
def test_a_dead_link_and_what_is_loaded_from_elsewhere_is_named_with_its_page(site, link, problem):
    assert site(page_html=f"<h1 id='here'></h1>{link}") == [f"page.html: {problem}"]


@pytest.mark.parametrize("rule", ["@import 'https://fonts.example/a';", "p { background: url(//fonts.example/a) }"])
def test_a_style_sheet_that_loads_from_elsewhere_is_named(site, rule):
    (problem,) = site(a_css=rule + "p { background: url(b.png) }")
    assert problem.endswith("//fonts.example/a is loaded from elsewhere")

"""The site has all pages of docs/ and the URL of the repository."""

import tomllib

import yaml
from dev.paths import REPOSITORY

PROJECT = tomllib.loads((REPOSITORY / "dev" / "website" / "zensical.toml").read_text())["project"]


def pages(entries):
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        else:
            for section in entry.values():
                yield from pages(section)


def test_navigation_has_every_page_once():
    docs = REPOSITORY / "docs"
    assert sorted(pages(PROJECT["nav"])) == sorted(str(path.relative_to(docs)) for path in docs.rglob("*.md"))


def test_repository_urls_of_site_and_chart_agree():
    chart = yaml.safe_load((REPOSITORY / "charts" / "rackspan" / "Chart.yaml").read_text())
    assert chart["sources"] == [PROJECT["repo_url"]]
    owner, name = PROJECT["repo_url"].removeprefix("https://github.com/").split("/")
    assert PROJECT["repo_name"] == f"{owner}/{name}"
    assert PROJECT["site_url"] == f"https://{owner}.github.io/{name}/"

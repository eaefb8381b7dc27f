"""The versions of the site: one folder each, the list for the version selector, and URLs without a version."""

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

DEV = "dev"
"""The folder of the unreleased version."""

_RELEASE = re.compile(r"v(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})")

# The script keeps the heading. Without scripts, the browser still gets to the page.
_REDIRECT = """<!doctype html>
<meta charset="utf-8">
<title>Rackspan</title>
<script>location.replace("{target}" + location.search + location.hash)</script>
<meta http-equiv="refresh" content="1; url={target}">
<a href="{target}">This page has moved.</a>
"""


def releases(tags: Iterable[str]) -> dict[str, str]:
    """
    Return the newest patch tag of each minor version, by the folder of the version: `{"0.2": "v0.2.1"}`, newest first.

    Tags in another form than `vX.Y.Z` are not releases and are ignored. They are never used as arguments of commands.
    """
    numbers = sorted(tuple(map(int, found.groups())) for tag in tags if (found := _RELEASE.fullmatch(tag)))
    newest = {(major, minor): patch for major, minor, patch in numbers}
    return {f"{major}.{minor}": f"v{major}.{minor}.{patch}" for (major, minor), patch in reversed(newest.items())}


def connect(site: Path, folders: list[str]) -> None:
    """Write the version list and the redirects for the versions in `folders` of `site`. The first is the default."""
    entries = [{"version": folder, "title": folder, "aliases": []} for folder in folders]
    entries[0]["aliases"] = ["latest"]  # the theme shows a warning on the pages of all others
    (site / "versions.json").write_text(json.dumps(entries))
    latest = site / folders[0]
    for page in sorted(latest.rglob("*.html")):
        old = site / page.relative_to(latest)
        old.parent.mkdir(parents=True, exist_ok=True)
        old.write_text(_REDIRECT.format(target=Path(os.path.relpath(page, old.parent)).as_posix()))
    (site / "404.html").write_text((latest / "404.html").read_text())  # shown by GitHub; its links are absolute

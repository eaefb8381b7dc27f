"""The pages of docs/ as input of the site: links to files outside of docs/ point to the repository on its forge."""

import os
import re
import shutil
from pathlib import Path

_TARGET = re.compile(r"(?<=\]\()[^)\s#:]+")
"""The file in a Markdown link, without its anchor. A URL has a colon."""
_ITEM = re.compile(r"(?:[-*]|\d+\.) +")


def gather(source: Path, folder: Path, forge: str, ref: str) -> None:
    """Copy pages and pictures of `source`/docs to `folder`.

    `forge` is the URL of the repository, without a slash at the end. `ref` is the branch or tag for links to files.
    """
    docs = source / "docs"
    for path in sorted(path for path in docs.rglob("*") if path.suffix in {".md", ".png", ".svg"}):
        copy = folder / path.relative_to(docs)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            copy.write_text(_with_wide_items(_with_links_to_forge(path, source, forge, ref)))
        else:
            shutil.copyfile(path, copy)


def _with_links_to_forge(page: Path, source: Path, forge: str, ref: str) -> str:
    def address(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(page.parent / link[0]))
        if target.is_relative_to(source / "docs") or not target.is_relative_to(source) or not target.exists():
            return link[0]  # a page, or a dead link, which the link check reports
        return f"{forge}/{'tree' if target.is_dir() else 'blob'}/{ref}/{target.relative_to(source)}"

    return _TARGET.sub(address, page.read_text())


def _with_wide_items(text: str) -> str:
    """Return the text with list items that are indented by four columns, which Python-Markdown requires.

    GitHub only requires the width of the list marker. Nested lists are not changed.
    """
    lines, width, code = [], 0, False
    for line in text.splitlines(keepends=True):
        if not code and width and line.startswith(" " * width):
            lines.append(" " * (4 - width) + line)
            continue
        lines.append(line)
        code ^= line.startswith("```")
        if line.strip():
            item = None if code else _ITEM.match(line)
            width = item.end() if item else 0
    return "".join(lines)

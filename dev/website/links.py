"""Dead links of a built site, and external resources of its pages."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

_LOADED_BY_CSS = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s]+)""")
_NOT_LOADED = {"canonical", "alternate", "next", "prev", "edit"}
"""Relations of a `link` that a browser does not load."""


class _Page(HTMLParser):
    """The anchors, the links and the loaded resources of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors = {"", "top"}
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value is not None}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if "href" in values:
            followed = tag in {"a", "area"} or values.get("rel") in _NOT_LOADED
            (self.links if followed else self.loaded).append(values["href"])
        self.loaded += [values[name] for name in ("src", "poster", "data") if name in values]
        self.loaded += [one.split()[0] for one in values.get("srcset", "").split(",") if one.strip()]


def problems(folder: Path, address: str) -> Iterator[str]:
    """Yield the problems of the site in `folder`, which is published at `address` (with a slash at the end)."""
    pages = {path.relative_to(folder).as_posix(): _Page(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    for name, page in pages.items():
        for link in page.links + page.loaded:
            there, anchor = map(unquote, urldefrag(urljoin(address + name, link)))
            if not there.startswith(address):
                if not any(urlsplit(link)[:2]):  # neither a scheme nor a host
                    yield f"{name}: {link} leads out of the site"
                elif link in page.loaded and not link.startswith("data:"):
                    yield f"{name}: {link} is loaded from elsewhere"
                continue
            target = there.removeprefix(address)
            target += "index.html" if target.endswith("/") or not target else ""
            if not (folder / target).is_file():
                yield f"{name}: {link} leads to no page"
            elif anchor not in (pages[target].anchors if target in pages else {""}):
                yield f"{name}: {link} leads to no heading of its page"
    for path in sorted(folder.rglob("*.css")):
        for link in _LOADED_BY_CSS.findall(path.read_text()):
            yield f"{path.relative_to(folder)}: {link} is loaded from elsewhere"

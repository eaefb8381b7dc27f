"""How results look: JSON and YAML for programs, tables for people. Only results go to standard output."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

import yaml
from msgspec.json import Encoder
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rackspan.core.text import shown
from rackspan.core.text import size as size_of

_PIPED_WIDTH = 160
_encode = Encoder().encode
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class Format(StrEnum):
    """The formats of every command."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def emit(document: Mapping[str, Any], form: Format) -> None:
    """Print a document as JSON or YAML."""
    if form is Format.YAML:
        plain = {
            key: value if isinstance(value, dict | str | int | None) else list(value) for key, value in document.items()
        }
        sys.stdout.write(_yaml(plain))
    else:
        sys.stdout.writelines(json_lines(document))


def _yaml(plain: Mapping[str, Any]) -> str:
    for letters in (True, False):
        text: str = yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=letters, width=_PIPED_WIDTH)
        if _is_printed(text):
            break
    return text


def printed_json(text: str) -> str:
    r"""The same JSON with escapes such as `\u009b` for what is not printed, and a terminal might obey."""
    if _is_printed(text):
        return text
    return "".join(one if _is_printed(one) else json.dumps(one)[1:-1] for one in text)


def _is_printed(text: str) -> bool:
    return text.replace("\n", "").isprintable()


def json_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """
    Lines of a JSON object: a line per field, and per item of a field that is not a mapping, a text or a number.

    Items may come from a generator, so that many of them are not held at once; and lines can be compared.
    """
    before = "{"
    for key, value in document.items():
        yield f"{before}{_json(key)}: "
        before = ",\n "
        if _is_plain(value):
            yield _json(value)
        else:
            yield from _array(value)
    yield "}\n"


def _json(value: Any) -> str:
    return printed_json(_encode(value).decode())


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | Mapping)


def _array(items: Iterable[Any]) -> Iterator[str]:
    before = "["
    for item in items:
        yield f"{before}\n  {_json(item)}"
        before = ","
    yield "\n ]" if before == "," else "[]"


class _Screen(Console):
    def render_str(self, text: str, **style: Any) -> Text:
        """Escape what is shown, in a cell as well as on a line: clusters, files and arguments choose much of it."""
        return super().render_str(shown(text), **style)

    def on_broken_pipe(self) -> None:
        """Leave it to the command's own handling, where rich would end the process with exit code 1."""
        raise BrokenPipeError


def console() -> Console:
    """Standard output; wide where it is no terminal, so that nothing is cut off in a file."""
    screen = _Screen(highlight=False, markup=False, emoji=False)
    if not screen.is_terminal:
        screen.width = _PIPED_WIDTH
    return screen


def table(*headings: str) -> Table:
    """Make a table; headings that begin with `#` are of numbers, which stand to the right."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for heading in headings:
        name = heading.removeprefix("#")
        made.add_column(name, justify="right" if heading != name else "left", no_wrap=heading != name)
    return made


def count(number: int, style: str = "") -> Text:
    """Give a number with separators; in `style` unless it is zero, and dim then."""
    return Text(f"{number:,}", style=style if number else "dim")


def size(number: int | None, unknown: str = "?") -> str:
    """Give a number of bytes for people; a table has no room for more than `?` where it is not known."""
    return size_of(number, unknown)

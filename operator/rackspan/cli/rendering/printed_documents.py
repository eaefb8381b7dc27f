"""Results as JSON and YAML, for programs. Only results go to standard output."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.json import Encoder

from rackspan.cli.rendering.output_formats import Format
from rackspan.imports.yaml_text import yaml_text

_encode = Encoder().encode


def print_document(document: Mapping[str, Any], form: Format) -> None:
    """Print a document as JSON or YAML."""
    if form is Format.YAML:
        sys.stdout.write(yaml_text({key: one if _is_plain(one) else list(one) for key, one in document.items()}))
    else:
        sys.stdout.writelines(json_lines(document))


def printed_json(text: str) -> str:
    r"""Return the JSON with escapes such as `\u009b` for unprintable characters, which could control a terminal."""
    if _is_printed(text):
        return text
    return "".join(one if _is_printed(one) else json.dumps(one)[1:-1] for one in text)


def _is_printed(text: str) -> bool:
    return text.replace("\n", "").isprintable()


def json_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield a JSON object with a line per field, and per item of a field that is not a mapping, a text or a number.

    Items may come from a generator, so that they are not all in memory. One line per item makes diffs readable.
    """
    before = "{"
    for key, value in document.items():
        yield f"{before}{json_text(key)}: "
        before = ",\n "
        if _is_plain(value):
            yield json_text(value)
        else:
            yield from _array(value)
    yield "}\n"


def json_text(value: Any) -> str:
    """Return a value as printable JSON on one line."""
    return printed_json(_encode(value).decode())


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | Mapping)


def _array(items: Iterable[Any]) -> Iterator[str]:
    before = "["
    for item in items:
        yield f"{before}\n  {json_text(item)}"
        before = ","
    yield "\n ]" if before == "," else "[]"

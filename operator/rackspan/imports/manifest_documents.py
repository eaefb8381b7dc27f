"""Reader of files with several YAML documents or JSON values.

Each document is read separately, so an error in one does not hide the others. `Part` reads the fields of a document by
name; a field of the wrong type is reported with its line.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NoReturn

from rackspan.core.text import decoded, shown
from rackspan.imports.imported_topics import Refused, Skipped, Source
from rackspan.imports.yaml_nodes import Fields, Node, Scalar, Sequence, YamlError, nodes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_SEPARATOR = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_IGNORED = ("", "#", "%")
"""The first characters of lines without content: empty lines, comments and directives."""
_BOM = re.compile(r"^\ufeff", re.MULTILINE)
"""Byte order marks, also inside a file: they remain there if files were joined."""
_BEFORE_JSON = re.compile(r"(?:---)?\s*(?=\{)")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_TAGS = re.compile(r"\{\{|\{%|<%")
"""The beginnings of template tags of Helm, Jinja and ERB. Most templates are not valid YAML."""
_PLACEHOLDER = re.compile(rf"\$[A-Za-z_({{]|#\{{|{_TAGS.pattern}")
_TEMPLATE = "this is a template: render it first"
_LIST = "List"
_MAX_SHOWN = 80


class ManifestFieldError(ValueError):
    """A field that cannot be used, with its line, its path and what is wrong."""

    def __init__(self, line: int, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Part:
    """A mapping in a document, and its path."""

    fields: Fields
    path: str = ""

    @property
    def line(self) -> int:
        """The line where the mapping begins."""
        return self.fields.line

    def at(self, key: str) -> str:
        """Return the path of a field."""
        return f"{self.path}.{key}" if self.path else key

    def node(self, key: str) -> Node | None:
        """Return a field; None if it is missing or null."""
        found = self.fields.of.get(key)
        return None if isinstance(found, Scalar) and found.value is None else found

    def text(self, key: str) -> str | None:
        """Return a text field, or None. Raises ManifestFieldError for another type, including numbers."""
        found = self.node(key)
        if found is None:
            return None
        if isinstance(found, Scalar) and isinstance(found.value, str):
            return found.value
        raise self.error(key, f"must be a text, not {described(found)}")

    def number(self, key: str, least: int, most: int) -> int | None:
        """Return an integer field, or None. Raises ManifestFieldError if it is no integer from `least` to `most`."""
        found = self.node(key)
        if found is None:
            return None
        value = whole(found)
        if value is None:
            raise self.error(key, f"must be a whole number, not {described(found)}")
        if not least <= value <= most:
            raise self.error(key, f"must be from {least:,} to {most:,}, not {described(found)}")
        return value

    def part(self, key: str) -> Part:
        """Return a mapping, empty if the field is missing. Raises ManifestFieldError for another type."""
        found = self.node(key)
        if found is None:
            return Part(Fields(self.line, {}), self.at(key))
        if not isinstance(found, Fields):
            raise self.error(key, f"must be a mapping, not {described(found)}")
        return Part(found, self.at(key))

    def items(self, key: str) -> tuple[Node, ...]:
        """Return a list, empty if the field is missing. Raises ManifestFieldError for another type."""
        found = self.node(key)
        if found is None:
            return ()
        if not isinstance(found, Sequence):
            raise self.error(key, f"must be a list, not {described(found)}")
        return found.items

    def texts(self, key: str) -> dict[str, str]:
        """Return a mapping of texts, with other scalars as written. Raises ManifestFieldError for anything else."""
        part = self.part(key)
        return {name: part.spelling(name) for name in part.fields.of if part.node(name) is not None}

    def says(self, key: str, text: str) -> bool:
        """Return whether a field has exactly this text."""
        found = self.fields.of.get(key)
        return isinstance(found, Scalar) and found.text == text

    def spelling(self, key: str) -> str:
        """Return a scalar as written, empty if the field is missing. Raises ManifestFieldError for anything else."""
        found = self.node(key)
        if found is None:
            return ""
        if not isinstance(found, Scalar):
            raise self.error(key, f"must be a text, not {described(found)}")
        return found.text

    def beyond(self, known: Collection[str]) -> list[str]:
        """Return the names of fields that are not `known` and not null."""
        return [key for key in self.fields.of if key not in known and self.node(key) is not None]

    def refuse_placeholders(self, *free: str) -> None:
        """Raise ManifestFieldError for the first template placeholder in a key or value, except values in `free`."""
        for key in self.fields.of:
            found = None if key in free else self.node(key)
            scalar = None if found is None else _placeholder(found)
            if scalar is not None or _PLACEHOLDER.search(key):
                at = self.fields.of[key] if scalar is None else scalar
                said = shown(key if scalar is None else scalar.text, _MAX_SHOWN)
                raise ManifestFieldError(
                    at.line, self.at(shown(key, _MAX_SHOWN)), f'"{said}" has a placeholder: {_TEMPLATE}'
                )

    def error(self, key: str, message: str) -> ManifestFieldError:
        """Return an error about a field, at its line."""
        found = self.fields.of.get(key)
        return ManifestFieldError(self.line if found is None else found.line, self.at(key), message)


def _placeholder(node: Node) -> Scalar | None:
    """Return the first scalar below a node that has a placeholder. A key counts as a scalar at its value's line."""
    if isinstance(node, Scalar):
        return node if _PLACEHOLDER.search(node.text) else None
    if isinstance(node, Sequence):
        below = ((item, "") for item in node.items)
    else:
        below = ((item, key) for key, item in node.of.items())
    for item, key in below:
        if _PLACEHOLDER.search(key):
            return Scalar(item.line, key, key)
        if (found := _placeholder(item)) is not None:
            return found
    return None


def whole(node: Node) -> int | None:
    """Return the integer value of a node, or None if it is no integer."""
    value = node.value if isinstance(node, Scalar) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def described(node: Node) -> str:
    """Return a description of a node for a sentence."""
    match node:
        case Fields():
            return "a mapping"
        case Sequence():
            return "a list"
        case _:
            return f'"{shown(node.text, _MAX_SHOWN)}"'


@dataclass(frozen=True, slots=True)
class Unread:
    """Something that could not be read as an object: where, why, and its text, None if that is not YAML."""

    source: Source
    reason: str
    text: str | None = None

    def outcome(self, word: str) -> Refused | Skipped:
        """Return a refusal of what may define a topic: no YAML, such as a file cut off, or a text with `word`."""
        if self.text is None or word in self.text:
            return Refused(self.source, self.reason)
        return Skipped(self.source, "a document", self.reason)


@dataclass(frozen=True, slots=True)
class Documents:
    """The objects of some files, each with its position, and what could not be read."""

    found: tuple[tuple[Source, Part], ...] = ()
    unread: tuple[Unread, ...] = ()

    def __add__(self, other: Documents) -> Documents:
        return Documents(self.found + other.found, self.unread + other.unread)


def read_documents(data: bytes, name: str) -> Documents:
    """Read all objects of a file called `name`; a list of objects, as kubectl prints it, is split into its items."""
    try:
        text = decoded(data)
    except UnicodeDecodeError as error:
        source = Source(name, data.count(b"\n", 0, error.start) + 1)
        return Documents(unread=(Unread(source, "is not UTF-8"),))
    found: list[tuple[Source, Part]] = []
    unread: list[Unread] = []
    for line, chunk in _chunks(_BOM.sub("", text.replace("\r\n", "\n"))):
        for first, piece in _pieces(chunk, line):
            try:
                for node in nodes(piece, first):
                    for item in _objects(node):
                        if isinstance(item, Fields):
                            found.append((Source(name, item.line), Part(item)))
                        else:
                            reason = f"an object is a mapping, not {described(item)}"
                            held = item.text if isinstance(item, Scalar) else piece
                            unread.append(Unread(Source(name, item.line), reason, held))
            except YamlError as error:
                unread.append(_unreadable(name, error, piece, first))
            except ManifestFieldError as error:
                unread.append(Unread(Source(name, error.line), str(error), piece))
    return Documents(tuple(found), tuple(unread))


def _unreadable(name: str, error: YamlError, text: str, first: int) -> Unread:
    """Return what is wrong with a document. A template that is not YAML is reported as a template, at its first tag."""
    tag = _TAGS.search(text)
    line = 0 if tag is None else first + text.count("\n", 0, tag.start())
    if tag is None or line > error.line:
        return Unread(Source(name, error.line), str(error))
    tagged = text[tag.start() :].partition("\n")[0]
    return Unread(Source(name, line), f'"{shown(tagged, _MAX_SHOWN)}": {_TEMPLATE}')


def _chunks(text: str) -> Iterator[tuple[int, str]]:
    """Yield the text in pieces, cut before every separator, each with the number of its first line."""
    starts = [0, *(found.start() for found in _SEPARATOR.finditer(text)), len(text)]
    number = 1
    for start, stop in pairwise(starts):
        chunk = text[start:stop]
        if any(line.strip()[:1] not in _IGNORED for line in chunk.split("\n")):
            yield number, chunk
        number += chunk.count("\n")


def _pieces(chunk: str, line: int) -> Iterator[tuple[int, str]]:
    """Yield the JSON values at the beginning of a chunk as equivalent YAML, then the rest, each with its line."""
    start = 0
    while (before := _BEFORE_JSON.match(chunk, start)) is not None:
        at = before.end()
        try:
            _, stop = _json.raw_decode(chunk, at)
        except (ValueError, RecursionError):
            break
        yield line + chunk.count("\n", start, at), _STRING.sub(_as_yaml, chunk[at:stop])
        line += chunk.count("\n", start, stop)
        start = stop
    if start == 0 or chunk[start:].strip():
        yield line, chunk[start:]


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


_json = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_no_number)


def _as_yaml(string: re.Match[str]) -> str:
    """Return a JSON string as a YAML string, which has other escapes."""
    quoted = string[0]
    if "\\" not in quoted and quoted.isascii() and quoted.isprintable():
        return quoted
    letters = (
        letter if letter.isascii() and letter.isprintable() and letter not in '"\\' else f"\\U{ord(letter):08x}"
        for letter in json.loads(quoted)
    )
    return f'"{"".join(letters)}"'


def _objects(node: Node) -> Iterator[Node]:
    """Yield the objects of a document: the document itself, or the items of a list of objects."""
    kind = node.of.get("kind") if isinstance(node, Fields) else None
    if isinstance(node, Fields) and isinstance(kind, Scalar) and kind.text.endswith(_LIST) and "items" in node.of:
        yield from Part(node).items("items")
    else:
        yield node

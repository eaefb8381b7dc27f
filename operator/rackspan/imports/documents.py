"""
Files of several YAML documents, read apart from each other: one that is no YAML does not hide the next.

A document's fields are asked for by name; what is of another type is told with its line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from rackspan.core.text import shown
from rackspan.imports.topics import Refused, Source
from rackspan.imports.yaml_nodes import Fields, Kind, Node, Scalar, Sequence, YamlError, nodes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_SEPARATOR = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_IGNORED = ("", "#", "%")
"""What the lines begin with that say nothing: comments and directives."""
_BOM = "\ufeff"
_LIST = "List"
_MAX_SHOWN = 80


class FieldError(ValueError):
    """A field that cannot be used: its line, its path and what is wrong."""

    def __init__(self, line: int, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Part:
    """A mapping within a document, and the path that leads there."""

    fields: Fields
    path: str = ""

    @property
    def line(self) -> int:
        """Where it begins."""
        return self.fields.line

    def at(self, key: str) -> str:
        """The path of one of its fields."""
        return f"{self.path}.{key}" if self.path else key

    def node(self, key: str) -> Node | None:
        """A field; null is none."""
        found = self.fields.of.get(key)
        return None if isinstance(found, Scalar) and found.kind is Kind.NULL else found

    def text(self, key: str) -> str | None:
        """A text. Raises FieldError for another type, numbers among them: 007 is not what was meant by 7."""
        found = self.node(key)
        if found is None:
            return None
        if isinstance(found, Scalar) and found.kind is Kind.TEXT:
            return found.text
        raise self.error(key, f"must be a text, not {described(found)}")

    def number(self, key: str, least: int, most: int) -> int | None:
        """A whole number. Raises FieldError for another type, and beyond `least` and `most`."""
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
        """A mapping, an empty one where there is none. Raises FieldError for another type."""
        found = self.node(key)
        if found is None:
            return Part(Fields(self.line, {}), self.at(key))
        if not isinstance(found, Fields):
            raise self.error(key, f"must be a mapping, not {described(found)}")
        return Part(found, self.at(key))

    def items(self, key: str) -> tuple[Node, ...]:
        """A list, an empty one where there is none. Raises FieldError for another type."""
        found = self.node(key)
        if found is None:
            return ()
        if not isinstance(found, Sequence):
            raise self.error(key, f"must be a list, not {described(found)}")
        return found.items

    def texts(self, key: str) -> dict[str, str]:
        """A mapping of texts; other scalars are taken as they are written. Raises FieldError for anything else."""
        part = self.part(key)
        return {name: part.spelling(name) for name in part.fields.of if part.node(name) is not None}

    def spelling(self, key: str) -> str:
        """A scalar of any type as it was written, empty where there is none. Raises FieldError for anything else."""
        found = self.node(key)
        if found is None:
            return ""
        if not isinstance(found, Scalar):
            raise self.error(key, f"must be a text, not {described(found)}")
        return found.text

    def beyond(self, known: Collection[str]) -> list[str]:
        """The fields that are not `known`."""
        return [key for key in self.fields.of if key not in known and self.node(key) is not None]

    def error(self, key: str, message: str) -> FieldError:
        """What is wrong with a field, at its line."""
        found = self.fields.of.get(key)
        return FieldError(self.line if found is None else found.line, self.at(key), message)


def whole(node: Node) -> int | None:
    """The number that a node writes, None where it is none."""
    if not isinstance(node, Scalar) or node.kind is not Kind.INTEGER or len(node.text) > _MAX_SHOWN:
        return None
    return int(node.text, 16 if node.text.startswith("0x") else 10)


def described(node: Node) -> str:
    """A node in a sentence."""
    match node:
        case Fields():
            return "a mapping"
        case Sequence():
            return "a list"
        case _:
            return f'"{shown(node.text, _MAX_SHOWN)}"'


@dataclass(frozen=True, slots=True)
class Documents:
    """The documents of some files, each with its place, and what could not be read."""

    found: tuple[tuple[Source, Part], ...] = ()
    refused: tuple[Refused, ...] = ()

    def __add__(self, other: Documents) -> Documents:
        return Documents(self.found + other.found, self.refused + other.refused)


def read_documents(text: bytes, name: str) -> Documents:
    """Read all documents of a file called `name`; lists of objects, as kubectl prints them, are taken apart."""
    try:
        decoded = text.decode("utf-8").removeprefix(_BOM)
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        return Documents(refused=(Refused(Source(name, line), "is not UTF-8"),))
    found: list[tuple[Source, Part]] = []
    refused = []
    for line, chunk in _chunks(decoded.replace("\r\n", "\n")):
        try:
            for node in nodes(chunk, line):
                found += [(Source(name, part.line), part) for part in _objects(node)]
        except (YamlError, FieldError) as error:
            refused.append(Refused(Source(name, error.line), str(error)))
    return Documents(tuple(found), tuple(refused))


def _chunks(text: str) -> Iterator[tuple[int, str]]:
    """The text cut before every separator, each piece with the number of its first line."""
    starts = [0, *(found.start() for found in _SEPARATOR.finditer(text)), len(text)]
    number = 1
    for start, stop in pairwise(starts):
        chunk = text[start:stop]
        if any(line.strip()[:1] not in _IGNORED for line in chunk.split("\n")):
            yield number, chunk
        number += chunk.count("\n")


def _objects(node: Node) -> Iterator[Part]:
    if not isinstance(node, Fields):
        raise FieldError(node.line, "", f"an object is a mapping, not {described(node)}")
    part = Part(node)
    kind = part.fields.of.get("kind")
    if not (isinstance(kind, Scalar) and kind.text.endswith(_LIST) and "items" in node.of):
        yield part
        return
    for item in part.items("items"):
        if not isinstance(item, Fields):
            raise FieldError(item.line, "items", f"an object is a mapping, not {described(item)}")
        yield Part(item)

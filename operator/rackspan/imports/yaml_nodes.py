"""YAML as nodes with their line number and source text.

A scalar has the value that Kubernetes and topicctl read. Both convert YAML 1.1 to JSON with go-yaml v2: `010` is 8,
`1_000` is 1000, `2.0` is 2 and `y` is true. The nodes are built from the parser's events, because PyYAML's composer
overflows the stack of the process if the text is deeply nested.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEEPEST = 100
_MOST_NODES = 10_000_000
_MOST_REPEATED = 100_000
"""The most values that the aliases of a document may repeat."""
_PER_VALUE = 100
"""Characters of a text that count as one more value, so that few aliases cannot repeat a long text too often."""
_MERGE = "<<"
_TAG = "tag:yaml.org,2002:"
_TYPES: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "null": (type(None),),
    "timestamp": (str,),
}
"""The types that a scalar with a tag may have."""
_WORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **{spelled: True for word in ("y", "yes", "true", "on") for spelled in (word, word.capitalize(), word.upper())},
    **{spelled: False for word in ("n", "no", "false", "off") for spelled in (word, word.capitalize(), word.upper())},
}
_INTEGER = re.compile(r"([-+]?)(0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)")
_BASES = {"x": 16, "o": 8, "b": 2}
_MOST_DIGITS = 100
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NO_JSON = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WRITTEN_OUT = 1e21
"""Go's JSON encoder writes integral floats below this limit without a point or an exponent, that is, as integers."""

Value: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value, and its source text without quotes."""

    line: int
    text: str
    value: Value


class _Merge(Scalar):
    """The key `<<`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    line: int
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Fields:
    """A mapping whose keys are strings."""

    line: int
    of: Mapping[str, Node]


Node: TypeAlias = Scalar | Sequence | Fields


class YamlError(ValueError):
    """What is wrong, and the line number in the text, from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def nodes(text: str, first_line: int = 1) -> Iterator[Node]:
    """Yield the root of each document in a text that begins at line `first_line`; empty documents are skipped.

    Raises YamlError if the text is not YAML, if a key is repeated, if a tag is unknown, if the text has too many values
    or is nested too deeply, or if an alias is inside its own anchor.
    """
    try:
        yield from _Builder(first_line).build(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = " ".join(filter(None, (error.problem, error.context))) or "it ends too early"
        line = min(
            mark.line if mark else 0, text.rstrip().count("\n")
        )  # report unexpected ends at the last line of text
        raise YamlError(first_line + line, f"is not YAML: {said}") from None
    except yaml.YAMLError as error:  # a character that YAML does not allow
        at = getattr(error, "position", 0)
        line = first_line + text.count("\n", 0, at if isinstance(at, int) else 0)
        raise YamlError(line, f"is not YAML: {getattr(error, 'reason', error)}") from None


class _Open:
    """A mapping or a list that is not closed yet."""

    __slots__ = ("anchor", "depth", "fields", "items", "key", "line", "merged", "merging", "size")

    def __init__(self, line: int, anchor: str | None, *, mapping: bool) -> None:
        self.line, self.anchor = line, anchor
        self.fields: dict[str, Node] | None = {} if mapping else None
        self.items: list[Node] = []
        self.key: str | None = None
        self.merged: list[Fields] = []
        self.merging = False
        self.size = self.depth = 1

    def take(self, node: Node, at: int) -> None:
        """Take the next key, value or item. `at` is its line; an alias refers to a node of another line."""
        if self.fields is None:
            self.items.append(node)
        elif self.key is None:
            if not isinstance(node, Scalar):
                raise YamlError(at, "a key is a list or a mapping, not a text")
            self.merging = isinstance(node, _Merge)
            key = _key(node)
            if self.merged if self.merging else key in self.fields:
                raise YamlError(at, f'the key "{node.text}" is given twice')
            self.key = key
        elif self.merging:
            self.merged += _mappings(node, at)
            self.key = None
        else:
            self.fields[self.key] = node
            self.key = None

    def close(self) -> Node:
        if self.fields is None:
            return Sequence(self.line, tuple(self.items))
        for other in self.merged:
            for key, value in other.of.items():
                self.fields.setdefault(key, value)
        return Fields(self.line, self.fields)


def _mappings(node: Node, at: int) -> list[Fields]:
    several = node.items if isinstance(node, Sequence) else (node,)
    if not all(isinstance(one, Fields) for one in several):
        raise YamlError(at, f"{_MERGE} merges mappings only")
    return [one for one in several if isinstance(one, Fields)]


class _Builder:
    def __init__(self, first_line: int) -> None:
        self._first = first_line
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Node, int, int]] = {}
        self._repeated = 0

    def build(self, text: str) -> Iterator[Node]:
        """Yield the roots of the documents."""
        for event in yaml.parse(text, Loader=_Loader):
            root = self._root(event)
            if root is not None and not (isinstance(root, Scalar) and root.value is None):
                yield root

    def _root(self, event: Any) -> Node | None:
        line = self._first + event.start_mark.line
        match event:
            case yaml.DocumentStartEvent():
                self._anchors, self._repeated = {}, 0
            case yaml.AliasEvent():
                return self._placed(*self._alias(str(event.anchor), line), line)
            case yaml.ScalarEvent():
                size = 1 + len(event.value) // _PER_VALUE
                return self._anchored(_scalar(event, line), event.anchor, size, 0, line)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                if event.tag is not None and not event.tag.startswith(_TAG):
                    raise YamlError(line, f'the tag "{event.tag}" is not known')
                if len(self._open) >= _DEEPEST:
                    raise YamlError(line, f"is nested more than {_DEEPEST} deep")
                self._open.append(_Open(line, event.anchor, mapping=isinstance(event, yaml.MappingStartEvent)))
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                done = self._open.pop()
                return self._anchored(done.close(), done.anchor, done.size, done.depth, done.line)
        return None

    def _alias(self, name: str, line: int) -> tuple[Node, int, int]:
        """Return the node of an anchor, its number of values and its depth. Raise YamlError."""
        if name not in self._anchors:
            raise YamlError(line, f'there is no anchor "{name}" that is complete before its alias')
        node, size, depth = self._anchors[name]
        self._repeated += size
        if self._repeated > _MOST_REPEATED:
            raise YamlError(line, f"has aliases that repeat more than {_MOST_REPEATED:,} values")
        if len(self._open) + depth > _DEEPEST:
            raise YamlError(line, f"is nested more than {_DEEPEST} deep")
        return node, size, depth

    def _anchored(self, node: Node, anchor: str | None, size: int, depth: int, line: int) -> Node | None:
        if anchor is not None:
            self._anchors[anchor] = node, size, depth
        return self._placed(node, size, depth, line)

    def _placed(self, node: Node, size: int, depth: int, line: int) -> Node | None:
        """Add a node of `size` values to the innermost open node; return the node if it is a document's root."""
        if not self._open:
            return node
        above = self._open[-1]
        above.size += size
        above.depth = max(above.depth, depth + 1)
        if above.size > _MOST_NODES:
            raise YamlError(line, f"holds more than {_MOST_NODES:,} values")
        above.take(node, line)
        return None


def _key(node: Scalar) -> str:
    """Return a key as written in JSON."""
    if isinstance(node.value, bool):
        return str(node.value).lower()
    return str(node.value) if isinstance(node.value, int) else node.text


def _scalar(event: Any, line: int) -> Scalar:
    text: str = event.value
    tag = event.tag
    if tag is None and text == _MERGE and event.implicit[0]:
        return _Merge(line, text, text)
    if tag in (f"{_TAG}str", "!") or (tag is None and not event.implicit[0]):
        return Scalar(line, text, text)
    value = _resolved(text)
    if tag is not None:
        types = _TYPES.get(tag.removeprefix(_TAG)) if tag.startswith(_TAG) else None
        if types is None:
            raise YamlError(line, f'the tag "{tag}" is not known')
        if type(value) not in types:
            raise YamlError(line, f'"{text}" is no {tag.removeprefix(_TAG)}, as its tag says')
    if _NO_JSON.fullmatch(text):
        raise YamlError(line, f'"{text}" is not a number that JSON has')
    if isinstance(value, float) and value.is_integer() and abs(value) < _WRITTEN_OUT:
        value = int(value)
    return Scalar(line, text, value)


def _resolved(text: str) -> Value:
    """Return the value of a plain scalar by the rules of go-yaml v2."""
    if text in _WORDS:
        return _WORDS[text]
    plain = text.replace("_", "") if text[0] in "+-.0123456789" else ""
    if len(plain) <= _MOST_DIGITS and (found := _INTEGER.fullmatch(plain)):
        sign, digits = found.groups()
        base = _BASES.get(digits[1:2].lower(), 8 if digits.startswith("0") else 10)
        number = int(digits, base) * (-1 if sign == "-" else 1)
        if -(2**63) <= number < 2 ** (63 if sign else 64):
            return number
    if _FLOAT.fullmatch(plain) and math.isfinite(value := float(plain)):
        return value
    return text

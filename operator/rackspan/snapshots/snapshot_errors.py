"""Errors about snapshot files: one sentence each, with the position in the file."""

import re

from msgspec import DecodeError

from rackspan.core.text import shown

_AT = re.compile(r"(?P<what>.*?)(?: - at `(?P<path>\$.*)`)?", re.DOTALL)
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"Input data was truncated"), "ends too early: the file was cut off after {size} bytes"),
    (re.compile(r"JSON is malformed: (.+) \(byte (\d+)\)"), "is not JSON: {0} at byte {1}"),
    (re.compile(r"Object contains unknown field `(.*)`", re.DOTALL), 'unknown field "{0}"'),
    (re.compile(r"Object missing required field `(.*)`"), 'the field "{0}" is missing'),
    (re.compile(r"Expected `int` >= (\S+)"), "must be {0} or more"),
    (re.compile(r"Expected `int` <= (\S+)"), "must be {0} or less"),
    (re.compile(r"Expected `(.+)`, got `(.+)`"), "expected {kind0}, got {kind1}"),
    (re.compile(r"Number out of range|Integer value out of range"), "the number is out of range"),
)
MAX_SHOWN = 80
"""The most characters of a text from the file that an error message quotes."""
_KINDS = {
    "int": "an integer",
    "float": "a fraction",
    "str": "a string",
    "bool": "true or false",
    "array": "an array",
    "object": "an object",
    "null": "null",
    "bool | int | float | str | null": "a string, a number, true, false or null",
}


class SnapshotError(ValueError):
    """A snapshot file or log-dirs file that cannot be used. The message says where and why."""


class SnapshotFieldError(Exception):
    """An error at a path in the document, such as `$.topics[3].name`."""

    def __init__(self, path: str, sentence: str) -> None:
        super().__init__(f"{path}: {sentence}")


def describe_decode_error(error: DecodeError | UnicodeDecodeError | RecursionError, root: str, size: int) -> str:
    """Return a decoder's error as a sentence. `root` is the path that was decoded, `size` the file's size in bytes."""
    if isinstance(error, UnicodeDecodeError):
        return f"{root}: holds text that is not UTF-8"
    if isinstance(error, RecursionError):
        return f"{root}: is nested too deeply to be a snapshot"
    found = _AT.fullmatch(str(error))
    what, path = (found["what"], found["path"]) if found else (str(error), None)
    at = root + (path or "$").removeprefix("$")
    for rule, sentence in _RULES:
        match = rule.fullmatch(what)
        if match is None:
            continue
        groups = [shown(group, MAX_SHOWN) for group in match.groups()]
        kinds = {f"kind{number}": _kind(group) for number, group in enumerate(groups)}
        text = sentence.format(*groups, size=f"{size:,}", **kinds)
        return text if text.startswith(("ends", "is not JSON")) else f"{at}: {text}"
    return f"{at}: {shown(what, 200)}"


def _kind(types: str) -> str:
    return _KINDS.get(types) or " or ".join(_KINDS.get(one, one) for one in types.split(" | "))

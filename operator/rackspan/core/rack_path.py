"""Rack ids: paths such as `/eu/eu-1a/r7`, the values of `broker.rack` and `client.rack` (KIP-36, KIP-392).

A flat id such as `use1-az1` is a path of one step. This module needs only the standard library: the init container of
a broker reads rack ids and has to start as fast as Python does.
"""

from unicodedata import category

from rackspan.core.text import shown

RackPath = tuple[str, ...]

UNNAMED = "<unnamed>"
_LONGEST = 200  # characters of a rack id in an error message


class RackPathError(ValueError):
    """A rack id or rack pattern that is not a path of non-empty steps of printable characters without white space."""


def parse_rack(text: str) -> RackPath:
    """Return the path of a rack id; the leading slash is optional.

    Raises RackPathError, which says which step is wrong and why.
    """
    body, quoted = text.removeprefix("/"), shown(text, _LONGEST)
    if not body:
        raise RackPathError(f'rack id "{quoted}" is empty: write at least one step, such as "/zone-a"')
    steps = tuple(body.split("/"))
    for number, step in enumerate(steps, start=1):
        if not step:
            before = "/" + "/".join(steps[: number - 1])
            raise RackPathError(f'rack id "{quoted}": step {number} is empty (after "{shown(before, _LONGEST)}")')
        if " " in step or not step.isprintable():
            raise RackPathError(f'rack id "{quoted}": step {number} ("{shown(step, _LONGEST)}") holds {_unfit(step)}')
    return steps


def split_rack(text: str) -> RackPath:
    """Return the steps of a rack path without a check. A path that is not valid is then the path of no domain.

    This is for the specs of objects, because the Kubernetes API server knows other Unicode characters than Python.
    """
    return tuple(text.removeprefix("/").split("/"))


def rack_or_none(text: str | None) -> RackPath | None:
    """Return the path of a rack id; None if the id is missing or invalid."""
    try:
        return parse_rack(text) if text else None
    except RackPathError:
        return None


def _unfit(step: str) -> str:
    """Describe the first character of a step that is not allowed."""
    wrong = next(character for character in step if character == " " or not character.isprintable())
    if wrong.isspace():
        return "white space"
    return "a control character" if category(wrong) == "Cc" else "a character that is not printed"


def is_within(path: RackPath, domain: RackPath) -> bool:
    """Return whether a path is that of the domain itself or of a domain below it."""
    return path[: len(domain)] == domain


def format_rack(path: RackPath) -> str:
    """Return a rack id as written in `broker.rack`: a flat id for one step, a path for several."""
    return path[0] if len(path) == 1 else domain_name(path)


def domain_name(path: RackPath) -> str:
    """Return the name of a domain for people, always with a leading slash: `/eu/eu-1a`; the root is `/`."""
    return "/" + "/".join(step or UNNAMED for step in path)

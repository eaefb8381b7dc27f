"""Places where a history is kept: read into parts that can be compared, or refused. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

_SAME: Final = {"s3a": "s3", "s3n": "s3"}
"""Schemes that name one store by several words."""
_URI: Final = re.compile(r"([a-z][a-z0-9+.-]*)://([^/]*)(/.*)?", re.DOTALL)
_USER_INFO: Final = re.compile(r"(?<=://)[^/?#]*@")
_REFUSED: Final = {
    "?": "a query, which can send the release's credentials elsewhere",
    "#": "a fragment",
    "%": "a %, which can hide another character",
    "\\": "a backslash",
    "$": "a $, which Kubernetes would fill in",
}


class LocationError(ValueError):
    """No place that a history may be kept at; the message never quotes the location, which may hold a password."""


@dataclass(frozen=True, slots=True)
class Location:
    """A path, or a URI by its parts: `authority` is a bucket or a host, `steps` are the names along the path."""

    scheme: str
    authority: str
    steps: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `spec.compliance.historyLocation`, or what a chart's list allows. Raises LocationError."""
        for character, what in _REFUSED.items():
            if character in text:
                raise LocationError(f"it has {what}")
        if not text.isprintable() or any(character.isspace() for character in text):
            raise LocationError("it has a space or a control character")
        uri = _URI.fullmatch(text)
        if uri is None and not text.startswith("/"):
            raise LocationError("it is neither an absolute path nor a URI such as s3a://bucket/rackspan")
        scheme, authority, path = uri.groups() if uri else ("", "", text)
        if "@" in authority:
            raise LocationError("it has a user or a password, which everybody who may read reports would see")
        steps = tuple((path or "").removeprefix("/").removesuffix("/").split("/")) if path and path != "/" else ()
        if any(step in ("", ".", "..") for step in steps):
            raise LocationError("its path has an empty step, . or ..")
        return cls(_SAME.get(scheme, scheme), authority, steps)

    def within(self, other: Location) -> bool:
        """Whether this is the other place, or lies below it."""
        return (
            self.scheme == other.scheme
            and self.authority == other.authority
            and self.steps[: len(other.steps)] == other.steps
        )


def without_secrets(location: str) -> str:
    """A location as it may be shown: without user, password, query and fragment."""
    return _USER_INFO.sub("", location).partition("?")[0].partition("#")[0] if "://" in location else location

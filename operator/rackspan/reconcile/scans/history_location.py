"""Parses and validates locations of the scan history: absolute paths, or URIs of object stores. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

_SCHEME_ALIASES: Final = {"s3a": "s3", "s3n": "s3", "abfs": "abfss"}
"""Schemes that are aliases of another scheme."""
_URI: Final = re.compile(r"([a-z][a-z0-9+.-]*)://([^/]*)(/.*)?", re.DOTALL)
_USER_INFO: Final = re.compile(r"(?<=://)(?:[^/?#]*|[^/?#]*:[^?#]*)@")
"""The user and password of a URI, even if the password has a slash and so looks like a path."""
_CONTAINER: Final = re.compile(r"abfss?://[a-z0-9-]+@[a-z0-9.-]+(?=/|$)")
"""The start of an Azure URI, which has the container before the storage account's host."""
_REFUSED: Final = {
    "?": "a query, which can send the release's credentials elsewhere",
    "#": "a fragment",
    "%": "a %, which can hide another character",
    "\\": "a backslash",
    "$": "a $, which Kubernetes would fill in",
}


class LocationError(ValueError):
    """An invalid location. The message never quotes it, because it may contain a password."""


@dataclass(frozen=True, slots=True)
class Location:
    """An absolute path or a URI. `authority` is a bucket or a host, `segments` are the parts of the path."""

    scheme: str
    authority: str
    segments: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `spec.compliance.historyLocation`, or an entry of scan.allowedLocations. Raises LocationError."""
        for character, what in _REFUSED.items():
            if character in text:
                raise LocationError(f"it has {what}")
        if not text.isprintable() or any(character.isspace() for character in text):
            raise LocationError("it has a space or a control character")
        uri = _URI.fullmatch(text)
        if uri is None and not text.startswith("/"):
            raise LocationError("it is neither an absolute path nor a URI such as s3a://bucket/rackspan")
        scheme, authority, path = uri.groups() if uri else ("", "", text)
        if "@" in authority and _CONTAINER.match(text) is None:
            raise LocationError("it has a user or a password, which everybody who may read reports would see")
        segments = tuple((path or "").removeprefix("/").removesuffix("/").split("/")) if path and path != "/" else ()
        if any(segment in ("", ".", "..") for segment in segments):
            raise LocationError("its path has an empty step, . or ..")
        return cls(_SCHEME_ALIASES.get(scheme, scheme), authority, segments)

    def within(self, other: Location) -> bool:
        """Return whether this location is `other` or is below `other`."""
        return (
            self.scheme == other.scheme
            and self.authority == other.authority
            and self.segments[: len(other.segments)] == other.segments
        )


def without_secrets(location: str) -> str:
    """Return a location that is safe to show: without user, password, query and fragment."""
    if "://" not in location:
        return location
    named = location if _CONTAINER.match(location) else _USER_INFO.sub("", location)
    return named.partition("?")[0].partition("#")[0]

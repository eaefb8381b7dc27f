"""Moments as the Kubernetes API writes them."""

from datetime import UTC, datetime
from typing import Annotated, TypeAlias

from msgspec import Meta

Time: TypeAlias = Annotated[datetime, Meta(tz=True)]
"""A moment with its time zone, as a field of an object is declared."""


def timestamp(when: datetime) -> str:
    """RFC 3339 in UTC, to the second."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

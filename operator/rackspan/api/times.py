"""Moments as the Kubernetes API writes them."""

from datetime import UTC, datetime


def timestamp(when: datetime) -> str:
    """RFC 3339 in UTC, to the second."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

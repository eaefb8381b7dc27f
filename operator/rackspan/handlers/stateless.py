"""Switches off kopf's record of objects' last handled state, which level-triggered reconciling does not need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import kopf

if TYPE_CHECKING:
    from collections.abc import Iterable


class NoDiffBase(kopf.DiffBaseStorage):
    """Stores nothing.

    Kopf would build this record for every event, as a deep copy of the object, even where no handler uses differences.
    """

    def build(self, *, body: kopf.Body, extra_fields: Iterable[Any] | None = None) -> kopf.BodyEssence:  # noqa: ARG002
        """An empty record."""
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:  # noqa: ARG002
        """None: no record is stored."""
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Do nothing."""

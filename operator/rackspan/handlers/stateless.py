"""No state of kopf's on any object: every pass starts from what is there now, so no earlier state is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import kopf

if TYPE_CHECKING:
    from collections.abc import Iterable


class NoDiffBase(kopf.DiffBaseStorage):
    """Kopf's record of what an object was like when it was last handled: here there is none.

    kopf builds this record for every event, a deep copy of the object, even where no handler asks for differences.
    """

    def build(self, *, body: kopf.Body, extra_fields: Iterable[Any] | None = None) -> kopf.BodyEssence:  # noqa: ARG002
        """Nothing."""
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:  # noqa: ARG002
        """Nothing."""
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """NoTopology."""

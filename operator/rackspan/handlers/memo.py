"""What kopf passes to every handler as `memo`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rackspan.kube.authentication import Authentication
    from rackspan.reconcile.manager import Manager


@dataclass(frozen=True, slots=True)
class Memo:
    """Copied by kopf for each object, so it holds only references."""

    manager: Manager
    access: Authentication

"""What kopf hands to every handler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rackspan.kube.authentication import Authentication
    from rackspan.reconcile.manager import Manager


@dataclass(frozen=True, slots=True)
class Memo:
    """Copied by kopf per object, so it holds references and nothing else."""

    controller: Manager
    access: Authentication

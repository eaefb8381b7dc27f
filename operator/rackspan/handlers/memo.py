"""What kopf hands to every handler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rackspan.reconcile.controller import Controller


@dataclass(frozen=True, slots=True)
class Memo:
    """Copied by kopf per object, so it holds one reference and nothing else."""

    controller: Controller

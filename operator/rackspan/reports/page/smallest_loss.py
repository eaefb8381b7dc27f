"""The smallest loss that takes partitions offline or stops writes. The page shows it first."""

from collections.abc import Callable

from msgspec import Struct

from rackspan.core.scanning.rules import Severity
from rackspan.reports.document import ScanDocument, Summary, WhatIf


class Loss(Struct, frozen=True):
    """`kind` is a level or `broker`, `name` the worst of that kind, `effect` the effect of its loss on partitions."""

    kind: str
    name: str
    effect: str
    partitions: int


_EFFECTS: tuple[tuple[str, Callable[[WhatIf], int], Callable[[Summary], int]], ...] = (
    ("offline", lambda loss: loss.offline, lambda now: now.offline),
    ("not writable", lambda loss: loss.not_writable, lambda now: now.by_severity.get(Severity.CRITICAL, 0)),
)
"""Names of effects, the partitions after a loss, and those of the summary, which has a critical finding for each
partition that is not writable."""


def smallest_loss(document: ScanDocument) -> Loss | None:
    """Return the smallest domain whose loss takes partitions offline, else the smallest that stops writes, else None.

    Brokers are smaller than every domain, and lower levels are smaller than higher ones. The worst of a kind is named.
    Effects that exist without a loss do not count. They are those of the loss of an offline broker, which changes
    nothing. Without one, they are those of the summary, but no more than after the mildest loss.
    """
    kinds = {"broker": [(str(row.id), row.what_if) for row in document.brokers if row.online]}
    for level in reversed(document.levels):
        kinds[level] = [(row.domain, row.what_if) for row in document.domains if row.level == level]
    for effect, measure, counted in _EFFECTS:
        already = min((measure(row.what_if) for row in document.brokers), default=0)
        if all(row.online for row in document.brokers):
            already = min(already, counted(document.summary))
        for kind, losses in kinds.items():
            worst = max(losses, key=lambda each: measure(each[1]), default=None)
            if worst is not None and measure(worst[1]) > already:
                return Loss(kind, worst[0], effect, measure(worst[1]) - already)
    return None

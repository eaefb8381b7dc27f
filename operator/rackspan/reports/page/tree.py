"""The rack tree of a scan, for drawing: domains as nested boxes that contain brokers."""

from dataclasses import dataclass, field

from rackspan.reports.document import BrokerRow, DomainRow, ScanDocument
from rackspan.reports.page.vocabulary import worst


@dataclass(slots=True)
class Box:
    """A domain with the domains and brokers in it. `row` is None if the scan has no figures for the domain."""

    name: str
    domain: str
    level: str
    row: DomainRow | None = None
    boxes: list["Box"] = field(default_factory=list)
    brokers: list[BrokerRow] = field(default_factory=list)

    def every_broker(self) -> list[BrokerRow]:
        """Return the brokers of the domain, in the order of the drawing."""
        return [*(broker for box in self.boxes for broker in box.every_broker()), *self.brokers]

    def worst(self) -> str | None:
        """Return the worst severity of the domain itself and of its brokers, None if nothing is wrong."""
        return worst([self.row.worst if self.row else None, *(broker.worst for broker in self.every_broker())])


def rack_tree(document: ScanDocument) -> Box:
    """Return the tree. Its root is the cluster, which directly contains the brokers without a rack."""
    root = Box(document.cluster, "", "cluster")
    boxes: dict[tuple[str, ...], Box] = {(): root}
    rows = {_steps(row.domain): row for row in document.domains}

    def box(steps: tuple[str, ...]) -> Box:
        if steps not in boxes:
            row = rows.get(steps)
            depth = len(steps) - 1
            level = row.level if row else document.levels[depth] if depth < len(document.levels) else "domain"
            boxes[steps] = Box(steps[-1], "/" + "/".join(steps), level, row)
            box(steps[:-1]).boxes.append(boxes[steps])
        return boxes[steps]

    root.row = rows.get(())
    for steps in sorted(rows):
        box(steps)
    for broker in sorted(document.brokers, key=lambda row: row.id):
        box(_steps(broker.rack or "")).brokers.append(broker)
    for each in boxes.values():
        each.boxes.sort(key=lambda inner: inner.name)
    return root


def _steps(path: str) -> tuple[str, ...]:
    return tuple(filter(None, path.split("/")))

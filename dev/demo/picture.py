"""The placement of a topic as a text picture: a row per domain of the rack tree, a column per partition, and sums.

            partition    0  1  2   replicas  leaders
    eu                   2  1  2          5        1
    ├─ eu-1a             1  ·  2          3        1
    │  ├─ broker 0       ●  ·  ○          2        1
    ...

The functions are pure: they convert a tree and replica lists to lines of spans. A span has a role, from which the
caller derives its colour. The picture is complete without colours.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from rackspan.core.compliance import Violation
from rackspan.core.rack_path import UNNAMED, RackPath, domain_name
from rackspan.core.topology import Broker, RackTree

_SUMS = ("replicas", "leaders")
_TAKES_NONE = " (takes none)"


class Role(Enum):
    """The meaning of a span, which determines its colour."""

    FRAME = auto()
    HEADING = auto()
    DOMAIN = auto()
    BROKER = auto()
    NOTHING = auto()
    REPLICA = auto()
    LEADER = auto()
    WRONG = auto()


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line."""

    text: str
    role: Role


Line = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters of a picture."""

    leader: str
    replica: str
    nothing: str
    joint: str
    branch: str
    last_branch: str
    trunk: str

    @property
    def legend(self) -> str:
        """The meaning of the cells."""
        return f"{self.leader} preferred leader, {self.replica} replica, 2 replicas below, ! non-compliant"


UNICODE = Glyphs("●", "○", "·", " · ", "├─ ", "└─ ", "│  ")
ASCII = Glyphs("L", "r", ".", " - ", "+- ", "`- ", "|  ")


@dataclass(frozen=True, slots=True)
class _Row:
    """A domain or a broker. A domain with only one child is joined with it."""

    label: str
    brokers: frozenset[int]
    names: frozenset[str] = frozenset()  # names of the domains of this row in findings
    broker: int | None = None  # set if the row is, or ends in, a broker
    note: str = ""
    children: "tuple[_Row, ...]" = ()


def picture(
    tree: RackTree,
    replicas: Sequence[Sequence[int]],
    *,
    findings: Iterable[Violation] = (),
    width: int = 100,
    glyphs: Glyphs = UNICODE,
) -> tuple[Line, ...]:
    """Draw where the replicas of one topic are.

    `replicas` are broker ids by partition, the preferred leader first. Cells with `findings` get a `!`. The picture
    shows the partitions that fit into `width` columns. The sums on the right count all partitions.
    """
    busy = {broker.id for broker in tree.brokers if broker.eligible}.union(*replicas)
    rows = [_folded(row, busy) for row in _children(tree, tree.brokers, (), glyphs)]
    drawn = [*_forest([*rows, *_strangers(tree, replicas)], glyphs)]
    marks = {(finding.partition, finding.domain) for finding in findings}  # /eu/eu-1a, or a broker's id
    left = max((len(frame + row.label + row.note) for frame, row in drawn), default=0)
    cell = max(3, len(str(max(len(replicas) - 1, 0))) + 2)
    right = sum(len(name) + 2 for name in _SUMS)
    shown = min(len(replicas), max(1, (width - left - right) // cell))
    lines = [_heading(left, cell, shown)]
    lines += [
        (
            Span(frame, Role.FRAME),
            Span(row.label, Role.DOMAIN if row.broker is None else Role.BROKER),
            Span(row.note.ljust(left - len(frame + row.label)), Role.NOTHING),
            *(_cell(row, partition, replicas[partition], cell, marks, glyphs) for partition in range(shown)),
            *_sums(row, replicas),
        )
        for frame, row in drawn
    ]
    if shown < len(replicas):
        rest = f"{len(replicas) - shown} more partitions are not shown; the sums count them"
        lines.append((Span(rest, Role.NOTHING),))
    return tuple(lines)


def plain(lines: Iterable[Line]) -> str:
    """Return the picture without colours."""
    return "\n".join("".join(span.text for span in line).rstrip() for line in lines)


def _heading(left: int, cell: int, shown: int) -> Line:
    numbers = "".join(str(partition).rjust(cell - 1) + " " for partition in range(shown))
    sums = "".join("  " + name for name in _SUMS)
    return (Span("partition".rjust(left)[-left:] + numbers + sums, Role.HEADING),)


def _cell(
    row: _Row, partition: int, holders: Sequence[int], width: int, marks: set[tuple[int, str]], glyphs: Glyphs
) -> Span:
    held = sum(broker in row.brokers for broker in holders)
    leads = bool(holders) and holders[0] in row.brokers
    wrong = any((partition, name) in marks for name in (*row.names, str(row.broker)))
    if row.broker is not None:
        text = glyphs.leader if leads else glyphs.replica if held else glyphs.nothing
    else:
        text = str(held) if held else glyphs.nothing
    role = Role.WRONG if wrong else Role.LEADER if leads else Role.REPLICA if held else Role.NOTHING
    return Span(text.rjust(width - 1) + ("!" if wrong else " "), role)


def _sums(row: _Row, replicas: Sequence[Sequence[int]]) -> Iterator[Span]:
    held = sum(broker in row.brokers for holders in replicas for broker in holders)
    led = sum(bool(holders) and holders[0] in row.brokers for holders in replicas)
    for name, number in zip(_SUMS, (held, led), strict=True):
        yield Span("  " + str(number).rjust(len(name)), Role.REPLICA if number else Role.NOTHING)


def _forest(rows: Sequence[_Row], glyphs: Glyphs) -> Iterator[tuple[str, _Row]]:
    for row in rows:
        yield "", row
        yield from _branches(row.children, glyphs, "")


def _branches(rows: Sequence[_Row], glyphs: Glyphs, frame: str) -> Iterator[tuple[str, _Row]]:
    for row in rows:
        last = row is rows[-1]
        yield frame + (glyphs.last_branch if last else glyphs.branch), row
        yield from _branches(row.children, glyphs, frame + (" " * len(glyphs.trunk) if last else glyphs.trunk))


def _folded(row: _Row, busy: set[int]) -> _Row:
    """Return the row, without its children if no broker below has or may get a replica."""
    if row.children and not row.brokers & busy:
        return replace(row, note=_TAKES_NONE, children=())
    return replace(row, children=tuple(_folded(child, busy) for child in row.children))


def _children(tree: RackTree, brokers: Sequence[Broker], above: RackPath, glyphs: Glyphs) -> tuple[_Row, ...]:
    """Return the rows below the domain `above`, which contains `brokers`."""
    depth = len(above)
    if depth == len(tree.levels):
        return tuple(_broker_row(broker) for broker in brokers)
    by_step: dict[str, list[Broker]] = {}
    for broker in brokers:
        by_step.setdefault(_step(broker, depth), []).append(broker)
    return tuple(_domain_row(tree, by_step[step], (*above, step), glyphs) for step in sorted(by_step))


def _domain_row(tree: RackTree, brokers: Sequence[Broker], path: RackPath, glyphs: Glyphs) -> _Row:
    label, name = path[-1] or UNNAMED, domain_name(path)
    children = _children(tree, brokers, path, glyphs)
    if len(children) == 1:
        child = children[0]
        joined = label + glyphs.joint + child.label if path[-1] else child.label
        return replace(child, label=joined, names=child.names | {name})
    return _Row(label, frozenset(broker.id for broker in brokers), names=frozenset({name}), children=children)


def _broker_row(broker: Broker) -> _Row:
    note = " (offline)" if not broker.online else _TAKES_NONE if not broker.eligible else ""
    return _Row(f"broker {broker.id}", frozenset({broker.id}), broker=broker.id, note=note)


def _strangers(tree: RackTree, replicas: Sequence[Sequence[int]]) -> Iterator[_Row]:
    """Yield rows of brokers that have replicas but are not in the tree."""
    known = {broker.id for broker in tree.brokers}
    for broker in sorted({broker for row in replicas for broker in row} - known):
        yield _Row(f"broker {broker}", frozenset({broker}), broker=broker, note=" (unknown)")


def _step(broker: Broker, depth: int) -> str:
    return broker.rack[depth] if broker.rack is not None and len(broker.rack) > depth else ""

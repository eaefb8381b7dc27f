"""Findings as parallel arrays, and the ids by which the next scan recognizes them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import Self

import numpy as np
import numpy.typing as npt

from rackspan.core.compliance import BROKER_LEVEL
from rackspan.core.compliance import REASONS as COMPLIANCE_REASONS
from rackspan.core.rack_path import domain_name
from rackspan.core.scanning.rules import RULES, SEVERITIES, SEVERITY_OF, Rule
from rackspan.core.topology import BoolArray, IntArray, RackTree

ASSIGNMENT_DIFFERS = "AssignmentDiffers"
ONLY_ELIGIBLE, NONE_ELIGIBLE = "OnlyEligible", "NoneEligible"
"""Reasons for partitions without a leader: only one replica, or no known replica, can lead without data loss."""
NO_RACK = "NoRack"
NO_VALUE = "NoValue"
"""The reason if no `min.insync.replicas` of the topic meets its durability."""
REASONS = (*map(str, COMPLIANCE_REASONS), ASSIGNMENT_DIFFERS, ONLY_ELIGIBLE, NONE_ELIGIBLE, NO_RACK, NO_VALUE)
_FIXED_BY_REASON = (Rule.OFFLINE, Rule.MIN_INSYNC_TOO_SMALL, Rule.MIN_INSYNC_TOO_LARGE)
NONE = -1
"""The value if a finding has no topic, partition, broker, level, domain or reason."""

Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Facts:
    """One finding, with names instead of indexes. A field that does not apply is None or 0."""

    rule: Rule
    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    level: str | None = None
    domain: str | None = None
    reason: str | None = None
    excess: int = 0
    moves: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """Findings, shape (findings,) each.

    `rule`, `severity` and `reason` are indexes into RULES, SEVERITIES and REASONS. `topic` is an index into the names
    of the examined topics, `level` an index into the tree's levels, `domain` an index into the domains of that level.

    `excess` is the amount by which a number is too high, negative if too low. For an offline broker it is the number of
    partitions with a replica there. `moves` is the fewest replicas to copy to fix the whole partition, including its
    replication factor. Several findings about one partition have the same moves. A finding about a broker, or about the
    replication factor of a topic, has the sum over its partitions.
    """

    rule: IntArray
    severity: IntArray
    topic: IntArray
    partition: IntArray
    broker: IntArray
    level: IntArray
    domain: IntArray
    reason: IntArray
    excess: IntArray
    moves: IntArray

    def __len__(self) -> int:
        return len(self.rule)

    @classmethod
    def of(cls, rule: Rule, count: int, severity: IntArray | None = None, **columns: IntArray) -> Self:
        """Return `count` findings of one rule; omitted columns are NONE, and 0 for `excess` and `moves`."""
        ranks = SEVERITY_OF[rule].rank if severity is None else severity
        given = {"rule": RULES.index(rule), "severity": ranks, "excess": 0, "moves": 0, **columns}
        return cls(*(_column(given.get(field.name, NONE), count) for field in fields(cls)))

    @classmethod
    def joined(cls, parts: Sequence["Findings"]) -> Self:
        """Return the concatenated findings."""
        return cls(*(np.concatenate([_column((), 0), *(getattr(part, f.name) for part in parts)]) for f in fields(cls)))

    def rows(self, chosen: BoolArray | IntArray) -> "Findings":
        """Return the chosen findings."""
        return Findings(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def ids(self, cluster: str, names: Sequence[str], tree: RackTree) -> npt.NDArray[np.int64]:
        """Return the 64-bit ids, shape (findings,): hashes of what is wrong and where, but not of how much.

        Ids depend on names, never on the order of lists. For a partition that is offline, and for
        `min.insync.replicas`, the broker and the reason only describe the fix, so they are not part of the id.
        """
        described = np.isin(self.rule, [RULES.index(rule) for rule in _FIXED_BY_REASON])
        reason, broker = (np.where(described, NONE, column) for column in (self.reason, self.broker))
        mixed = np.full(len(self), _hash(cluster), dtype=np.uint64)
        for code, texts in (
            (self.rule, [str(rule) for rule in RULES]),
            (self.topic, names),
            (reason, REASONS),
            (self.level, [*tree.levels, BROKER_LEVEL]),
        ):
            mixed = _mix(mixed ^ _looked_up(code, texts))
        for number in (self.partition, broker):
            mixed = _mix(mixed ^ number.astype(np.uint64))
        return _mix(mixed ^ _domain_hashes(self, tree)).view(np.int64)

    def facts(self, names: Sequence[str], tree: RackTree) -> Iterator[Facts]:
        """Yield each finding with names; `names` are those of the topics."""
        levels = (*tree.levels, BROKER_LEVEL)
        columns = [getattr(self, field.name).tolist() for field in fields(self)]
        for row, domain in zip(zip(*columns, strict=True), self.domains(tree), strict=True):
            rule, _, topic, partition, broker, level, _, reason, excess, moves = row
            yield Facts(
                RULES[rule],
                None if topic == NONE else names[topic],
                None if partition == NONE else partition,
                None if broker == NONE else broker,
                None if level == NONE else levels[level],
                domain,
                None if reason == NONE else REASONS[reason],
                excess,
                moves,
            )

    def domains(self, tree: RackTree) -> list[str | None]:
        """Return the domain of each finding, such as `/eu/eu-1a`; None if a finding has no domain."""
        names = [[domain_name(path) for path in level.paths] for level in tree.nodes[1:-1]]
        pairs = zip(self.level.tolist(), self.domain.tolist(), strict=True)
        return [names[level][at] if 0 <= level < len(names) and at >= 0 else None for level, at in pairs]


def _column(value: object, count: int) -> IntArray:
    return np.array(np.broadcast_to(np.asarray(value, dtype=np.int64), (count,)))


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def _looked_up(code: IntArray, texts: Sequence[str]) -> Hashes:
    used = np.unique(code[code >= 0])
    table = np.zeros(len(texts) + 1, dtype=np.uint64)  # the last entry is for NONE
    table[used] = [_hash(texts[at]) for at in used.tolist()]
    return table[code]


def _domain_hashes(findings: Findings, tree: RackTree) -> Hashes:
    hashes = np.zeros(len(findings), dtype=np.uint64)
    for at, level in enumerate(tree.nodes[1:-1]):
        here = np.flatnonzero((findings.level == at) & (findings.domain >= 0))
        hashes[here] = _looked_up(findings.domain[here], [domain_name(path) for path in level.paths])
    return hashes


def _mix(values: Hashes) -> Hashes:
    """Mix each bit into all 64 bits (the finalizer of SplitMix64, Steele et al. 2014)."""
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    spread: Hashes = mixed ^ (mixed >> np.uint64(31))
    return spread


__all__ = ["ASSIGNMENT_DIFFERS", "NONE", "REASONS", "RULES", "SEVERITIES", "Facts", "Findings"]

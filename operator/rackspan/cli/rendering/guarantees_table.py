"""What acknowledged writes survive, as a table of kinds of topics and as a document per topic."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console

from rackspan.cli.rendering.tables import print_hidden, table
from rackspan.core.config_keys import MIN_INSYNC
from rackspan.core.durability import LevelGuarantee, WriteGuarantee

_Kind = tuple[int, tuple[LevelGuarantee, ...]]
"""The content of a row: `min.insync.replicas`, and the levels."""


def guarantee_documents(
    names: Sequence[str], inherited: Sequence[frozenset[str]], guarantees: Mapping[int, WriteGuarantee]
) -> Iterator[dict[str, Any]]:
    """Yield a document per topic, sorted by name. `inherited` are the configs of each topic that come from brokers."""
    for at in sorted(guarantees, key=names.__getitem__):
        found = guarantees[at]
        yield {
            "topic": names[at],
            "replicationFactor": found.replicas,
            "minInsyncReplicas": found.min_insync,
            "inherited": bool(inherited) and MIN_INSYNC in inherited[at],
            "levels": level_documents(found.levels),
            "message": found.sentence,
        }


def level_documents(levels: Sequence[LevelGuarantee]) -> list[dict[str, Any]]:
    """Return a document per level."""
    return [
        {
            "level": one.level,
            "domains": one.domains,
            "keepsWrites": one.keeps_writes,
            "staysWritable": one.stays_writable,
        }
        for one in levels
    ]


def print_guarantees(
    screen: Console, names: Sequence[str], guarantees: Mapping[int, WriteGuarantee], most: int
) -> None:
    """Print one row for all topics with the same guarantee, the weakest guarantee first."""
    kinds: dict[_Kind, list[str]] = {}
    for at in sorted(guarantees, key=names.__getitem__):
        kinds.setdefault((guarantees[at].min_insync, guarantees[at].levels), []).append(names[at])
    if not kinds:
        return
    levels = [one.level for one in next(iter(guarantees.values())).levels]
    screen.print("writes acknowledged with acks=all: how many domains hold one, at least, and what a loss may do;")
    screen.print("with acks=1 on one broker only:")
    rows = table("#topics", "such as", "#min.insync.replicas", *(f"#{level}" for level in levels))
    for kind in sorted(kinds, key=_strength)[:most]:
        min_insync, found = kind
        rows.add_row(f"{len(kinds[kind]):,}", kinds[kind][0], str(min_insync), *map(level_cell, found))
    screen.print(rows)
    print_hidden(screen, len(kinds) - most, "more row")


def _strength(kind: _Kind) -> tuple[tuple[int, ...], tuple[bool, ...], int]:
    min_insync, levels = kind
    kept = tuple(min(one.domains, 2) for one in reversed(levels))
    return kept, tuple(one.stays_writable for one in levels), min_insync


def level_cell(one: LevelGuarantee) -> str:
    """Return what happens if one domain is lost, such as `2`, `1, lost` or `2, stops`."""
    words = [str(one.domains)]
    if not one.keeps_writes:
        words.append("lost")
    if not one.stays_writable:
        words.append("stops")
    return ", ".join(words)

"""Compares topic configs by value, not by spelling, and finds configs that Kafka refuses. Pure.

Kafka normalizes values (`ConfigDef.convertToString`), so that a comparison of texts would always report a difference:

    set                 returned
    `TRUE`              `true`
    `0.70`              `0.7`
    `compact, delete`   `compact,delete`
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rackspan.api.reasons import Reason
from rackspan.core.text import shown
from rackspan.reconcile.ports import KubernetesEvent

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from rackspan.reconcile.ports import ConfigChange, ObjectRef


_LONGEST_NUMBER = 400
"""The most characters of a number: longer than any double, and within the digits that Python converts to an int."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def differing(wanted: Mapping[str, str], own: Mapping[str, str | None]) -> Mapping[str, str]:
    """Return the entries of `wanted` whose value differs from that in `own`, the configs set on the topic itself."""
    return {
        key: value for key, value in wanted.items() if (there := own.get(key)) is None or not same_value(value, there)
    }


def same_value(one: str, other: str) -> bool:
    """Return whether Kafka parses both texts to the same value, in lists item by item."""
    return one == other or _items(one) == _items(other)


def _items(text: str) -> list[str | float]:
    return [_item(part.strip()) for part in text.split(",")]


def _item(text: str) -> str | float:
    if text.lower() in ("true", "false"):
        return text.lower()
    if len(text) > _LONGEST_NUMBER or not _NUMBER.fullmatch(text):
        return text
    return int(text) if text.lstrip("+-").isdigit() else float(text)


def config_event(about: ObjectRef, change: ConfigChange, why: str = "set") -> KubernetesEvent:
    """Return the Event for configs that were set."""
    what = ", ".join(f"{key}={value}" for key, value in sorted(change.set.items()))
    return KubernetesEvent(about, Reason.CONFIG_UPDATED, f"topic {change.name}: {why}: {what}")


# --- what Kafka takes as a topic's configs, for where Kafka cannot be asked -------------------------------------------

# The names, types and bounds are those of `LogConfig` of Kafka 4.4. A test compares them with the brokers' responses.
# Only Kafka knows which configs older brokers lack, and the rules about several configs.

_MAX_SHOWN: Final = 80
_WHOLE: Final = re.compile(r"[+-]?0*\d{1,19}")
_DOUBLE: Final = re.compile(r"[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?)[fFdD]?|[+-]?0[xX].*[pP].*")
"""Doubles as Java's Double.valueOf reads them. Hexadecimal values are left to Kafka."""
_INT: Final = 2**31 - 1
_LONG: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class _Whole:
    least: int
    most: int
    or_: int | None = None

    def wrong_with(self, text: str) -> str | None:
        if _WHOLE.fullmatch(text) and (self.least <= int(text) <= self.most or int(text) == self.or_):
            return None
        beside = "" if self.or_ is None else f", or {self.or_}"
        return f"is not a whole number from {self.least} to {self.most}{beside}"


@dataclass(frozen=True, slots=True)
class _Share:
    def wrong_with(self, text: str) -> str | None:
        if not (found := _DOUBLE.fullmatch(text)):
            return "is not a number from 0 to 1"
        digits = found[2] and float(f"{found[2]}{found[3] or ''}")
        outside = found[1] == "Infinity" or (digits and (text.startswith("-") or digits > 1))
        return "is not a number from 0 to 1" if outside else None


@dataclass(frozen=True, slots=True)
class _Words:
    words: tuple[str, ...]
    several: bool = False
    any_case: bool = False

    def wrong_with(self, text: str) -> str | None:
        given = [text]
        if self.several:
            given = [one.strip() for one in text.split(",")] if text else []
        known = [one.lower() if self.any_case else one for one in given]
        if set(known) <= set(self.words):
            return None
        return f"is {'no list' if self.several else 'none'} of {', '.join(self.words)}"


_BOOLEAN: Final = _Words(("true", "false"), any_case=True)
KNOWN: Final[Mapping[str, _Whole | _Share | _Words]] = {
    "cleanup.policy": _Words(("compact", "delete"), several=True),
    "compression.gzip.level": _Whole(1, 9, or_=-1),
    "compression.lz4.level": _Whole(1, 17),
    "compression.type": _Words(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
    "compression.zstd.level": _Whole(-131072, 22),
    "delete.retention.ms": _Whole(0, _LONG),
    "errors.deadletterqueue.group.enable": _BOOLEAN,
    "file.delete.delay.ms": _Whole(0, _LONG),
    "flush.messages": _Whole(1, _LONG),
    "flush.ms": _Whole(0, _LONG),
    "index.interval.bytes": _Whole(0, _INT),
    "local.retention.bytes": _Whole(-2, _LONG),
    "local.retention.ms": _Whole(-2, _LONG),
    "max.compaction.lag.ms": _Whole(1, _LONG),
    "max.decompressed.message.bytes": _Whole(1, 2147483639),
    "max.message.bytes": _Whole(0, _INT),
    "message.timestamp.after.max.ms": _Whole(0, _LONG),
    "message.timestamp.before.max.ms": _Whole(0, _LONG),
    "message.timestamp.type": _Words(("CreateTime", "LogAppendTime")),
    "min.cleanable.dirty.ratio": _Share(),
    "min.compaction.lag.ms": _Whole(0, _LONG),
    "min.insync.replicas": _Whole(1, _INT),
    "preallocate": _BOOLEAN,
    "remote.copy.lag.bytes": _Whole(-1, _LONG),
    "remote.copy.lag.ms": _Whole(-1, _LONG),
    "remote.log.copy.disable": _BOOLEAN,
    "remote.log.delete.on.disable": _BOOLEAN,
    "remote.storage.enable": _BOOLEAN,
    "retention.bytes": _Whole(-(2**63), _LONG),
    "retention.ms": _Whole(-1, _LONG),
    "segment.bytes": _Whole(1 << 20, _INT),
    "segment.index.bytes": _Whole(4, _INT),
    "segment.jitter.ms": _Whole(0, _LONG),
    "segment.ms": _Whole(1, _LONG),
    "unclean.leader.election.enable": _BOOLEAN,
}


def refused_configs(config: Mapping[str, str], also: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield each config that Kafka refuses, and why. Names in `also` are valid as well, with any value.

    Kafka's internal configs begin with `internal.`. Kafka gives no guarantee about them, so they are left to Kafka.
    """
    for key, value in config.items():
        rule = KNOWN.get(key)
        if rule is not None:
            wrong = rule.wrong_with(value.strip())
            if wrong is not None:
                yield key, f'"{shown(value, _MAX_SHOWN)}" {wrong}'
        elif key not in also and not key.startswith("internal."):
            yield key, "Kafka has no such config of a topic"

"""
Refuses keys that an object has twice: JSON leaves open which value counts, and the decoder silently takes the last one.

A text has one colon per key that was decoded, and those in its strings. Only where it has more is it decoded again key
by key, so a file of millions of partitions is decoded once.
"""

import json
from contextlib import suppress
from operator import attrgetter
from typing import Any

from msgspec import UNSET, Raw

from rackspan.core.text import shown
from rackspan.snapshots.schema import SnapshotDocument, TopicDocument
from rackspan.snapshots.snapshot_errors import MAX_SHOWN, SnapshotFieldError

_COLON = b":"
_REQUIRED = 2  # of each kind of object, but for brokers
_OPTIONAL = tuple(attrgetter(field) for field in ("isr", "leader", "size_bytes"))


def refuse_repeated_keys(document: SnapshotDocument, text: bytes) -> None:
    """Check the document except for its topics. Raises FieldError."""
    pairs = _REQUIRED + (document.cluster_id is not UNSET)
    pairs += sum(1 + (broker.rack is not UNSET) for broker in document.brokers)
    pairs += sum(_colons(string) for string in (document.cluster_id, *(broker.rack for broker in document.brokers)))
    if text.count(_COLON) - sum(bytes(topic).count(_COLON) for topic in document.topics) != pairs:
        _refuse(text, "$")


def refuse_repeated_keys_of_topic(topic: TopicDocument, text: Raw, path: str) -> None:
    """Check the object of one topic, at `path`. Raises FieldError."""
    partitions = topic.partitions
    pairs = _REQUIRED * (1 + len(partitions)) + sum(
        len(partitions) - list(map(given, partitions)).count(UNSET) for given in _OPTIONAL
    )
    if topic.config is not UNSET:
        pairs += 1 + len(topic.config) + sum(_colons(key) + _colons(value) for key, value in topic.config.items())
    raw = bytes(text)
    if raw.count(_COLON) != pairs:
        _refuse(raw, path)


def _colons(value: object) -> int:
    return value.count(":") if isinstance(value, str) else 0


def _refuse(text: bytes, path: str) -> None:
    with suppress(ValueError):  # Python refuses numbers of thousands of digits, which are no keys
        json.loads(text, object_pairs_hook=lambda pairs: _object(pairs, path))


def _object(pairs: list[tuple[str, Any]], path: str) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise SnapshotFieldError(path, f'the key "{shown(key, MAX_SHOWN)}" is given twice in one object')
            seen.add(key)
    return found

"""
Keys that an object has twice: JSON leaves open which of the values counts, and a decoder takes the last without a word.

Every pair of an object has one colon, so a text has as many as there are pairs, and those in its strings. Only where it
has others is it looked at key by key: a file of millions of partitions is not decoded twice.
"""

import json
from contextlib import suppress
from operator import attrgetter
from typing import Any

from msgspec import UNSET, Raw

from rackspan.core.text import shown
from rackspan.snapshots.schema import SnapshotDocument, TopicDocument
from rackspan.snapshots.snapshot_errors import LONGEST, MisplacedError

_COLON = b":"
_REQUIRED = 2  # of each kind of object, but for brokers
_OPTIONAL = tuple(attrgetter(field) for field in ("isr", "leader", "size_bytes"))


def refuse_repeated_keys(document: SnapshotDocument, text: bytes) -> None:
    """See to the document but for its topics. Raises MisplacedError."""
    pairs = _REQUIRED + (document.cluster_id is not UNSET)
    pairs += sum(1 + (broker.rack is not UNSET) for broker in document.brokers)
    pairs += sum(_colons(string) for string in (document.cluster_id, *(broker.rack for broker in document.brokers)))
    if text.count(_COLON) - sum(bytes(topic).count(_COLON) for topic in document.topics) != pairs:
        _refuse(text, "$")


def refuse_repeated_keys_of_topic(topic: TopicDocument, text: Raw, path: str) -> None:
    """See to the object of one topic, at `path`. Raises MisplacedError."""
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
    with suppress(ValueError):  # such as a number of thousands of digits, which is a value and no key
        json.loads(text, object_pairs_hook=lambda pairs: _object(pairs, path))


def _object(pairs: list[tuple[str, Any]], path: str) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise MisplacedError(path, f'the key "{shown(key, LONGEST)}" is given twice in one object')
            seen.add(key)
    return found

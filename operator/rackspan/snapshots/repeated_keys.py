"""
Check for repeated keys in an object. JSON does not define which value counts, and the decoder silently takes the last.

A document that is decoded and encoded again has as many colons as its text: one per key, plus those in strings. Only if
the numbers differ is the text decoded again key by key. So a file of millions of partitions is decoded only once.
"""

import json
from contextlib import suppress
from typing import Any

from msgspec import Raw
from msgspec.json import Encoder
from msgspec.structs import replace

from rackspan.core.text import shown
from rackspan.snapshots.schema import SnapshotDocument, TopicDocument
from rackspan.snapshots.snapshot_errors import MAX_SHOWN, SnapshotFieldError

_COLON, _ESCAPED = b":", b"\\u003"
"""A colon, and the beginning of its escape; the final `a` of the escape may be upper case."""
_encode = Encoder().encode


def refuse_repeated_keys(document: SnapshotDocument, text: bytes) -> None:
    """Check the document without its topics. Raises SnapshotFieldError."""
    of_topics = sum(_colons(bytes(topic)) for topic in document.topics)
    if _colons(text) - of_topics != _encode(replace(document, topics=[])).count(_COLON):
        _refuse(text, "$")


def refuse_repeated_keys_of_topic(topic: TopicDocument, text: Raw, path: str) -> None:
    """Check the object of one topic, at `path`. Raises SnapshotFieldError."""
    raw = bytes(text)
    if _colons(raw) != _encode(topic).count(_COLON):
        _refuse(raw, path)


def _colons(text: bytes) -> int:
    """Count the colons of a text and their escapes. The count is never too low: that could hide a repeated key."""
    return text.count(_COLON) + (text.count(_ESCAPED) if b"\\" in text else 0)


def _refuse(text: bytes, path: str) -> None:
    with suppress(ValueError):  # Python rejects numbers of thousands of digits; these are no repeated keys
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

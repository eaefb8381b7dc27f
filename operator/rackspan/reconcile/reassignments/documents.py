"""Records as JSON: the journal's file on the command line, and compressed the texts in a Reassignment."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from rackspan.core.planning import Change
from rackspan.core.reassignment import Setting, SettingKind, TopicPartition
from rackspan.reconcile.reassignments.ports import Record, SetThrottle

if TYPE_CHECKING:
    from collections.abc import Mapping

_VERSION = 1
_MOST_BYTES = 32 << 20
"""Of a text that was compressed: more than a plan has that fits into an object, and less than does harm."""
_LEVEL = 6
_FIRST_SHOWN = 80

UNREADABLE = (ValueError, KeyError, TypeError, IndexError, AttributeError)
"""What `record_of` and `unpacked` raise for a document that is none."""


def document(record: Record) -> Mapping[str, Any]:
    """The JSON of a whole record."""
    return {**plan_document(record), **progress_document(record)}


def plan_document(record: Record) -> Mapping[str, Any]:
    """The JSON of what stays the same while a plan is carried out, which is most of it."""
    topics: dict[str, list[Any]] = defaultdict(list)
    for one in record.changes:
        topics[one.topic].append([one.partition, one.before, one.replicas, one.size_bytes])
    return {
        "version": _VERSION,
        "clusterId": record.cluster_id,
        "plan": record.plan_hash,
        "racks": {str(broker): rack for broker, rack in record.racks.items()},
        "reportedRacks": {str(broker): rack for broker, rack in record.reported_racks.items()},
        "changes": topics,
    }


def progress_document(record: Record) -> Mapping[str, Any]:
    """The JSON of what changes while a plan is carried out."""
    return {
        "started": [[*at, replicas] for at, replicas in record.started.items()],
        "throttles": [[*setting, one.before, one.ours] for setting, one in record.throttles.items()],
    }


def record_of(document: Any) -> Record:
    """The record of a JSON document. Raises one of UNREADABLE."""
    if document["version"] != _VERSION:
        raise ValueError(f"version {document['version']} is not known")
    return Record(
        _text(document["clusterId"]),
        _text(document["plan"]),
        tuple(
            Change(_text(topic), _number(number), _ids(replicas), _ids(before), None if size is None else _number(size))
            for topic, changes in document["changes"].items()
            for number, before, replicas, size in changes
        ),
        {int(broker): None if rack is None else tuple(map(_text, rack)) for broker, rack in document["racks"].items()},
        {int(broker): None if rack is None else _text(rack) for broker, rack in document["reportedRacks"].items()},
        started_of(document),
        throttles_of(document),
    )


def started_of(document: Any) -> Mapping[TopicPartition, tuple[int, ...]]:
    """The replica lists asked for. Raises one of UNREADABLE."""
    return {TopicPartition(_text(topic), _number(number)): _ids(ids) for topic, number, ids in document["started"]}


def throttles_of(document: Any) -> Mapping[Setting, SetThrottle]:
    """The throttles that were set. Raises one of UNREADABLE."""
    return {
        Setting(SettingKind(kind), _text(name), _text(key)): SetThrottle(
            None if before is None else _text(before), tuple(map(_text, ours))
        )
        for kind, name, key, before, ours in document["throttles"]
    }


def packed(document: Mapping[str, Any]) -> str:
    """A document as base64 of its compressed JSON."""
    text = json.dumps(document, separators=(",", ":")).encode()
    return base64.b64encode(zlib.compress(text, _LEVEL)).decode()


def unpacked(text: str) -> Any:
    """The document of such a text, which may be anybody's. Raises ValueError where it is none, or is too large."""
    try:
        compressed = base64.b64decode(text, validate=True)
        reader = zlib.decompressobj()
        found = reader.decompress(compressed, _MOST_BYTES)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"is no base64 of what zlib has compressed: {error}") from error
    if reader.unconsumed_tail:
        raise ValueError(f"holds more than {_MOST_BYTES >> 20} MiB")
    if not reader.eof:
        raise ValueError("ends too early")
    try:
        return json.loads(found)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is no JSON: {str(error)[:_FIRST_SHOWN]}") from error


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _number(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is no number")
    return value


def _ids(value: Any) -> tuple[int, ...]:
    return tuple(map(_number, value))

"""Records as JSON: the journal's file on the command line, and, compressed, the texts in a Reassignment.

Any client may have written a text in a Reassignment. So it is read into typed rows, within the limits of `packed`.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections import defaultdict
from collections.abc import Mapping  # noqa: TC003 - msgspec reads the types of fields
from dataclasses import replace
from operator import itemgetter
from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta, Struct, ValidationError
from msgspec import json as typed_json

from rackspan.core.planning import Change
from rackspan.core.reassignment import SetThrottle, Setting, SettingKind, TopicPartition
from rackspan.reconcile.ports import Record

_VERSION: Final = 1
"""Raise it with each new element of a row. Earlier versions refuse such rows, and would call the document invalid."""
_MOST_BYTES: Final = 8 << 20
"""The limit of the JSON: 10,000 partitions of as many topics with the longest names, and 10,000 brokers, take 6 MiB."""
_MOST_VALUES: Final = 300_000
"""The limit of the JSON: 10,000 partitions of as many topics with eight replicas before and after take 230,000."""
_LEVEL: Final = 6

UNREADABLE = (ValueError, RecursionError)
"""The exceptions that `record_of`, `with_progress` and `unpacked` raise for an invalid document."""

_Id: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Ids: TypeAlias = tuple[_Id, ...]


class _Change(Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    partition: _Id
    before: _Ids
    replicas: _Ids
    size_bytes: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None


class _Started(Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    topic: str
    partition: _Id
    replicas: _Ids


class _Throttle(Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    kind: SettingKind
    name: str
    key: str
    before: str | None
    ours: tuple[str, ...]


class _Progress(Struct, frozen=True, kw_only=True):
    started: list[_Started]
    throttles: list[_Throttle]
    cordoned: frozenset[_Id] = frozenset()
    left: tuple[tuple[str, _Id], ...] = ()


class _Document(_Progress, frozen=True, kw_only=True, rename="camel"):
    version: Literal[1]
    cluster_id: str
    plan: str
    racks: Mapping[_Id, tuple[str, ...] | None]
    reported_racks: Mapping[_Id, str | None]
    changes: Mapping[str, list[_Change]]
    topic_ids: Mapping[str, str] = {}


class _Version(Struct, frozen=True):
    version: int | None = None


_document: Final = typed_json.Decoder(_Document)
_progress: Final = typed_json.Decoder(_Progress)


class OtherVersionError(ValueError):
    """Another version of Rackspan wrote the document, in a format that this version does not know."""

    def __init__(self) -> None:
        super().__init__("another version of Rackspan wrote it")


class TooLargeError(ValueError):
    """The document does not fit into an object."""


def plan_document(record: Record) -> Mapping[str, Any]:
    """Return the JSON of what stays the same while a plan is carried out, which is most of the record."""
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
        "topicIds": {topic: record.topic_ids[topic] for topic in topics if topic in record.topic_ids},
    }


def progress_document(record: Record) -> Mapping[str, Any]:
    """Return the JSON of what changes while a plan is carried out."""
    return {
        "started": [[*at, replicas] for at, replicas in sorted(record.started.items())],
        "throttles": [
            [*setting, one.before, one.ours] for setting, one in sorted(record.throttles.items(), key=itemgetter(0))
        ],
        "cordoned": sorted(record.cordoned),
        "left": sorted(record.left),
    }


def record_of(text: bytes) -> Record:
    """Return the record of a whole document. Raises one of UNREADABLE, OtherVersionError for another format."""
    try:
        found = _document.decode(text)
    except ValidationError:
        if typed_json.decode(text, type=_Version).version in (None, _VERSION):
            raise
        raise OtherVersionError from None
    record = Record(
        found.cluster_id,
        found.plan,
        tuple(
            Change(topic, one.partition, one.replicas, one.before, one.size_bytes)
            for topic, changes in found.changes.items()
            for one in changes
        ),
        found.racks,
        found.reported_racks,
        topic_ids=found.topic_ids,
    )
    return _with(found, record)


def with_progress(record: Record, text: bytes) -> Record:
    """Return a record with the progress that `progress_document` has written. Raises one of UNREADABLE."""
    return _with(_progress.decode(text), record)


def _with(found: _Progress, record: Record) -> Record:
    started = {TopicPartition(one.topic, one.partition): one.replicas for one in found.started}
    throttles = {Setting(one.kind, one.name, one.key): SetThrottle(one.before, one.ours) for one in found.throttles}
    left = frozenset(TopicPartition(*at) for at in found.left)
    return replace(record, started=started, throttles=throttles, cordoned=found.cordoned, left=left)


def packed(document: Mapping[str, Any], most_characters: int) -> str:
    """Return a document as base64 of compressed JSON. Raises TooLargeError if too long, or too large to unpack."""
    text = json.dumps(document, separators=(",", ":")).encode()
    if len(text) > _MOST_BYTES:
        raise TooLargeError(_TOO_LONG)
    _refuse_too_many(text)
    found = base64.b64encode(zlib.compress(text, _LEVEL)).decode()
    if len(found) > most_characters:
        raise TooLargeError(f"has more than {most_characters} characters")
    return found


def unpacked(text: str) -> bytes:
    """Return the JSON of a text of `packed`. Raises ValueError if the text is invalid or too large."""
    try:
        compressed = base64.b64decode(text, validate=True)
        reader = zlib.decompressobj()
        found = reader.decompress(compressed, _MOST_BYTES)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"is not base64 of zlib data: {error}") from error
    if reader.unconsumed_tail:
        raise TooLargeError(_TOO_LONG)
    if not reader.eof:
        raise ValueError("ends too early")
    _refuse_too_many(found)
    return found


_TOO_LONG: Final = f"holds more than {_MOST_BYTES >> 20} MiB"


def _refuse_too_many(text: bytes) -> None:
    """Raise TooLargeError for too many values. Each follows a comma or an opening bracket, directly or after a name."""
    if sum(map(text.count, (b",", b"[", b"{"))) > _MOST_VALUES:
        raise TooLargeError(f"holds more than {_MOST_VALUES} values")

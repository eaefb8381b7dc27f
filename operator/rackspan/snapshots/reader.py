"""Reader of snapshot files into columns."""

import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from msgspec import UNSET, DecodeError, Raw
from msgspec.json import Decoder

from rackspan.core.config_keys import MIN_INSYNC
from rackspan.core.partitions import is_topic_name
from rackspan.core.rack_path import RackPathError, parse_rack
from rackspan.core.snapshot import NONE, Partitions, Snapshot
from rackspan.core.text import shown
from rackspan.core.topology import BrokerLocation
from rackspan.snapshots.partition_columns import columns
from rackspan.snapshots.repeated_keys import refuse_repeated_keys, refuse_repeated_keys_of_topic
from rackspan.snapshots.schema import BrokerDocument, ConfigValue, SnapshotDocument, TopicDocument
from rackspan.snapshots.snapshot_errors import MAX_SHOWN, SnapshotError, SnapshotFieldError, describe_decode_error

T = TypeVar("T")
STDIN = "-"
Advance = Callable[[int, int], None]
"""A callback for progress while reading: called with the number of topics done and the number of all topics."""

_BATCH = 1 << 16
"""The number of partitions that are decoded before they become columns."""
_MOST_DIGITS = 5
_BOM = b"\xef\xbb\xbf"
_document = Decoder(SnapshotDocument).decode
_topic = Decoder(TopicDocument).decode


def read_snapshot(file: Path | str, advance: Advance | None = None) -> Snapshot:
    """Read a snapshot file; `-` is standard input.

    Partitions may name brokers that the file does not list: these were down at that moment. Raises SnapshotError.
    """
    return parse_snapshot(read_bytes(file), shown_name(file), advance)


@dataclass(frozen=True, slots=True)
class FileOutline:
    """A snapshot file without its topics: `topics` is their number, `partitions` about the number of all partitions."""

    cluster_id: str | None
    brokers: tuple[BrokerLocation, ...]
    topics: int
    partitions: int


def read_outline(file: Path | str) -> FileOutline:
    """Read the brokers of a snapshot file and count its topics without checking them. Raises SnapshotError."""
    name = shown_name(file)
    text = _usable(read_bytes(file), name)
    try:
        document = _decoded(_document, text, "$", len(text))
        brokers, topics = tuple(_brokers(document.brokers)), document.topics
        partitions = sum(bytes(topic).count(b'"replicas"') for topic in topics)
        return FileOutline(document.cluster_id or None, brokers, len(topics), partitions)
    except (SnapshotFieldError, _BadTextError) as error:
        raise SnapshotError(f"{name}: {error}") from None


def shown_name(file: Path | str) -> str:
    """Return the name of a file for people."""
    return "standard input" if str(file) == STDIN else shown(str(file), 200) or '""'


def read_bytes(file: Path | str) -> bytes:
    """Return the content of a file; `-` is standard input. Raises SnapshotError."""
    try:
        if str(file) == STDIN:
            return sys.stdin.buffer.read()
        with open(file, "rb") as opened:  # noqa: PTH123 - Path("") would be the current directory
            return opened.read()
    except FileNotFoundError:
        raise SnapshotError(f"{shown_name(file)}: there is no such file") from None
    except IsADirectoryError:
        raise SnapshotError(f"{shown_name(file)}: is a directory, not a file") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SnapshotError(f"{shown_name(file)}: cannot be read: {why}") from None


def parse_snapshot(text: bytes, name: str = "snapshot", advance: Advance | None = None) -> Snapshot:
    """Read a snapshot from its text. Raises SnapshotError; its message begins with `name`."""
    usable = _usable(text, name)
    try:
        with _without_collector():
            return _parsed(usable, advance or (lambda _done, _all: None))
    except (SnapshotFieldError, _BadTextError) as error:
        raise SnapshotError(f"{name}: {error}") from None


def _usable(text: bytes, name: str) -> bytes:
    """Return the text without its byte order mark. Raises SnapshotError if the text is empty or UTF-16."""
    text = text.removeprefix(_BOM)
    if not text or text.isspace():
        raise SnapshotError(f"{name}: is empty")
    if text.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise SnapshotError(f"{name}: is UTF-16, not UTF-8; write it with another encoding")
    return text


class _BadTextError(Exception):
    pass


def _parsed(text: bytes, advance: Advance) -> Snapshot:
    document = _decoded(_document, text, "$", len(text))
    brokers = tuple(_brokers(document.brokers))
    refuse_repeated_keys(document, text)
    names: list[str] = []
    configs: list[Mapping[str, str]] = []
    inherited: list[frozenset[str]] = []
    parts: list[Partitions] = []
    seen: dict[str, int] = {}
    batch: list[TopicDocument] = []
    pending, total = 0, len(document.topics)
    for at, raw in enumerate(document.topics):
        path = f"$.topics[{at}]"
        topic = _decoded(_topic, raw, path, len(text))
        refuse_repeated_keys_of_topic(topic, raw, path)
        if not is_topic_name(topic.name):
            raise SnapshotFieldError(f"{path}.name", f'"{shown(topic.name, MAX_SHOWN)}" is not a valid topic name')
        if seen.setdefault(topic.name, at) != at:
            raise SnapshotFieldError(
                f"{path}.name", f'topic "{topic.name}" is listed twice, first at $.topics[{seen[topic.name]}]'
            )
        names.append(topic.name)
        configs.append({} if topic.config is UNSET else _config(topic.config, f"{path}.config"))
        inherited.append(frozenset() if topic.inherited is UNSET else frozenset(topic.inherited))
        batch.append(topic)
        pending += len(topic.partitions)
        if pending >= _BATCH or at + 1 == total:
            parts.append(columns(at + 1 - len(batch), batch))
            batch, pending = [], 0
            advance(at + 1, total)
    return Snapshot(
        document.cluster_id or None, brokers, _joined(tuple(names), parts), tuple(configs), tuple(inherited)
    )


def _decoded(decode: Callable[[bytes | Raw], T], text: bytes | Raw, path: str, size: int) -> T:
    try:
        return decode(text)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _BadTextError(describe_decode_error(error, path, size)) from None


def _brokers(documents: list[BrokerDocument]) -> Iterator[BrokerLocation]:
    if not documents:
        raise SnapshotFieldError("$.brokers", "is empty; a cluster has at least one broker")
    seen: dict[int, int] = {}
    for at, broker in enumerate(documents):
        if seen.setdefault(broker.id, at) != at:
            raise SnapshotFieldError(
                f"$.brokers[{at}].id", f"broker {broker.id} is listed twice, first at $.brokers[{seen[broker.id]}]"
            )
        rack = None if broker.rack is UNSET else broker.rack
        if rack is not None:
            try:
                parse_rack(rack)
            except RackPathError as error:
                raise SnapshotFieldError(f"$.brokers[{at}].rack", str(error)) from None
        yield BrokerLocation(broker.id, rack, cordoned=broker.cordoned is True)


def _config(config: Mapping[str, ConfigValue], path: str) -> Mapping[str, str]:
    """Return the values as text, without nulls. Raises SnapshotFieldError if `min.insync.replicas` is invalid."""
    values = {key: _text(value) for key, value in config.items() if value is not None}
    least = values.get(MIN_INSYNC, "1")
    if not (least.isascii() and least.isdigit() and len(least) <= _MOST_DIGITS and int(least) > 0):
        raise SnapshotFieldError(f'{path}["{MIN_INSYNC}"]', f'"{shown(least, MAX_SHOWN)}" is not a number of replicas')
    return values


def _text(value: str | float | bool) -> str:  # noqa: FBT001 - a value, not a flag
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _joined(names: tuple[str, ...], parts: list[Partitions]) -> Partitions:
    width = max((part.replicas.shape[1] for part in parts), default=0)
    count = sum(map(len, parts))
    replicas = np.full((count, width), NONE, dtype=np.int32)
    in_sync, eligible = np.zeros((2, count, width), dtype=bool)
    start = 0
    for part in parts:
        stop = start + len(part)
        replicas[start:stop, : part.replicas.shape[1]] = part.replicas
        in_sync[start:stop, : part.replicas.shape[1]] = part.in_sync
        eligible[start:stop, : part.replicas.shape[1]] = part.eligible
        start = stop
    nothing = [np.empty(0, dtype=np.int64)]
    topic, number, leader, size_bytes = (
        np.concatenate([getattr(part, column) for part in parts] or nothing)
        for column in ("topic", "number", "leader", "size_bytes")
    )
    return Partitions(names, topic, number, replicas, in_sync, eligible, leader, size_bytes)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Disable Python's garbage collector: it would scan the many lists of a batch repeatedly and free nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()

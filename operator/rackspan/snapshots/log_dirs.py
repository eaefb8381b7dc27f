"""
Sizes of partitions from the output of Kafka's own `kafka-log-dirs.sh --describe`.

The tool prints two lines for people, then one line of JSON. A partition's size is that of its largest replica: the
others lag, or have not deleted what it has. Copies that a reassignment between directories is making do not count.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from msgspec import DecodeError, Struct
from msgspec.json import Decoder

from rackspan.core.snapshot import NONE, Snapshot
from rackspan.snapshots.reader import read_bytes, shown_name
from rackspan.snapshots.schema import Bytes
from rackspan.snapshots.snapshot_errors import SnapshotError, describe_decode_error


class _Partition(Struct, rename="camel", gc=False):
    partition: str
    size: Bytes
    is_future: bool = False


class _LogDir(Struct, rename="camel"):
    partitions: list[_Partition] = []


class _Broker(Struct, rename="camel"):
    log_dirs: list[_LogDir]


class _Output(Struct):
    brokers: list[_Broker]


_output = Decoder(_Output).decode


def read_log_dirs(file: Path | str) -> Mapping[tuple[str, int], int]:
    """Sizes in bytes, by topic and partition number; `-` is standard input. Raises SnapshotError."""
    name, text = shown_name(file), read_bytes(file)
    lines = [line for line in text.splitlines() if line.lstrip().startswith(b"{")]
    if not lines:
        raise SnapshotError(f"{name}: holds no line of JSON; write it with kafka-log-dirs.sh --describe")
    try:
        output = _output(lines[-1])
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SnapshotError(f"{name}: {describe_decode_error(error, '$', len(text))}") from None
    sizes: dict[tuple[str, int], int] = {}
    for broker in output.brokers:
        for directory in broker.log_dirs:
            for partition in directory.partitions:
                topic, _, number = partition.partition.rpartition("-")
                if partition.is_future or not (number.isascii() and number.isdigit()):
                    continue
                key = (topic, int(number))
                sizes[key] = max(sizes.get(key, 0), partition.size)
    return sizes


def with_sizes(snapshot: Snapshot, sizes: Mapping[tuple[str, int], int]) -> Snapshot:
    """Give the snapshot with these sizes in bytes; partitions that are not among them keep theirs."""
    partitions = snapshot.partitions
    names = partitions.names
    found = np.fromiter(
        (
            sizes.get((names[topic], number), NONE)
            for topic, number in zip(partitions.topic.tolist(), partitions.number.tolist(), strict=True)
        ),
        dtype=np.int64,
        count=len(partitions),
    )
    known = np.where(found == NONE, partitions.size_bytes, found)
    return replace(snapshot, partitions=replace(partitions, size_bytes=known))

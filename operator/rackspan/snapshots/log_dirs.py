"""Sizes of partitions from the output of Kafka's `kafka-log-dirs.sh --describe`.

The tool prints two lines of text, then one line of JSON. A file may contain several such outputs, such as one for each
broker, and JSON that another tool has indented. The size of a partition is that of its largest replica: smaller
replicas lag, or have already deleted old segments. Copies that are being moved between log directories do not count.
"""

import re
from collections.abc import Iterator, Mapping
from json import JSONDecoder
from pathlib import Path

from msgspec import DecodeError, Struct
from msgspec.json import Decoder

from rackspan.core.partitions import TopicPartition
from rackspan.core.text import decoded
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
_extent = JSONDecoder(object_pairs_hook=lambda _pairs: None).raw_decode
_NEXT, _OBJECT = re.compile(r"\s*\{"), re.compile(r"^[ \t]*\{", re.MULTILINE)


def read_log_dirs(file: Path | str) -> Mapping[TopicPartition, int]:
    """Return the sizes of partitions in bytes; `-` is standard input. Raises SnapshotError."""
    name, data = shown_name(file), read_bytes(file)
    try:
        outputs = list(_outputs(decoded(data)))
    except UnicodeDecodeError:
        raise SnapshotError(f"{name}: is not UTF-8") from None
    except (DecodeError, RecursionError) as error:
        raise SnapshotError(f"{name}: {describe_decode_error(error, '$', len(data))}") from None
    if not outputs:
        raise SnapshotError(f"{name}: holds no line of JSON; write it with kafka-log-dirs.sh --describe")
    sizes: dict[TopicPartition, int] = {}
    for broker in (broker for output in outputs for broker in output.brokers):
        for directory in broker.log_dirs:
            for partition in directory.partitions:
                topic, _, number = partition.partition.rpartition("-")
                if partition.is_future or not (number.isascii() and number.isdigit()):
                    continue
                at = TopicPartition(topic, int(number))
                sizes[at] = max(sizes.get(at, 0), partition.size)
    return sizes


def _outputs(text: str) -> Iterator[_Output]:
    """Yield the JSON objects between the lines of text. Raises DecodeError."""
    joined = text.replace("\ufeff", "")  # byte order marks remain inside if files were joined
    at = 0
    while (start := _NEXT.match(joined, at) or _OBJECT.search(joined, at)) is not None:
        begin = start.end() - 1
        try:
            _, at = _extent(joined, begin)
        except ValueError:
            at = len(joined)  # the decoder below raises an error that says what is wrong
        yield _output(joined[begin:at])

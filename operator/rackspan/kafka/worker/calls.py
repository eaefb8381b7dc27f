"""The calls to a worker process, and the frames that carry them: typed, and bounded in size."""

from __future__ import annotations

import struct
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rackspan.core.partitions import Disk, InSync, PartitionState, Setting, SettingChange, TopicPartition
from rackspan.reconcile.failures import Failure
from rackspan.reconcile.ports import (
    ClusterDescription,
    ConfigChange,
    NewPartitions,
    NewTopic,
    RemainingReplicas,
    ReplicaCounts,
    TopicConfig,
    TopicDescription,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

OUT_OF_MEMORY = 70
"""The exit code of a worker that needs more memory than its limit."""
LOG_LINE = 0
"""The id of an `Answer` without a request: its value is a line of the client's own log."""
_LENGTH = struct.Struct(">I")


class ClientKind(StrEnum):
    """The kind of client: one for topics, or one that also moves replicas."""

    TOPICS = "topics"
    REASSIGNMENTS = "reassignments"


class Request(msgspec.Struct, array_like=True, frozen=True):
    """A call to the client with number `client`. A change must end before `until` (`uptime()`), 0 for other calls."""

    id: int
    client: int
    call: str
    arguments: msgspec.Raw
    until: float


class Answer(msgspec.Struct, array_like=True, frozen=True):
    """The response to the request with this id: a value, or the failure that ended the call."""

    id: int
    failure: Failure | None
    value: msgspec.Raw


class Call(NamedTuple):
    """The name of a call in metrics, and the types of its arguments and of its response."""

    operation: str
    arguments: Any
    answer: Any


_Outcomes = dict[str, Failure | None]
_PartitionOutcomes = dict[TopicPartition, Failure | None]

CALLS: Mapping[str, Call] = {
    "connect": Call("describe_cluster", tuple[ClientKind, dict[str, str | int | bool]], None),
    "close": Call("close", tuple[()], None),
    # KafkaAdmin
    "cluster": Call("describe_cluster", tuple[()], ClusterDescription),
    "replica_counts": Call("list_topics", tuple[list[str]], ReplicaCounts),
    "remaining_replicas": Call("list_topics", tuple[list[int]], RemainingReplicas),
    "hosted": Call("list_topics", tuple[int], list[InSync]),
    "assignments": Call("list_topics", tuple[()], dict[str, tuple[tuple[int, ...], ...]]),
    "default_min_insync": Call("describe_configs", tuple[list[int]], int | None),
    "cordoned": Call("describe_configs", tuple[list[int]], dict[int, bool | None]),
    "cordon": Call("incremental_alter_configs", tuple[list[int]], dict[int, Failure | None]),
    "uncordon": Call("incremental_alter_configs", tuple[list[int]], dict[int, Failure | None]),
    # A decoder cannot distinguish a topic or its configuration from a failure, so each has a separate field.
    "topics": Call("describe_topics", tuple[list[str]], dict[str, tuple[TopicDescription | None, Failure | None]]),
    "configs": Call("describe_configs", tuple[list[str]], dict[str, tuple[TopicConfig | None, Failure | None]]),
    "create_topics": Call("create_topics", tuple[list[NewTopic]], _Outcomes),
    "create_partitions": Call("create_partitions", tuple[list[NewPartitions]], _Outcomes),
    "alter_configs": Call("incremental_alter_configs", tuple[list[ConfigChange]], _Outcomes),
    "validate_topics": Call("create_topics", tuple[list[NewTopic]], _Outcomes),
    "validate_configs": Call("incremental_alter_configs", tuple[list[ConfigChange]], _Outcomes),
    "delete_topics": Call("delete_topics", tuple[dict[str, str]], _Outcomes),
    # ReassignmentAdmin
    "partitions": Call("list_partition_reassignments", tuple[list[str]], dict[TopicPartition, PartitionState]),
    "topic_names": Call("list_topics", tuple[()], list[str]),
    "min_insync": Call("describe_configs", tuple[list[str]], dict[str, int]),
    "disks": Call("describe_log_dirs", tuple[list[int]], dict[int, Disk]),
    "sizes": Call("describe_log_dirs", tuple[dict[TopicPartition, list[int]]], dict[tuple[TopicPartition, int], int]),
    "alter": Call(
        "alter_partition_reassignments",
        tuple[dict[TopicPartition, tuple[int, ...] | None], list[TopicPartition]],
        _PartitionOutcomes,
    ),
    "elect": Call("elect_leaders", tuple[list[TopicPartition]], _PartitionOutcomes),
    "settings": Call("describe_configs", tuple[list[Setting]], dict[Setting, str | Failure | None]),
    "set_settings": Call(
        "incremental_alter_configs", tuple[dict[Setting, SettingChange]], dict[Setting, Failure | None]
    ),
}


async def read_frame(reader: asyncio.StreamReader, most: int) -> bytes:
    """Return the next frame. Raises ValueError above `most` bytes, IncompleteReadError at the end."""
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > most:
        raise ValueError(f"a message of {length} bytes")
    return await reader.readexactly(length)


def write_frame(writer: asyncio.StreamWriter, message: Request | Answer) -> None:
    """Queue a message for sending."""
    body = msgspec.msgpack.encode(message)
    writer.writelines((_LENGTH.pack(len(body)), body))

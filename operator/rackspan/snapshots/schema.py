"""The JSON of a snapshot file: types and ranges. `partition_columns` checks what concerns several fields."""

from typing import Annotated

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

BrokerId = Annotated[int, Meta(ge=0, le=2**31 - 1)]
PartitionNumber = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Bytes = Annotated[int, Meta(ge=0, le=2**63 - 1)]
ConfigValue = str | int | float | bool | None


class BrokerDocument(Struct, forbid_unknown_fields=True, gc=False):
    """A broker. A `rack` that is null or missing means no rack. A missing `cordoned` means false."""

    id: BrokerId
    rack: str | UnsetType | None = UNSET
    cordoned: bool | UnsetType = UNSET


class PartitionDocument(Struct, forbid_unknown_fields=True, rename="camel", gc=False):
    """A partition. Without `isr` all replicas are in sync. Without `leader` the first replica leads; null is no leader.

    `elr` are the eligible leader replicas (KIP-966), which are not in the ISR; without `elr` there are none.
    """

    partition: PartitionNumber
    replicas: list[BrokerId]
    isr: list[BrokerId] | UnsetType = UNSET
    elr: list[BrokerId] | UnsetType = UNSET
    leader: BrokerId | UnsetType | None = UNSET
    size_bytes: Bytes | UnsetType | None = UNSET


class TopicDocument(Struct, forbid_unknown_fields=True, gc=False):
    """A topic. Tools write config values as text, people write numbers; the reader accepts both.

    `inherited` are keys of `config` that are not set on the topic itself.
    """

    name: str
    partitions: list[PartitionDocument]
    config: dict[str, ConfigValue] | UnsetType = UNSET
    inherited: list[str] | UnsetType = UNSET


class SnapshotDocument(Struct, forbid_unknown_fields=True, rename="camel"):
    """The whole file. Topics stay raw text until they are decoded, so only some of them are objects at a time."""

    brokers: list[BrokerDocument]
    topics: list[Raw]
    cluster_id: str | UnsetType | None = UNSET

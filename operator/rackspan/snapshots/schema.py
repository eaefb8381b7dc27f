"""The JSON of a snapshot file: types and ranges. What concerns several fields is checked in `partition_columns`."""

from typing import Annotated

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

BrokerId = Annotated[int, Meta(ge=0, le=2**31 - 1)]
PartitionNumber = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Bytes = Annotated[int, Meta(ge=0, le=2**63 - 1)]
ConfigValue = str | int | float | bool | None


class BrokerDocument(Struct, forbid_unknown_fields=True, gc=False):
    """A broker; null and no `rack` both mean that it has none. It is not cordoned where the file does not say so."""

    id: BrokerId
    rack: str | UnsetType | None = UNSET
    cordoned: bool | UnsetType = UNSET


class PartitionDocument(Struct, forbid_unknown_fields=True, rename="camel", gc=False):
    """A partition. Without `isr` all replicas are in sync, without `leader` it is the first; null is no leader.

    `elr` are its eligible leader replicas (KIP-966), which are not in the ISR; without it there are none.
    """

    partition: PartitionNumber
    replicas: list[BrokerId]
    isr: list[BrokerId] | UnsetType = UNSET
    elr: list[BrokerId] | UnsetType = UNSET
    leader: BrokerId | UnsetType | None = UNSET
    size_bytes: Bytes | UnsetType | None = UNSET


class TopicDocument(Struct, forbid_unknown_fields=True, gc=False):
    """A topic. Dependencies write config values as text, people as numbers: both are read.

    `inherited` are keys of `config` that are not set on the topic itself.
    """

    name: str
    partitions: list[PartitionDocument]
    config: dict[str, ConfigValue] | UnsetType = UNSET
    inherited: list[str] | UnsetType = UNSET


class SnapshotDocument(Struct, forbid_unknown_fields=True, rename="camel"):
    """The whole file. Topics stay text until their turn comes, so that only some are held as objects at a time."""

    brokers: list[BrokerDocument]
    topics: list[Raw]
    cluster_id: str | UnsetType | None = UNSET

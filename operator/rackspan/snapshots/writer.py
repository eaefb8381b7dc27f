"""Writer of snapshots as the JSON that `reader` reads. Each topic is on one line, so that two files can be compared."""

from collections.abc import Iterator

import numpy as np
from msgspec import UNSET
from msgspec.json import Encoder

from rackspan.core.snapshot import NONE, Snapshot
from rackspan.snapshots.schema import BrokerDocument, PartitionDocument, TopicDocument

_encode = Encoder().encode


def snapshot_lines(snapshot: Snapshot) -> Iterator[str]:
    """Yield the document in pieces of one or more lines, each piece with its final line break."""
    yield f'{{"clusterId": {_encode(snapshot.cluster_id).decode()},\n "brokers": [\n'
    yield from _listed(
        BrokerDocument(broker.id, broker.reported_rack, broker.cordoned or UNSET) for broker in snapshot.brokers
    )
    yield ' ],\n "topics": [\n'
    yield from _listed(_topics(snapshot))
    yield " ]}\n"


def _listed(documents: Iterator[BrokerDocument] | Iterator[TopicDocument]) -> Iterator[str]:
    last = None
    for document in documents:
        if last is not None:
            yield f"  {last},\n"
        last = _encode(document).decode()
    if last is not None:
        yield f"  {last}\n"


def _topics(snapshot: Snapshot) -> Iterator[TopicDocument]:
    partitions = snapshot.partitions
    bounds = np.searchsorted(partitions.topic, np.arange(len(partitions.names) + 1)).tolist()
    for at, name in enumerate(partitions.names):
        rows = slice(bounds[at], bounds[at + 1])
        listed = [
            PartitionDocument(
                partition=number,
                replicas=[broker for broker in replicas if broker != NONE],
                isr=[broker for broker, flag in zip(replicas, in_sync, strict=True) if flag],
                elr=[broker for broker, flag in zip(replicas, eligible, strict=True) if flag] or UNSET,
                leader=None if leader == NONE else leader,
                size_bytes=None if size == NONE else size,
            )
            for number, replicas, in_sync, eligible, leader, size in zip(
                partitions.number[rows].tolist(),
                partitions.replicas[rows].tolist(),
                partitions.in_sync[rows].tolist(),
                partitions.eligible[rows].tolist(),
                partitions.leader[rows].tolist(),
                partitions.size_bytes[rows].tolist(),
                strict=True,
            )
        ]
        inherited = sorted(snapshot.inherited[at]) if snapshot.inherited else []
        yield TopicDocument(name, listed, dict(snapshot.configs[at]), inherited or UNSET)

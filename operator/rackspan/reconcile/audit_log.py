"""The audit log: a line for each change that Kafka was asked for, written after its answer.

A line about a topic has the object, its generation, the field manager that last wrote its spec, the request and Kafka's
answer. Where a call fails as a whole, each of its topics has a line with that failure.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from rackspan.api.kafkatopic import KIND
from rackspan.reconcile.ports import ConfigChange, NewPartitions, NewTopic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.reconcile.failures import Failure

LOGGER = "rackspan.audit"
_log = logging.getLogger(LOGGER)


def record(operation: str, details: Mapping[str, object], refused: Failure | None) -> None:
    """Log a change with what it is about; `refused` is None where Kafka accepted it."""
    answer = {"answer": "ok"} if refused is None else {"answer": str(refused.reason), "message": refused.message}
    entry = {"operation": operation, **details, **answer}
    # JSON escapes line breaks, so that no name or message can forge a line.
    _log.info("%s %s", operation, json.dumps(entry), extra={"audit": entry})


def changed(topic: KafkaTopic, change: NewTopic | NewPartitions | ConfigChange, refused: Failure | None) -> None:
    """Log what was asked of Kafka for one topic; `refused` is None where Kafka accepted it."""
    match change:
        case NewTopic():
            size = {"partitions": change.partitions, "replicationFactor": change.replication_factor}
            _record(topic, "CreateTopic", {**size, "config": dict(change.config)}, refused)
        case NewPartitions():
            _record(topic, "CreatePartitions", {"partitions": change.total}, refused)
        case ConfigChange():
            _record(topic, "AlterConfigs", {"config": dict(change.set)}, refused)


def deleted(topic: KafkaTopic, refused: Failure | None) -> None:
    """Log a deletion; `refused` is None where Kafka accepted it."""
    _record(topic, "DeleteTopic", {}, refused)


def _record(topic: KafkaTopic, operation: str, asked: Mapping[str, object], refused: Failure | None) -> None:
    meta, status = topic.meta, topic.status
    details = {
        "topic": topic.topic_name,
        **({"topicId": status.topic_id} if status.topic_id else {}),
        **asked,
        "object": {
            "kind": KIND,
            "namespace": meta.namespace,
            "name": meta.name,
            "uid": meta.uid,
            "generation": meta.generation,
        },
        "manager": meta.manager,
        "topology": str(topic.topology),
    }
    record(operation, details, refused)

"""An audit trail: one log line for everything that is created, changed or deleted in Kafka.

It says who asked (the object, its generation and who wrote its spec last), what for, and what Kafka answered. A line is
written when the answer is there; where a call as a whole fails, so does each topic of it.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from rackspan.api.kafkatopic import KIND

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.reconcile.failures import Failure
    from rackspan.reconcile.ports import ConfigChange, NewPartitions, NewTopic

LOGGER = "rackspan.audit"
_log = logging.getLogger(LOGGER)


def created(topic: KafkaTopic, change: NewTopic, refused: Failure | None) -> None:
    """Kafka was asked to create the topic."""
    asked = {
        "partitions": change.partitions,
        "replicationFactor": change.replication_factor,
        "config": dict(change.config),
    }
    _record(topic, "CreateTopic", asked, refused)


def grown(topic: KafkaTopic, change: NewPartitions, refused: Failure | None) -> None:
    """Kafka was asked to add partitions."""
    _record(topic, "CreatePartitions", {"partitions": change.total}, refused)


def configured(topic: KafkaTopic, change: ConfigChange, refused: Failure | None) -> None:
    """Kafka was asked to set configs."""
    _record(topic, "AlterConfigs", {"config": dict(change.set)}, refused)


def deleted(topic: KafkaTopic, refused: Failure | None) -> None:
    """Kafka was asked to delete the topic."""
    _record(topic, "DeleteTopic", {}, refused)


def _record(topic: KafkaTopic, operation: str, asked: Mapping[str, object], refused: Failure | None) -> None:
    meta, status = topic.meta, topic.status
    entry = {
        "operation": operation,
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
        "answer": "ok" if refused is None else str(refused.reason),
        **({} if refused is None else {"message": refused.message}),
    }
    # As text, JSON in ASCII: no name, value or answer can begin a line of its own.
    _log.info("%s %s", operation, json.dumps(entry), extra={"audit": entry})

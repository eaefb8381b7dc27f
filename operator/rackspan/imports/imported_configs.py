"""The topic configs that a KafkaTopic can have, by the rules of crds/kafkatopics.yaml."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rackspan.core.config_keys import MIN_INSYNC
from rackspan.core.text import shown
from rackspan.imports.imported_topics import not_kept

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.imports.imported_topics import Remark

MOST_CONFIGS, LONGEST_VALUE = 100, 4096
THROTTLED: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
NO_CONFIGS: Final = ("partitions", "num.partitions", "replication.factor", "default.replication.factor")
_SPELLED_BY_INT = re.compile(r"0|-?[1-9][0-9]{0,14}")
MIN_INSYNC_VALUE = re.compile(r"0*[1-9][0-9]{0,4}")
_MAX_SHOWN = 100


def accepted_configs(
    configs: Mapping[str, str], replication_factor: int
) -> tuple[dict[str, int | str], tuple[Remark, ...]]:
    """Return the configs that a KafkaTopic may have, with integers as numbers, and a remark on each other config."""
    accepted: dict[str, int | str] = {}
    remarks = []
    for key, value in sorted(configs.items()):
        why = _refusal(key, value, replication_factor)
        if why is None and len(accepted) >= MOST_CONFIGS:
            why = f"a KafkaTopic has at most {MOST_CONFIGS} configs; it is not managed, and stays as it is in Kafka"
        if why is None:
            accepted[key] = int(value) if _SPELLED_BY_INT.fullmatch(value) else value
        else:
            remarks.append(not_kept(f"config {shown(key, _MAX_SHOWN)}", why))
    return accepted, tuple(remarks)


def _refusal(key: str, value: str, replication_factor: int) -> str | None:
    if key in THROTTLED:
        return "throttled replicas belong to whoever moves replicas, not to the topic's definition"
    if key in NO_CONFIGS:
        return "is not a topic config: spec.partitions and spec.replicationFactor say it"
    if len(value) > LONGEST_VALUE:
        return f"its value has {len(value):,} characters, a KafkaTopic holds {LONGEST_VALUE:,}; it is not managed"
    if key != MIN_INSYNC:
        return None
    if MIN_INSYNC_VALUE.fullmatch(value) is None:
        return f'"{shown(value, _MAX_SHOWN)}" is not a number of replicas; it is not managed'
    if int(value) > replication_factor:
        return (
            f"{int(value)} is above the replication factor of {replication_factor}, which Kafka takes instead, and "
            "a KafkaTopic refuses it; it is not managed, and stays as it is in Kafka"
        )
    return None

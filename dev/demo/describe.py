"""Parse the output of `kafka-topics.sh --describe`."""

import re
from collections import defaultdict
from collections.abc import Mapping

Replicas = tuple[tuple[int, ...], ...]

_PARTITION = re.compile(r"^\tTopic: (?P<topic>\S+)\tPartition: (?P<partition>\d+)\t.*?\bReplicas: (?P<replicas>[\d,]+)")
_TOPIC = re.compile(r"^Topic: (?P<topic>\S+)\t.*\bConfigs: (?P<configs>\S*)")


def replicas_by_topic(described: str) -> Mapping[str, Replicas]:
    """Return the replica lists by topic and partition, the preferred leader first."""
    found: defaultdict[str, dict[int, tuple[int, ...]]] = defaultdict(dict)
    for line in described.splitlines():
        if row := _PARTITION.match(line):
            found[row["topic"]][int(row["partition"])] = tuple(map(int, row["replicas"].split(",")))
    return {topic: tuple(rows[partition] for partition in sorted(rows)) for topic, rows in found.items()}


def configs_by_topic(described: str) -> Mapping[str, Mapping[str, str]]:
    """Return the configs of each topic. Values are cut at a comma, because the tool does not quote them."""
    return {
        row["topic"]: dict(pair.split("=", 1) for pair in row["configs"].split(",") if "=" in pair)
        for line in described.splitlines()
        if (row := _TOPIC.match(line))
    }

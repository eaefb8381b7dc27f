"""Definitions from topicctl's topic configs; a file may contain several.

The strategies `any`, `balanced-leaders` and `cross-rack` match what Rackspan does by default; `static` becomes an
assignment. With `in-rack` and `static-in-rack` all replicas of a partition share a rack, which Rackspan prevents. Only
an assignment of the present replicas can keep that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rackspan.api.kafkatopic import KafkaTopicSpec, TopicPlacement
from rackspan.core.text import plural, shown
from rackspan.imports.cluster_import import INTERNAL
from rackspan.imports.imported_configs import accepted_configs
from rackspan.imports.imported_references import is_internal
from rackspan.imports.imported_topics import STRATEGY, Definition, Skipped, SourceCluster, converted, not_kept
from rackspan.imports.manifest_documents import ManifestFieldError, Part, described, whole
from rackspan.imports.shared_fields import (
    MOST_PARTITIONS,
    MOST_REPLICAS,
    MOST_ROWS,
    WIDEST_ROW,
    config_texts,
    kept_metadata,
    required_text,
    topic_name,
)
from rackspan.imports.yaml_nodes import Scalar, Sequence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rackspan.imports.imported_references import Topologies
    from rackspan.imports.imported_topics import Remark, Source

DESCRIPTION: Final = "kubernetes.io/description"
_RETENTION: Final = "retention.ms"
_MS_PER_MINUTE: Final = 60_000
_BYTES_PER_MB: Final = 1_000_000
_MOST: Final = 2**31 - 1
_MAX_SHOWN: Final = 100
WORD: Final = "replicationFactor"
"""A word that the text of every topic config contains."""
_FIELDS: Final = {
    "": ("meta", "spec"),
    "meta": ("name", "cluster", "environment", "region", "description", "labels", "consumers"),
    "spec": ("partitions", "replicationFactor", "retentionMinutes", "settings", "placement", "migration"),
    "spec.placement": ("strategy", "picker", "staticAssignments", "staticRackAssignments"),
    "spec.migration": ("throttleMB", "partitionBatchSize"),
}
_ANY: Final = "any"
_STRATEGIES: Final = {
    _ANY: converted(STRATEGY, "any leaves the placement open; Rackspan spreads replicas over racks"),
    "balanced-leaders": converted(STRATEGY, "balanced-leaders: Rackspan spreads replicas and leaders over racks"),
    "cross-rack": None,
    "static": None,
    "in-rack": not_kept(STRATEGY, "in-rack keeps a partition's replicas in one rack, and Rackspan keeps them apart"),
    "static-in-rack": not_kept(
        STRATEGY, "static-in-rack keeps each partition's replicas in a rack of its own, and Rackspan keeps them apart"
    ),
}


def topicctl_topic(source: Source, part: Part, topologies: Topologies) -> Definition | Skipped:
    """Return the topic that one document defines, or why it is skipped. Raises ManifestFieldError."""
    meta, spec = part.part("meta"), part.part("spec")
    other = _no_topic(meta, spec)
    if other is not None:
        return Skipped(source, *other)
    meta.refuse_placeholders("description")
    spec.refuse_placeholders()
    required_text(meta, "name")
    topic = topic_name(meta, "name") or ""
    if is_internal(topic):
        return Skipped(source, f"topic {topic}", INTERNAL)
    cluster = SourceCluster(required_text(meta, "cluster"), _where(meta))
    partitions = _needed(spec, "partitions", MOST_PARTITIONS)
    factor = _needed(spec, "replicationFactor", MOST_REPLICAS)
    texts, nulls = config_texts(spec.part("settings"), setting_text)
    minutes = spec.number("retentionMinutes", 0, 2**53)
    if minutes and _RETENTION in texts:
        raise spec.part("settings").error(_RETENTION, "spec.retentionMinutes says it already")
    if minutes:
        texts[_RETENTION] = str(minutes * _MS_PER_MINUTE)
    config, refused = accepted_configs(texts, factor)
    labels, lost_labels = kept_metadata(meta.texts("labels"), "meta.labels", as_labels=True)
    description = meta.spelling("description").strip()
    placement, strategy = _placement(spec.part("placement"), partitions, factor)
    moves = list(_migration(spec.part("migration")))
    return Definition(
        source,
        topic,
        KafkaTopicSpec(topologies.of(cluster), partitions, factor, topic, config, placement),
        cluster,
        labels=labels,
        annotations={DESCRIPTION: description} if description else {},
        remarks=(*_meta_remarks(meta), *nulls, *refused, *lost_labels, *strategy, *moves, *_unknown(part)),
    )


def _no_topic(meta: Part, spec: Part) -> tuple[str, str] | None:
    """Return what a document without a topic is, and why it has no KafkaTopic; None if it defines a topic."""
    name = shown(meta.spelling("name"), _MAX_SHOWN)
    if spec.node("bootstrapAddrs") or spec.node("zkAddrs"):
        return f"cluster {name}", "it is a cluster, and no topic: a RackTopology has its bootstrapServers"
    if spec.node("acls"):
        return f"ACLs {name}", "they are not a topic"
    if not meta.fields.of or not spec.fields.of:
        return "a document", "it has no meta and spec of a topic"
    return None


def setting_text(number: float) -> str:
    """Return a fraction as topicctl sends it to Kafka: with two decimals."""
    return f"{number:.2f}"


def _needed(part: Part, key: str, most: int) -> int:
    value = part.number(key, 1, most)
    if value is None:
        raise ManifestFieldError(part.line, part.at(key), "is missing")
    return value


def _where(meta: Part) -> str:
    """Return environment and region, which distinguish clusters of the same name."""
    return "/".join(filter(None, (meta.spelling("environment"), meta.spelling("region"))))


def _meta_remarks(meta: Part) -> Iterator[Remark]:
    where = shown(_where(meta), _MAX_SHOWN)
    if where:
        yield converted("meta.environment, meta.region", f"{where}: topologyRef says which cluster it is")
    consumers = []
    for one in meta.items("consumers"):
        if not isinstance(one, Scalar):
            raise ManifestFieldError(one.line, "meta.consumers", f"must be texts, not {described(one)}")
        consumers.append(one.text)
    if consumers:
        yield not_kept("meta.consumers", shown(", ".join(consumers), _MAX_SHOWN))


def _placement(part: Part, partitions: int, factor: int) -> tuple[TopicPlacement, list[Remark]]:
    strategy = part.text("strategy") or _ANY
    if strategy not in _STRATEGIES:
        raise part.error("strategy", f'"{shown(strategy, _MAX_SHOWN)}" is not a strategy of topicctl')
    remark = _STRATEGIES[strategy]
    remarks = [] if remark is None else [remark]
    picker = part.text("picker")
    if picker is not None:
        why = f"{shown(picker, _MAX_SHOWN)}: among equals Rackspan chooses the broker that holds least"
        remarks.append(not_kept("spec.placement.picker", why))
    for key, of in (("staticAssignments", "static"), ("staticRackAssignments", "static-in-rack")):
        if part.items(key) and strategy != of:
            remarks.append(not_kept(part.at(key), f"has no effect with the strategy {strategy}"))
    if strategy != "static":
        return TopicPlacement(), remarks
    return TopicPlacement(assignment=_assignment(part, partitions, factor)), remarks


def _assignment(part: Part, partitions: int, factor: int) -> tuple[tuple[int, ...], ...]:
    key = "staticAssignments"
    rows = part.items(key)
    if len(rows) > MOST_ROWS or factor > WIDEST_ROW:
        raise part.error(key, f"a KafkaTopic assigns at most {MOST_ROWS:,} partitions of {WIDEST_ROW} replicas")
    if len(rows) != partitions:
        raise part.error(key, f"has {plural(len(rows), 'row')}, for {plural(partitions, 'partition')}")
    assignment = []
    for number, row in enumerate(rows):
        if not isinstance(row, Sequence):
            raise ManifestFieldError(row.line, part.at(key), f"row {number}: must be a list, not {described(row)}")
        brokers = []
        for node in row.items:
            broker = whole(node)
            if broker is None or not 0 <= broker <= _MOST:
                raise ManifestFieldError(
                    node.line, part.at(key), f"row {number}: must be broker ids, not {described(node)}"
                )
            brokers.append(broker)
        if len(brokers) != factor:
            named = f"names {plural(len(brokers), 'broker')}, for a replicationFactor of {factor}"
            raise ManifestFieldError(row.line, part.at(key), f"row {number} {named}")
        if len(set(brokers)) < factor:
            raise ManifestFieldError(row.line, part.at(key), f"row {number} names a broker twice")
        assignment.append(tuple(brokers))
    return tuple(assignment)


def _migration(part: Part) -> Iterator[Remark]:
    throttle = part.number("throttleMB", 0, 2**40)
    batch = part.number("partitionBatchSize", 0, MOST_PARTITIONS)
    if throttle:
        why = f"brokers have one throttle: spec.reassignment.throttle {throttle * _BYTES_PER_MB} of the RackTopology"
        yield not_kept("spec.migration.throttleMB", why)
    if batch:
        why = f"spec.reassignment.maxConcurrentMoves {batch} of the RackTopology counts replicas copied at a time"
        yield not_kept("spec.migration.partitionBatchSize", why)


def _unknown(part: Part) -> Iterator[Remark]:
    for path, known in _FIELDS.items():
        inside = part
        for step in filter(None, path.split(".")):
            inside = inside.part(step)
        for key in inside.beyond(known):
            yield not_kept(shown(inside.at(key), _MAX_SHOWN), "has no counterpart")

"""Definitions from Strimzi's KafkaTopics, `kafka.strimzi.io/v1` and `v1beta2`.

The label `strimzi.io/cluster` names the cluster. Partitions and replicas are optional. By default they have the values
that `num.partitions` and `default.replication.factor` had on the brokers when the topic was created.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rackspan.api.kafkatopic import KafkaTopicSpec
from rackspan.api.labels import PAUSED
from rackspan.core.text import shown
from rackspan.imports.cluster_import import INTERNAL
from rackspan.imports.imported_configs import accepted_configs
from rackspan.imports.imported_references import is_internal
from rackspan.imports.imported_topics import Definition, Refused, Skipped, SourceCluster, converted, not_kept
from rackspan.imports.names import is_namespace, is_object_name
from rackspan.imports.shared_fields import (
    MOST_PARTITIONS,
    MOST_REPLICAS,
    config_texts,
    kept_metadata,
    other_kind,
    required_text,
    topic_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rackspan.imports.imported_references import Topologies
    from rackspan.imports.imported_topics import Remark, Source
    from rackspan.imports.manifest_documents import Part

WORD: Final = "KafkaTopic"
"""A word that the text of every KafkaTopic contains: its kind."""
_GROUP: Final = "kafka.strimzi.io/"
_OWN: Final = "strimzi.io/"
_CLUSTER: Final = "strimzi.io/cluster"
_PAUSES: Final = ("strimzi.io/pause-reconciliation", "strimzi.io/paused-reconciliation")
_MANAGED: Final = "strimzi.io/managed"
_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_SERVERS: Final = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid")
"""The metadata that the API server sets."""

_SPEC: Final = ("topicName", "partitions", "replicas", "config")
_METADATA: Final = ("name", "namespace", "labels", "annotations", "ownerReferences", "finalizers", *_SERVERS)
_STRIMZIS_FINALIZER: Final = "strimzi.io/topic-operator"
_MAX_SHOWN: Final = 100


def strimzi_topic(source: Source, part: Part, topologies: Topologies) -> Definition | Skipped | Refused:
    """Return the topic that one object defines, or why it is skipped or refused. Raises ManifestFieldError."""
    if not part.says("kind", WORD) or not part.spelling("apiVersion").startswith(_GROUP):
        return other_kind(source, part, _GROUP.removesuffix("/"))
    metadata, spec = part.part("metadata"), part.part("spec")
    metadata.refuse_placeholders("annotations", "managedFields")
    spec.refuse_placeholders()
    name = required_text(metadata, "name")
    if not is_object_name(name):
        raise metadata.error("name", f'"{shown(name, _MAX_SHOWN)}" is not a valid name of an object')
    namespace = metadata.text("namespace")
    if namespace is not None and not is_namespace(namespace):
        raise metadata.error("namespace", f'"{shown(namespace, _MAX_SHOWN)}" is not a valid namespace name')
    topic = topic_name(spec, "topicName") or topic_name(metadata, "name") or name
    if is_internal(topic):
        return Skipped(source, f"topic {topic}", INTERNAL)
    labels, annotations = metadata.texts("labels"), metadata.texts("annotations")
    called = labels.pop(_CLUSTER, None)
    cluster = None if called is None else SourceCluster(called, namespace or "")
    topology = topologies.default if cluster is None else topologies.of(cluster)
    if topology is None:
        return Refused(source, f"topic {topic}: has no label {_CLUSTER}: pass --topology-ref NAME")
    partitions = spec.number("partitions", 1, MOST_PARTITIONS)
    replicas = spec.number("replicas", 1, MOST_REPLICAS)
    texts, nulls = config_texts(spec.part("config"), repr)
    config, refused = accepted_configs(texts, replicas or MOST_REPLICAS)
    kept_labels, lost_labels = kept_metadata(_others(labels), "metadata.labels", as_labels=True)
    others, lost_annotations = kept_metadata(_others(annotations), "metadata.annotations", as_labels=False)
    paused = any(annotations.get(key, "").lower() == "true" for key in _PAUSES)
    return Definition(
        source,
        topic,
        KafkaTopicSpec(topology, partitions or 1, replicas or 1, topic, config),
        cluster,
        name,
        namespace,
        kept_labels,
        {**others, PAUSED: "true"} if paused else others,
        (
            *nulls,
            *refused,
            *lost_labels,
            *lost_annotations,
            *_own_remarks(labels, annotations),
            *_unknown(metadata, spec, part),
        ),
        tuple(field for field, said in (("partitions", partitions), ("replicationFactor", replicas)) if said is None),
    )


def _others(values: Mapping[str, str]) -> dict[str, str]:
    """Return the labels or annotations without Strimzi's own, and without kubectl's copy of the object."""
    return {key: value for key, value in values.items() if not key.startswith(_OWN) and key != _APPLIED}


def _own_remarks(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Iterator[Remark]:
    for key, value in annotations.items():
        field = f"metadata.annotations {shown(key, _MAX_SHOWN)}"
        if key in _PAUSES:
            paused = value.lower() == "true"
            yield converted(field, f"{PAUSED} leaves the topic alone" if paused else "it pauses nothing")
        elif key == _MANAGED:
            said = shown(value, _MAX_SHOWN)
            yield converted(field, f"{said}: it says what Strimzi does; Rackspan manages what is applied")
        elif key.startswith(_OWN):
            yield not_kept(field, "it is for Strimzi")
    for key in labels:
        if key.startswith(_OWN):
            yield not_kept(f"metadata.labels {shown(key, _MAX_SHOWN)}", "it is for Strimzi")


def _unknown(metadata: Part, spec: Part, part: Part) -> Iterator[Remark]:
    if metadata.items("ownerReferences"):
        yield not_kept("metadata.ownerReferences", "the new object has no owner, and is not deleted with one")
    strangers = [item for item in metadata.items("finalizers") if getattr(item, "text", "") != _STRIMZIS_FINALIZER]
    if strangers:
        yield not_kept("metadata.finalizers", "who put them there does not know the new object")
    change = part.part("status").part("replicasChange")
    if change.fields.of:
        state = shown(change.spelling("state"), _MAX_SHOWN)
        yield not_kept("status.replicasChange", f"a change of replicas is {state}: end it before the topic is imported")
    for inside, known in (
        (metadata, _METADATA),
        (spec, _SPEC),
        (part, ("apiVersion", "kind", "metadata", "spec", "status")),
    ):
        for key in inside.beyond(known):
            yield not_kept(shown(inside.at(key), _MAX_SHOWN), "is not known")

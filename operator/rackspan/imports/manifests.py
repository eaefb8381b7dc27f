"""Definitions as KafkaTopic objects and as YAML, and KafkaTopics read from files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rackspan.api.codec import SpecError, encode
from rackspan.api.kafkatopic import KIND, KafkaTopic, KafkaTopicSpec
from rackspan.api.labels import API_VERSION
from rackspan.core.text import shown
from rackspan.imports.imported_topics import Refused, Skipped, Source
from rackspan.imports.manifest_documents import ManifestFieldError
from rackspan.imports.shared_fields import holds_topics, other_kind
from rackspan.imports.topic_rules import broken_rules
from rackspan.imports.yaml_nodes import Fields, Node, Scalar, Sequence
from rackspan.imports.yaml_text import QuotingDumper, yaml_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rackspan.imports.imported_topics import Definition
    from rackspan.imports.manifest_documents import Documents, Part

_LONGEST_COMMENT = 300
_DEFAULTS: Mapping[str, Any] = {
    "config": {},
    "placement": {},
    "deletionPolicy": "Retain",
    "onTopicLoss": "Stall",
}
_EMPTY: tuple[Any, ...] = ({}, [])
_AFTER_KEY = ("", ".", " ", ":", "[", "]")
_BETWEEN = ". [:]"
"""The characters between the keys of a path in a sentence."""


def manifest(name: str, definition: Definition) -> dict[str, Any]:
    """Return the KafkaTopic object of a definition, with this `name`, without fields that have their defaults."""
    metadata: dict[str, Any] = {"name": name}
    if definition.namespace is not None:
        metadata["namespace"] = definition.namespace
    for key, values in (("labels", definition.labels), ("annotations", definition.annotations)):
        if values:
            metadata[key] = dict(values)
    spec = spec_document(definition.spec)
    if spec.get("topicName") == name:
        del spec["topicName"]
    topology = definition.spec.topology_ref
    if definition.namespace is not None and topology.namespace == definition.namespace:
        # People omit this namespace. As topologyRef is immutable, they could not remove the namespace later.
        spec["topologyRef"] = {"name": topology.name}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}


def spec_document(spec: KafkaTopicSpec) -> dict[str, Any]:
    """Return the JSON of a spec without its defaults; decoding the JSON gives the same spec."""
    document: dict[str, Any] = encode(spec)
    placement = document.pop("placement")
    if "brokers" in placement:
        placement["brokers"] = {key: value for key, value in placement["brokers"].items() if value}
    placement = {key: value for key, value in placement.items() if value not in _EMPTY}
    if "durability" in document:
        document["durability"] = {key: value for key, value in document["durability"].items() if value}
    first = ("topologyRef", "topicName", "partitions", "replicationFactor", "config")
    ordered = {key: document.pop(key) for key in first if key in document}
    whole = {**ordered, "placement": placement, **document}
    return {key: value for key, value in whole.items() if key not in _DEFAULTS or value != _DEFAULTS[key]}


class _ManifestDumper(QuotingDumper):
    """A YAML dumper that writes each row of an assignment on one line."""


def _row(dumper: Any, row: tuple[int, ...]) -> Any:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", row, flow_style=True)


_ManifestDumper.add_representer(tuple, _row)


def yaml_document(document: Mapping[str, Any], comments: Iterable[str] = ()) -> str:
    """Return an object as one YAML document: the separator, `comments`, then the object."""
    lines = "".join(f"# {shown(line, _LONGEST_COMMENT)}\n" for line in comments)
    return f"---\n{lines}{yaml_text(_with_rows(document), _ManifestDumper)}"


def _with_rows(document: Mapping[str, Any]) -> Mapping[str, Any]:
    placement = document["spec"].get("placement", {})
    if "assignment" not in placement:
        return document
    rows = [tuple(row) for row in placement["assignment"]]
    return {**document, "spec": {**document["spec"], "placement": {**placement, "assignment": rows}}}


@dataclass(frozen=True, slots=True)
class ManifestTopic:
    """A KafkaTopic in a file, and the object as written in the file."""

    source: Source
    topic: KafkaTopic
    part: Part

    def at(self, sentence: str) -> Source:
        """Return the position of the field that a sentence begins with, such as `spec.config retention.ms: is …`.

        If the file does not contain the field, return the position of its nearest parent that the file contains.
        """
        return Source(self.source.name, _line(self.part.fields, sentence))

    @property
    def document(self) -> dict[str, Any]:
        """The object to apply: as written, but without the status and the metadata that the API server sets."""
        written, key = _plain(self.part.fields), self.topic.key
        more = {name: value for name in ("labels", "annotations") if (value := written["metadata"].get(name))}
        metadata = {"namespace": key.namespace, "name": key.name, **more}
        return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": written["spec"]}

    def about(self, sentence: str) -> Refused:
        """Return a refusal with a sentence that begins with the path of a field, its position and the object's name."""
        return Refused(self.at(sentence), f"KafkaTopic {self.topic.meta.name}: {sentence}")


def _line(node: Node, path: str) -> int:
    """Return the line of the deepest node on a path. Its keys are in brackets, or follow dots or spaces."""
    line = node.line
    while True:
        steps = list(_steps(node))
        key, below = max(
            ((key, one) for key, one in steps if path.startswith(key) and path[len(key) :][:1] in _AFTER_KEY),
            key=lambda step: len(step[0]),
            default=("", None),
        )
        if below is None:
            return line
        node, line, path = below, below.line, path[len(key) :].lstrip(_BETWEEN)


def _steps(node: Node) -> Iterator[tuple[str, Node]]:
    match node:
        case Fields():
            yield from node.of.items()
        case Sequence():
            yield from ((f"{at}]", item) for at, item in enumerate(node.items))


@dataclass(frozen=True, slots=True)
class Manifests:
    """The KafkaTopics in documents, the objects that cannot be read (`refused`), and the `skipped` ones.

    Skipped objects are of another kind or group but may be meant as KafkaTopics. `broken` are the rules that readable
    KafkaTopics break.
    """

    topics: tuple[ManifestTopic, ...]
    refused: tuple[Refused, ...]
    broken: tuple[Refused, ...]
    skipped: tuple[Skipped, ...]


def read_topics(documents: Documents, namespace: str = "default") -> Manifests:
    """Read the KafkaTopics in documents and ignore objects of other kinds.

    KafkaTopics without a namespace get `namespace`.
    """
    topics, refused = [], [Refused(one.source, one.reason) for one in documents.unread]
    broken, skipped = list[Refused](), []
    for source, part in documents.found:
        try:
            if not (part.says("kind", KIND) and part.says("apiVersion", API_VERSION)):
                if _is_ours(part):
                    refused.append(Refused(source, f"the API server serves {KIND} as {API_VERSION} only"))
                elif holds_topics(part):
                    skipped.append(other_kind(source, part, API_VERSION))
                continue
            part.part("metadata").refuse_placeholders("annotations")
            part.part("spec").refuse_placeholders()
            document = _plain(part.fields)
            metadata = {"namespace": namespace, **(document.get("metadata") or {})}
            topic = KafkaTopic.from_object({**document, "metadata": metadata})
        except ManifestFieldError as error:
            refused.append(Refused(Source(source.name, error.line), str(error)))
        except SpecError as error:
            refused.append(Refused(Source(source.name, _line(part.fields, str(error))), str(error)))
        else:
            found = ManifestTopic(source, topic, part)
            topics.append(found)
            broken += map(found.about, broken_rules(document, topic))
    return Manifests(tuple(topics), tuple(refused), tuple(broken), tuple(skipped))


def _is_ours(part: Part) -> bool:
    """Return whether an object is a KafkaTopic of Rackspan's API group, in any version."""
    version = part.fields.of.get("apiVersion")
    group = API_VERSION.partition("/")[0]
    return part.says("kind", KIND) and isinstance(version, Scalar) and version.text.partition("/")[0] == group


def _plain(node: Node) -> Any:
    match node:
        case Fields():
            return {key: _plain(value) for key, value in node.of.items()}
        case Scalar():
            return node.value
        case _:
            return [_plain(item) for item in node.items]

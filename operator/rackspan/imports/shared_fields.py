"""Common parts of definitions in files: configs, labels, numbers of partitions and replicas."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

from rackspan.core.partitions import is_topic_name
from rackspan.core.text import plural, shown
from rackspan.imports.imported_topics import Skipped, not_kept
from rackspan.imports.manifest_documents import ManifestFieldError, Part, described
from rackspan.imports.names import is_object_name
from rackspan.imports.yaml_nodes import Fields, Node, Scalar, Sequence

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rackspan.imports.imported_topics import Remark, Source

FloatText: TypeAlias = "Callable[[float], str]"
MOST_PARTITIONS: Final = 100_000
MOST_REPLICAS: Final = 32_767
MOST_ROWS: Final = 5_000
WIDEST_ROW: Final = 16
"""The most replicas in a row of an assignment; MOST_ROWS limits its rows. All limits are from crds/kafkatopics.yaml."""
_MAX_SHOWN = 100
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_KEY = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_TOOLS = ("argocd.argoproj.io/", "meta.helm.sh/", "kustomize.toolkit.fluxcd.io/", "helm.toolkit.fluxcd.io/")
_TOOLS_LABELS = ("app.kubernetes.io/managed-by", "helm.sh/chart")


def holds_topics(part: Part) -> int:
    """Return how many KafkaTopics, of any API group, an object is or contains as an OpenShift Template."""
    if part.says("kind", "KafkaTopic"):
        return 1
    objects = part.fields.of.get("objects")
    if not part.says("kind", "Template") or not isinstance(objects, Sequence):
        return 0
    return sum(holds_topics(Part(one)) for one in objects.items if isinstance(one, Fields))


def other_kind(source: Source, part: Part, version: str) -> Skipped:
    """Return why an object that is not a KafkaTopic of `version` is skipped."""
    metadata = part.fields.of.get("metadata")
    names = (part.fields.of.get("kind"), metadata.of.get("name") if isinstance(metadata, Fields) else None)
    subject = " ".join(shown(one.text, _MAX_SHOWN) for one in names if isinstance(one, Scalar))
    if part.says("kind", "KafkaTopic"):
        reason = (
            f"it is a KafkaTopic of {shown(part.spelling('apiVersion'), _MAX_SHOWN) or 'no group'}, not of {version}"
        )
    elif count := holds_topics(part):
        reason = f"it holds {plural(count, 'KafkaTopic')}, and is a template: render it first, with oc process"
    else:
        reason = f"it is not a KafkaTopic of {version}"
    return Skipped(source, subject or "a document", reason)


def topic_name(part: Part, key: str) -> str | None:
    """Return a topic's name, or None if it is missing. Raises ManifestFieldError if Kafka would reject the name."""
    name = part.text(key)
    if name is not None and not is_topic_name(name):
        raise part.error(key, f'"{shown(name, _MAX_SHOWN)}" is not a valid topic name')
    return name


def required_text(part: Part, key: str) -> str:
    """Return the text of a required field. Raises ManifestFieldError if it is missing or empty."""
    text = part.text(key)
    if not text:
        raise ManifestFieldError(part.line, part.at(key), "is missing")
    return text


def config_texts(part: Part, of_float: FloatText) -> tuple[dict[str, str], tuple[Remark, ...]]:
    """Return topic configs as the source's own tool sends them to Kafka; lists become comma-separated.

    `of_float` formats a fraction as that tool does. Raises ManifestFieldError for a mapping, also inside a list.
    """
    configs, remarks = {}, []
    for key, node in part.fields.of.items():
        text = _config_text(part, key, node, of_float)
        if text is None:
            field = f"config {shown(key, _MAX_SHOWN)}"
            remarks.append(not_kept(field, "is null, which leaves it to the brokers: it is not managed"))
        else:
            configs[key] = text
    return configs, tuple(remarks)


def _config_text(part: Part, key: str, node: Node, of_float: FloatText) -> str | None:
    match node:
        case Scalar():
            return _scalar_text(node, of_float)
        case Fields():
            raise part.error(key, f"must be a value or a list, not {described(node)}")
    texts = []
    for item in node.items:
        if not isinstance(item, Scalar):
            raise ManifestFieldError(item.line, part.at(key), f"must be a list of values, not of {described(item)}")
        texts.append(_scalar_text(item, of_float) or "")
    return ",".join(texts)


def _scalar_text(node: Scalar, of_float: FloatText) -> str | None:
    match node.value:
        case bool(value):
            return str(value).lower()
        case float(value):
            return of_float(value)
        case None:
            return None
        case value:
            return str(value)


def kept_metadata(
    values: Mapping[str, str], field: str, *, as_labels: bool
) -> tuple[dict[str, str], tuple[Remark, ...]]:
    """Return the labels or annotations that the KafkaTopic can have too, and a remark on each of the others."""
    kept, remarks = {}, []
    for key, value in sorted(values.items()):
        why = _not_kept(key, value, as_labels=as_labels)
        if why is None:
            kept[key] = value
        else:
            remarks.append(not_kept(f"{field} {shown(key, _MAX_SHOWN)}", why))
    return kept, tuple(remarks)


def _not_kept(key: str, value: str, *, as_labels: bool) -> str | None:
    if key.startswith(_TOOLS) or key in _TOOLS_LABELS:
        return "it marks the object as a tool's own, and this one is another"
    prefix, slash, name = key.rpartition("/")
    if _KEY.fullmatch(name) is None or (slash and not is_object_name(prefix)):
        return "is not a valid key of a label or annotation"
    if as_labels and _LABEL_VALUE.fullmatch(value) is None:
        return f"{shown(value, _MAX_SHOWN)} is not a valid label value"
    return None

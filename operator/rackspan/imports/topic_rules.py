"""The rules of crds/kafkatopics.yaml for a KafkaTopic, for files that no API server has validated.

The API server decides what is applied. A test checks these rules with the same cases as those of the API server.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any, Final

from rackspan.api.codec import unknown_fields
from rackspan.api.kafkatopic import DeletionPolicy, KafkaTopicSpec
from rackspan.core.config_keys import MIN_INSYNC
from rackspan.core.partitions import is_topic_name
from rackspan.core.text import plural, shown
from rackspan.imports.imported_configs import LONGEST_VALUE, MIN_INSYNC_VALUE, MOST_CONFIGS, NO_CONFIGS, THROTTLED
from rackspan.imports.imported_references import KAFKAS_OWN
from rackspan.imports.names import is_namespace, is_object_name
from rackspan.imports.shared_fields import MOST_PARTITIONS, MOST_REPLICAS, MOST_ROWS, WIDEST_ROW

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rackspan.api.kafkatopic import KafkaTopic, TopicPlacement

_MOST: Final = 2**31 - 1
_LONGEST_TOPIC: Final = 249
_LONGEST_NAME, _LONGEST_PATH = 63, 512
_MOST_LEVELS, _MOST_PATTERNS, _MOST_LEADERS = 8, 200, 100
_HASH: Final = re.compile(r"[0-9a-f]{32}")
_WITHOUT_START: Final = ("MultiLevel", "Rings")
_WITHOUT_LEADERS: Final = ("Simple", "Striped", "Rings")
_MAX_SHOWN: Final = 80


def broken_rules(document: Mapping[str, Any], topic: KafkaTopic) -> Iterator[str]:
    """Yield a sentence for each rule that a KafkaTopic breaks; `document` is the JSON of the KafkaTopic."""
    spec = topic.spec
    for field in document:
        if field not in ("apiVersion", "kind", "metadata", "spec", "status"):
            yield f"{shown(field, _MAX_SHOWN)}: there is no such field"
    for path in unknown_fields(KafkaTopicSpec, document["spec"], "spec"):
        yield f"{shown(path, _MAX_SHOWN)}: there is no such field"
    if not is_object_name(topic.meta.name):
        yield f'metadata.name: "{shown(topic.meta.name, _MAX_SHOWN)}" is not a valid name of an object'
    elif spec.topic_name is None and len(topic.meta.name) > _LONGEST_TOPIC:
        yield f"metadata.name: is longer than the {_LONGEST_TOPIC} characters of a Kafka topic name: set spec.topicName"
    yield from _names(spec)
    yield from _bounds("spec.partitions", spec.partitions, 1, MOST_PARTITIONS)
    yield from _bounds("spec.replicationFactor", spec.replication_factor, 1, MOST_REPLICAS)
    yield from _config(spec)
    yield from _placement(spec, document["spec"].get("placement") or {})
    yield from _durability(spec)
    approved = spec.reassignment.approved_plan if spec.reassignment else None
    if approved is not None and _HASH.fullmatch(approved) is None:
        yield "spec.reassignment.approvedPlan: is the hash of a plan in full, such as 0123456789abcdef0123456789abcdef"


def _names(spec: KafkaTopicSpec) -> Iterator[str]:
    reference = spec.topology_ref
    if not is_object_name(reference.name):
        yield f'spec.topologyRef.name: "{shown(reference.name, _MAX_SHOWN)}" is not a valid name of a RackTopology'
    if reference.namespace is not None and not is_namespace(reference.namespace):
        yield f'spec.topologyRef.namespace: "{shown(reference.namespace, _MAX_SHOWN)}" is not a valid namespace name'
    if spec.topic_name is not None and not is_topic_name(spec.topic_name):
        yield f'spec.topicName: "{shown(spec.topic_name, _MAX_SHOWN)}" is not a valid topic name'
    if spec.deletion_policy is DeletionPolicy.DELETE and spec.topic_name in KAFKAS_OWN:
        yield "spec.deletionPolicy: Kafka's internal topics cannot have deletionPolicy Delete"


def _bounds(path: str, value: int | None, least: int, most: int) -> Iterator[str]:
    if value is not None and not least <= value <= most:
        yield f"{path}: must be from {least:,} to {most:,}, not {value:,}"


def _size(path: str, items: Sequence[object] | Mapping[str, object], most: int, noun: str) -> Iterator[str]:
    if len(items) > most:
        yield f"{path}: has {plural(len(items), noun)}, and at most {most:,} are allowed"


def _once(path: str, items: Sequence[str]) -> Iterator[str]:
    if len(set(items)) < len(items):
        yield f"{path}: has an entry twice"


def _config(spec: KafkaTopicSpec) -> Iterator[str]:
    yield from _size("spec.config", spec.config, MOST_CONFIGS, "config")
    for key, value in spec.config_values.items():
        field = f"spec.config {shown(key, _MAX_SHOWN)}"
        if key in NO_CONFIGS:
            yield f"{field}: is not a topic config: use spec.partitions and spec.replicationFactor"
        elif key in THROTTLED:
            yield f"{field}: throttled replicas are set by the operator: use the RackTopology's reassignment.throttle"
        elif len(value) > LONGEST_VALUE:
            yield f"{field}: has {len(value):,} characters, and at most {LONGEST_VALUE:,} are allowed"
    given = spec.config_values.get(MIN_INSYNC)
    if given is not None and MIN_INSYNC_VALUE.fullmatch(given) is None:
        yield f'spec.config {MIN_INSYNC}: "{shown(given, _MAX_SHOWN)}" is not a whole number of 1 or more'
    elif (insync := _compared(spec)) is not None and insync > spec.replication_factor:
        yield (
            f"spec.config {MIN_INSYNC}: is {insync}, above the replicationFactor of {spec.replication_factor}: "
            "lower it, or raise spec.replicationFactor"
        )


def _compared(spec: KafkaTopicSpec) -> int | None:
    """Return the min.insync.replicas to compare other fields with; None if it is missing or no number."""
    given = spec.config_values.get(MIN_INSYNC, "")
    # int() refuses very long texts, leading zeros included.
    return int(given.lstrip("0")) if MIN_INSYNC_VALUE.fullmatch(given) else None


def _durability(spec: KafkaTopicSpec) -> Iterator[str]:
    if spec.durability is None:
        return
    domains, lost, factor = spec.durability.min_domains, spec.durability.tolerate, spec.replication_factor
    for path, counts in (("spec.durability.minDomains", domains), ("spec.durability.tolerate", lost)):
        yield from _size(path, counts, _MOST_LEVELS, "level")
        for level, count in counts.items():
            yield from _bounds(f"{path} {shown(level, _MAX_SHOWN)}", count, 1, MOST_REPLICAS)
    most_domains, most_lost = max(domains.values(), default=0), max(lost.values(), default=0)
    if most_domains > factor:
        yield f"spec.durability.minDomains: {most_domains} domains need a replicationFactor of as many, not {factor}"
    if most_lost >= factor:
        yield (
            f"spec.durability.tolerate: to lose {plural(most_lost, 'domain')} a topic needs a replicationFactor of "
            f"{most_lost + 1} or more, and it is {factor}"
        )
    insync = _compared(spec)
    if insync is not None and lost and most_lost + insync > factor:
        yield (
            f"spec.durability.tolerate: without {plural(most_lost, 'domain')} at most {factor - most_lost} replicas "
            f"are left, fewer than the {MIN_INSYNC} of {insync}"
        )
    if insync is not None and most_domains > insync:
        yield (
            f"spec.durability.minDomains: a write that {insync} replicas acknowledge ({MIN_INSYNC}) cannot "
            f"have reached {most_domains} domains"
        )
    if domains and lost and most_domains + most_lost > factor:
        yield (
            f"spec.durability: {most_domains} domains with {most_lost} lost need a replicationFactor of "
            f"{most_domains + most_lost} or more, and it is {factor}"
        )


def _placement(spec: KafkaTopicSpec, given: Mapping[str, Any]) -> Iterator[str]:
    placement = spec.placement
    has = {key for key, value in given.items() if value is not None}
    include = (given.get("brokers") or {}).get("include")
    for path, entries in (("leaders", given.get("leaders")), ("brokers.include", include)):
        if entries == []:
            yield f"spec.placement.{path}: is empty: leave it out, or name one"
    others = has & {"placer", "spread", "brokers", "leaders", "seed", "startIndex", "shift"}
    if "assignment" in has:
        if others:
            yield f"spec.placement.assignment: leaves nothing to place: remove it, or {', '.join(sorted(others))}"
        yield from _assignment(spec)
    if has & {"startIndex", "shift"} and placement.placer in _WITHOUT_START:
        yield f"spec.placement: startIndex and shift are for Simple and Striped, not for {placement.placer}: use seed"
    if "leaders" in has and placement.placer in _WITHOUT_LEADERS:
        yield f"spec.placement: the placer {placement.placer} ignores leaders: remove them, or use MultiLevel"
    if placement.placer is not None and not 1 <= len(placement.placer) <= _LONGEST_NAME:
        yield f"spec.placement.placer: must have from 1 to {_LONGEST_NAME} characters"
    yield from _bounds("spec.placement.seed", placement.seed, 0, 2**63 - 1)
    yield from _bounds("spec.placement.startIndex", placement.start_index, 0, _MOST)
    yield from _bounds("spec.placement.shift", placement.shift, 0, _MOST)
    yield from _spread(placement)
    brokers = placement.brokers
    if set(brokers.include) & set(brokers.exclude):
        yield "spec.placement.brokers: the same entry is in include and in exclude"
    yield from _paths("spec.placement.brokers.include", brokers.include, _MOST_PATTERNS)
    yield from _paths("spec.placement.brokers.exclude", brokers.exclude, _MOST_PATTERNS)
    yield from _paths("spec.placement.leaders", placement.leaders, _MOST_LEADERS, refused="*?")


def _spread(placement: TopicPlacement) -> Iterator[str]:
    yield from _size("spec.placement.spread", placement.spread, _MOST_LEVELS, "level")
    yield from _once("spec.placement.spread", [one.level for one in placement.spread])
    for at, one in enumerate(placement.spread):
        if not 1 <= len(one.level) <= _LONGEST_NAME:
            yield f"spec.placement.spread[{at}].level: must have from 1 to {_LONGEST_NAME} characters"
        yield from _bounds(f"spec.placement.spread[{at}].maxSkew", one.max_skew, 1, MOST_REPLICAS)


def _paths(path: str, entries: Sequence[str], most: int, refused: str = "") -> Iterator[str]:
    yield from _size(path, entries, most, "entry")
    yield from _once(path, entries)
    for entry in entries:
        steps = entry.removeprefix("/").split("/")
        if not all(steps) or len(entry) > _LONGEST_PATH or any(_is_refused(letter, refused) for letter in entry):
            yield f'{path}: "{shown(entry, _MAX_SHOWN)}" is not a broker id or rack path, such as /eu/eu-1a'


def _is_refused(letter: str, refused: str) -> bool:
    return letter in refused or letter.isspace() or unicodedata.category(letter)[0] in "ZC"


def _assignment(spec: KafkaTopicSpec) -> Iterator[str]:
    path, rows = "spec.placement.assignment", spec.placement.assignment
    yield from _size(path, rows, MOST_ROWS, "row")
    if len(rows) != spec.partitions:
        yield f"{path}: has {plural(len(rows), 'row')}, for {plural(spec.partitions, 'partition')}"
    wrong = ((at, _wrong_row(row, spec.replication_factor)) for at, row in enumerate(rows))
    first = next(((at, why) for at, why in wrong if why), None)
    if first is not None:
        yield f"{path}: row {first[0]} {first[1]}"


def _wrong_row(row: tuple[int, ...], factor: int) -> str:
    if len(row) != factor or not 1 <= len(row) <= WIDEST_ROW:
        return f"names {plural(len(row), 'broker')}, for a replicationFactor of {factor}"
    if len(set(row)) < len(row):
        return "names a broker twice"
    return "" if all(0 <= broker <= _MOST for broker in row) else "names something that is not a broker id"

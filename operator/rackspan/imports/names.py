"""Names of Kubernetes objects for topics.

If a topic's name is valid for an object, the object gets this name. Otherwise it gets the name in lower case, with
hyphens for characters that are not allowed, and `spec.topicName` has the topic's name. If two names are equal, a suffix
distinguishes them: first the RackTopology's name, if several are imported at once, then a hash. The names do not depend
on the order of topics or on chance.
"""

from __future__ import annotations

import re
from collections import defaultdict
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rackspan.imports.imported_topics import Definition

MOST = 253
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_NOT_ALLOWED = re.compile(r"[^a-z0-9.-]+")
_MOST_LABEL = 63
_NAMELESS = "topic"
_HASHES = (8, 16, 32, 64)


def is_object_name(name: str) -> bool:
    """Return whether a name is valid for an object: a DNS subdomain of RFC 1123."""
    return len(name) <= MOST and all(map(_LABEL.fullmatch, name.split(".")))


def is_namespace(name: str) -> bool:
    """Return whether a name is valid for a namespace: a DNS label of RFC 1123."""
    return len(name) <= _MOST_LABEL and _LABEL.fullmatch(name) is not None


def object_name(text: str) -> str:
    """Return a valid object name for a text: the text itself if it is valid."""
    if is_object_name(text):
        return text
    steps = (step.strip("-") for step in _NOT_ALLOWED.sub("-", text.lower()).split("."))
    return _cut(".".join(filter(None, steps)), MOST) or _NAMELESS


def named(definitions: Sequence[Definition]) -> tuple[str, ...]:
    """Return the name of each definition's object. Different topics get different names in each namespace."""
    several = len({one.spec.topology_ref for one in definitions}) > 1
    candidates = [list(_candidates(one, several=several)) for one in definitions]
    level = [0] * len(definitions)
    while True:
        holders = defaultdict(list)
        for at, one in enumerate(definitions):
            holders[one.namespace, candidates[at][level[at]]].append(at)
        moved = False
        for group in holders.values():
            for at in _to_move(group, level, definitions):
                if level[at] + 1 < len(candidates[at]):
                    level[at] += 1
                    moved = True
        if not moved:
            return tuple(candidates[at][level[at]] for at in range(len(definitions)))


def _to_move(group: list[int], level: list[int], definitions: Sequence[Definition]) -> list[int]:
    """Return the definitions that need another name: all except the one with the best claim to the name."""
    if len(group) == 1:
        return []
    lowest = min(level[at] for at in group)
    first = [at for at in group if level[at] == lowest]
    own = [at for at in first if object_name(definitions[at].name or definitions[at].topic) == definitions[at].topic]
    keeps = own if lowest == 0 and len(own) == 1 else first if len(first) == 1 else []
    return [at for at in group if at not in keeps]


def _candidates(one: Definition, *, several: bool) -> Iterator[str]:
    base = object_name(one.name or one.topic)
    topology = one.spec.topology_ref
    yield base
    if several:
        yield _joined(base, topology.name)
    digest = sha256(f"{topology.namespace or ''}/{topology.name}/{one.topic}".encode()).hexdigest()
    for digits in _HASHES:
        yield _joined(base, digest[:digits])


def _joined(base: str, part: str) -> str:
    tail = _cut(part, _MOST_LABEL + 1)
    return f"{_cut(base, MOST - 1 - len(tail))}-{tail}"


def _cut(text: str, most: int) -> str:
    return text[:most].rstrip(".-")

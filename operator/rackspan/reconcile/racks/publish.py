"""Publishes the racks of all nodes as ConfigMaps on changes, and reverts changes by other clients.

Pure functions decide the content, the namespaces and the condition RacksPublished. `RacksReconciler` does the I/O.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec.structs import replace

from rackspan import metrics
from rackspan.api import racktopology
from rackspan.api.conditions import RACKS_PUBLISHED, Conditions, ConditionStatus
from rackspan.api.labels import API_VERSION, PUBLISH_RACKS, RACK_FILE, RACK_FILE_OF, TOPOLOGY_UID
from rackspan.api.meta import ObjectKey
from rackspan.api.racktopology import KIND, RackSource
from rackspan.api.reasons import Reason
from rackspan.core.rack_file import RackFileError, rack_file
from rackspan.core.rack_path import format_rack
from rackspan.core.text import be, few, plural
from rackspan.reconcile.cluster.racks import not_shared, path_from_labels
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import Listed
from rackspan.reconcile.runtime.controller import Controller, unexpected_failure
from rackspan.reconcile.runtime.informer import NAMESPACE, NODE
from rackspan.reconcile.runtime.namespaces import EVERYWHERE, NamespaceSet

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from datetime import datetime

    from rackspan.api.racktopology import RackTopology, RackTopologyStatus
    from rackspan.reconcile.cache import Cache
    from rackspan.reconcile.ports import BrokerPods, JsonObject, KubeApi, RackFileMeta, RackFiles
    from rackspan.reconcile.runtime.waiting import Liveness

FILE_KEY: Final = "nodes"
"""The key in the ConfigMap's data, and so the name of the file in a mounted volume."""
_TITLE = "The rack id of every node, kept by Rackspan: changes by hand are put back."


@dataclass(frozen=True, slots=True)
class RackText:
    """The rack file for one configuration of levels. `unknown` is the number of nodes whose labels give no rack."""

    text: str
    racks: Mapping[str, str] = field(compare=False)
    """The rack ids in the text, by node."""
    unknown: int
    example: str | None
    """Why one of the unknown nodes has no rack."""


def rack_text(topology: RackTopology, nodes: Mapping[str, Mapping[str, str]]) -> RackText | Failure:
    """Return the rack ids of all nodes that have one, or a Failure if there are too many nodes for a ConfigMap."""
    paths = {node: path_from_labels(topology.spec, node, labels) for node, labels in nodes.items()}
    racks = {node: format_rack(path) for node, path in paths.items() if not isinstance(path, Failure)}
    failures = sorted(path.message for path in paths.values() if isinstance(path, Failure))
    try:
        text = rack_file(racks, _TITLE)
    except RackFileError as error:
        return Failure(Reason.TOO_LARGE, str(error), Remedy.SPEC)
    return RackText(text, racks, len(failures), failures[0] if failures else None)


def target_namespaces(
    topology: RackTopology,
    namespaces: Mapping[str, Mapping[str, str]],
    asking: Mapping[str, Collection[str]],
    allowed: NamespaceSet,
) -> tuple[str, ...]:
    """Return the namespaces where a topology's racks are published: that of its brokers' pods, and labelled ones.

    The label's value is the name of a topology in the same namespace, or `namespace.name`, so that a topology with this
    name in another namespace is not meant. Without racks from nodes, the racks are not published. `asking` has the
    `labelled` namespaces.
    """
    if topology.spec.rack_source is not RackSource.NODES:
        return ()
    key = topology.key
    found = {key.namespace}.intersection(asking.get(key.name, ())).union(asking.get(f"{key.namespace}.{key.name}", ()))
    where = topology.broker_namespace
    if where in namespaces and not_shared(topology, namespaces[where]) is None:
        found.add(where)
    return tuple(sorted(name for name in found if name in allowed))


def labelled(namespaces: Mapping[str, Mapping[str, str]]) -> Mapping[str, Collection[str]]:
    """Return the namespaces with a label that asks for a topology's racks, by the label's value."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name, labels in namespaces.items():
        if label := labels.get(PUBLISH_RACKS):
            found[label].append(name)
    return found


def file_key(topology: ObjectKey, namespace: str) -> ObjectKey:
    """Return the namespace and the name of the ConfigMap."""
    return ObjectKey(namespace, f"{topology.name}-racks")


def config_map(topology: RackTopology, namespace: str, text: str) -> JsonObject:
    """Return the ConfigMap. Kubernetes deletes it with its RackTopology if both are in one namespace."""
    key = file_key(topology.key, namespace)
    owner = {"apiVersion": API_VERSION, "kind": KIND, "name": topology.key.name, "uid": topology.meta.uid}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": key.name,
            "namespace": namespace,
            "labels": {
                "app.kubernetes.io/managed-by": "rackspan",
                RACK_FILE: "true",
                TOPOLOGY_UID: topology.meta.uid,
            },
            "annotations": {RACK_FILE_OF: str(topology.key)},
            "ownerReferences": [owner] if namespace == topology.key.namespace else [],
        },
        "data": {FILE_KEY: text},
    }


_NAMED = 5


@dataclass(frozen=True, slots=True)
class RackFacts:
    """The known facts about the published racks of one topology: their namespaces, and the racks or a failure."""

    topology_uid: str
    published: RackText | Failure
    namespaces: tuple[str, ...]


def with_published_racks(
    topology: RackTopology, status: RackTopologyStatus, facts: RackFacts | None, now: datetime
) -> RackTopologyStatus:
    """Return `status` with RacksPublished, or without it if nothing is published. Does not change Ready."""
    conditions = Conditions(status.conditions, topology.meta.generation, now)
    if facts is None or facts.topology_uid != topology.meta.uid:
        conditions.remove(RACKS_PUBLISHED)
    else:
        conditions.set(RACKS_PUBLISHED, *_condition(topology, facts))
    return replace(status, conditions=conditions.all)


def _condition(topology: RackTopology, facts: RackFacts) -> tuple[ConditionStatus, str, str]:
    found = facts.published
    if isinstance(found, Failure):
        return ConditionStatus.FALSE, found.reason, found.message
    name, where = file_key(topology.key, "").name, few(facts.namespaces, _NAMED)
    message = f"the racks of {plural(len(found.racks), 'node')} are in ConfigMap {name} of {where}"
    if found.unknown:
        message += f"; {plural(found.unknown, 'node')} {be(found.unknown)} left out: {found.example}"
    return ConditionStatus.TRUE, Reason.RACKS_PUBLISHED, message


_log = logging.getLogger("rackspan.racks")
_Kept: TypeAlias = "set[tuple[ObjectKey, ObjectKey | None]]"
"""ConfigMaps that stay, each with the topology that publishes it."""

_RESYNC_SECONDS = 60.0
"""How often the operator lists all ConfigMaps, to revert changes by other clients."""
_RETRY_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class RackDependencies:
    """The dependencies of the loops. `watched` are the namespaces whose topologies this operator serves, empty for all.

    Racks may be published in namespaces of `allowed`. Brokers' pods may be evicted in namespaces of `restart_in`, and
    annotated in namespaces of `annotate_in`.
    """

    cache: Cache
    kube: KubeApi
    files: RackFiles
    pods: BrokerPods
    allowed: NamespaceSet
    watched: tuple[str, ...]
    liveness: Liveness
    restart_in: NamespaceSet
    annotate_in: NamespaceSet


class RacksReconciler(Controller):
    """A level-triggered controller: each pass compares what is published with what should be published.

    If no namespace is allowed, the loop sends no requests. `on_change` is called when a topology's status has to be
    updated. The failure of one topology does not affect the others.
    """

    name = "racks"
    watched = frozenset({NODE, NAMESPACE})

    def __init__(self, dependencies: RackDependencies, on_change: Callable[[ObjectKey], None]) -> None:
        super().__init__(dependencies.liveness)
        self._dependencies = dependencies
        self._on_change = on_change
        self._facts: dict[ObjectKey, RackFacts] = {}
        self._has_looked = False
        self._published: dict[ObjectKey, RackFileMeta] = {}
        self._written: dict[ObjectKey, tuple[RackText, str]] = {}
        """By ConfigMap: what this process wrote, and the resourceVersion of that write."""
        self._unlisted: Mapping[str, Failure] = {}
        self._list_due = 0.0

    def status(self, topology: RackTopology, status: RackTopologyStatus, now: datetime) -> RackTopologyStatus:
        """Return `status` with the facts about the topology's published racks, unchanged before the first pass."""
        if self._dependencies.allowed and not self._has_looked:
            return status
        return with_published_racks(topology, status, self._facts.get(topology.key), now)

    def published_rack(self, topology: ObjectKey, namespace: str, node: str) -> str | None:
        """Return the rack of a node that this process published in the namespace, or None."""
        written, _ = self._written.get(file_key(topology, namespace), (None, ""))
        return None if written is None else written.racks.get(node)

    async def reconcile(self) -> float:
        """Run one pass over all topologies and return the seconds until the next pass. Raises FailureError."""
        dependencies = self._dependencies
        if not dependencies.allowed:
            return _RESYNC_SECONDS
        now = asyncio.get_running_loop().time()
        if now >= self._list_due:
            await self._list()
            self._list_due = now + (_RETRY_SECONDS if self._unlisted else _RESYNC_SECONDS)
        facts: dict[ObjectKey, RackFacts] = {}
        kept: _Kept = set()
        texts: dict[object, RackText | Failure] = {}
        topologies = sorted(dependencies.cache.topologies.values(), key=lambda one: one.meta.age)
        asking = labelled(dependencies.cache.namespaces)
        for topology in topologies:
            try:
                found = await self._publish_topology(topology, asking, texts, kept)
            except Exception as error:  # affects only this topology, whose ConfigMaps stay
                own = {(key, one.topology) for key, one in self._published.items() if one.topology == topology.key}
                kept.update(own)
                found = RackFacts(topology.meta.uid, unexpected_failure(self.name, topology.key, error), ())
            if found is not None:
                facts[topology.key] = found
        self._store(facts)
        await self._delete_others(kept, {topology.key for topology in topologies})
        failed = self._unlisted or any(isinstance(one.published, Failure) for one in facts.values())
        return _RETRY_SECONDS if failed else _RESYNC_SECONDS

    async def _list(self) -> None:
        """List the ConfigMaps. If listing fails, the known ones stay, unless their namespace is deleted."""
        listed = await self._dependencies.files.published()
        self._unlisted = listed.failed
        for namespace, failure in listed.failed.items():
            metrics.count_error("", failure.remedy, failure.reason)
            _log.warning("the racks published in namespace %s cannot be listed: %s", namespace, failure.message)
        unseen = {
            key: known
            for key, known in self._published.items()
            if self._not_listed(key) is not None and key.namespace in self._dependencies.cache.namespaces
        }
        self._published = {**unseen, **listed.found}
        self._written = {key: one for key, one in self._written.items() if key in self._published}

    def _not_listed(self, key: ObjectKey) -> Failure | None:
        """Return why a ConfigMap's namespace could not be listed, or None."""
        return self._unlisted.get(key.namespace) or self._unlisted.get(EVERYWHERE)

    async def _publish_topology(
        self,
        topology: RackTopology,
        asking: Mapping[str, Collection[str]],
        texts: dict[object, RackText | Failure],
        kept: _Kept,
    ) -> RackFacts | None:
        """Publish one topology's racks. Return None if it publishes nothing. Adds its ConfigMaps to `kept`."""
        cache = self._dependencies.cache
        namespaces = target_namespaces(topology, cache.namespaces, asking, self._dependencies.allowed)
        if not namespaces:
            return None
        kept.update((file_key(topology.key, namespace), topology.key) for namespace in namespaces)
        if topology.meta.is_deleting or cache.quota.over_quota(topology.key) is not None:
            return None  # brokers that restart still read the published ConfigMaps, so these stay unchanged
        spec = topology.spec
        asked = tuple(level.node_label for level in spec.levels), tuple(sorted(spec.rack_aliases.items()))
        if asked not in texts:
            texts[asked] = rack_text(topology, cache.nodes)
            await asyncio.sleep(0)  # there may be thousands of nodes, and other tasks wait for the event loop
        result = texts[asked]
        if isinstance(result, RackText):
            result = await self._publish_in(topology, namespaces, result)
        if isinstance(result, Failure):
            metrics.count_error(str(topology.key), result.remedy, result.reason)
        return RackFacts(topology.meta.uid, result, namespaces)

    async def _publish_in(
        self, topology: RackTopology, namespaces: tuple[str, ...], racks: RackText
    ) -> RackText | Failure:
        """Publish in each namespace, even after a failure in another one. Return the racks, or the first failure."""
        failures = []
        for namespace in namespaces:
            try:
                await self._publish(topology, namespace, racks)
            except FailureError as error:
                failures.append(error.failure)
        return failures[0] if failures else racks

    async def _publish(self, topology: RackTopology, namespace: str, racks: RackText) -> None:
        key, files = file_key(topology.key, namespace), self._dependencies.files
        if failure := self._not_listed(key):
            raise FailureError(failure)
        known = self._published.get(key)
        before, version = self._written.get(key, (None, ""))
        is_same = before is not None and before.text == racks.text
        if is_same and known is not None and (known.version, known.topology_uid) == (version, topology.meta.uid):
            return
        body = config_map(topology, namespace, racks.text)
        if known is None:
            written = await files.create(body)
        elif known.topology == topology.key:
            written = await files.replace(known, body)
        else:
            raise FailureError(_taken(key, "publishes the racks of another namespace's RackTopology"))
        if written is None:
            self._list_due = 0.0
            if known is None:
                raise FailureError(_taken(key, "belongs to another owner"))
            raise FailureError(
                Failure(Reason.API_SERVER_REFUSED, f"ConfigMap {key} changed just now: tried again", Remedy.RETRY)
            )
        self._published[key], self._written[key] = written, (racks, written.version)

    async def _delete_others(self, kept: _Kept, asked: Collection[ObjectKey]) -> None:
        """Delete ConfigMaps that no topology publishes any more. Those of a topology that cannot be read now stay.

        `kept` was computed from the topologies `asked`. A topology that was added since may still publish its
        ConfigMaps, so they stay, too. Raises FailureError at the end for the first that could not be deleted.
        """
        others = {
            key: known
            for key, known in self._published.items()
            if (key, known.topology) not in kept and self._is_own(known)
        }
        if not others:
            return
        listed, present = Listed({}), self._dependencies.cache.topologies
        if any(known.topology not in asked for known in others.values()):
            listed = await self._dependencies.kube.listed(racktopology.KIND)
        uids = {one.uid for one in listed.there.values()}
        failures = []
        for key, known in others.items():
            is_denied = known.topology is not None and known.topology.namespace in listed.denied
            in_doubt = is_denied or known.topology in present or known.topology_uid in uids
            if known.topology in asked or not in_doubt:
                try:
                    await self._dependencies.files.delete(key, known)
                except FailureError as error:
                    failures.append(error)
                    continue
                del self._published[key]
                self._written.pop(key, None)
        if failures:
            raise failures[0]

    def _is_own(self, known: RackFileMeta) -> bool:
        watched = self._dependencies.watched
        return known.topology is not None and (not watched or known.topology.namespace in watched)

    def _store(self, facts: dict[ObjectKey, RackFacts]) -> None:
        before, self._facts, self._has_looked = self._facts, facts, True
        for key in before.keys() | facts.keys():
            if before.get(key) != facts.get(key):
                self._on_change(key)


def _taken(key: ObjectKey, whose: str) -> Failure:
    return Failure(Reason.CONFIG_MAP_TAKEN, f"ConfigMap {key} is there already and {whose}: rename one", Remedy.SPEC)

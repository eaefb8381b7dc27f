"""Lowers min.insync.replicas of topics that lose replicas, before the first replica is removed.

Kafka accepts no write if fewer replicas are in sync than min.insync.replicas, so the executor leaves that many. A value
that was derived for more replicas than planned would make the executor wait for ever.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rackspan.api.kafkatopic import KIND, requirements_of
from rackspan.core.config_keys import MIN_INSYNC
from rackspan.core.durability import insync_bounds
from rackspan.core.placement import Placement
from rackspan.reconcile import audit_log
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.ports import ConfigChange, KubernetesEvent, ObjectRef, TopicConfig, TopicDescription
from rackspan.reconcile.specs.placement import Assignment, managed_config
from rackspan.reconcile.specs.topic_configs import config_event

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from rackspan.api.kafkatopic import KafkaTopic, KafkaTopicSpec
    from rackspan.api.racktopology import RackTopologySpec
    from rackspan.core.planning import Change
    from rackspan.reconcile.cluster.state import ClusterState
    from rackspan.reconcile.ports import KafkaAdmin

_log = logging.getLogger("rackspan.reconcile")


def min_insync_above_replicas(topics: Iterable[KafkaTopic], topology: RackTopologySpec) -> Mapping[str, int]:
    """Return `min.insync.replicas` of the topics whose spec asks for fewer replicas than that, by name.

    Topics with a durability are left out, because the operator lowers their value, and topics of unknown value.
    """
    durability = topology.defaults.durability
    return {
        topic.topic_name: least
        for topic in topics
        if (least := _own_min_insync(topic)) is not None
        and least > topic.spec.replication_factor
        and not requirements_of(topic.spec, durability).durability
    }


def _own_min_insync(topic: KafkaTopic) -> int | None:
    """Return the value in the spec, which may not be in the status yet, or else the value in the status."""
    given = topic.spec.own_min_insync
    return topic.status.min_in_sync_replicas if given is None else given


async def make_room(
    plans: Iterable[tuple[KafkaTopic, Collection[Change]]],
    state: ClusterState,
    admin: KafkaAdmin,
    value_of: Callable[[KafkaTopicSpec, Assignment, Collection[Change], ClusterState], int | None],
) -> Sequence[KubernetesEvent]:
    """Lower the derived values of topics that shrink to those of `value_of`. Return the Events about the changes.

    `value_of` is `lowered` before their plans begin, and `lowered_at_last` if only removals of replicas are left. If
    Kafka refuses a change, only that topic waits, and its Reassignment reports this. Raises FailureError if Kafka does
    not respond.
    """
    shrinking = {
        topic.topic_name: (topic, changes)
        for topic, changes in plans
        if any(len(one.replicas) < len(one.before) for one in changes)
    }
    if not shrinking:
        return ()
    seen, configs = await admin.topics(shrinking), await admin.configs(shrinking)
    changes = []
    for name, (topic, planned) in shrinking.items():
        found, config = seen.get(name), configs.get(name)
        if not isinstance(found, TopicDescription) or not isinstance(config, TopicConfig) or config.min_insync is None:
            continue
        if found.without_isr:  # a change makes Kafka forget which replicas may lead (KIP-966)
            continue
        value = value_of(topic.spec, found.replicas, planned, state)
        if value is not None and value < config.min_insync:
            changes.append(ConfigChange(name, {MIN_INSYNC: str(value)}))
    if not changes:
        return ()
    entries = {change.name: audit_log.change_of(shrinking[change.name][0], change) for change in changes}
    outcomes = await audit_log.audited(entries, lambda: admin.alter_configs(changes))
    events = []
    for change in changes:
        (topic, _), failure = shrinking[change.name], outcomes.get(change.name)
        if failure is None:
            events.append(config_event(ObjectRef(KIND, topic.key, topic.meta.uid), change))
        else:
            _log.warning("%s of %s was not lowered: %s", MIN_INSYNC, change.name, failure.message)
    return events


def lowered(spec: KafkaTopicSpec, current: Assignment, changes: Collection[Change], state: ClusterState) -> int | None:
    """Return the highest value that min.insync.replicas may have before `changes` begin, or None to keep it.

    It is the value that the durability gives for the planned replicas, or more. While the present replicas exist,
    acknowledged writes still have to be in as many domains as required, and more replicas per domain can need more
    acknowledgements for that. A value in the spec is never changed.
    """
    derived = _derived(spec, current, changes, state)
    if derived is None:
        return None
    required = requirements_of(spec, state.spec.defaults.durability)
    rows = Placement(current).padded
    needed, _ = insync_bounds(required.eligible(state.racks.tree), rows, required.durability)
    # If a partition spans too few domains now, no value meets the durability.
    needed = needed[needed <= (rows >= 0).sum(axis=1)]
    return max(derived, int(needed.max(initial=1)))


def lowered_at_last(
    spec: KafkaTopicSpec, current: Assignment, changes: Collection[Change], state: ClusterState
) -> int | None:
    """Return the durability's value for the planned replicas once all of them exist, or None to keep the present one.

    Before the removals, acknowledged writes may need more replicas than will be left. For example, with two replicas in
    each of two domains, only three replicas are sure to be in both; but one per domain leaves two. So the guarantee is
    suspended for a short time.
    """
    now = dict(enumerate(map(set, current)))
    there = all(now.get(change.partition, set()).issuperset(change.replicas) for change in changes)
    return _derived(spec, current, changes, state) if there else None


def _derived(spec: KafkaTopicSpec, current: Assignment, changes: Collection[Change], state: ClusterState) -> int | None:
    """Return the durability's value for the planned replicas, or None if no value is derived."""
    if MIN_INSYNC in spec.config_values:
        return None
    planned = dict(enumerate(current)) | {change.partition: change.replicas for change in changes}
    try:
        found = managed_config(spec, tuple(planned.values()), state).values.get(MIN_INSYNC)
    except FailureError:
        return None  # reported by the topic's condition
    return None if found is None else int(found)

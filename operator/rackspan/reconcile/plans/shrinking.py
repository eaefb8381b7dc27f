"""min.insync.replicas of topics that replicas are taken away from: lowered before the first one goes.

Kafka accepts no write where fewer replicas are in sync than that, so the executor leaves as many. What was derived for
more replicas than the topic shall have would have it wait for ever.
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
from rackspan.reconcile.ports import ConfigChange, KubernetesEvent, ObjectRef, TopicDescription
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
    """`min.insync.replicas` of the topics whose spec asks for fewer replicas than that, by name.

    Topics with a durability are left out, because it is lowered for them, and those whose value is not known yet.
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
    """What the spec sets, which is not in the status before the operator has seen it; else what the status knows."""
    given = topic.spec.own_min_insync
    return topic.status.min_in_sync_replicas if given is None else given


async def make_room(
    plans: Iterable[tuple[KafkaTopic, Collection[Change]]],
    state: ClusterState,
    admin: KafkaAdmin,
    value_of: Callable[[KafkaTopicSpec, Assignment, Collection[Change], ClusterState], int | None],
) -> Sequence[KubernetesEvent]:
    """Lower what was derived for topics that shrink to what `value_of` gives; the Events about it.

    That is `lowered` before plans of them begin, and `lowered_at_last` where all that is left is to take away replicas.
    Where Kafka refuses one topic, that one waits, as its Reassignment says then, and holds up no other. Raises
    FailureError without an answer.
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
        if not isinstance(found, TopicDescription) or config is None or config.min_insync is None:
            continue
        if found.without_isr:  # with a change Kafka forgets who may lead (KIP-966)
            continue
        value = value_of(topic.spec, found.replicas, planned, state)
        if value is not None and value < config.min_insync:
            changes.append(ConfigChange(name, {MIN_INSYNC: str(value)}))
    outcomes = await admin.alter_configs(changes) if changes else {}
    events = []
    for change in changes:
        (topic, _), failure = shrinking[change.name], outcomes.get(change.name)
        audit_log.changed(topic, change, failure)
        if failure is None:
            events.append(config_event(ObjectRef(KIND, topic.key, topic.meta.uid), change))
        else:
            _log.warning("%s of %s was not lowered: %s", MIN_INSYNC, change.name, failure.message)
    return events


def lowered(spec: KafkaTopicSpec, current: Assignment, changes: Collection[Change], state: ClusterState) -> int | None:
    """The most that min.insync.replicas may be before `changes` begin; None where it stays as it is.

    It is what the durability gives the planned replicas, or more: while the present ones are there, acknowledged writes
    still lie in as many domains as asked for, which more replicas of a domain can need more acknowledgements for. What
    the spec says itself is never changed.
    """
    derived = _derived(spec, current, changes, state)
    if derived is None:
        return None
    required = requirements_of(spec, state.spec.defaults.durability)
    rows = Placement(current).padded
    needed, _ = insync_bounds(required.eligible(state.racks.tree), rows, required.durability)
    # A partition that spans too few domains by now has no value that would do.
    needed = needed[needed <= (rows >= 0).sum(axis=1)]
    return max(derived, int(needed.max(initial=1)))


def lowered_at_last(
    spec: KafkaTopicSpec, current: Assignment, changes: Collection[Change], state: ClusterState
) -> int | None:
    """What the durability gives the planned replicas, once all of them are there; None where they are not, or it stays.

    With the replicas that go, acknowledged writes may need to be in more than stay: of two replicas in each of two
    domains, three lie in both domains for sure, and one in each is two. So the guarantee has to give way for a moment.
    """
    now = dict(enumerate(map(set, current)))
    there = all(now.get(change.partition, set()).issuperset(change.replicas) for change in changes)
    return _derived(spec, current, changes, state) if there else None


def _derived(spec: KafkaTopicSpec, current: Assignment, changes: Collection[Change], state: ClusterState) -> int | None:
    """What the durability gives the planned replicas; None where nothing is derived."""
    if MIN_INSYNC in spec.config_values:
        return None
    planned = dict(enumerate(current)) | {change.partition: change.replicas for change in changes}
    try:
        found = managed_config(spec, tuple(planned.values()), state).values.get(MIN_INSYNC)
    except FailureError:
        return None  # reported by the topic's condition
    return None if found is None else int(found)

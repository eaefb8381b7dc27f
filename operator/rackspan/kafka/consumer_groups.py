"""Consumer groups of a live cluster: their members, and the partitions that each member reads.

confluent-kafka describes groups of the classic and the consumer protocol, but not their members' racks. For the classic
protocol, brokers return the metadata that each member sent to its coordinator. It has rack ids and subscriptions.
kafka-python requests the rest (`group_descriptions`).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaError
from kafka.errors import GroupIdNotFoundError

from rackspan.core.consumers.group_locality import GroupProtocol, GroupSeen, MemberSeen, Selector
from rackspan.kafka.admin import ConfluentAdmin, in_thread, parts
from rackspan.kafka.group_descriptions import GroupDescriptions, describe_groups, member_seen
from rackspan.kafka.kafka_errors import code_of, failure_of, failures_sentence, is_client_error
from rackspan.kafka.python_connection import failure_of as python_failure
from rackspan.kafka.subscription import Subscription, read_subscription
from rackspan.reconcile.failures import FailureError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_CALL_SECONDS = 30.0
_NEXT_CALL_SECONDS = 5.0
"""The limit after a call in which a coordinator did not respond: others have its groups, too, and wait for it again."""
_GROUPS_AT_ONCE = 200
_GONE = frozenset({KafkaError.GROUP_ID_NOT_FOUND, KafkaError._UNKNOWN_GROUP})  # noqa: SLF001
_SELECTORS = {
    "org.apache.kafka.common.replica.RackAwareReplicaSelector": Selector.SAME_RACK,
    "dev.rackspan.kafka.NearestReplicaSelector": Selector.NEAREST,
}
_SELECTOR = "replica.selector.class"


@dataclass(frozen=True, slots=True)
class ConsumerGroups:
    """The groups that could be read, how brokers choose replicas for them, and warnings about unknown data."""

    groups: tuple[GroupSeen, ...]
    selector: Selector
    warnings: tuple[str, ...]

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the topics that members read or subscribe to, sorted."""
        members = [member for group in self.groups for member in group.members]
        return tuple(sorted({topic for member in members for topic in (*member.partitions, *(member.topics or ()))}))


def read_consumer_groups(
    properties: Mapping[str, str | int | bool], advance: Callable[[int, int], None] | None = None
) -> ConsumerGroups:
    """Return the consumer groups of a cluster. `advance` receives the numbers of described groups and of all groups.

    Groups deleted meanwhile are left out. A warning counts the groups that cannot be described, and names the first.
    Raises FailureError if Kafka does not respond, or refuses to list groups.
    """
    progress = advance or (lambda _done, _all: None)
    return asyncio.run(_GroupsAdmin.ask_new_client(properties, lambda admin: _read(admin, progress)))


class _GroupsAdmin(ConfluentAdmin):
    @in_thread
    def groups(self) -> tuple[list[str], list[Exception]]:
        """Return the names of all consumer groups, and the errors of brokers that could not list their groups."""
        answer = self._client.list_consumer_groups(request_timeout=_CALL_SECONDS)
        self._answers({"": answer}, _CALL_SECONDS)
        found = answer.result()
        return sorted({group.group_id for group in found.valid} - {""}), list(found.errors or [])

    @in_thread
    def describe_groups(self, names: Sequence[str], seconds: float) -> Mapping[str, Any]:
        """Return the description of each group, or its exception, within `seconds`."""
        answers = self._client.describe_consumer_groups(list(names), request_timeout=seconds)
        return {name: answer.exception() or answer.result() for name, answer in self._answers(answers, seconds).items()}

    @in_thread
    def subscriptions(self) -> Mapping[tuple[str, str], Subscription]:
        """Return the subscriptions of all classic groups' members, by group and member id (one call to each broker).

        The call is deprecated in favour of the calls above, but those do not return subscriptions.
        """
        return {
            (group.id, member.id): subscription
            for group in self._client.list_groups(timeout=_CALL_SECONDS)
            for member in group.members
            if (subscription := read_subscription(member.metadata)) is not None
        }

    async def described_by_brokers(self) -> tuple[GroupDescriptions, Sequence[str]]:
        """Return the descriptions that confluent-kafka cannot request, and warnings about unknown data."""
        what = "client.rack in the consumer protocol, share groups and streams groups"
        try:
            found = await self._run(lambda: self._python_connection().ask(describe_groups))
        except FailureError as error:
            return GroupDescriptions(), (f"{what} are not known: {error.failure.message}",)
        failed = {name: error for name, error in found.failed.items() if not isinstance(error, GroupIdNotFoundError)}
        if not failed:
            return found, ()
        name, first = next(iter(failed.items()))
        why = f"{len(failed)} not read, such as {name}: {python_failure(first).message}"
        return found, (f"{what} are not all known: {why}",)


async def _read(admin: _GroupsAdmin, advance: Callable[[int, int], None]) -> ConsumerGroups:
    cluster = await admin.cluster()
    names, unlisted = await admin.groups()
    warnings = [f"not all consumer groups are known: {failure_of(error).message}" for error in unlisted[:1]]
    answers: dict[str, Any] = {}
    seconds = _CALL_SECONDS
    for some in parts(names, _GROUPS_AT_ONCE):
        described = await admin.describe_groups(some, seconds)
        if any(is_client_error(answer) for answer in described.values() if isinstance(answer, BaseException)):
            seconds = _NEXT_CALL_SECONDS
        answers |= described
        advance(len(answers), len(names))
    failed = {name: answer for name, answer in answers.items() if isinstance(answer, BaseException)}
    undescribed = {name: error for name, error in failed.items() if code_of(error) not in _GONE}
    warnings += failures_sentence("consumer groups that could not be described", undescribed)
    found = [
        answer for name, answer in answers.items() if name not in failed and answer.state != ConsumerGroupState.DEAD
    ]
    own, about_own = await _subscriptions(admin, found)
    others, about_others = await admin.described_by_brokers()
    subscriptions = {**own, **others.subscriptions}
    groups = (*(_group(group, subscriptions) for group in found), *others.groups.values())
    selector, about_selector = await _selector(admin, [broker.id for broker in cluster.brokers], groups)
    warnings += [*about_own, *about_others, *about_selector]
    return ConsumerGroups(groups, selector, tuple(warnings))


async def _subscriptions(
    admin: _GroupsAdmin, groups: Sequence[Any]
) -> tuple[Mapping[tuple[str, str], Subscription], Sequence[str]]:
    """Return members' subscriptions by group and member id, and a warning if they could not be read."""
    if not any(group.members and _is_classic(group) for group in groups):
        return {}, ()
    try:
        return await admin.subscriptions(), ()
    except FailureError as error:
        return {}, (f"client.rack of consumers could not be read: {error.failure.message}",)


async def _selector(
    admin: _GroupsAdmin, brokers: Sequence[int], groups: Sequence[GroupSeen]
) -> tuple[Selector, Sequence[str]]:
    """Return how brokers choose replicas, as set on one broker. Share consumers read from leaders anyway."""
    if not any(group.members for group in groups if group.protocol is not GroupProtocol.SHARE):
        return Selector.LEADER, ()
    from_leaders = "consumers are taken to read from leaders"
    try:
        name = await admin.broker_setting(brokers, _SELECTOR)
    except FailureError as error:
        return Selector.LEADER, (f"{_SELECTOR} could not be read, {from_leaders}: {error.failure.message}",)
    if not name:
        return Selector.LEADER, (f"brokers have no {_SELECTOR}, so all consumers read from leaders",)
    if name not in _SELECTORS:
        return Selector.LEADER, (f"how {_SELECTOR} {name} chooses is not known, {from_leaders}",)
    return _SELECTORS[name], ()


def _group(found: Any, by_member: Mapping[tuple[str, str], Subscription]) -> GroupSeen:
    subscriptions = [by_member.get((found.group_id, member.member_id)) for member in found.members]
    return GroupSeen(
        found.group_id,
        found.partition_assignor or "",
        tuple(map(_member, found.members, subscriptions)),
        GroupProtocol.CLASSIC if _is_classic(found) else GroupProtocol.CONSUMER,
        racks_seen=None not in subscriptions,
    )


def _member(member: Any, subscription: Subscription | None) -> MemberSeen:
    assigned = member.assignment.topic_partitions if member.assignment else ()
    return member_seen(member, member.host, ((one.topic, [one.partition]) for one in assigned), subscription)


def _is_classic(found: Any) -> bool:
    return bool(found.type != ConsumerGroupType.CONSUMER)

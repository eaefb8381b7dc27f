"""Descriptions of groups that librdkafka cannot request, read through kafka-python.

These are the racks and subscriptions of members of the consumer protocol (KIP-848), share groups (KIP-932) and streams
groups (KIP-1071). Each broker lists and describes only the groups that it coordinates.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafka.errors import IncompatibleBrokerVersion, for_code
from kafka.protocol.admin import ListGroupsRequest

from rackspan.core.consumers.group_locality import GroupProtocol, GroupSeen, MemberSeen, host_address
from rackspan.core.partitions import is_topic_name
from rackspan.kafka.admin import parts
from rackspan.kafka.group_messages import (
    ConsumerGroupDescribeRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)
from rackspan.kafka.subscription import Subscription, topic_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rackspan.kafka.python_admin import PythonAdmin

_SECONDS = 30.0
_AT_ONCE = 200
_REQUESTS = {
    "consumer": ConsumerGroupDescribeRequest,
    "share": ShareGroupDescribeRequest,
    "streams": StreamsGroupDescribeRequest,
}
_WITH_TYPES = 5  # the first version of ListGroups with group types
_MOST_PARTITIONS = 1_000_000
"""The most partitions of one streams group, because few bytes can describe many: each task reads all source topics."""


@dataclass(slots=True)
class GroupDescriptions:
    """Share groups and streams groups by name, and the subscriptions of the consumer protocol by group and member id.

    `failed` has the errors of brokers that did not list their groups, and of groups that were not described.
    """

    groups: dict[str, GroupSeen] = field(default_factory=dict)
    subscriptions: dict[tuple[str, str], Subscription] = field(default_factory=dict)
    failed: dict[str, BaseException] = field(default_factory=dict)


def describe_groups(admin: PythonAdmin) -> GroupDescriptions:
    """Return the descriptions from all brokers. Brokers older than Kafka 3.8 have no such groups and are left out."""
    found = GroupDescriptions()
    request = ListGroupsRequest(types_filter=list(_REQUESTS), min_version=_WITH_TYPES)
    for broker, answer in admin.ask_each(dict.fromkeys(admin.brokers(), request), _SECONDS).items():
        if isinstance(answer, IncompatibleBrokerVersion):
            continue
        if error := _error(answer):
            found.failed[f"those of broker {broker}"] = error
            continue
        names = defaultdict(list)
        for group in answer.groups:
            if isinstance(group.group_type, str) and isinstance(group.group_id, str):
                names[group.group_type.lower()].append(group.group_id)
        _describe(admin, broker, names, found)
    described = {*found.groups, *(group for group, _ in found.subscriptions)}  # maybe by their new coordinator
    found.failed = {name: error for name, error in found.failed.items() if name not in described}
    return found


def _describe(admin: PythonAdmin, broker: int, names: Mapping[str, Sequence[str]], found: GroupDescriptions) -> None:
    """Add the descriptions of groups. After a request without a response, the broker gets no further requests."""
    silence: BaseException | None = None
    for kind, request in _REQUESTS.items():
        for some in parts(names.get(kind, ()), _AT_ONCE):
            asked = {broker: request(group_ids=some, include_authorized_operations=False)}
            answer = silence or admin.ask_each(asked, _SECONDS)[broker]
            if isinstance(answer, BaseException):
                found.failed.update(dict.fromkeys(some, answer))
                silence = None if isinstance(answer, IncompatibleBrokerVersion) else answer
                continue
            for group in answer.groups:
                if group.group_id in some:
                    _add(kind, group, found)


def _add(kind: str, group: Any, found: GroupDescriptions) -> None:
    try:
        if error := _error(group):
            found.failed[group.group_id] = error
        elif kind == "consumer":
            found.subscriptions.update(_subscriptions(group))
        else:
            found.groups[group.group_id] = _share_group(group) if kind == "share" else _streams_group(group)
    except (AttributeError, TypeError, ValueError) as error:  # nulls where the protocol has none, or too much
        found.failed[group.group_id] = error


def _error(answer: Any) -> BaseException | None:
    if isinstance(answer, BaseException):
        return answer
    if not answer.error_code:
        return None
    error: BaseException = for_code(answer.error_code)(getattr(answer, "error_message", None) or "")
    return error


def _subscriptions(group: Any) -> Iterator[tuple[tuple[str, str], Subscription]]:
    for member in group.members:
        named = None if member.subscribed_topic_regex else topic_names(member.subscribed_topic_names)
        yield (group.group_id, member.member_id), Subscription(named, member.rack_id or None)


def _share_group(group: Any) -> GroupSeen:
    members = (
        member_seen(
            member,
            member.client_host,
            ((of.topic_name, of.partitions) for of in member.assignment.topic_partitions),
            Subscription(topic_names(member.subscribed_topic_names), member.rack_id or None),
        )
        for member in group.members
    )
    return GroupSeen(group.group_id, group.assignor_name or "", tuple(members), GroupProtocol.SHARE)


def _streams_group(group: Any) -> GroupSeen:
    """
    Return a streams group. Members read the partitions of their active tasks. Changelogs of standby tasks do not count.

    Clients older than Kafka 4.4 do not report their rack, even if they have one. Raises ValueError if the group reads
    too many partitions.
    """
    sources = {
        one.subtopology_id: topic_names((*one.source_topics, *(topic.name for topic in one.repartition_source_topics)))
        for one in (group.topology.subtopologies if group.topology else None) or ()
    }
    tasks = [
        [(task, sources.get(task.subtopology_id, ())) for task in one.assignment.active_tasks] for one in group.members
    ]
    if sum(len(task.partitions) * len(topics) for some in tasks for task, topics in some) > _MOST_PARTITIONS:
        raise ValueError(f"it reads more than {_MOST_PARTITIONS:,} partitions")
    members = [
        member_seen(
            member,
            member.client_host,
            ((topic, task.partitions) for task, topics in some for topic in topics),
            Subscription(None, member.rack_id or None),
        )
        for member, some in zip(group.members, tasks, strict=True)
    ]
    said = all(member.client_rack is not None for member in members)
    return GroupSeen(group.group_id, "", tuple(members), GroupProtocol.STREAMS, racks_seen=said)


def member_seen(
    member: Any, host: str | None, assigned: Iterable[tuple[object, Iterable[int]]], subscription: Subscription | None
) -> MemberSeen:
    """Return a member from its description. `assigned` has partition numbers by topic; a topic may occur repeatedly."""
    partitions: defaultdict[str, set[int]] = defaultdict(set)
    for topic, numbers in assigned:
        if is_topic_name(topic):
            partitions[topic].update(numbers)
    return MemberSeen(
        id=member.member_id or "",
        client_id=member.client_id or "",
        host=host_address(host or ""),
        partitions={topic: sorted(numbers) for topic, numbers in partitions.items()},
        client_rack=subscription.rack if subscription else None,
        topics=subscription.topics if subscription else None,
    )

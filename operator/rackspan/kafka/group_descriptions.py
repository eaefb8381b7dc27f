"""
Descriptions of groups that librdkafka cannot request, read through kafka-python.

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
from rackspan.kafka.admin import parts
from rackspan.kafka.group_messages import (
    ConsumerGroupDescribeRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)
from rackspan.kafka.subscription import Subscription

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rackspan.kafka.python_admin import PythonAdmin

_SECONDS = 30.0
_AT_ONCE = 200
_REQUESTS = {
    "consumer": ConsumerGroupDescribeRequest,
    "share": ShareGroupDescribeRequest,
    "streams": StreamsGroupDescribeRequest,
}
_WITH_TYPES = 5  # the first version of ListGroups with group types


@dataclass(slots=True)
class GroupDescriptions:
    """
    Share groups and streams groups, and the subscriptions of the consumer protocol by group and member id.

    `failed` has the errors of brokers that did not list their groups, and of groups that were not described.
    """

    groups: list[GroupSeen] = field(default_factory=list)
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
            names[group.group_type.lower()].append(group.group_id)
        for kind in _REQUESTS:
            for some in parts(names[kind], _AT_ONCE):
                _describe(admin, broker, kind, some, found)
    return found


def _describe(admin: PythonAdmin, broker: int, kind: str, names: Sequence[str], found: GroupDescriptions) -> None:
    request = _REQUESTS[kind](group_ids=names, include_authorized_operations=False)
    (answer,) = admin.ask_each({broker: request}, _SECONDS).values()
    if isinstance(answer, BaseException):
        found.failed.update(dict.fromkeys(names, answer))
        return
    for group in answer.groups:
        if error := _error(group):
            found.failed[group.group_id] = error
        elif kind == "consumer":
            found.subscriptions.update(_subscriptions(group))
        elif kind == "share":
            found.groups.append(_share_group(group))
        else:
            found.groups.append(_streams_group(group))


def _error(answer: Any) -> BaseException | None:
    if isinstance(answer, BaseException):
        return answer
    if not answer.error_code:
        return None
    error: BaseException = for_code(answer.error_code)(getattr(answer, "error_message", None) or "")
    return error


def _subscriptions(group: Any) -> Iterator[tuple[tuple[str, str], Subscription]]:
    for member in group.members:
        named = None if member.subscribed_topic_regex else frozenset(member.subscribed_topic_names)
        yield (group.group_id, member.member_id), Subscription(named, member.rack_id or None)


def _share_group(group: Any) -> GroupSeen:
    members = (
        _member(
            member,
            ((of.topic_name, of.partitions) for of in member.assignment.topic_partitions),
            frozenset(member.subscribed_topic_names),
        )
        for member in group.members
    )
    return GroupSeen(group.group_id, group.assignor_name, tuple(members), GroupProtocol.SHARE)


def _streams_group(group: Any) -> GroupSeen:
    """
    Return a streams group. Members read the partitions of their active tasks. Changelogs of standby tasks do not count.

    Clients older than Kafka 4.4 do not report their rack, even if they have one.
    """
    sources = {
        one.subtopology_id: (*one.source_topics, *(topic.name for topic in one.repartition_source_topics))
        for one in (group.topology.subtopologies if group.topology else None) or ()
    }
    members = [
        _member(
            member,
            (
                (topic, task.partitions)
                for task in member.assignment.active_tasks
                for topic in sources.get(task.subtopology_id, ())
            ),
        )
        for member in group.members
    ]
    said = all(member.client_rack is not None for member in members)
    return GroupSeen(group.group_id, "", tuple(members), GroupProtocol.STREAMS, racks_seen=said)


def _member(
    member: Any, assigned: Iterable[tuple[str, Sequence[int]]], topics: frozenset[str] | None = None
) -> MemberSeen:
    partitions: defaultdict[str, list[int]] = defaultdict(list)
    for topic, numbers in assigned:
        partitions[topic] += numbers
    return MemberSeen(
        id=member.member_id,
        client_id=member.client_id,
        host=host_address(member.client_host),
        partitions=dict(partitions),
        client_rack=member.rack_id or None,
        topics=topics,
    )

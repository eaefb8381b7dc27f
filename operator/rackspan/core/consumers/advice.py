"""Advice on what to change so that a consumer group reads more partitions in its own domain.

Three conditions are necessary: brokers choose replicas by rack (`replica.selector.class`), members send their rack
(`client.rack`), and the assignor gives members partitions with a replica near them. Beyond that, only the places of
replicas and members matter. A group that reads all partitions near gets no advice.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rackspan.core.consumers.group_locality import GroupProtocol, GroupSeen, Locality, ReplicaPlaces, Selector
from rackspan.core.text import plural, shown

_RACK_AWARE = {
    GroupProtocol.CLASSIC: frozenset({"range", "cooperative-sticky"}),
    GroupProtocol.CONSUMER: frozenset({"rack-aware"}),  # the plug-in
    GroupProtocol.SHARE: frozenset({"rack-aware"}),  # the plug-in
}
_IN_KAFKA = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_BY_PATHS = "dev.rackspan.kafka.NearestReplicaSelector"
_MOST_NAMED, _LONGEST = 3, 100


class AdviceCode(StrEnum):
    """The reason why a group does not read near."""

    SELECTOR_MISSING = "SelectorMissing"
    CLIENT_RACK_MISSING = "ClientRackMissing"
    CLIENT_RACK_FOREIGN = "ClientRackForeign"
    CLIENT_RACK_UNSEEN = "ClientRackUnseen"
    PROTOCOL = "ProtocolIgnoresRacks"
    ASSIGNOR = "AssignorIgnoresRacks"
    ASSIGNOR_FALLS_SHORT = "AssignorFallsShort"
    NO_REPLICA_NEAR = "NoReplicaNear"


@dataclass(frozen=True, slots=True)
class Advice:
    """One change to make: a code for programs and a sentence for people."""

    code: AdviceCode
    message: str


def advise(replicas: ReplicaPlaces, group: GroupSeen, found: Locality, selector: Selector) -> tuple[Advice, ...]:
    """Return the changes that would let a group read nearer, the first ones first; `found` is its `locality`."""
    if found.reads_near == found.partitions:
        return ()
    if group.protocol is GroupProtocol.SHARE:
        return tuple(_about_sharing(group, found))
    return (*_about_serving(replicas, group, found, selector), *_about_assigning(group, found))


def _about_serving(replicas: ReplicaPlaces, group: GroupSeen, found: Locality, selector: Selector) -> Iterator[Advice]:
    without = sum(member.client_rack is None for member in group.members)
    unseen = without if not group.racks_seen else 0
    at_stake = found.near > found.reads_near or found.members_without_rack > 0
    if selector is Selector.LEADER and at_stake:
        yield Advice(
            AdviceCode.SELECTOR_MISSING,
            f"brokers serve from leaders only: set replica.selector.class={_IN_KAFKA} on them",
        )
    if unseen and at_stake:
        yield Advice(
            AdviceCode.CLIENT_RACK_UNSEEN,
            f"client.rack of {_of(unseen, group)} is not known: make sure that it is set to the rack id of the node",
        )
    elif without and not unseen and (at_stake or found.could_be_near > found.near):
        yield Advice(
            AdviceCode.CLIENT_RACK_MISSING,
            f"{_of(without, group)} {_verb(without, 'sends', 'send')} no client.rack, so brokers serve "
            f"{_verb(without, 'it', 'them')} from leaders: set it to the rack id of "
            f"{_verb(without, 'its node', 'their nodes')}",
        )
    foreign = [
        member.client_rack
        for member in group.members
        if member.client_rack is not None and not replicas.is_reported(member.client_rack)
    ]
    if foreign and at_stake and selector is Selector.SAME_RACK:
        yield Advice(
            AdviceCode.CLIENT_RACK_FOREIGN,
            f"no broker reports the client.rack of {_of(len(foreign), group)} ({_named(foreign)}), and the selector "
            f"takes only the very same: spell it as broker.rack is, or let brokers compare paths by {_BY_PATHS}",
        )


def _about_sharing(group: GroupSeen, found: Locality) -> Iterator[Advice]:
    gain = found.could_be_near - found.near
    assignor = shown(group.assignor, _LONGEST) or "of an unknown name"
    if gain > 0 and group.assignor not in _RACK_AWARE[GroupProtocol.SHARE]:
        yield Advice(
            AdviceCode.ASSIGNOR,
            f"assignor {assignor} ignores racks, up to {gain:,} more {_verb(gain, 'partition', 'partitions')} "
            "could be near: set group.share.assignors=dev.rackspan.kafka.RackAwareShareAssignor on brokers",
        )
    beyond = found.partitions - max(found.could_be_near, found.near)
    if beyond > 0 and not found.members_without_rack:
        yield Advice(
            AdviceCode.NO_REPLICA_NEAR,
            f"{beyond:,} of {plural(found.partitions, 'partition')} cannot be near: share consumers read from leaders, "
            "and too few of these are where members are",
        )


def _about_assigning(group: GroupSeen, found: Locality) -> Iterator[Advice]:
    if group.protocol is GroupProtocol.STREAMS:
        return
    gain = found.could_be_near - found.near
    if gain > 0:
        could = f"{gain:,} more {_verb(gain, 'partition', 'partitions')} could be near"
        assignor = shown(group.assignor, _LONGEST) or "of an unknown name"
        said = all(member.client_rack is not None for member in group.members)
        looks = group.assignor in _RACK_AWARE[group.protocol]
        if group.protocol is GroupProtocol.CONSUMER and not looks:
            yield Advice(
                AdviceCode.PROTOCOL,
                f"assignor {assignor} of the consumer protocol ignores racks (KAFKA-19909), {could}: give "
                "brokers dev.rackspan.kafka.RackAwareAssignor and set group.remote.assignor=rack-aware, or use "
                "group.protocol=classic with cooperative-sticky",
            )
        elif not looks:
            yield Advice(
                AdviceCode.ASSIGNOR,
                f"assignor {assignor} ignores racks, {could}: use cooperative-sticky or range",
            )
        elif said or group.protocol is GroupProtocol.CONSUMER:
            yield Advice(
                AdviceCode.ASSIGNOR_FALLS_SHORT,
                f"assignor {assignor} does not reach the best assignment, {could}: clients older than Kafka 3.5 ignore "
                "racks, and newer ones keep what they have until members come or go",
            )
    beyond = found.partitions - max(found.could_be_near, found.near)
    if beyond > 0 and not found.members_without_rack:
        yield Advice(
            AdviceCode.NO_REPLICA_NEAR,
            f"{beyond:,} of {plural(found.partitions, 'partition')} cannot be near with any even assignment: no "
            "replica is where members are, or too few members are where replicas are",
        )


def _of(number: int, group: GroupSeen) -> str:
    members = len(group.members)
    if number == members:
        return "the one member" if members == 1 else f"all {members:,} members"
    return f"{number:,} of {members:,} members"


def _verb(number: int, one: str, many: str) -> str:
    return one if number == 1 else many


def _named(values: Sequence[str]) -> str:
    names = sorted(set(values))
    few = ", ".join(shown(name, _LONGEST) for name in names[:_MOST_NAMED])
    return f"{few}, …" if len(names) > _MOST_NAMED else few

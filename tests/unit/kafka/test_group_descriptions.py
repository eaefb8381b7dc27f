"""Descriptions of groups by brokers that lag, do not respond, or break the protocol."""

from types import SimpleNamespace

import pytest
from kafka.errors import IncompatibleBrokerVersion, NotCoordinatorError, RequestTimedOutError

from rackspan.core.consumers.group_locality import Selector
from rackspan.kafka import group_descriptions
from rackspan.kafka.consumer_groups import ConsumerGroups
from rackspan.kafka.group_descriptions import describe_groups
from rackspan.kafka.group_messages import ShareGroupDescribeResponse, StreamsGroupDescribeResponse

SHARE, STREAMS = 1, 0  # the versions of the messages
MEMBER = {"member_id": "m", "member_epoch": 1, "client_id": "c", "client_host": "/10.0.0.7"}


class Brokers:
    """Brokers by id that list groups of one kind by name, and describe each as `answers` say."""

    def __init__(self, kind, listed, answers):
        self.kind, self.listed, self.answers, self.asked = kind, listed, answers, []

    def brokers(self):
        return list(self.listed)

    def ask_each(self, requests, _seconds):
        if "ListGroups" in type(next(iter(requests.values()))).__name__:
            return {broker: SimpleNamespace(error_code=0, groups=self._groups(broker)) for broker in requests}
        ((broker, request),) = requests.items()
        self.asked.append((broker, type(request).__name__, len(request.group_ids)))
        found = self.answers[broker]
        return {broker: found if isinstance(found, BaseException) else SimpleNamespace(groups=found)}

    def _groups(self, broker):
        return [SimpleNamespace(group_type=self.kind, group_id=name) for name in self.listed[broker]]


def decoded(kind, version, name, error=0, **fields):
    """Return a group as the client decodes it from a response of this kind. Its name may be null."""
    group = kind.DescribedGroup(
        version=version,
        error_code=error,
        group_id=name,
        group_state="Stable",
        group_epoch=1,
        assignment_epoch=1,
        **fields,
    )
    answer = kind(version=version, throttle_time_ms=0, groups=[group])
    (found,) = kind.decode(bytes(answer.encode()), version=version).groups
    return found


def share_group(name="shop", topic="orders", assignor="simple", error=0):
    """Return a share group. A name, topic or assignor may be null."""
    member = ShareGroupDescribeResponse.DescribedGroup.Member
    reader = member(
        version=SHARE,
        subscribed_topic_names=["clicks", topic],
        assignment=member.Assignment(version=SHARE, topic_partitions=[]),
        **MEMBER,
    )
    return decoded(ShareGroupDescribeResponse, SHARE, name, error, assignor_name=assignor, members=[reader])


def streams_group(topics, partitions):
    """Return a streams group with one task that reads these source topics."""
    group = StreamsGroupDescribeResponse.DescribedGroup
    assignment = group.Member.Assignment
    task = assignment.TaskIds(version=STREAMS, subtopology_id="0", partitions=partitions)
    idle = assignment(version=STREAMS, active_tasks=[], standby_tasks=[], warmup_tasks=[])
    subtopology = group.Topology.Subtopology(
        version=STREAMS,
        subtopology_id="0",
        source_topics=topics,
        repartition_sink_topics=[],
        state_changelog_topics=[],
        repartition_source_topics=[],
    )
    member = group.Member(
        version=STREAMS,
        topology_epoch=1,
        process_id="p",
        client_tags=[],
        task_offsets=[],
        task_end_offsets=[],
        assignment=assignment(version=STREAMS, active_tasks=[task], standby_tasks=[], warmup_tasks=[]),
        target_assignment=idle,
        is_classic=False,
        **MEMBER,
    )
    topology = group.Topology(version=STREAMS, epoch=1, subtopologies=[subtopology])
    return decoded(StreamsGroupDescribeResponse, STREAMS, "flow", topology=topology, members=[member])


@pytest.mark.parametrize("topic", [None, "", "\0", "orders\0", "größe", "..", "a" * 250])
def test_names_that_are_no_topics_are_left_out(topic):
    seen = describe_groups(Brokers("share", {0: ["shop"]}, {0: [share_group(topic=topic)]}))
    (group,) = seen.groups.values()
    assert group.members[0].topics == {"clicks"}
    assert ConsumerGroups((group,), Selector.LEADER, ()).topics == ("clicks",)


def test_null_name_of_a_group_or_of_an_assignor_hides_no_other_group():
    groups = [share_group(None), share_group("bank", assignor=None), share_group(), share_group("another")]
    seen = describe_groups(Brokers("share", {0: [None, "bank", "shop"]}, {0: groups}))
    assert {name: group.assignor for name, group in seen.groups.items()} == {"bank": "", "shop": "simple"}
    assert not seen.failed


def test_group_with_null_members_fails_alone():
    broken = SimpleNamespace(error_code=0, group_id="bank", assignor_name="simple", members=None)
    seen = describe_groups(Brokers("share", {0: ["bank", "shop"]}, {0: [broken, share_group()]}))
    assert [*seen.groups] == ["shop"]
    assert [*seen.failed] == ["bank"]


def test_repeated_source_topics_and_partitions_count_once():
    seen = describe_groups(Brokers("streams", {0: ["flow"]}, {0: [streams_group(["a"] * 900 + ["b"], [0, 1, 1])]}))
    assert seen.groups["flow"].members[0].partitions == {"a": [0, 1], "b": [0, 1]}


def test_streams_group_with_too_many_partitions_fails_alone(monkeypatch):
    monkeypatch.setattr(group_descriptions, "_MOST_PARTITIONS", 10_000)
    topics, partitions = [f"t{number}" for number in range(100)], list(range(101))
    seen = describe_groups(Brokers("streams", {0: ["flow"]}, {0: [streams_group(topics, partitions)]}))
    assert not seen.groups
    assert str(seen.failed["flow"]) == "it reads more than 10,000 partitions"
    seen = describe_groups(Brokers("streams", {0: ["flow"]}, {0: [streams_group(topics, partitions[:100])]}))
    assert len(seen.groups["flow"].members[0].partitions) == 100


def test_group_that_moves_to_another_coordinator_is_described_once():
    refused, both = share_group(error=NotCoordinatorError.errno), {0: ["shop"], 1: ["shop"]}
    for answers in ({0: [refused], 1: [share_group()]}, {0: [share_group()], 1: [share_group()]}):
        seen = describe_groups(Brokers("share", both, answers))
        assert ([*seen.groups], seen.failed) == (["shop"], {})


def test_broker_that_does_not_respond_gets_one_request():
    names = [f"group-{number}" for number in range(1000)]
    brokers = Brokers("share", {0: names, 1: ["shop"]}, {0: RequestTimedOutError(), 1: [share_group()]})
    seen = describe_groups(brokers)
    assert [broker for broker, *_ in brokers.asked] == [0, 1]
    assert [*seen.groups] == ["shop"]
    assert {*seen.failed} == {*names}


def test_broker_without_one_kind_of_groups_is_asked_for_the_next_batch():
    names = [f"group-{number}" for number in range(300)]
    brokers = Brokers("share", {0: names}, {0: IncompatibleBrokerVersion("no share groups")})
    assert {*describe_groups(brokers).failed} == {*names}
    assert len(brokers.asked) == 2

"""The files of a pull request, applied on top of the existing KafkaTopics: the result for each of them."""

import pytest
from tests.unit.reconcile.examples import topic, topology

from rackspan.api.reasons import Reason
from rackspan.reconcile.dry_run import laid_over

OPEN = topology(allowedNamespaces={"from": "All"}, adoption="Allowed")
NAMESPACES = {"kafka": {}, "shop": {}}
THERE = topic("orders", status={"topicId": "orders-id"})


def file(name, **spec):
    return topic(name, created=None, **spec)


def reasons(live, *files):
    after, refused = laid_over(OPEN, live, files, NAMESPACES)
    return after, {key.name: failure.reason for key, failure in refused.items()}


@pytest.mark.parametrize("order", [1, -1])
def test_object_with_a_forbidden_change_keeps_its_topic_and_takes_no_other(order):
    renamed, other = file("orders", topicName="carts"), file("carts")
    after, refused = reasons([THERE], *(renamed, other)[::order])
    assert refused == {"orders": Reason.INVALID_SPEC}
    assert {one.topic_name: key.name for key, one in after.items()} == {"orders": "orders", "carts": "carts"}
    _, refused = reasons([THERE], *(renamed, file("heir", topicName="orders"))[::order])
    assert refused == {"orders": Reason.INVALID_SPEC, "heir": Reason.TOPIC_CONFLICT}


def test_object_with_fewer_partitions_is_refused_and_unchanged():
    after, refused = reasons([THERE], file("orders", partitions=1))
    assert (refused, dict(after)) == ({"orders": Reason.INVALID_SPEC}, {THERE.key: THERE})


def test_object_that_is_not_admitted_takes_no_topic():
    of = topology(namespace="kafka", allowedNamespaces={"from": "Same"}, adoption="Allowed")
    stranger, own = file("carts"), topic("carts", namespace="kafka", created=None)
    after, refused = laid_over(of, [], [stranger, own], NAMESPACES)
    assert {key: failure.reason for key, failure in refused.items()} == {stranger.key: Reason.NAMESPACE_NOT_ALLOWED}
    assert dict(after) == {own.key: own}


def test_valid_file_replaces_the_spec_and_keeps_the_status():
    after, refused = reasons([THERE], file("orders", partitions=6))
    assert refused == {}
    assert (after[THERE.key].spec.partitions, after[THERE.key].status) == (6, THERE.status)

"""Many topics are sent in few calls that Kafka's controller accepts."""

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from rackspan.reconcile.cluster.batching import MAX_RECORDS, batches, config_records, partition_records, topic_records
from rackspan.reconcile.ports import ConfigChange, NewPartitions, NewTopic

costs = st.lists(st.integers(1, 12), max_size=60)


@given(costs, st.integers(1, 20))
@example([21, 1, 21], 20)
def test_batches_keep_all_items_in_order(items, limit):
    assert [item for batch in batches(items, int, limit) for item in batch] == items


@given(costs, st.integers(1, 20))
def test_batch_is_within_the_limit_unless_a_single_item_is_not(items, limit):
    for batch in batches(items, int, limit):
        assert batch
        assert sum(batch) <= limit or len(batch) == 1


@given(costs, st.integers(1, 20))
def test_batches_are_as_few_as_the_order_allows(items, limit):
    found = list(batches(items, int, limit))
    for one, following in pairwise(found):
        assert sum(one) + following[0] > limit


def test_records_are_counted_as_the_controller_does():
    rows = ((0, 1), (1, 2), (2, 0))
    assert topic_records(NewTopic("a", 3, 2, rows, {"retention.ms": "1"})) == 1 + 3 + 1
    assert partition_records(NewPartitions("a", 5, ((0, 1), (1, 2)))) == 2
    assert partition_records(NewPartitions("a", 5, None)) == 5
    assert config_records(ConfigChange("a", {"x": "1", "y": "2"})) == 2


def test_limit_is_at_most_half_of_the_limit_of_the_controller():
    assert MAX_RECORDS <= 10_000 // 2

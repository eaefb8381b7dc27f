"""Config values are compared as Kafka parses them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackspan.reconcile.specs.topic_configs import differing, same_value


@pytest.mark.parametrize(
    ("written", "answered"),
    [
        ("TRUE", "true"),
        ("0.70", "0.7"),
        ("1e3", "1000"),
        ("0060000", "60000"),
        ("+5", "5"),
        ("-1", "-1"),
        ("compact, delete", "compact,delete"),
        (" producer ", "producer"),
        ("9223372036854775807", "9223372036854775807"),
    ],
)
def test_value_as_formatted_by_kafka_is_the_same_value(written, answered):
    assert same_value(written, answered)
    assert same_value(answered, written)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("60000", "60001"),
        ("9223372036854775807", "9223372036854775806"),
        ("true", "false"),
        ("compact,delete", "delete,compact"),
        ("compact", "compact,delete"),
        ("Zstd", "zstd"),
        ("1_000", "1000"),
        ("nan", "inf"),
        ("", "0"),
    ],
)
def test_different_values_are_not_the_same(one, other):
    assert not same_value(one, other)


@given(st.text(), st.text())
def test_comparison_is_reflexive_and_symmetric_for_any_texts(one, other):
    assert same_value(one, one)
    assert same_value(one, other) == same_value(other, one)


@pytest.mark.parametrize("digits", [4_000, 5_000, 50_000])
def test_numbers_of_any_length_are_compared(digits):
    assert same_value("1" * digits, "1" * digits)
    assert not same_value("1" * digits, "1" * (digits - 1) + "2")


def test_key_without_a_value_in_kafka_differs():
    """Kafka returns null for a key that it no longer knows."""
    assert differing({"retention.ms": "1"}, {"retention.ms": None}) == {"retention.ms": "1"}


def test_only_configs_that_kafka_does_not_have_differ():
    own = {"retention.ms": "60000", "preallocate": "true", "segment.bytes": "1"}
    wanted = {"retention.ms": "70000", "preallocate": "TRUE", "cleanup.policy": "compact"}
    assert differing(wanted, own) == {"retention.ms": "70000", "cleanup.policy": "compact"}

"""The metadata of members of classic groups, in the bytes that clients send."""

import struct

import pytest

from rackspan.kafka.subscription import Subscription, read_subscription

# Sent by librdkafka 2.16.
LIBRDKAFKA = b"\x00\x03\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\x00\x05/us/a"


def text(value):
    return struct.pack(">h", len(value.encode())) + value.encode()


def subscription(version, topics, rack=None):
    data = struct.pack(">hi", version, len(topics)) + b"".join(map(text, topics)) + struct.pack(">i", -1)
    if version >= 1:
        data += struct.pack(">i", 1) + text("orders") + struct.pack(">iii", 2, 0, 7)
    if version >= 2:
        data += struct.pack(">i", 12)
    if version >= 3:
        data += struct.pack(">h", -1) if rack is None else text(rack)
    return data


def test_subscription_of_librdkafka_is_read():
    assert read_subscription(LIBRDKAFKA) == Subscription(frozenset({"t"}), "/us/a")


@pytest.mark.parametrize("version", range(5))
def test_every_version_has_the_topics_and_version_3_and_later_the_rack(version):
    found = read_subscription(subscription(version, ["orders", "clicks"], "/eu/eu-1a"))
    assert found == Subscription(frozenset({"orders", "clicks"}), "/eu/eu-1a" if version >= 3 else None)


@pytest.mark.parametrize("name", ["", "\0", "orders\0", "größe", ".", "a" * 250])
def test_names_that_are_no_topics_are_left_out(name):
    assert read_subscription(subscription(3, [name, "orders"])).topics == {"orders"}


def test_null_and_empty_rack_are_no_rack():
    assert read_subscription(subscription(3, ["a"], None)) == Subscription(frozenset({"a"}))
    assert read_subscription(subscription(3, ["a"], "")) == Subscription(frozenset({"a"}))


def test_incomplete_or_invalid_metadata_is_none():
    whole = subscription(3, ["orders"], "/eu")
    assert [read_subscription(whole[:size]) for size in range(len(whole))] == [None] * len(whole)
    assert read_subscription(b"\x00\x01" + b"\x7f\xff\xff\xff" + b"\x00" * 40) is None
    assert read_subscription(b"\x00\x00\x00\x00\x00\x01\x00\x02\xff\xfe\x00\x00\x00\x00") is None

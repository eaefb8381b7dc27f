"""Traffic matches messages by number and compares their offsets if the client knows both."""

from types import SimpleNamespace

import pytest
from dev.traffic import _KEY, Traffic, TrafficError


@pytest.fixture
def traffic():
    traffic = Traffic({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, "orders", partitions=1)
    traffic._next_offset = {0: 7}
    return traffic


def message(number, offset):
    return SimpleNamespace(
        value=lambda: str(number), offset=lambda: offset, key=lambda: _KEY, partition=lambda: 0, error=lambda: None
    )


def test_message_acknowledged_without_an_offset_is_matched_by_its_number(traffic):
    traffic._delivered(None, message(0, None), 0.0)
    traffic._see(message(0, 7))
    assert traffic.check() == 1


def test_message_read_at_another_offset_than_acknowledged_is_an_error(traffic):
    traffic._delivered(None, message(0, 8), 0.0)
    traffic._see(message(0, 7))
    with pytest.raises(TrafficError, match="message 0 is at offset 7, and was acknowledged at 8"):
        traffic.check()

"""Throttles as people write them."""

import pytest

from rackspan.cli.shared.command_errors import CommandError
from rackspan.cli.shared.quantities import throttle_of
from rackspan.core.reassignment import Adaptive


@pytest.mark.parametrize(
    ("text", "throttle"),
    [
        ("50MB/s", 50_000_000),
        ("adaptive", Adaptive(5_000_000, 200_000_000)),
        (" adaptive:10MB/s-1GB/s", Adaptive(10_000_000, 1_000_000_000)),
        ("adaptive:1MiB/s - 1MiB/s", Adaptive(1_048_576, 1_048_576)),
    ],
)
def test_a_throttle_is_a_rate_or_bounds_within_which_it_adapts_itself(text, throttle):
    assert throttle_of("--throttle", text) == throttle


@pytest.mark.parametrize(
    "text", ["adaptive:", "adaptive:10MB/s", "adaptive:2MB/s-1MB/s", "adaptive:1-2", "Adaptive", "adaptive:0B/s-1B/s"]
)
def test_bounds_that_are_none_are_refused(text):
    with pytest.raises(CommandError, match="--throttle"):
        throttle_of("--throttle", text)

"""Parsers of bytes, rates, throttles, times and shares."""

import pytest
from tests.support.command import cli

from rackspan.cli.shared.command_errors import CommandError
from rackspan.cli.shared.quantities import bytes_of, rate_of, seconds_of, share_of, throttle_of
from rackspan.core.reassignment import Adaptive


@pytest.mark.parametrize(
    ("text", "rate"),
    [("50MB/s", 50_000_000), ("50 MiB/s", 52_428_800), ("1B/s", 1), ("1.5GB/s", 1_500_000_000), ("12kB/s", 12_000)],
)
def test_rate_is_parsed_to_bytes_per_second(text, rate):
    assert rate_of("--throttle", text) == rate


@pytest.mark.parametrize(
    "text", ["50", "50MB", "50Mb/s", "50Mbit/s", "0B/s", "-1MB/s", "1e3B/s", "MB/s", "", "9" * 19 + "B/s", "\u0665MB/s"]
)
def test_rate_without_a_valid_number_and_unit_is_rejected(text):
    with pytest.raises(CommandError, match="--throttle"):
        rate_of("--throttle", text)


def test_bytes_are_parsed_and_a_rate_is_rejected():
    assert bytes_of("--max-bytes", "2TB") == 2 * 10**12
    with pytest.raises(CommandError):
        bytes_of("--max-bytes", "2TB/s")


@pytest.mark.parametrize(
    ("text", "seconds"), [("10s", 10), ("5m", 300), ("1h30m", 5400), ("1h0m5s", 3605), ("10", 10), ("1.5", 1.5)]
)
def test_time_with_units_or_in_seconds_is_parsed(text, seconds):
    assert seconds_of("--timeout", text) == seconds


@pytest.mark.parametrize("text", ["", "0", "0.5", "0s", "-1s", "1.5s", "5m1h", "1d", "\u0665s"])
def test_time_without_valid_numbers_and_units_is_rejected(text):
    with pytest.raises(CommandError, match="--timeout"):
        seconds_of("--timeout", text)


@pytest.mark.parametrize("text", ["90", "90s", "1h30m", "soon"])
@pytest.mark.parametrize(
    "command",
    [
        ["scan", "--topology", "a", "--watch", "--timeout"],
        ["drain", "4", "--topology", "a", "--wait", "--timeout"],
        ["apply", "--topology", "a", "--patience"],
        ["locality", "--topology", "a", "--sample"],
    ],
    ids=lambda command: command[0],
)
def test_options_with_a_time_take_the_same_texts(command, text):
    """Each command fails later, by another argument."""
    refused = f'{command[-1]} "{text}": write a time of a second or more, such as 90, 10s or 1h30m'
    assert (cli(*command, text).error == refused) == (text == "soon")


@pytest.mark.parametrize(("text", "share"), [("0", 0), ("0.1", 0.1), ("10%", 0.1), ("100%", 1), ("1", 1)])
def test_share_is_parsed_from_a_number_or_a_percentage(text, share):
    assert share_of("--fail-above", text) == share


@pytest.mark.parametrize("text", ["", "-1", "1.1", "101%", "nan", "1e-3", "ten"])
def test_share_that_is_not_a_number_from_0_to_1_is_rejected(text):
    with pytest.raises(CommandError, match="--fail-above"):
        share_of("--fail-above", text)


@pytest.mark.parametrize(
    ("text", "throttle"),
    [
        ("50MB/s", 50_000_000),
        ("adaptive", Adaptive(5_000_000, 200_000_000)),
        (" adaptive:10MB/s-1GB/s", Adaptive(10_000_000, 1_000_000_000)),
        ("adaptive:1MiB/s - 1MiB/s", Adaptive(1_048_576, 1_048_576)),
    ],
)
def test_throttle_is_parsed_as_a_rate_or_as_adaptive_bounds(text, throttle):
    assert throttle_of("--throttle", text) == throttle


@pytest.mark.parametrize(
    "text", ["adaptive:", "adaptive:10MB/s", "adaptive:2MB/s-1MB/s", "adaptive:1-2", "Adaptive", "adaptive:0B/s-1B/s"]
)
def test_invalid_adaptive_throttle_is_rejected(text):
    with pytest.raises(CommandError, match="--throttle"):
        throttle_of("--throttle", text)

"""Log lines with text from Kafka, such as rack ids."""

import logging

import pytest

from rackspan.core.text import escaped
from rackspan.logs import OneLineFormatter


def _line(message, *args, error=None):
    record = logging.LogRecord("rackspan", logging.WARNING, "here", 1, message, args, None)
    if error is not None:
        try:
            raise error
        except ValueError as caught:
            record.exc_info = (type(caught), caught, caught.__traceback__)
    return OneLineFormatter(logging.Formatter("[%(levelname)s] %(message)s")).format(record)


@pytest.mark.parametrize(
    ("rack", "shown"),
    [
        ("/eu/a\n[INFO] all is well", r"/eu/a\n[INFO] all is well"),
        ("\x1b[2J\x1b]0;owned\x07", r"\x1b[2J\x1b]0;owned\x07"),
        ("a\rb\0c\x7f\x9b", r"a\rb\x00c\x7f\x9b"),
        ("\u202eevil\u2028line", r"\u202eevil\u2028line"),
        ("\ud800", r"\ud800"),
        ("Zürich 東京", "Zürich 東京"),
    ],
)
def test_log_message_is_one_line_without_control_characters(rack, shown):
    assert _line("broker 3 is in %s", rack) == f"[WARNING] broker 3 is in {shown}"


def test_traceback_keeps_its_lines_and_escapes_control_characters():
    text = _line("it broke", error=ValueError("\x1b[2J"))
    assert text.splitlines()[0] == "[WARNING] it broke"
    assert text.splitlines()[1].startswith("Traceback")
    assert text.splitlines()[-1] == r"ValueError: \x1b[2J"


def test_escaped_keeps_printable_text_unchanged():
    assert escaped("spread over 3 zones, “even” ✓") == "spread over 3 zones, “even” ✓"

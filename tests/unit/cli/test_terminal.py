"""Output for a terminal is printable and limited in length for any file, cluster or argument."""

import json
from itertools import product

import pytest
import yaml
from tests.support.command import RACKS, cluster, topic

from rackspan.cli.rendering.event_lines import EventLines
from rackspan.cli.rendering.findings_table import FindingLine, print_findings
from rackspan.cli.rendering.output_formats import Format
from rackspan.cli.rendering.progress import step
from rackspan.cli.rendering.tables import console
from rackspan.reports.texts import plain

HOSTILE = "x\x1b[2J\x1b]0;owned\x07\r\n\x9b31m\x85\u202e\u2066\u2028y"
SHOWN = r"x\x1b[2J\x1b]0;owned\x07\r\n\x9b31m\x85\u202e\u2066\u2028y"
FINE = cluster(topic("orders", [0, 3], [1, 0]))
LONGEST = 1_200
ARGUMENTS = (
    ("--drain-rack", "{}", "plan"),
    ("--drain-rack", "/eu/{}", "plan"),
    ("--drain-broker", "{}", "plan"),
    ("--drain-broker", "1,{}", "check"),
    ("--topic", "{}", "check"),
    ("--topic", "({}", "what-if"),
    ("--levels", "{}", "check"),
    ("--levels", "{0},{0}", "check"),
    ("--lose", "/{}", "what-if"),
    ("--lose", "3,{}", "what-if"),
    ("--replication-factor", "{}=3", "plan"),
    ("--replication-factor", "orders={}", "plan"),
    ("--partitions", "{}", "plan"),
    ("--log-dirs", "{}", "plan"),
    ("--command-config", "{}", "plan"),
    ("--bootstrap-server", "{}:9092", "check"),
    ("--missing-rack-policy", "{}", "check"),
    ("--output", "{}", "check"),
    ("--{}", "1", "check"),
)


def harmless(text):
    return all(character.isprintable() or character == "\n" for character in text)


@pytest.mark.parametrize("command", [["check"], ["plan"], ["what-if"], ["snapshot", "-o", "table"]])
def test_output_lines_have_no_trailing_spaces_if_another_line_is_longer(rackspan, snapshot, command):
    """With trailing spaces, `status | less` would show three blank lines after each short line."""
    unfair = cluster(topic("orders" * 40, [0, 1], [1, 0]), topic("a", [0, 1]))
    ran = rackspan(command[0], "--snapshot", snapshot(unfair), *command[1:])
    assert "\n\n" in ran.out, "the output contains the empty lines of the table"
    assert [line for line in ran.out.splitlines() if line != line.rstrip()] == []


@pytest.mark.parametrize(("option", "value", "command"), ARGUMENTS)
@pytest.mark.parametrize("given", [HOSTILE, "y" * 10_000], ids=["hostile", "long"])
def test_invalid_argument_is_escaped_and_truncated_in_the_error(rackspan, snapshot, option, value, command, given):
    ran = rackspan(command, "--snapshot", snapshot(FINE), option.format(given), value.format(given))
    assert (ran.code, ran.out) == (2, "")
    assert harmless(ran.err)
    assert all(len(line) < LONGEST for line in ran.err.splitlines())
    assert ran.err.splitlines()[0].startswith("error: ")
    assert len(ran.err.splitlines()) <= 2
    if option == "--topic" and given == HOSTILE:
        assert SHOWN in ran.error


def test_truncated_error_keeps_its_end(rackspan, snapshot):
    ran = rackspan("check", "--snapshot", snapshot(FINE), "--topic", "y" * 10_000)
    assert ran.error.startswith('--topic "yyy')
    assert ran.error.endswith('yyy": matches no topic')


@pytest.mark.parametrize(
    ("rack", "wrong"),
    [
        ("/eu/r 1", 'step 2 ("r 1") holds white space'),
        ("/eu/r\u00a01", r'step 2 ("r\xa01") holds white space'),
        ("/eu/r\n1", r'step 2 ("r\n1") holds white space'),
        ("/eu/\x1b[2J", r'step 2 ("\x1b[2J") holds a control character'),
        ("/eu/\x9b31m", r'step 2 ("\x9b31m") holds a control character'),
        ("/eu/\u202er1", r'step 2 ("\u202er1") holds a character that is not printed'),
    ],
)
def test_error_names_the_kind_of_invalid_character_in_a_rack_id(rackspan, snapshot, rack, wrong):
    ran = rackspan("check", "--snapshot", snapshot(cluster(topic("orders", [0]), racks={0: rack})))
    shown = rack.encode("unicode_escape").decode()
    assert ran.error == f'prod.json: $.brokers[0].rack: rack id "{shown}": {wrong}'


def test_invalid_topic_name_is_escaped_and_truncated_in_the_error(rackspan, snapshot):
    for name in (HOSTILE, "y" * 10_000):
        ran = rackspan("check", "--snapshot", snapshot(cluster(topic(name, [0]))))
        assert harmless(ran.err)
        assert len(ran.error) < LONGEST
        assert "is not a valid topic name" in ran.error


@pytest.mark.parametrize(
    ("command", "form"),
    [
        *product(("snapshot", "check", "plan", "what-if"), ("table", "json", "yaml")),
        ("plan", "markdown"),
    ],
)
def test_result_in_any_format_contains_no_control_characters(rackspan, snapshot, command, form):
    file = snapshot(cluster(topic("orders", [0, 1], [1, 0]), name=HOSTILE))
    levels = () if command == "snapshot" else ("--levels", f"{HOSTILE},zone,rack")
    ran = rackspan(command, "--snapshot", file, *levels, "-o", form)
    assert ran.code in (0, 1)
    assert harmless(ran.out)
    if form == "table":
        assert SHOWN in "".join(ran.out.split())
    elif form == "markdown":
        assert f"| {plain(HOSTILE)} |" in ran.out
    else:
        read = json.loads if form == "json" else yaml.safe_load
        assert HOSTILE in set(_texts(read(ran.out)))


def test_letters_of_other_alphabets_are_printed_unchanged(rackspan, snapshot):
    file = snapshot(cluster(topic("orders", [0, 1]), racks=dict(RACKS) | {0: "/eu/Zürich/東京"}))
    for form in ("table", "json", "yaml"):
        assert "/eu/Zürich/東京" in rackspan("snapshot", "--snapshot", file, "-o", form).out


def test_findings_table_is_escaped_and_limited_in_length(capsys):
    long = "y" * 10_000
    print_findings(console(), [FindingLine("high", HOSTILE, long, HOSTILE, "", HOSTILE)], 1, "")
    out = capsys.readouterr().out
    assert harmless(out)
    assert len(out) < 4 * LONGEST * 2


@pytest.mark.parametrize(("term", "shown"), [("xterm", True), ("dumb", False)])
def test_terminal_that_cannot_draw_gets_lines_in_place_of_a_bar(monkeypatch, capsys, term, shown):
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with step("reading") as reading:
        assert reading._bar.disable is not shown
    EventLines(Format.TABLE).repeat("waiting", "it waits", {})
    assert (capsys.readouterr().out == "") is shown


def _texts(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    else:
        yield str(value)

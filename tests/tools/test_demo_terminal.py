"""The demo prints the commands that it runs, and a claim that does not hold ends the demo."""

import os

import pytest
from dev.demo.picture import Role, Span
from dev.demo.terminal import DemoError, Terminal


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    terminal = Terminal()
    terminal.use({**os.environ, "GREETING": "hello"})
    return terminal


def test_command_and_its_output_are_printed_unchanged(terminal, capsys):
    assert terminal.run('echo "$GREETING" | tr a-z A-Z') == "HELLO\n"
    assert capsys.readouterr().out == '\n$ echo "$GREETING" | tr a-z A-Z\nHELLO\n'


def test_long_output_is_not_wrapped_and_brackets_are_not_markup(terminal, capsys):
    terminal.run(f"echo '[bold]' {'x' * 300}")
    assert f"\n[bold] {'x' * 300}\n" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["echo why >&2; exit 3", "false | cat"])
def test_command_that_fails_in_any_part_of_a_pipeline_ends_the_demo(terminal, command):
    with pytest.raises(DemoError, match="exited with"):
        terminal.run(command)


def test_check_prints_a_claim_that_holds(terminal, capsys):
    terminal.check(holds=True, claim="orders: spread")
    assert capsys.readouterr().out.endswith("orders: spread\n")


def test_check_ends_the_demo_if_a_claim_does_not_hold(terminal):
    with pytest.raises(DemoError, match=r"^this claim does not hold: orders: spread$"):
        terminal.check(holds=False, claim="orders: spread")


def test_output_to_a_file_has_no_colours(terminal, capsys):
    with terminal.act("An act"):
        terminal.draw(((Span("eu  ", Role.DOMAIN), Span("2!", Role.WRONG), Span("  ", Role.NOTHING)),))
    terminal.times()
    printed = capsys.readouterr().out
    assert "\n  eu  2!\n" in printed
    assert "\x1b" not in printed
    assert printed.splitlines()[-1].endswith("in all")

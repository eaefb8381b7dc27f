"""Screens in docs/cli.md, import.md and tasks.md equal the output of the commands for examples/snapshots."""

import re
import runpy
import shlex
from collections import Counter

import pytest
from dev.paths import REPOSITORY
from typer.testing import CliRunner

from rackspan.cli import app

SCREENS = runpy.run_path(str(REPOSITORY / "docs" / "screens.py"))


def test_documentation_has_a_screen_of_each_command():
    cli, imports, tasks = ({line.split()[0] for line in SCREENS["commands"](page)} for page in SCREENS["PAGES"])
    assert cli == {"snapshot", "check", "plan", "what-if", "place"}
    assert imports == {"import", "plan"}
    assert tasks == {"plan", "what-if"}


@pytest.mark.parametrize("page", SCREENS["PAGES"], ids=lambda page: page.name)
def test_screens_of_the_documentation_are_up_to_date(page):
    assert SCREENS["page"](page) == page.read_text(), "run: python docs/screens.py"


@pytest.mark.parametrize("line", SCREENS["commands"](SCREENS["PAGES"][0]))
def test_terminal_of_80_columns_shows_the_whole_screen(line, monkeypatch):
    monkeypatch.chdir(REPOSITORY / "examples" / "snapshots")
    narrow, wide = (
        CliRunner(env=env).invoke(app, shlex.split(line)).stdout
        for env in ({"FORCE_COLOR": "1", "COLUMNS": "80", "TERM": "xterm"}, {"NO_COLOR": "1"})
    )
    lines = re.sub(r"\x1b\[[0-9;]*m", "", narrow).splitlines()
    assert max(map(len, lines)) <= 80
    assert _letters(lines) == _letters(wide.splitlines())


def _letters(lines):
    return Counter("".join(line for line in lines if "─" not in line).replace(" ", ""))


def test_screen_of_the_readme_is_on_the_on_call_page():
    readme, page = ((REPOSITORY / name).read_text() for name in ("README.md", "docs/on-call.md"))
    (screen,) = re.findall(r"^```console\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    assert screen in page, "test_on_call.py keeps that page up to date"

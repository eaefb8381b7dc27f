"""Every screen in docs/cli.md, import.md and tasks.md is what the command prints about examples/snapshots."""

import re
import runpy

import pytest
from dev.paths import REPOSITORY

SCREENS = runpy.run_path(str(REPOSITORY / "docs" / "screens.py"))


def test_there_is_a_screen_of_each_command():
    cli, imports, tasks = ({line.split()[0] for line in SCREENS["commands"](page)} for page in SCREENS["PAGES"])
    assert cli == {"snapshot", "check", "plan", "what-if", "place"}
    assert imports == {"import", "plan"}
    assert tasks == {"plan"}


@pytest.mark.parametrize("page", SCREENS["PAGES"], ids=lambda page: page.name)
def test_the_screens_are_up_to_date(page):
    assert SCREENS["page"](page) == page.read_text(), "run: python docs/screens.py"


def test_the_screen_of_the_readme_is_one_of_those_for_on_call():
    readme, page = ((REPOSITORY / name).read_text() for name in ("README.md", "docs/on-call.md"))
    (screen,) = re.findall(r"^```console\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    assert screen in page, "test_on_call.py keeps that page up to date"

"""Every screen in docs/cli.md is what the command prints about examples/snapshots/prod.json."""

import runpy

from dev.paths import REPOSITORY

SCREENS = runpy.run_path(str(REPOSITORY / "docs" / "screens.py"))


def test_there_is_a_screen_of_each_command():
    assert {line.split()[0] for line in SCREENS["commands"]()} == {"snapshot", "check", "plan", "what-if", "place"}


def test_the_screens_are_up_to_date():
    assert SCREENS["page"]() == SCREENS["PAGE"].read_text(), "run: python docs/screens.py"

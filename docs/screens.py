# ruff: noqa: INP001  # a script that stands beside what it writes, and no package
"""Writes the screens of docs/cli.md anew: what each command prints about examples/snapshots/prod.json.

Run it when a command prints something else: `python docs/screens.py`. A test fails while the page is behind.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE / "cli.md"
_SCREEN = re.compile(r"^```text\n\$ rackspan (?P<command>.*)\n(?:.*\n)*?```$", re.MULTILINE)


def page() -> str:
    """Text of the page with every screen as it is now."""
    return _SCREEN.sub(_screen, PAGE.read_text())


def commands() -> list[str]:
    """What is typed in the screens."""
    return _SCREEN.findall(PAGE.read_text())


def _screen(found: re.Match[str]) -> str:
    command = [sys.executable, "-m", "rackspan", *shlex.split(found["command"])]
    done = subprocess.run(  # noqa: S603 - the page's own commands
        command,
        check=False,
        cwd=HERE.parent / "examples" / "snapshots",
        env={**os.environ, "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines = "\n".join(line.rstrip() for line in done.stdout.splitlines()).strip("\n")
    return f"```text\n$ rackspan {found['command']}\n{lines}\n```"


if __name__ == "__main__":
    PAGE.write_text(page())

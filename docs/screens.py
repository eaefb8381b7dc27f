# ruff: noqa: INP001  # a script that stands beside what it writes, and no package
"""Writes the screens of docs/cli.md, import.md and tasks.md anew: what commands print about examples/snapshots.

A YAML block below a line such as `` `topics.yaml`: `` is a file for them. Run it when a command prints something else:
`python docs/screens.py`. A test fails while a page is behind.
"""

import contextlib
import re
import shlex
import shutil
import tempfile
from pathlib import Path

from typer.testing import CliRunner

from rackspan.cli import app

HERE = Path(__file__).parent
PAGES = (HERE / "cli.md", HERE / "import.md", HERE / "tasks.md")
_SCREEN = re.compile(r"^```text\n\$ rackspan (?P<command>[^\n]*)\n.*?^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^[^\n]*`(?P<name>[\w.-]+)`:\n\n```yaml\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def page(path: Path) -> str:
    """Text of a page with every screen as it is now."""
    text = path.read_text()
    with tempfile.TemporaryDirectory() as directory:
        for one in (HERE.parent / "examples" / "snapshots").iterdir():
            shutil.copy(one, directory)
        for name, content in files(path).items():
            (Path(directory) / name).write_text(content)
        return _SCREEN.sub(lambda found: _screen(found["command"], directory), text)


def commands(path: Path) -> list[str]:
    """What is typed in the screens of a page."""
    return _SCREEN.findall(path.read_text())


def files(path: Path) -> dict[str, str]:
    """The files that a page shows, by name."""
    return {found["name"]: found["text"] for found in _FILE.finditer(path.read_text())}


def _screen(line: str, directory: str) -> str:
    with contextlib.chdir(directory):
        done = CliRunner(env={"NO_COLOR": "1"}).invoke(app, shlex.split(line))
    lines = "\n".join(shown.rstrip() for shown in done.output.splitlines()).strip("\n")
    return f"```text\n$ rackspan {line}\n{lines}\n```"


if __name__ == "__main__":
    for one in PAGES:
        one.write_text(page(one))

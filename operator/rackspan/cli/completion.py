"""
`kubectl rackspan <TAB>`: kubectl asks `kubectl_complete-rackspan` for words, if that is on `PATH`.

It is run with the words after the plug-in's name, the last of which is still being typed, and prints what that may
become, a line each with a description behind a tab. The last line says what the shell is to do besides.
"""

import io
import os
import shlex
import sys
from contextlib import redirect_stdout, suppress

from rackspan.cli.app import app

_VARIABLE = "_RACKSPAN_COMPLETE"
_NO_FILES, _FILES = ":4", ":0"
"""Numbers of cobra, the library of kubectl's command line: whether names of files are offered."""


def main() -> None:
    """Answer kubectl."""
    *words, typed = sys.argv[1:] or [""]
    lines = [line for line in _asked(words, typed) if line not in ("", typed)]
    for line in lines:
        print(line)
    print(_NO_FILES if lines else _FILES)


def _asked(words: list[str], typed: str) -> list[str]:
    """Ask as the fish shell does, which wants the same lines."""
    line = f"{shlex.join(['rackspan', *words])} {shlex.quote(typed) if typed else ''}"
    os.environ |= {
        _VARIABLE: "complete_fish",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": line,
        "COLUMNS": "1000",  # or long descriptions are broken into lines
    }
    answer = io.StringIO()
    with redirect_stdout(answer), suppress(SystemExit):
        app(prog_name="rackspan", complete_var=_VARIABLE)
    return answer.getvalue().splitlines()

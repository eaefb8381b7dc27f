"""`kubectl rackspan <TAB>`: kubectl calls `kubectl_complete-rackspan` for completions, if it is on `PATH`.

The arguments are the words after the plug-in's name; the last word is incomplete. The output has one completion per
line, with a description after a tab. The last line is a directive for the shell.
"""

import io
import os
import shlex
import sys
from contextlib import redirect_stdout, suppress

from rackspan.cli.app import app

_VARIABLE = "_RACKSPAN_COMPLETE"
_NO_FILES, _FILES = ":4", ":0"
"""Directives of cobra, the library of kubectl's command line: whether the shell offers file names."""


def main() -> None:
    """Print the completions for kubectl."""
    *words, typed = sys.argv[1:] or [""]
    lines = [line for line in _asked(words, typed) if line not in ("", typed)]
    for line in lines:
        print(line)
    print(_NO_FILES if lines else _FILES)


def _asked(words: list[str], typed: str) -> list[str]:
    """Return the completions that typer makes for the fish shell, which uses the same format."""
    line = f"{shlex.join(['rackspan', *words])} {shlex.quote(typed) if typed else ''}"
    os.environ |= {
        _VARIABLE: "complete_fish",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": line,
        "COLUMNS": "1000",  # otherwise long descriptions are wrapped
    }
    answer = io.StringIO()
    with redirect_stdout(answer), suppress(SystemExit):
        app(prog_name="rackspan", complete_var=_VARIABLE)
    return answer.getvalue().splitlines()

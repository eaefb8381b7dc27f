"""`rackspan` in a process of its own."""

import subprocess
import sys
from pathlib import Path

from tests.support.command import Ran


def command(*arguments):
    return [str(Path(sys.executable).with_name("rackspan")), *map(str, arguments)]


def run_in_process(folder, *arguments, environment=None, before=None, timeout=600):
    """Run to its end; `before` is called in the new process, and `environment` replaces all of this one's."""
    done = subprocess.run(
        command(*arguments),
        cwd=folder,
        env=environment,
        preexec_fn=before,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Ran(done.returncode, done.stdout, done.stderr)

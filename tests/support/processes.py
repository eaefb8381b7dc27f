"""The `rackspan` command as a process."""

import subprocess
import sys
from pathlib import Path

from tests.support.command import Ran


def command(*arguments):
    return [str(Path(sys.executable).with_name("rackspan")), *map(str, arguments)]


def run_in_process(folder, *arguments, environment=None, before=None, timeout=600):
    """Run the command. The new process first calls `before`. `environment` replaces the whole environment."""
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

"""Run the commands of pages in docs/ as a reader does."""

import os
import re
import subprocess
from pathlib import Path


def typed(console):
    """Yield each command of a console block with its documented output."""
    for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        yield command, printed


def shell(cluster, directory, *programs):
    """Return a function that runs a command in a folder, with kubectl, a kubeconfig and `programs`, and its output."""
    folders = (*(str(Path(program).parent) for program in (cluster.kubectl.binary, *programs)), os.environ["PATH"])
    environment = {**os.environ, "PATH": os.pathsep.join(folders), "KUBECONFIG": str(cluster.kubeconfig)}

    def run(command):
        done = subprocess.run(
            ["bash", "-c", command], cwd=directory, env=environment, capture_output=True, text=True, check=False
        )
        return done.stdout + done.stderr

    return run

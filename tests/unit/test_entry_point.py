"""How the `rackspan` command starts."""

import subprocess
import sys


def test_garbage_collection_runs_much_less_often_than_by_default():
    program = (
        "import atexit, gc, sys\n"
        "from rackspan.__main__ import main\n"
        "sys.argv = ['rackspan', '--version']\n"
        "atexit.register(lambda: print(gc.isenabled(), gc.get_threshold()[0] > 700 * 50))\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    version, *found = done.stdout.splitlines()
    assert version.startswith("rackspan ")
    assert "True True" in found

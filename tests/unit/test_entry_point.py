"""How the `rackspan` command starts."""

import json
import os
import subprocess
import sys

import pytest
from tests.support.command import cluster, topic


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


@pytest.mark.parametrize("command", ["check", "rack-id --nodes-file /dev/null --node a --wait 60s"])
def test_ctrl_c_during_the_start_ends_with_130_and_without_a_traceback(command):
    """The signal arrives at the import of the commands, and for rack-id when it waits."""
    program = (
        "import os, signal, sys, time\n"
        "from rackspan.__main__ import main\n"
        "class Finder:\n"
        "    def find_spec(name, *_):\n"
        "        if name == 'rackspan.cli':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder)\n"
        "time.monotonic = lambda: os.kill(os.getpid(), signal.SIGINT)\n"
        f"sys.argv = ['rackspan', *{command.split()}]\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("form", [["snapshot"], ["snapshot", "-o", "yaml"], ["plan"], ["check", "--all"]])
def test_output_is_utf_8_in_a_locale_that_is_not(tmp_path, form):
    (tmp_path / "prod.json").write_text(json.dumps(cluster(topic("orders", [0, 1]), name="Zürich 東京 ─")))
    command = [sys.executable, "-m", "rackspan", *form, "--snapshot", "prod.json"]
    told = [
        subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, env={**os.environ, **locale})
        for locale in ({"PYTHONIOENCODING": "latin-1"}, {"PYTHONIOENCODING": "utf-8"})
    ]
    assert told[0].stdout.decode() == told[1].stdout.decode() != ""
    assert told[0].returncode == told[1].returncode


def test_name_of_a_file_that_is_not_utf_8_is_printed_on_one_line(tmp_path):
    file = tmp_path / os.fsdecode(b"n\xffdes")
    command = [sys.executable, "-m", "rackspan", "rack-id", "--nodes-file", file, "--node", "a"]
    done = subprocess.run(command, check=False, capture_output=True)
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
    assert b"n\\udcffdes" in done.stderr

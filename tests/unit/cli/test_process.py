"""The installed programs, as processes of their own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.command import cluster, topic

BIN = Path(sys.executable).parent
DOCUMENT = cluster(*(topic(f"topic-{at}", *([0, 1, 2],) * 100) for at in range(100)))


@pytest.mark.parametrize(("program", "shown"), [("rackspan", "rackspan"), ("kubectl-rackspan", "kubectl rackspan")])
def test_the_program_and_the_plug_in_say_how_they_were_called(program, shown):
    done = subprocess.run([BIN / program, "check"], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: the cluster is missing\n")
    usage = subprocess.run([BIN / program, "check", "--help"], check=True, capture_output=True, text=True)
    assert f"Usage: {shown} check [OPTIONS]" in usage.stdout


def test_a_result_is_alone_on_standard_output():
    command = [BIN / "rackspan", "check", "--snapshot", "-", "-o", "json"]
    done = subprocess.run(command, check=False, input=json.dumps(DOCUMENT), capture_output=True, text=True)
    assert json.loads(done.stdout)["summary"]["nonCompliant"] == 10_000
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_reader_that_stops_early_is_no_error(tmp_path, form):
    (tmp_path / "prod.json").write_text(json.dumps(DOCUMENT))
    command = [BIN / "rackspan", "check", "--snapshot", tmp_path / "prod.json", "--all", "-o", form]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(30) == 0


def test_only_what_a_command_needs_is_imported():
    program = (
        "import sys, rackspan.cli; print(*{'kopf', 'confluent_kafka', 'kubernetes', 'aiohttp'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == ""

"""A command that crashes is a sentence and an exit code; in all else it is as if there were one process."""

import contextlib
import json
import os
import pty
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.command import cluster, topic
from tests.support.hostile_kafka import NOT_UTF8, HostileKafka, spoiling
from tests.support.processes import command, run_in_process
from tests.support.waiting import until

CRASHES = [
    ("Metadata", "cluster_id", None),
    ("Metadata", "cluster_id", NOT_UTF8),
    ("Metadata", "brokers.rack", NOT_UTF8),
    ("DescribeConfigs", "results.configs.name", NOT_UTF8),
    ("DescribeConfigs", "results.configs.name", None),
    ("DescribeConfigs", "results.configs.value", NOT_UTF8),
]


@pytest.mark.parametrize("answer", CRASHES, ids=lambda answer: f"{answer[1]}-{answer[2]}")
def test_an_answer_that_crashes_kafkas_client_is_a_sentence_and_an_exit_code(tmp_path, answer):
    def with_core_dumps():
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    with HostileKafka(spoiling(*answer)) as kafka:
        ran = run_in_process(tmp_path, "check", "--bootstrap-server", kafka.address, before=with_core_dumps)
    assert (ran.code, ran.out) == (71, "")
    assert ran.error.startswith(f"rackspan check --bootstrap-server {kafka.address} crashed (SIGSEGV)")
    assert "brokers that you trust" in ran.hint
    assert not list(tmp_path.iterdir())


def test_the_detailed_exit_code_of_a_crash_is_that_of_an_error(tmp_path):
    with HostileKafka(spoiling("Metadata", "cluster_id", None)) as kafka:
        ran = run_in_process(tmp_path, "plan", "--bootstrap-server", kafka.address, "--detailed-exitcode")
    assert ran.code == 1
    assert "crashed (SIGSEGV)" in ran.error


def test_a_crash_of_apply_tells_that_throttles_may_be_left(tmp_path):
    with HostileKafka(spoiling("Metadata", "cluster_id", None)) as kafka:
        ran = run_in_process(tmp_path, "apply", "--bootstrap-server", kafka.address)
    assert ran.code == 71
    assert ran.hint == "throttles may be left in Kafka: run the same command again, or with --cancel"


@pytest.fixture
def waiting(tmp_path):
    """A command that waits for what it reads, and the process of it that does."""
    os.mkfifo(tmp_path / "prod.json")
    with subprocess.Popen(
        command("check", "--snapshot", "prod.json"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    ) as process:
        with (tmp_path / "prod.json").open("w"):  # once it is open for reading, too
            reader = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
            # A signal that comes while Python runs a callback of its own, as when it imports, is lost there.
            until(lambda: _state(reader) == "S", "the command to wait for what it reads")
            yield process, reader
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_ends_the_command_as_if_there_were_one_process(waiting, name):
    process, reader = waiting
    process.send_signal(getattr(signal, name))
    out, err = process.communicate(timeout=600)
    assert (process.returncode, out, err) == (-getattr(signal, name), "", "")
    assert not _lives(reader)


def test_ctrl_c_ends_it_with_130(waiting):
    process, reader = waiting
    process.send_signal(signal.SIGINT)
    assert process.wait(600) == 130
    assert not _lives(reader)


def test_nothing_goes_on_when_the_parent_is_killed(waiting):
    process, reader = waiting
    process.kill()
    assert process.wait(600) == -signal.SIGKILL
    until(lambda: not _lives(reader), "the child's end")


def test_a_command_that_the_system_kills_says_so(waiting):
    process, reader = waiting
    os.kill(reader, signal.SIGKILL)
    _, err = process.communicate(timeout=600)
    assert process.returncode == -signal.SIGKILL
    assert err == (
        "error: rackspan check --snapshot prod.json was killed (SIGKILL), which the system does where memory is short\n"
    )


def _state(pid):
    """As the system has it: S sleeps, Z is dead, None is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


def _lives(pid):
    return _state(pid) not in (None, "Z")


def test_a_key_is_heard_once(tmp_path):
    """Ctrl-C in a terminal is for all its processes: passed on, it would count twice."""
    program = (
        "import os, signal, sys, time\n"
        "from rackspan.child_process import continue_in_child\n"
        "continue_in_child()\n"
        "heard = []\n"
        "signal.signal(signal.SIGINT, lambda *_: heard.append(1))\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(len(heard)))\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(60)\n"
    )
    pid, terminal = pty.fork()
    if not pid:
        os.execv(sys.executable, [sys.executable, "-c", program])
    with os.fdopen(terminal, "r+b", buffering=0) as stream:
        assert stream.read(5) == b"ready"
        stream.write(b"\x03")
        seen = b""
        while b"^C" not in seen:
            seen += stream.read(100)
        os.kill(pid, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1


def test_exit_codes_and_pipes_are_those_of_the_command():
    document = json.dumps(cluster(topic("orders", [0, 1, 2])))
    done = subprocess.run(
        command("check", "--snapshot", "-", "-o", "json"), input=document, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert json.loads(done.stdout)["summary"]["nonCompliant"] == 1

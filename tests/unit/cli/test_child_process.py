"""A crash of the child process gives an error message and an exit code. Otherwise both processes act as one."""

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
def test_response_that_crashes_the_kafka_client_gives_an_error_message_and_exit_code_71(tmp_path, answer):
    def with_core_dumps():
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    with HostileKafka(spoiling(*answer)) as kafka:
        ran = run_in_process(tmp_path, "check", "--bootstrap-server", kafka.address, before=with_core_dumps)
    assert (ran.code, ran.out) == (71, "")
    assert ran.error.startswith(f"rackspan check --bootstrap-server {kafka.address} crashed (SIGSEGV)")
    assert "brokers that you trust" in ran.hint
    assert not list(tmp_path.iterdir())


def test_crash_with_detailed_exitcode_exits_with_1(tmp_path):
    with HostileKafka(spoiling("Metadata", "cluster_id", None)) as kafka:
        ran = run_in_process(tmp_path, "plan", "--bootstrap-server", kafka.address, "--detailed-exitcode")
    assert ran.code == 1
    assert "crashed (SIGSEGV)" in ran.error


def test_crash_of_apply_gives_a_hint_about_throttles_left_in_kafka(tmp_path):
    with HostileKafka(spoiling("Metadata", "cluster_id", None)) as kafka:
        ran = run_in_process(tmp_path, "apply", "--bootstrap-server", kafka.address)
    assert ran.code == 71
    assert ran.hint == "throttles may be left in Kafka: run the same command again, or with --cancel"


@pytest.fixture
def waiting(tmp_path):
    """A command that waits for its input: the parent process and the pid of the child, which reads."""
    os.mkfifo(tmp_path / "prod.json")
    with subprocess.Popen(
        command("check", "--snapshot", "prod.json"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    ) as process:
        with (tmp_path / "prod.json").open("w"):  # returns after the child has opened it for reading
            reader = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
            # Python loses a signal that arrives while it runs an internal callback, for example during an import.
            until(lambda: _state(reader) == "S", "the command to wait for what it reads")
            yield process, reader
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_sigterm_or_sighup_to_the_parent_ends_both_processes_without_output(waiting, name):
    process, reader = waiting
    process.send_signal(getattr(signal, name))
    out, err = process.communicate(timeout=600)
    assert (process.returncode, out, err) == (-getattr(signal, name), "", "")
    assert not _lives(reader)


def test_sigint_ends_both_processes_with_exit_code_130(waiting):
    process, reader = waiting
    process.send_signal(signal.SIGINT)
    assert process.wait(600) == 130
    assert not _lives(reader)


def test_child_ends_when_the_parent_is_killed(waiting):
    process, reader = waiting
    process.kill()
    assert process.wait(600) == -signal.SIGKILL
    until(lambda: not _lives(reader), "the child's end")


def test_sigkill_of_the_child_is_reported_with_the_likely_memory_shortage(waiting):
    process, reader = waiting
    os.kill(reader, signal.SIGKILL)
    _, err = process.communicate(timeout=600)
    assert process.returncode == -signal.SIGKILL
    assert err == (
        "error: rackspan check --snapshot prod.json was killed (SIGKILL), which the system does where memory is short\n"
    )


def _state(pid):
    """Return the state of the process in /proc: S sleeps, Z is a zombie, None does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


def _lives(pid):
    return _state(pid) not in (None, "Z")


def test_child_receives_sigint_from_the_terminal_once(tmp_path):
    """The terminal sends SIGINT to all its processes. If the parent forwarded it, the child would receive it twice."""
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


def test_parent_keeps_exit_code_and_standard_streams_of_the_command():
    document = json.dumps(cluster(topic("orders", [0, 1, 2])))
    done = subprocess.run(
        command("check", "--snapshot", "-", "-o", "json"), input=document, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert json.loads(done.stdout)["summary"]["nonCompliant"] == 1

"""The demo, which new users run first: it succeeds, checks its own claims, and leaves no processes or files."""

import os
import re
import signal
import subprocess
import sys

import psutil
import pytest
from dev.paths import REPOSITORY
from dev.stack.kafka_cluster import FAST_START
from dev.waiting import eventually

DEMO = [sys.executable, "-m", "dev.demo"]


@pytest.fixture
def environment(tmp_path, kubernetes_binaries, kafka_distribution, helm):
    """An environment with a separate state directory, so that the test does not touch a demo that a user runs."""
    state = str(tmp_path / "state")
    return {**os.environ, "RACKSPAN_STATE": state, "PYTHONUTF8": "1", "JDK_JAVA_OPTIONS": " ".join(FAST_START)}


def processes_of(directory):
    """Return the processes with the directory in their command line: brokers, etcd, the operator, their supervisor."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(str(directory) in part for part in process.info["cmdline"] or ())
    ]


@pytest.mark.nightly
@pytest.mark.timeout(2400)
@pytest.mark.stack
def test_demo_succeeds_and_leaves_no_processes_or_files(environment, tmp_path):
    done = subprocess.run(DEMO, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    checked = re.findall(r"^✓ (\w+)", done.stdout, re.MULTILINE)
    assert {"orders", "payments", "sessions", "ledger", "archive"} <= set(checked)
    assert "✓ every broker reports the rack of its node to Kafka" in done.stdout
    assert "✓ after: all of clicks was read from broker 2" in done.stdout
    assert "●" in done.stdout
    assert "\x1b" not in done.stdout, "the output has colours although it is no terminal"
    eventually(lambda: processes_of(tmp_path) == [], "every process to end")
    assert list((tmp_path / "state/stacks").glob("[!.]*")) == []


@pytest.mark.stack
def test_killed_demo_leaves_no_processes(environment, tmp_path):
    with subprocess.Popen(
        DEMO, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as demo:
        eventually(lambda: len(processes_of(tmp_path)) > 5, "the stack to be starting")
        demo.send_signal(signal.SIGKILL)
    eventually(lambda: processes_of(tmp_path) == [], "every process to end")


@pytest.mark.stack
def test_demo_reports_a_missing_tool_in_one_sentence(environment, tmp_path):
    """The machine has no Go, Maven and Java, and no earlier builds."""
    bare = {
        **environment,
        "RACKSPAN_CACHE": str(tmp_path / "cache"),
        "XDG_DATA_HOME": str(tmp_path),
        "PATH": "/nowhere",
    }
    bare.pop("KUBEBUILDER_ASSETS", None)
    done = subprocess.run(DEMO, cwd=REPOSITORY, env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert re.fullmatch(
        r"error: `go` is not on PATH; it is needed to build Kubernetes\. Install it and try again\.", last
    )

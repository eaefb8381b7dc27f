"""Runs the commands of examples/ci as CI does: in a shell, with a recorded snapshot."""

import os
import subprocess
import sys

import pytest
import yaml
from dev.paths import REPOSITORY
from tests.support.pull_requests import BAD, manifest

CI = REPOSITORY / "examples" / "ci"


def _steps(name):
    document = yaml.safe_load((CI / name).read_text())
    if "topics" in document:
        return document["topics"]["script"]
    return [step["run"] for step in document["jobs"]["plan"]["steps"] if "run" in step]


@pytest.fixture
def run(tmp_path):
    """A function that runs the steps until one fails and returns the exit code and standard error."""
    (tmp_path / "topics").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "rackspan").write_text(f'#!/bin/sh\nexec {sys.executable} -m rackspan "$@"\n')
    (tmp_path / "bin" / "rackspan").chmod(0o755)
    (tmp_path / "cluster.json").write_bytes((REPOSITORY / "examples" / "snapshots" / "prod.json").read_bytes())
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}

    def ran(name, text):
        (tmp_path / "topics" / "wish.yaml").write_text(text)
        script = "\n".join(["set -e", *_steps(name)])
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stderr

    return ran


@pytest.mark.parametrize(
    ("name", "written"), [("github-actions.yaml", "rackspan.sarif"), ("gitlab-ci.yaml", "rackspan.xml")]
)
def test_commands_of_a_ci_example_accept_a_valid_topic_and_reject_an_invalid_one(run, tmp_path, name, written):
    code, told = run(name, manifest(name="new", replicas="replicationFactor: 2"))
    assert code == 0, told
    assert "### 1 topic created" in (tmp_path / "plan.md").read_text()
    assert (tmp_path / written).stat().st_size > 0
    code, told = run(name, BAD["a value that Kafka refuses"].text)
    assert code == 2
    assert "topics/wish.yaml:10: KafkaTopic wish: spec.config retention.ms: " in told

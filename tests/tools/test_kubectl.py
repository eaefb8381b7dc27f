"""The kubectl wrapper of the development code."""

import shlex
from pathlib import Path

from dev.stack.kubectl import Kubectl


def test_wait_until_served_waits_until_discovery_lists_the_resource(tmp_path):
    """Discovery lists a new definition after a delay, and fails as long as an API service is unavailable."""
    answers = ["nodes\nparts.other.com", "!stale GroupVersion discovery", "nodes\nparts.example.com"]
    for number, answer in enumerate(answers):
        (tmp_path / str(number)).write_text(f"echo {shlex.quote(answer.lstrip('!'))}; exit {int(answer[0] == '!')}")
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f'#!/bin/sh\ncd {tmp_path}\ntouch asked; n=$(wc -l < asked); echo "$@" >> asked; . ./$n\n')
    kubectl.chmod(0o755)

    Kubectl(kubectl, Path("kubeconfig")).wait_until_served("parts.example.com")

    assert len((tmp_path / "asked").read_text().splitlines()) == len(answers)

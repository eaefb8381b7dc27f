"""What development code asks of kubectl."""

import shlex
from pathlib import Path

from dev.stack.kubectl import Kubectl


def test_resources_are_waited_for_until_discovery_has_them(tmp_path):
    """A new definition has no conditions for a moment, and an API service that is not available yet is an error."""
    answers = ["nodes\nparts.other.com", "!stale GroupVersion discovery", "nodes\nparts.example.com"]
    for number, answer in enumerate(answers):
        (tmp_path / str(number)).write_text(f"echo {shlex.quote(answer.lstrip('!'))}; exit {int(answer[0] == '!')}")
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f'#!/bin/sh\ncd {tmp_path}\ntouch asked; n=$(wc -l < asked); echo "$@" >> asked; . ./$n\n')
    kubectl.chmod(0o755)

    Kubectl(kubectl, Path("kubeconfig")).wait_until_served("parts.example.com")

    assert len((tmp_path / "asked").read_text().splitlines()) == len(answers)

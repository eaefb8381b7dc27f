"""Kubeconfigs with one cluster and one user."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml


def write_kubeconfig(path: Path, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> Path:
    """Write a kubeconfig with the fields of a cluster, such as `server`, and of a user. Return its path."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "here", "cluster": dict(cluster)}],
        "users": [{"name": "me", "user": dict(user)}],
        "contexts": [{"name": "now", "context": {"cluster": "here", "user": "me"}}],
        "current-context": "now",
    }
    path.write_text(yaml.safe_dump(config))
    return path

"""The measured objects: KafkaTopics of Rackspan, or the objects from which another operator creates topics in Kafka."""

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import yaml

RETENTION = 604_800_000
"""Kafka's default of retention.ms. The value before a change of the config."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Objects of one kind in one namespace.

    `path` is the URL path of the collection. `body` returns an object, from its name, the number of partitions, the
    replication factor, and retention.ms in milliseconds.
    """

    path: str
    body: Callable[[str, int, int, int], dict[str, Any]]


def from_template(text: str, plurals: Mapping[tuple[str, str], str], namespace: str, **fixed: str) -> Kind:
    """Return the kind of a YAML manifest with the variables `$name`, `$partitions`, `$replicas` and `$retention_ms`.

    `$namespace` and the names in `fixed` are also allowed. `plurals` has the plural names by group and kind. Raises
    KeyError for another variable or an unknown kind.
    """
    template = Template(text)

    def body(name: str, partitions: int, replicas: int, retention_ms: int) -> dict[str, Any]:
        values = {"name": name, "partitions": partitions, "replicas": replicas, "retention_ms": retention_ms}
        made = yaml.safe_load(template.substitute(values, namespace=namespace, **fixed))
        made["metadata"] |= {"name": name, "namespace": namespace}
        return made

    example = body("example", 1, 1, RETENTION)
    group, _, version = example["apiVersion"].partition("/")
    plural = plurals[group, example["kind"]]
    return Kind(f"/apis/{group}/{version}/namespaces/{namespace}/{plural}", body)


def plurals_of(definitions: str) -> dict[tuple[str, str], str]:
    """Return the plural names by group and kind, from the output of `kubectl get crd -o json`."""
    specs = [item["spec"] for item in json.loads(definitions)["items"]]
    return {(spec["group"], spec["names"]["kind"]): spec["names"]["plural"] for spec in specs}


def command_line(text: str, kubeconfig: Path, namespace: str, bootstrap: str) -> list[str]:
    """Return the arguments of a command, with `$kubeconfig`, `$namespace` and `$bootstrap` replaced. Uses no shell."""
    values = {"kubeconfig": str(kubeconfig), "namespace": namespace, "bootstrap": bootstrap}
    return [Template(word).substitute(values) for word in shlex.split(text)]


def generation_when_ready(found: Mapping[str, Any]) -> int | None:
    """Return the generation for which an object is Ready, or None if it is not Ready.

    The generation is the `observedGeneration` of the condition or, for some operators, of the status.
    """
    status = found.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition["type"] == "Ready" and condition["status"] == "True":
            seen = condition.get("observedGeneration", status.get("observedGeneration", 0))
            return int(seen)
    return None

"""What is measured: our KafkaTopics, or the objects of any other operator that makes topics in Kafka of them."""

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import yaml

RETENTION = 604_800_000
"""Kafka's own default of retention.ms, which changes of configs start from."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Objects of one kind in one namespace: `path` is their collection, `body` makes one.

    `body` takes a name, the number of partitions, the replication factor, and retention.ms.
    """

    path: str
    body: Callable[[str, int, int, int], dict[str, Any]]


def from_template(text: str, plurals: Mapping[tuple[str, str], str], namespace: str, **fixed: str) -> Kind:
    """A kind by the manifest of one object, in YAML, with `$name`, `$partitions`, `$replicas` and `$retention_ms`.

    `$namespace` and what is in `fixed` may stand there too. `plurals` has the plural name of each kind of a group, by
    both. Raises KeyError for another variable or an unknown kind.
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
    """The plural names by group and kind, of CustomResourceDefinitions as `kubectl get -o json` lists them."""
    specs = [item["spec"] for item in json.loads(definitions)["items"]]
    return {(spec["group"], spec["names"]["kind"]): spec["names"]["plural"] for spec in specs}


def command_line(text: str, kubeconfig: Path, namespace: str, bootstrap: str) -> list[str]:
    """The contender's command, with `$kubeconfig`, `$namespace` and `$bootstrap` replaced, by no shell."""
    values = {"kubeconfig": str(kubeconfig), "namespace": namespace, "bootstrap": bootstrap}
    return [Template(word).substitute(values) for word in shlex.split(text)]


def generation_when_ready(found: Mapping[str, Any]) -> int | None:
    """The generation at which an object is Ready, None where it is not. Some say it per condition, some per status."""
    status = found.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition["type"] == "Ready" and condition["status"] == "True":
            seen = condition.get("observedGeneration", status.get("observedGeneration", 0))
            return int(seen)
    return None

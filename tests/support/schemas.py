"""The custom resource definitions as data: every field, and every rule with its path."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

DIRECTORY = Path(__file__).parents[2] / "crds"
FILES = sorted(DIRECTORY.glob("*.yaml"))


class Field(NamedTuple):
    """A part of a schema. An example of `path` is `spec.levels[].name`. The values of a map are `spec.config{}`."""

    kind: str
    path: str
    schema: Mapping[str, Any]


class Rule(NamedTuple):
    """An x-kubernetes-validations entry, identified by its path and its message."""

    kind: str
    path: str
    message: str


def definitions() -> dict[str, dict[str, Any]]:
    """Return the CustomResourceDefinitions by kind."""
    loaded = [yaml.safe_load(file.read_text()) for file in FILES]
    return {definition["spec"]["names"]["kind"]: definition for definition in loaded}


def version(definition: Mapping[str, Any]) -> dict[str, Any]:
    (only,) = definition["spec"]["versions"]
    return only


def fields() -> Iterator[Field]:
    """Yield every part of every schema, the root (path "") first."""
    for kind, definition in definitions().items():
        yield from _walk(kind, "", version(definition)["schema"]["openAPIV3Schema"])


def rules() -> list[Rule]:
    return [
        Rule(field.kind, field.path, rule["message"])
        for field in fields()
        for rule in field.schema.get("x-kubernetes-validations", ())
    ]


def _walk(kind: str, path: str, schema: Mapping[str, Any]) -> Iterator[Field]:
    yield Field(kind, path, schema)
    for name, child in schema.get("properties", {}).items():
        yield from _walk(kind, f"{path}.{name}" if path else name, child)
    if "items" in schema:
        yield from _walk(kind, f"{path}[]", schema["items"])
    if "additionalProperties" in schema:
        yield from _walk(kind, path + "{}", schema["additionalProperties"])

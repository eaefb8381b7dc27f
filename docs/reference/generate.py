# ruff: noqa: INP001  # a script that stands beside what it writes, and no package
"""Writes the reference of custom resources, of reasons and of client properties, and the README of the chart.

They come from crds/, from two modules of the operator, and from docs/reference/values.md.

Run it after a change of any: `python docs/reference/generate.py`. A test fails while the pages are behind.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from rackspan.api.client_properties import CLIENT_PROPERTIES

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
REASONS = REPOSITORY / "operator" / "rackspan" / "api" / "reasons.py"

Schema = Mapping[str, Any]


def pages() -> dict[str, str]:
    """File name to text of every page."""
    definitions = [yaml.safe_load(path.read_text()) for path in sorted((REPOSITORY / "crds").glob("*.yaml"))]
    kinds = {f"{definition['spec']['names']['plural']}.md": _kind(definition) for definition in definitions}
    chart = {"../../charts/rackspan/README.md": _chart()}
    return {**kinds, "reasons.md": _reasons(REASONS.read_text()), "client-properties.md": _client_properties(), **chart}


def _kind(definition: Schema) -> str:
    group, names = definition["spec"]["group"], definition["spec"]["names"]
    version = definition["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    lines = [
        f"# {names['kind']}",
        "",
        schema["description"],
        "",
        f"`apiVersion: {group}/{version['name']}`, `kind: {names['kind']}`.",
        f"In kubectl: `{names['plural']}.{group}`, or `{names['shortNames'][0]}` for short.",
    ]
    for part, title in (("spec", "Spec"), ("status", "Status")):
        lines += ["", f"## {title}", "", "| field | type | meaning |", "|---|---|---|"]
        lines += [f"| `{path}` | {_type(field)} | {_meaning(path, field)} |" for path, field in _fields(part, schema)]
    rules = [(path, rule["message"]) for path, rule in _rules("", schema)]
    if rules:
        lines += [
            "",
            "## Rules",
            "",
            "The API server refuses an object that breaks one of these, and says so.",
            "",
            "| at | sentence |",
            "|---|---|",
        ]
        lines += [f"| {f'`{path}`' if path else 'the object'} | {_cell(message)} |" for path, message in rules]
    return "\n".join(lines) + "\n"


def _fields(part: str, schema: Schema) -> Iterator[tuple[str, Schema]]:
    below = schema["properties"][part]
    for path, field in _walk("", below):
        if path and "description" in field and not path.endswith(("[]", "{}")):
            yield path, {**field, "required": path.rpartition(".")[2] in _parent(below, path).get("required", ())}


def _parent(schema: Schema, path: str) -> Schema:
    for step in path.split(".")[:-1]:
        name = step.removesuffix("{}")
        bare = name.rstrip("[]")
        schema = schema["properties"][bare]
        for _ in range(name.count("[]")):
            schema = schema["items"]
    return schema


def _rules(path: str, schema: Schema) -> Iterator[tuple[str, Schema]]:
    for at, field in _walk(path, schema):
        for rule in field.get("x-kubernetes-validations", ()):
            yield at, rule


def _walk(path: str, schema: Schema) -> Iterator[tuple[str, Schema]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from _walk(f"{path}.{name}".lstrip("."), child)
    if "items" in schema:
        yield from _walk(f"{path}[]", schema["items"])
    if "additionalProperties" in schema:
        yield from _walk(f"{path}{{}}", schema["additionalProperties"])


def _type(field: Schema) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if "additionalProperties" in field:
        return f"map to {_type(field['additionalProperties'])}"
    if field["type"] == "array":
        return f"list of {_type(field['items'])}"
    return str(field["type"])


def _meaning(path: str, field: Schema) -> str:
    parts = [field["description"]]
    if "enum" in field:
        parts.append("One of " + ", ".join(f"`{value}`" for value in field["enum"]) + ".")
    if not isinstance(field.get("default", {}), dict) and "default" not in field["description"]:
        parts.append(f"Default `{str(field['default']).lower() if field['type'] == 'boolean' else field['default']}`.")
    if field["required"] and "[]" not in path:
        parts.append("**Required.**")
    return _cell(" ".join(parts))


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _reasons(source: str) -> str:
    lines = [
        "# Reasons",
        "",
        "Every reason that a condition of Rackspan can have. A reason is part of the API, and is never renamed.",
    ]
    for line in source.partition("class Reason")[2].splitlines():
        if heading := re.fullmatch(r"    # ([^.]+)\.(?: (.+))?", line):
            lines += ["", f"## {heading[1]}", ""]
            lines += [heading[2], ""] if heading[2] else []
            lines += ["| reason | meaning |", "|---|---|"]
        elif member := re.fullmatch(r'    [A-Z_]+ = "(\w+)"(?:  # noqa: \w+)?  # (.+)', line):
            lines += [f"| `{member[1]}` | {_cell(member[2])} |"]
    return "\n".join(lines) + "\n"


def _chart() -> str:
    """The chart's README: a package holds no other page, so that links lead to the site."""
    chart = yaml.safe_load((REPOSITORY / "charts" / "rackspan" / "Chart.yaml").read_text())
    values = (HERE / "values.md").read_text().partition("\n\n")[2].strip()
    values = re.sub(r"\]\(\.\./([\w/-]+)\.md", rf"]({chart['home']}/\1", values)
    return f"""# Rackspan

{chart["description"]}

Version {chart["version"]}. Kubernetes `{chart["kubeVersion"]}`. Documentation: [{chart["home"]}]({chart["home"]}).

```shell
helm install rackspan rackspan-{chart["version"]}.tgz --namespace rackspan --create-namespace
helm test rackspan --namespace rackspan
```

Built from [source]({chart["sources"][0]}). Report a vulnerability as its SECURITY.md says.

## Values

{values}
"""


def _client_properties() -> str:
    lines = [
        "# Client properties",
        "",
        "What `spec.kafka.properties` of a [RackTopology](racktopologies.md) may set of librdkafka's client, beside",
        "what other fields set. A client runs inside the operator, for everybody: whatever is not on this list is",
        "refused, by the API server and once more by the operator and by scans before they make a client.",
        "",
        "| property | values | meaning |",
        "|---|---|---|",
    ]
    lines += [f"| `{one.name}` | {_cell(one.values)} | {_cell(one.meaning)} |" for one in CLIENT_PROPERTIES.values()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for name, text in pages().items():
        (HERE / name).write_text(text)

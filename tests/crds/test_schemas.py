"""Properties of all definitions, and their agreement with the types into which the operator decodes objects."""

import types
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from tests.support.schemas import definitions, fields, rules, version

from rackspan.api.codec import encode
from rackspan.api.compliancereport import ComplianceReport
from rackspan.api.kafkatopic import KafkaTopic
from rackspan.api.labels import GROUP, VERSION
from rackspan.api.racktopology import RackTopology
from rackspan.api.reassignment import Reassignment, ReassignmentSpec

READ_APART = {ReassignmentSpec: {"plan"}}
"""Fields that the type omits, because they are long and decoded only if they are needed."""
TYPES = {
    "KafkaTopic": KafkaTopic,
    "RackTopology": RackTopology,
    "ComplianceReport": ComplianceReport,
    "Reassignment": Reassignment,
}


def _spec_fields():
    return [field for field in fields() if field.path.startswith("spec")]


@pytest.mark.parametrize("kind", TYPES)
def test_definition_of_a_kind_follows_the_api_conventions(kind):
    definition = definitions()[kind]
    assert definition["spec"]["group"] == GROUP
    assert definition["spec"]["scope"] == "Namespaced"
    assert definition["spec"]["names"]["categories"] == ["rackspan"]
    served = version(definition)
    assert served["name"] == VERSION
    assert served["subresources"] == {"status": {}}
    conditions = served["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["conditions"]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]


def test_only_conditions_are_a_keyed_list_in_a_status():
    """For a keyed list, managedFields records the owner of each item, which needed more space than the status."""
    by_key = [
        f"{field.kind} {field.path}"
        for field in fields()
        if field.path.startswith("status") and field.schema.get("x-kubernetes-list-type") == "map"
    ]
    assert by_key == [f"{kind} status.conditions" for kind in definitions()]


def test_every_field_has_a_description():
    silent = [
        f"{field.kind} {field.path}"
        for field in fields()
        if "description" not in field.schema and field.path != "metadata" and not field.path.endswith(("[]", "{}"))
    ]
    assert silent == []


def test_descriptions_and_messages_end_with_a_full_stop():
    texts = [field.schema["description"] for field in fields() if "description" in field.schema]
    texts += [rule.message for rule in rules()]
    assert [text for text in texts if not text.endswith(".")] == []


def test_every_field_of_a_spec_has_a_limit():
    limits = {"string": "maxLength", "array": "maxItems", "integer": "minimum"}
    unlimited = [
        f"{field.kind} {field.path}"
        for field in _spec_fields()
        if (limit := limits.get(field.schema.get("type", "")))
        and limit not in field.schema
        and "enum" not in field.schema
        and not field.path.endswith("brokerId.offset")  # any number may be added
    ]
    unlimited += [
        f"{field.kind} {field.path}"
        for field in _spec_fields()
        if "additionalProperties" in field.schema and "maxProperties" not in field.schema
    ]
    assert unlimited == []


@pytest.mark.parametrize("part", ["spec", "status"])
@pytest.mark.parametrize("kind", TYPES)
def test_type_has_the_fields_values_and_defaults_of_the_schema(kind, part):
    schema = version(definitions()[kind])["schema"]["openAPIV3Schema"]["properties"][part]
    declared = get_type_hints(TYPES[kind])[part]
    assert list(_differences(part, schema, declared)) == []


def _differences(path: str, schema: Mapping[str, Any], declared: Any):
    """Yield the differences between a type and a schema as sentences."""
    declared = _without_none(declared)
    match schema.get("type"):
        case "object" if "additionalProperties" in schema:
            yield from _differences(path + "{}", schema["additionalProperties"], get_args(declared)[1])
        case "object":
            yield from _object_differences(path, schema, declared)
        case "array":
            assert get_origin(declared) is tuple, path
            yield from _differences(f"{path}[]", schema["items"], get_args(declared)[0])
        case "string" if "enum" in schema:
            assert issubclass(declared, StrEnum), path
            if set(declared) != set(schema["enum"]):
                yield f"{path} is one of {schema['enum']} in the schema and one of {list(declared)} in the type"


def _object_differences(path: str, schema: Mapping[str, Any], declared: Any):
    assert issubclass(declared, msgspec.Struct), path
    by_key = {field.encode_name: field for field in msgspec.structs.fields(declared)}
    if differing := (by_key.keys() ^ schema["properties"].keys()) - READ_APART.get(declared, set()):
        yield f"{path}: not in both are {sorted(differing)}"
    for key, field in by_key.items():
        child = schema["properties"].get(key, {})
        if field.required != (key in schema.get("required", ())):
            yield f"{path}.{key} is required in one and not in the other"
        if child.get("type") != "object" and "default" in child and child["default"] != encode(_default(field)):
            yield f"{path}.{key} is {child['default']} by default in the schema and {_default(field)} in the type"
        yield from _differences(f"{path}.{key}", child, field.type)


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _without_none(declared: Any) -> Any:
    if get_origin(declared) in (Union, types.UnionType):
        rest = [member for member in get_args(declared) if member is not types.NoneType]
        return rest[0] if len(rest) == 1 else declared
    return declared

"""Reads what msgspec refuses once more, by the rules of the Kubernetes API, or says in a SpecError what is wrong.

To the API a key that is null is absent, and msgspec takes null for a value. Its errors name neither the key of a map
nor the values of an enum. Objects that need this are rare, so it need not be fast.
"""

import reprlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo

from rackspan.api.spec_errors import SpecError
from rackspan.api.times import Time

_SCALARS = {
    str: "a string",
    int: "a whole number",
    bool: "true or false",
    int | str: "a whole number or a string",
    Time: "a time such as 2026-01-31T12:00:00Z",
}


@cache
def fields_of(cls: type[msgspec.Struct]) -> tuple[FieldInfo, ...]:
    """The fields of a struct: their names, keys and types."""
    return msgspec.structs.fields(cls)


def decode_or_explain(declared: Any, data: object, path: str) -> Any:
    """A value of the type `declared`. Raises SpecError with the path of the first field that is wrong."""
    declared = _without_none(declared)
    origin, args = get_origin(declared), get_args(declared)
    if origin is tuple and isinstance(data, list | tuple):
        return tuple(decode_or_explain(args[0], item, f"{path}[{index}]") for index, item in enumerate(data))
    if origin is Mapping and isinstance(data, Mapping):
        return {str(key): decode_or_explain(args[1], item, f"{path}[{key}]") for key, item in data.items()}
    if _is_struct(declared) and isinstance(data, Mapping):
        return _struct(declared, data, path)
    try:
        return msgspec.convert(_time(data) if declared == Time else data, declared)
    except ValueError:
        raise SpecError(path, f"must be {_what(declared)}, not {reprlib.repr(data)}.") from None


def unknown_fields(declared: Any, data: object, path: str) -> Iterator[str]:
    """Give the paths of the keys that the type `declared` does not know; what is of another type is passed over."""
    declared = _without_none(declared)
    origin, args = get_origin(declared), get_args(declared)
    if origin is tuple and isinstance(data, list | tuple):
        for index, item in enumerate(data):
            yield from unknown_fields(args[0], item, f"{path}[{index}]")
    elif origin is Mapping and isinstance(data, Mapping):
        for key, item in data.items():
            yield from unknown_fields(args[1], item, f"{path}[{key}]")
    elif _is_struct(declared) and isinstance(data, Mapping):
        known = {field.encode_name: field.type for field in fields_of(declared)}
        for key, item in data.items():
            if key not in known:
                yield f"{path}.{key}"
            else:
                yield from unknown_fields(known[key], item, f"{path}.{key}")


def _struct(declared: type[msgspec.Struct], data: Mapping[str, object], path: str) -> msgspec.Struct:
    values: dict[str, Any] = {}
    for field in fields_of(declared):
        item = data.get(field.encode_name)
        if item is not None:
            values[field.name] = decode_or_explain(field.type, item, f"{path}.{field.encode_name}")
        elif field.required:
            raise SpecError(f"{path}.{field.encode_name}", "is required.")
    return declared(**values)


def _time(data: object) -> object:
    """A time that is written otherwise than RFC 3339 has it; one without a zone is in UTC."""
    moment = datetime.fromisoformat(data) if isinstance(data, str) else data
    return moment.replace(tzinfo=UTC) if isinstance(moment, datetime) and moment.tzinfo is None else moment


def _what(declared: Any) -> str:
    if declared in _SCALARS:
        return _SCALARS[declared]
    if isinstance(declared, type) and issubclass(declared, StrEnum):
        return f"one of {', '.join(declared)}"
    return "a list" if get_origin(declared) is tuple else "an object"


def _is_struct(declared: Any) -> bool:
    return isinstance(declared, type) and issubclass(declared, msgspec.Struct)


def _without_none(declared: Any) -> Any:
    """The type of a value that is there."""
    if get_origin(declared) not in (Union, UnionType):
        return declared
    return Union[tuple(one for one in get_args(declared) if one is not NoneType)]  # noqa: UP007 - of a computed number

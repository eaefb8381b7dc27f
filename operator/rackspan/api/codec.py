"""Conversion of types from and to the JSON of the Kubernetes API, by msgspec. The declaration of a type is its schema.

`snake_case` fields are `camelCase` keys. `None` is an absent key. Unknown keys are ignored, so that an older operator
can read objects that a newer schema has stored.
"""

import reprlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Self, TypeAlias, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta
from msgspec.structs import FieldInfo

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

Time: TypeAlias = Annotated[datetime, Meta(tz=True)]
"""The type of a field with a time and its time zone."""


def timestamp(when: datetime) -> str:
    """Return a time in RFC 3339 format, in UTC and whole seconds."""
    try:
        moment = when.astimezone(UTC)
    except OverflowError:  # near the ends of the calendar; any client may write such a time
        moment = when
    return moment.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"  # strftime omits leading zeros of years


def moment_of(text: object) -> datetime | None:
    """Return the time in UTC from a text that any client may have written, or None if the text is not a time."""
    try:
        return datetime.fromisoformat(str(text)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


class SpecError(ValueError):
    """An object cannot be read: a field is missing, or does not match the custom resource definition.

    The API server rejects such objects. So this occurs only if the schema was less strict when the object was stored,
    or if the object comes from a file. `path` is the field, such as `spec.placement.spread[0].level`.
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path} {message}")
        self.path = path
        self.message = message


def camel(name: str) -> str:
    """Return the JSON key of a field: `minInSyncReplicas` for `min_in_sync_replicas`. Omit a trailing underscore."""
    head, *rest = name.rstrip("_").split("_")
    return head + "".join(word.capitalize() for word in rest)


class ApiStruct(msgspec.Struct, frozen=True, rename=camel):
    """A part of an object of the Kubernetes API. `msgspec.structs.replace` gives a copy with other values."""


class StatusStruct(ApiStruct, frozen=True):
    """The status of a kind: every field has a default."""

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Return the status of an object. Fields that cannot be read count as absent."""
        return decode_leniently(cls, data)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of `status`, without the keys that have no value."""
        result: dict[str, Any] = encode(self)
        return result


def decode(cls: type[T], data: object, path: str) -> T:
    """Convert JSON to a type. `path` is the place of the JSON in the object, such as `spec`.

    Raises SpecError with the path of the first field that is missing or has another type.
    """
    try:
        return msgspec.convert(data, cls)
    except ValueError:  # a ValidationError, or a UnicodeError for text that UTF-8 cannot hold
        value: T = decode_or_explain(cls, data, path)
        return value


def decode_leniently(cls: type[S], data: object) -> S:
    """Convert a JSON object to a struct whose fields all have defaults. Ignore invalid fields.

    For a status: an unreadable summary must not hide the topic id, which prevents the deletion of a foreign topic.
    """
    if not isinstance(data, Mapping):
        return cls()
    try:
        return msgspec.convert(data, cls)
    except ValueError:  # a ValidationError, or a UnicodeError for text that UTF-8 cannot hold
        values: dict[str, Any] = {}
        for field in fields_of(cls):
            if (item := data.get(field.encode_name)) is not None:
                try:
                    values[field.name] = decode(field.type, item, field.encode_name)
                except SpecError:
                    continue
        return cls(**values)


def encode(value: object) -> Any:
    """Convert a value to JSON. A struct becomes a dict without keys whose values are None, a time a text in UTC."""
    return _without_none(msgspec.to_builtins(value, builtin_types=(datetime,)))


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, tuple | list):
        return [_without_none(item) for item in value]
    return timestamp(value) if isinstance(value, datetime) else value


# --- a second attempt at what msgspec rejects ------------------------------------------------------------------------
#
# In the API a key with the value null is absent, but msgspec treats null as a value. The errors of msgspec name neither
# the key of a map nor the values of an enum. Few objects need the code below, so it need not be fast.

_SCALARS = {
    str: "a string",
    int: "a whole number",
    bool: "true or false",
    int | str: "a whole number or a string",
    Time: "a time such as 2026-01-31T12:00:00Z",
}


@cache
def fields_of(cls: type[msgspec.Struct]) -> tuple[FieldInfo, ...]:
    """Return the fields of a struct: their names, keys and types."""
    return msgspec.structs.fields(cls)


def decode_or_explain(declared: Any, data: object, path: str) -> Any:
    """Convert JSON to the type `declared`. Raises SpecError with the path of the first invalid field."""
    declared = _present(declared)
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
    """Yield the paths of the keys that the type `declared` does not have. Ignore values of another type."""
    declared = _present(declared)
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
    """Return the time of a text that is not in RFC 3339 format. A time without a time zone is in UTC."""
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


def _present(declared: Any) -> Any:
    """Return the type without None."""
    if get_origin(declared) not in (Union, UnionType):
        return declared
    return Union[tuple(one for one in get_args(declared) if one is not NoneType)]  # noqa: UP007 - of a computed number

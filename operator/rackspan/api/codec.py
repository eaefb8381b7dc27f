"""Types to and from the JSON of the Kubernetes API, by msgspec: the declaration of a type is its schema.

`snake_case` fields are `camelCase` keys. `None` is an absent key. Unknown keys are passed over, so that an older
operator can read what a newer schema stored.
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
"""A moment with its time zone, as a field of an object is declared."""


def timestamp(when: datetime) -> str:
    """RFC 3339 in UTC, to the second."""
    try:
        moment = when.astimezone(UTC)
    except OverflowError:  # near the ends of the calendar, as anybody may have written it
        moment = when
    return moment.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"  # strftime cuts the zeros of early years


def moment_of(text: object) -> datetime | None:
    """A moment in UTC from what anybody may have written; None where that is none."""
    try:
        return datetime.fromisoformat(str(text)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


class SpecError(ValueError):
    """An object cannot be read: a field is missing, or is not what the custom resource says.

    The API server refuses such objects, so this is met only where a schema was looser when the object was stored, or
    where the object comes from a file. `path` is the field, such as `spec.placement.spread[0].level`.
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path} {message}")
        self.path = path
        self.message = message


def camel(name: str) -> str:
    """The JSON key of a field: `min_in_sync_replicas` is `minInSyncReplicas`, and a trailing underscore is dropped."""
    head, *rest = name.rstrip("_").split("_")
    return head + "".join(word.capitalize() for word in rest)


class ApiStruct(msgspec.Struct, frozen=True, rename=camel):
    """A part of an object of the Kubernetes API. `msgspec.structs.replace` gives a copy with other values."""


class StatusStruct(ApiStruct, frozen=True):
    """The status of a kind: every field has a default."""

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """The status of an object; what cannot be read is taken to be absent."""
        return decode_leniently(cls, data)

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `status`, without the keys that have no value."""
        result: dict[str, Any] = encode(self)
        return result


def decode(cls: type[T], data: object, path: str) -> T:
    """A type from its JSON; `path` is where in the object that stands, such as `spec`.

    Raises SpecError with the path of the first field that is missing or of another type.
    """
    try:
        return msgspec.convert(data, cls)
    except ValueError:  # a ValidationError, or a UnicodeError for text that UTF-8 cannot hold
        value: T = decode_or_explain(cls, data, path)
        return value


def decode_leniently(cls: type[S], data: object) -> S:
    """A struct whose fields all have defaults from a JSON object, whose bad fields are passed over.

    For a status: one unreadable summary must not hide the topic id that guards against deleting somebody else's topic.
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
    """The JSON of a value: a struct is a dict without the keys whose values are None, a time is in UTC."""
    return _without_none(msgspec.to_builtins(value, builtin_types=(datetime,)))


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, tuple | list):
        return [_without_none(item) for item in value]
    return timestamp(value) if isinstance(value, datetime) else value


# --- what msgspec refuses, once more ---------------------------------------------------------------------------------
#
# To the API a key that is null is absent, and msgspec takes null for a value. Its errors name neither the key of a map
# nor the values of an enum. Objects that need this are rare, so it need not be fast.

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
    """Give the paths of the keys that the type `declared` does not know; what is of another type is passed over."""
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


def _present(declared: Any) -> Any:
    """The type of a value that is there."""
    if get_origin(declared) not in (Union, UnionType):
        return declared
    return Union[tuple(one for one in get_args(declared) if one is not NoneType)]  # noqa: UP007 - of a computed number

"""Dataclasses to and from the JSON of the Kubernetes API: the declaration of a type is its schema.

`snake_case` fields are `camelCase` keys. `None` is an absent key. Unknown keys are passed over, so that an older
operator can read what a newer schema stored. Decoders are built once per type.
"""

import dataclasses
import reprlib
import types
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Any, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from rackspan.api.errors import SpecError
from rackspan.api.times import timestamp

T = TypeVar("T")
Decoder = Callable[[object, str], Any]


def decode(cls: type[T], data: object, path: str) -> T:
    """The dataclass `cls` from a JSON object.

    Raises SpecError with the path of the first field that is missing or of another type.
    """
    declared: Any = cls
    value: T = _decoder(declared)(data, path)
    return value


def decode_leniently(cls: type[T], data: object) -> T:
    """The dataclass `cls`, all of whose fields have defaults, from a JSON object whose bad fields are passed over.

    For a status: one unreadable summary must not hide the topic id that guards against deleting somebody else's topic.
    """
    if not isinstance(data, Mapping):
        return cls()
    values: dict[str, Any] = {}
    declared: Any = cls
    for name, key, decoder, _ in _fields(declared):
        if data.get(key) is not None:
            try:
                values[name] = decoder(data[key], key)
            except SpecError:
                continue
    return cls(**values)


class StatusCodec:
    """Gives the dataclass of a kind's status its two directions."""

    __slots__ = ()

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """The status of an object; what cannot be read is taken to be absent."""
        return decode_leniently(cls, data)

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `status`, without the keys that have no value."""
        result: dict[str, Any] = encode(self)
        return result


def encode(value: Any) -> Any:
    """The JSON of a dataclass: a dict without the keys whose values are None."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, datetime):
        return timestamp(value)
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    declared: Any = type(value)
    items = ((key, getattr(value, name)) for name, key, _, _ in _fields(declared))
    return {key: encode(item) for key, item in items if item is not None}


def camel(name: str) -> str:
    """The JSON key of a field: `min_in_sync_replicas` is `minInSyncReplicas`, and a trailing underscore is dropped."""
    head, *rest = name.rstrip("_").split("_")
    return head + "".join(word.capitalize() for word in rest)


@cache
def _fields(cls: Any) -> tuple[tuple[str, str, Decoder, bool], ...]:
    hints = get_type_hints(cls)
    return tuple(
        (
            field.name,
            camel(field.name),
            _decoder(hints[field.name]),
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
        )
        for field in dataclasses.fields(cls)
    )


@cache
def _decoder(declared: Any) -> Decoder:
    origin, args = get_origin(declared), get_args(declared)
    if origin in (Union, types.UnionType):
        return _union(args)
    if origin is tuple:
        return _array(_decoder(args[0]))
    if origin is Mapping:
        return _object(_decoder(args[1]))
    if dataclasses.is_dataclass(declared):
        return _dataclass(declared)
    if isinstance(declared, type) and issubclass(declared, StrEnum):
        return _enum(declared)
    return _SCALARS[declared]


def _union(members: tuple[Any, ...]) -> Decoder:
    rest = tuple(member for member in members if member is not types.NoneType)
    if len(rest) == 1:
        return _decoder(rest[0])  # None never reaches a decoder: an absent key takes the field's default
    if set(rest) == {int, str}:
        return _integer_or_string
    raise TypeError(f"no decoder for a union of {members}")


def _dataclass(cls: Any) -> Decoder:
    def read(data: object, path: str) -> Any:
        if not isinstance(data, Mapping):
            raise SpecError(path, f"must be an object, not {_describe(data)}.")
        values: dict[str, Any] = {}
        for name, key, decoder, required in _fields(cls):
            item = data.get(key)
            if item is not None:
                values[name] = decoder(item, f"{path}.{key}")
            elif required:
                raise SpecError(f"{path}.{key}", "is required.")
        return cls(**values)

    return read


def _array(item: Decoder) -> Decoder:
    def read(data: object, path: str) -> tuple[Any, ...]:
        if not isinstance(data, list | tuple):
            raise SpecError(path, f"must be a list, not {_describe(data)}.")
        return tuple(item(value, f"{path}[{index}]") for index, value in enumerate(data))

    return read


def _object(item: Decoder) -> Decoder:
    def read(data: object, path: str) -> Mapping[str, Any]:
        if not isinstance(data, Mapping):
            raise SpecError(path, f"must be an object, not {_describe(data)}.")
        return {str(key): item(value, f"{path}[{key}]") for key, value in data.items()}

    return read


def _enum(cls: type[StrEnum]) -> Decoder:
    def read(data: object, path: str) -> StrEnum:
        try:
            return cls(data)  # type: ignore[arg-type]  # any other type is refused below
        except ValueError:
            raise SpecError(path, f"must be one of {', '.join(cls)}, not {_describe(data)}.") from None

    return read


def _string(data: object, path: str) -> str:
    if not isinstance(data, str):
        raise SpecError(path, f"must be a string, not {_describe(data)}.")
    return data


def _integer(data: object, path: str) -> int:
    if not isinstance(data, int) or isinstance(data, bool):
        raise SpecError(path, f"must be a whole number, not {_describe(data)}.")
    return data


def _boolean(data: object, path: str) -> bool:
    if not isinstance(data, bool):
        raise SpecError(path, f"must be true or false, not {_describe(data)}.")
    return data


def _integer_or_string(data: object, path: str) -> int | str:
    if not isinstance(data, int | str) or isinstance(data, bool):
        raise SpecError(path, f"must be a whole number or a string, not {_describe(data)}.")
    return data


def _time(data: object, path: str) -> datetime:
    if isinstance(data, datetime):
        return data
    try:
        moment = datetime.fromisoformat(_string(data, path))
    except ValueError:
        raise SpecError(path, f"must be a time such as 2026-01-31T12:00:00Z, not {_describe(data)}.") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


_SCALARS: dict[Any, Decoder] = {
    str: _string,
    int: _integer,
    bool: _boolean,
    datetime: _time,
}


def _describe(data: object) -> str:
    return reprlib.repr(data)

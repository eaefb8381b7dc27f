"""Types to and from the JSON of the Kubernetes API, by msgspec: the declaration of a type is its schema.

`snake_case` fields are `camelCase` keys. `None` is an absent key. Unknown keys are passed over, so that an older
operator can read what a newer schema stored.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self, TypeVar

import msgspec

from rackspan.api.decode_errors import decode_or_explain, fields_of
from rackspan.api.spec_errors import SpecError
from rackspan.api.times import timestamp

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


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

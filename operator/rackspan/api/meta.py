"""The key and the metadata of every Kubernetes object, and the common base of Rackspan's own kinds."""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, NamedTuple, Self

from msgspec import field
from msgspec.structs import replace

from rackspan.api.codec import ApiStruct, SpecError, Time, decode, fields_of
from rackspan.api.labels import PAUSED, READ_ANNOTATIONS

_YES = frozenset({"true", "yes", "on", "1", "y", "t", ""})
"""The ways to write yes in YAML. `kubectl annotate rst orders rackspan.dev/paused=` makes the value empty."""
_NO = frozenset({"false", "no", "off", "0", "n", "f"})
_MAX_SHOWN = 40
_LONGEST_ANNOTATION = 1024
"""In characters. A single hash, id, name or time is shorter."""
_MOST_FINALIZERS = 50
_MOST_OWNERS = 50
_LONGEST_MANAGER = 128
"""In characters, by the API server's own rule."""


class ObjectKey(NamedTuple):
    """The namespace and name of an object whose kind is known from the context. Written as `namespace/name`."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class OwnerReference(ApiStruct, frozen=True):
    """An object with which this object is deleted."""

    uid: str = ""


class Meta(ApiStruct, frozen=True):
    """The part of `metadata` that decisions need.

    `creation_timestamp` is None for an object that was read from a file. `deletion_timestamp` is set once a client
    has requested the deletion.
    """

    name: str
    namespace: str = "default"
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    """The annotations that Rackspan reads, cut to _LONGEST_ANNOTATION where they have a single value."""
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()
    """The first _MOST_OWNERS of them."""
    manager: str = ""
    """The last writer of the spec, as recorded by the API server: the name of a program, such as `kubectl-edit`."""

    @classmethod
    def from_object(cls, obj: Mapping[str, object], lists: Collection[str] = ()) -> Self:
        """Return the metadata of a Kubernetes object, with limits for annotations and finalizers.

        `lists` are the annotations to keep whole; the API server allows 256 KiB for all annotations of an object.
        Raises SpecError, also if there are too many finalizers: the operator may only write back all of them.
        """
        metadata = obj.get("metadata", {})
        found = decode(cls, metadata, "metadata")
        if len(found.finalizers) > _MOST_FINALIZERS:
            raise SpecError("metadata.finalizers", f"has more than {_MOST_FINALIZERS} entries")
        given = found.annotations
        annotations = {
            name: given[name] if name in lists else given[name][:_LONGEST_ANNOTATION]
            for name in READ_ANNOTATIONS
            if name in given
        }
        manager, owners = _manager(metadata)[:_LONGEST_MANAGER], found.owner_references[:_MOST_OWNERS]
        return replace(found, manager=manager, owner_references=owners, annotations=annotations)

    @property
    def key(self) -> ObjectKey:
        """The object's namespace and name."""
        return ObjectKey(self.namespace, self.name)

    @property
    def age(self) -> tuple[str, str]:
        """A sort key: oldest objects first. Kubernetes' times are in whole seconds, so the uid breaks ties.

        An object that was read from a file has no time, and comes last.
        """
        return str(self.creation_timestamp or "later"), self.uid

    @property
    def is_deleting(self) -> bool:
        """Whether a client has requested the deletion of the object."""
        return self.deletion_timestamp is not None

    @property
    def is_paused(self) -> bool:
        """Whether the annotation `rackspan.dev/paused` pauses the object. An unclear value pauses it, too."""
        value = self.annotations.get(PAUSED)
        return value is not None and _plain(value) not in _NO

    @property
    def unclear_pause(self) -> str | None:
        """A message if the value of that annotation is neither yes nor no, else None."""
        value = self.annotations.get(PAUSED)
        if value is None or _plain(value) in _YES | _NO:
            return None
        shown = value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}..."
        return (
            f"the annotation {PAUSED} is {shown!a}, which is neither yes nor no: write true to pause, or false; until "
            "then it pauses"
        )


class ApiObject(ApiStruct, frozen=True):
    """An object of one of Rackspan's kinds. Each subclass has a `spec`, and a `status` that is a StatusStruct."""

    meta: Meta
    list_annotations: ClassVar[tuple[str, ...]] = ()
    """The annotations of the kind that hold lists."""

    @classmethod
    def from_object(cls, obj: Mapping[str, Any]) -> Self:
        """Return an object from its JSON. Raises SpecError with the path of the field that cannot be read."""
        parts = cls._all_but_spec(obj)
        parts["spec"] = decode(cls._types()["spec"], obj.get("spec", {}), "spec")
        return cls(**parts)

    def with_unread_spec(self, obj: Mapping[str, Any]) -> Self:
        """Return this object with the metadata and the status of newer JSON. Raises SpecError about the metadata."""
        return replace(self, **self._all_but_spec(obj))

    @classmethod
    def _all_but_spec(cls, obj: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "meta": Meta.from_object(obj, cls.list_annotations),
            "status": cls._types()["status"].from_dict(obj.get("status")),
        }

    @classmethod
    def _types(cls) -> dict[str, Any]:
        return {field.name: field.type for field in fields_of(cls)}

    @property
    def key(self) -> ObjectKey:
        """The object's namespace and name."""
        return self.meta.key


def _plain(value: str) -> str:
    return value.strip().lower()


def _manager(metadata: object) -> str:
    """Return the manager of the latest entry in `managedFields` about the spec; empty if there is no such entry."""
    entries = metadata.get("managedFields") if isinstance(metadata, Mapping) else None
    latest: Mapping[str, object] = max(
        (entry for entry in entries or () if "f:spec" in (entry.get("fieldsV1") or {})),
        key=lambda entry: str(entry.get("time", "")),
        default={},
    )
    return str(latest.get("manager", ""))

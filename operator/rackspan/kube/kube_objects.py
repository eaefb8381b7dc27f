"""What is decoded of Kubernetes' answers: of each object what Rackspan reads, so that nothing else takes memory.

An annotation is anybody's, and up to 256 KiB; labels, finalizers and managed fields are bounded by nothing but the size
of an object. What is not named here is skipped in the text of the answer.
"""

from __future__ import annotations

from collections.abc import Iterator  # noqa: TC003
from typing import Any, Final, Generic, TypedDict, TypeVar

import msgspec

from rackspan.api.labels import RACK_FILE_OF, READ_ANNOTATIONS, TOPOLOGY_UID

T = TypeVar("T")

WHOLE: Final = "application/json"
METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""Of one object, and of the events of a watch."""


class ListMetadata(msgspec.Struct):
    """Where a list goes on, and up to which version it shows objects."""

    resourceVersion: str = ""  # noqa: N815
    continue_: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, Generic[T]):
    """A part of a list. A list of metadata that is empty is null."""

    metadata: ListMetadata = msgspec.field(default_factory=ListMetadata)
    items: list[T] | None = None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items or ())


class _Nothing(TypedDict):
    """Whatever an object holds, nothing of it."""


_SpecOnly = TypedDict("_SpecOnly", {"f:spec": _Nothing | None}, total=False)
_Annotations: Any = TypedDict("_Annotations", dict.fromkeys(READ_ANNOTATIONS, str), total=False)  # type: ignore[misc]
_RackFileAnnotations = TypedDict("_RackFileAnnotations", {RACK_FILE_OF: str}, total=False)  # type: ignore[misc]
_RackFileLabels = TypedDict("_RackFileLabels", {TOPOLOGY_UID: str}, total=False)  # type: ignore[misc]


class _ManagedFields(TypedDict, total=False):
    manager: str
    time: str | None
    fieldsV1: _SpecOnly | None


class _Metadata(TypedDict, total=False):
    name: str
    namespace: str
    uid: str
    resourceVersion: str


class _OwnMetadata(_Metadata, total=False):
    generation: int
    creationTimestamp: str | None
    deletionTimestamp: str | None
    annotations: _Annotations | None
    finalizers: list[str] | None
    managedFields: list[_ManagedFields] | None


class OwnObject(TypedDict, total=False):
    """An object of one of Rackspan's kinds; of metadata only, without spec and status."""

    apiVersion: str
    kind: str
    metadata: _OwnMetadata
    spec: Any
    status: Any


class _LocatedMetadata(_Metadata, total=False):
    labels: dict[str, str] | None
    annotations: dict[str, str] | None


class _PodSpec(TypedDict, total=False):
    nodeName: str


class _PodStatus(TypedDict, total=False):
    phase: str


class Pod(TypedDict, total=False):
    """A Pod, or of a Node or Namespace the metadata."""

    metadata: _LocatedMetadata
    spec: _PodSpec
    status: _PodStatus


class _LabelledMetadata(_Metadata, total=False):
    labels: dict[str, str] | None


class _HostSpec(TypedDict, total=False):
    nodeName: str
    hostNetwork: bool


class _PodIp(TypedDict):
    ip: str


class _NodeAddress(TypedDict):
    address: str


class _HostStatus(TypedDict, total=False):
    addresses: list[_NodeAddress] | None
    podIPs: list[_PodIp] | None


class Host(TypedDict, total=False):
    """A Node or a Pod with its labels and its addresses; a Namespace with its labels."""

    metadata: _LabelledMetadata
    spec: _HostSpec
    status: _HostStatus


class _RackFileMetadata(_Metadata, total=False):
    annotations: _RackFileAnnotations | None
    labels: _RackFileLabels | None


class RackFile(TypedDict, total=False):
    """The metadata of a ConfigMap that publishes racks."""

    metadata: _RackFileMetadata


class Event(msgspec.Struct):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


ANY_PAGE: Final = msgspec.json.Decoder(Page[dict[str, Any]])
OWN_PAGE: Final = msgspec.json.Decoder(Page[OwnObject])
POD_PAGE: Final = msgspec.json.Decoder(Page[Pod])
HOST_PAGE: Final = msgspec.json.Decoder(Page[Host])
RACK_FILE_PAGE: Final = msgspec.json.Decoder(Page[RackFile])
OWN: Final = msgspec.json.Decoder(OwnObject)
POD: Final = msgspec.json.Decoder(Pod)
EVENT: Final = msgspec.json.Decoder(Event)


def reduced_page(text: bytes) -> dict[str, Any]:
    """A page of one of Rackspan's kinds as JSON, reduced to what is read."""
    page = OWN_PAGE.decode(text)
    metadata = {"resourceVersion": page.metadata.resourceVersion, "continue": page.metadata.continue_}
    return {"metadata": metadata, "items": list(page)}


def reduced_event(line: bytes) -> bytes:
    """An event of a watch of one of Rackspan's kinds, reduced to what is read."""
    event = EVENT.decode(line)
    if event.type == "ERROR":
        return line
    return msgspec.json.encode({"type": event.type, "object": OWN.decode(event.object)})

"""Decoders for responses of the API server. They decode only the fields that Rackspan reads, to save memory.

Any client can write annotations, up to 256 KiB of them. Only the size of an object limits its labels, finalizers and
managed fields. The decoders skip every field that is not declared here.
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
"""For one object, and for the events of a watch."""


class ListMetadata(msgspec.Struct):
    """The resourceVersion of a list, and the token for its next page."""

    resourceVersion: str = ""  # noqa: N815
    continue_: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, Generic[T]):
    """A page of a list. In an empty list of metadata, `items` is null."""

    metadata: ListMetadata = msgspec.field(default_factory=ListMetadata)
    items: list[T] | None = None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items or ())


class _Nothing(TypedDict):
    """A JSON object of which no field is decoded."""


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


class _OwnerReference(TypedDict, total=False):
    uid: str


class _OwnMetadata(_Metadata, total=False):
    generation: int
    creationTimestamp: str | None
    deletionTimestamp: str | None
    annotations: _Annotations | None
    finalizers: list[str] | None
    managedFields: list[_ManagedFields] | None
    ownerReferences: list[_OwnerReference] | None


class OwnObject(TypedDict, total=False):
    """An object of one of Rackspan's kinds, without spec and status if only the metadata was requested."""

    apiVersion: str
    kind: str
    metadata: _OwnMetadata
    spec: Any
    status: Any


class _LabelledMetadata(_Metadata, total=False):
    labels: dict[str, str] | None


class _LocatedMetadata(_LabelledMetadata, total=False):
    annotations: dict[str, str] | None


class _PodSpec(TypedDict, total=False):
    nodeName: str


class _PodStatus(TypedDict, total=False):
    phase: str


class Pod(TypedDict, total=False):
    """A Pod, or the metadata of a Node or Namespace."""

    metadata: _LocatedMetadata
    spec: _PodSpec
    status: _PodStatus


class _HostSpec(_PodSpec, total=False):
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
    """Return a page of one of Rackspan's kinds as JSON, reduced to the fields that Rackspan reads."""
    page = OWN_PAGE.decode(text)
    metadata = {"resourceVersion": page.metadata.resourceVersion, "continue": page.metadata.continue_}
    return {"metadata": metadata, "items": list(page)}


def reduced_event(line: bytes) -> bytes:
    """Return a watch event of one of Rackspan's kinds, reduced to the fields that Rackspan reads."""
    event = EVENT.decode(line)
    if event.type == "ERROR":
        return line
    return msgspec.json.encode({"type": event.type, "object": OWN.decode(event.object)})

"""Paths of the Kubernetes API. Only this module builds them, from names that it has checked.

A user can write any name into a custom resource, and the operator sends requests with its own rights. A client
collapses `..` in a path, so a Secret named `../../other/secrets/db` would be in another namespace. Admission rejects
such names. This module also rejects names that were stored before that, or that a CRD of another version accepts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NewType
from urllib.parse import quote, urlencode

from rackspan.api import compliancereport, kafkatopic, racktopology, reassignment
from rackspan.api.labels import GROUP, VERSION
from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, FailureError, Remedy

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rackspan.api.meta import ObjectKey

ApiPath = NewType("ApiPath", str)
"""A path, with or without a query, that this module built. `Rest` accepts no other strings."""

_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_LONGEST_NAMESPACE: Final = 63
_LONGEST_NAME: Final = 253
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class Resource:
    """The API resource of one kind: its root path and its plural name, such as `/apis/batch/v1` and `jobs`."""

    root: str
    plural: str

    def collection(self) -> ApiPath:
        """Return the path of all objects in all namespaces, or of all objects of a cluster-scoped kind."""
        return ApiPath(f"{self.root}/{self.plural}")

    def in_namespace(self, namespace: str) -> ApiPath:
        """Return the path of all objects in one namespace. Raises FailureError if the name is invalid."""
        return ApiPath(f"{self.root}/namespaces/{_namespace(namespace)}/{self.plural}")

    def collections(self, namespaces: Collection[str]) -> tuple[ApiPath, ...]:
        """Return the path of each namespace's objects, or the path of all objects if no namespace is given."""
        return tuple(self.in_namespace(namespace) for namespace in namespaces) or (self.collection(),)

    def cluster_scoped(self, name: str) -> ApiPath:
        """Return the path of one cluster-scoped object. Raises FailureError if the name is invalid."""
        return ApiPath(f"{self.root}/{self.plural}/{_name(name)}")

    def object(self, key: ObjectKey, subresource: str = "") -> ApiPath:
        """Return the path of an object or its subresource such as `status`. Raises FailureError for an invalid name."""
        whole = f"{self.in_namespace(key.namespace)}/{_name(key.name)}"
        return ApiPath(f"{whole}/{subresource}" if subresource else whole)

    def collection_of_one(self, key: ObjectKey) -> ApiPath:
        """Return a path that lists only this object, for a client that may list but not get. Raises FailureError."""
        path = self.in_namespace(key.namespace) if key.namespace else self.collection()
        return with_query(path, {"fieldSelector": f"metadata.name={_name(key.name)}"})


RACKSPAN_API: Final = ApiPath(f"/apis/{GROUP}/{VERSION}")
"""The path that lists which resources of rackspan.dev the API server serves."""
TOPICS: Final = Resource(RACKSPAN_API, kafkatopic.PLURAL)
TOPOLOGIES: Final = Resource(RACKSPAN_API, racktopology.PLURAL)
REPORTS: Final = Resource(RACKSPAN_API, compliancereport.PLURAL)
REASSIGNMENTS: Final = Resource(RACKSPAN_API, reassignment.PLURAL)
SECRETS: Final = Resource("/api/v1", "secrets")
EVENTS: Final = Resource("/api/v1", "events")
PODS: Final = Resource("/api/v1", "pods")
NODES: Final = Resource("/api/v1", "nodes")
CONFIG_MAPS: Final = Resource("/api/v1", "configmaps")
NAMESPACES: Final = Resource("/api/v1", "namespaces")
DEFINITIONS: Final = Resource("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions")
DEPLOYMENTS: Final = Resource("/apis/apps/v1", "deployments")
LEASES: Final = Resource("/apis/coordination.k8s.io/v1", "leases")
JOBS: Final = Resource("/apis/batch/v1", "jobs")
SPARK_APPLICATIONS: Final = Resource("/apis/sparkoperator.k8s.io/v1beta2", "sparkapplications")


def with_query(path: ApiPath, query: Mapping[str, str | int]) -> ApiPath:
    """Return the path with these query parameters, fully percent-encoded."""
    return ApiPath(f"{path}?{urlencode(query, quote_via=quote, safe='')}") if query else path


def _namespace(text: str) -> str:
    return _checked(text, [text], _LONGEST_NAMESPACE, "the name of a namespace")


def _name(text: str) -> str:
    return _checked(text, text.split("."), _LONGEST_NAME, "the name of an object")


def _checked(text: str, labels: list[str], longest: int, what: str) -> str:
    if len(text) <= longest and all(map(_LABEL.fullmatch, labels)):
        return quote(text, safe="")
    shown = ascii(text[:_SHOWN]) + ("…" if len(text) > _SHOWN else "")
    raise FailureError(Failure(Reason.INVALID_SPEC, f"{shown} is not {what} in Kubernetes", Remedy.SPEC))

"""Paths of the Kubernetes API. All of them are made here, of names that cannot leave their place in a path.

A custom resource can name what it likes, and the operator asks with the operator's rights. A client collapses `..` in a
path, so a Secret called `../../other/secrets/db` would be another namespace's. Admission refuses such names; what was
stored before it did, or is let through by a definition of another version, is refused here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NewType
from urllib.parse import quote, urlencode

from rackspan.api import compliancereport, kafkatopic, racktopology
from rackspan.api.labels import GROUP, VERSION
from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, FailureError, Remedy

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rackspan.api.meta import ObjectKey

ApiPath = NewType("ApiPath", str)
"""A path, and perhaps a query, that this module made: `Rest` takes no other text."""

_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAMESPACE: Final = re.compile(_LABEL)
_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_LONGEST_NAMESPACE: Final = 63
_LONGEST_NAME: Final = 253
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class Resource:
    """What the API server keeps objects of one kind under: `/apis/batch/v1` and `jobs`, say."""

    root: str
    plural: str

    def collection(self) -> ApiPath:
        """All of them, or those that are in no namespace."""
        return ApiPath(f"{self.root}/{self.plural}")

    def in_namespace(self, namespace: str) -> ApiPath:
        """Those of one namespace. Raises FailureError for what is no namespace's name."""
        return ApiPath(f"{self.root}/namespaces/{_namespace(namespace)}/{self.plural}")

    def collections(self, namespaces: Collection[str]) -> tuple[ApiPath, ...]:
        """The lists that hold all objects of these namespaces; of every namespace where none is named."""
        return tuple(self.in_namespace(namespace) for namespace in namespaces) or (self.collection(),)

    def cluster_scoped(self, name: str) -> ApiPath:
        """One of them that is in no namespace. Raises FailureError for what is no name."""
        return ApiPath(f"{self.root}/{self.plural}/{_name(name)}")

    def object(self, key: ObjectKey, part: str = "") -> ApiPath:
        """One of them, or a part of it such as `status`. Raises FailureError for what is no name."""
        whole = f"{self.in_namespace(key.namespace)}/{_name(key.name)}"
        return ApiPath(f"{whole}/{part}" if part else whole)

    def collection_of_one(self, key: ObjectKey) -> ApiPath:
        """A list of one of them at most, for who may list and not get. Raises FailureError for what is no name."""
        path = self.in_namespace(key.namespace) if key.namespace else self.collection()
        return with_query(path, {"fieldSelector": f"metadata.name={_name(key.name)}"})


RACKSPAN_API: Final = ApiPath(f"/apis/{GROUP}/{VERSION}")
"""What the API server serves of Rackspan."""
TOPICS: Final = Resource(RACKSPAN_API, kafkatopic.PLURAL)
TOPOLOGIES: Final = Resource(RACKSPAN_API, racktopology.PLURAL)
REPORTS: Final = Resource(RACKSPAN_API, compliancereport.PLURAL)
SECRETS: Final = Resource("/api/v1", "secrets")
EVENTS: Final = Resource("/api/v1", "events")
PODS: Final = Resource("/api/v1", "pods")
NODES: Final = Resource("/api/v1", "nodes")
NAMESPACES: Final = Resource("/api/v1", "namespaces")
DEFINITIONS: Final = Resource("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions")
DEPLOYMENTS: Final = Resource("/apis/apps/v1", "deployments")
LEASES: Final = Resource("/apis/coordination.k8s.io/v1", "leases")
JOBS: Final = Resource("/apis/batch/v1", "jobs")
SPARK_APPLICATIONS: Final = Resource("/apis/sparkoperator.k8s.io/v1beta2", "sparkapplications")


def with_query(path: ApiPath, query: Mapping[str, str | int]) -> ApiPath:
    """The path with these parameters, quoted whole."""
    return ApiPath(f"{path}?{urlencode(query, quote_via=quote, safe='')}") if query else path


def _namespace(text: str) -> str:
    return _checked(text, _NAMESPACE, _LONGEST_NAMESPACE, "the name of a namespace")


def _name(text: str) -> str:
    return _checked(text, _NAME, _LONGEST_NAME, "the name of an object")


def _checked(text: str, pattern: re.Pattern[str], longest: int, what: str) -> str:
    if len(text) <= longest and pattern.fullmatch(text):
        return quote(text, safe="")
    shown = ascii(text[:_SHOWN]) + ("…" if len(text) > _SHOWN else "")
    raise FailureError(Failure(Reason.INVALID_SPEC, f"{shown} is not {what} in Kubernetes", Remedy.SPEC))

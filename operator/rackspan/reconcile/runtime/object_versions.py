"""Which object stands under a name, while lists, events and answers to writes overtake each other. Pure.

Every change is told more than once (by index, by event, by the answer to a write), and the events of two objects that
had one name after the other come in any order. An object is told by its uid, and of two bodies the one counts that the
API server made later.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from rackspan.api.meta import ObjectKey

if TYPE_CHECKING:
    from collections.abc import Mapping


class ObjectVersion(NamedTuple):
    """An object, and the version in which it was last seen."""

    uid: str
    version: str


class ObjectVersions:
    """By kind and name, the object that is known. It belongs to the event loop; nothing here waits."""

    def __init__(self) -> None:
        self._known: defaultdict[str, dict[ObjectKey, ObjectVersion]] = defaultdict(dict)
        self.buried: set[str] = set()
        """Uids that went since the last sweep began: what is read of them by now comes too late."""

    def admit(self, kind: str, body: Mapping[str, Any], *, listed: bool = False) -> bool:
        """Whether the body is news, which is remembered.

        A list is where a watch starts, so of the object that is known it counts even when it is older: the API server's
        data may have been restored from a backup. Of another object it counts only when it is newer, since what was
        listed may have gone since; the sweep, which follows on every list, clears that up.
        """
        key, told = key_of(body), _identity(body)
        known = self._known[kind].get(key)
        if known is not None:
            if listed and known.uid == told.uid:
                is_news = known.version != told.version
            else:
                is_news = _is_older(known.version, told.version)
            if not is_news:
                return False
        self._known[kind][key] = told
        return True

    def admit_answer(self, kind: str, body: Mapping[str, Any]) -> bool:
        """Whether the answer to a write is news of an object that is still there."""
        known = self._known[kind].get(key_of(body))
        return known is not None and known.uid == _identity(body).uid and self.admit(kind, body)

    def bury(self, kind: str, body: Mapping[str, Any]) -> bool:
        """Whether it is the object that is known which went; an object of that name that was made since stays."""
        key, uid = key_of(body), _identity(body).uid
        self.buried.add(uid)
        known = self._known[kind].get(key)
        if known is None or known.uid != uid:
            return False
        del self._known[kind][key]
        return True

    def knows(self, kind: str, key: ObjectKey) -> bool:
        """Whether some object of that name is known."""
        return key in self._known[kind]

    def uids(self, kind: str) -> Mapping[ObjectKey, str]:
        """The objects that are known now."""
        return {key: known.uid for key, known in self._known[kind].items()}


def key_of(body: Mapping[str, Any]) -> ObjectKey:
    """The object's namespace, empty where its kind has none, and name."""
    metadata = body["metadata"]
    return ObjectKey(metadata.get("namespace") or "", metadata["name"])


def _identity(body: Mapping[str, Any]) -> ObjectVersion:
    metadata = body["metadata"]
    return ObjectVersion(str(metadata.get("uid") or ""), str(metadata.get("resourceVersion") or ""))


def _is_older(version: str, other: str) -> bool:
    """Resource versions of one kind compare as integers (KEP-5504); another API server's are taken as they come."""
    if version.isdecimal() and other.isdecimal():
        return int(version) < int(other)
    return version != other

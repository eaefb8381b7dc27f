"""A watch of the objects under test, which begins anew when it breaks."""

import json
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import urllib3
from kubernetes import client

from benchmarks.contender import generation_when_ready

_WATCH_SECONDS = 300
_READ_SECONDS = 330
"""After which a watch that says nothing, not even that it is over, is given up."""


class ReadyWatch:
    """Which objects of a collection are Ready, at which generation and since when; and which are gone.

    A watch ends when the API server finds it too slow, has forgotten its version, or sends an ERROR: then all is
    listed, and what the list lacks is gone.
    """

    def __init__(self, api: client.ApiClient, path: str) -> None:
        self.ready: dict[str, int] = {}
        self.when: dict[str, float] = {}
        self.gone: set[str] = set()
        self.over = False
        _, _, group, version, _, namespace, plural = path.split("/")
        self._of = (group, version, namespace, plural)
        self._objects = client.CustomObjectsApi(api)
        self._changed = threading.Condition()
        self._seen: set[str] = set()
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        while not self.over:
            with suppress(urllib3.exceptions.HTTPError, client.ApiException, OSError):
                version = self._list()
                stream = self._objects.list_namespaced_custom_object(
                    *self._of,
                    watch=True,
                    resource_version=version,
                    timeout_seconds=_WATCH_SECONDS,
                    _request_timeout=(10, _READ_SECONDS),
                    _preload_content=False,
                )
                for event in events_of(stream.stream(2**16)):
                    self.take(event["type"], event["object"])
                continue
            time.sleep(0.5)  # the API server is away

    def _list(self) -> str:
        found = self._objects.list_namespaced_custom_object(*self._of)
        for item in found["items"]:
            self.take("ADDED", item)
        there = {item["metadata"]["name"] for item in found["items"]}
        for name in self._seen - there:
            self.take("DELETED", {"metadata": {"name": name}})
        return str(found["metadata"]["resourceVersion"])

    def take(self, what: str, found: dict[str, Any]) -> None:
        """Learn of one event."""
        name = found["metadata"]["name"]
        with self._changed:
            if what == "DELETED":
                self._seen.discard(name)
                self.gone.add(name)
                self.ready.pop(name, None)
            else:
                self._seen.add(name)
                generation = generation_when_ready(found)
                if generation is None or self.ready.get(name) == generation:
                    return
                self.ready[name] = generation
            self.when[name] = time.perf_counter()
            self._changed.notify_all()

    def until_ready(self, names: Iterable[str], generation: int, timeout: float) -> float:
        """Seconds on the clock when all of these were Ready at `generation`. Raises TimeoutError."""
        return self._until(names, lambda name: self.ready.get(name, -1) >= generation, "Ready", timeout)

    def until_gone(self, names: Iterable[str], timeout: float) -> float:
        """Seconds on the clock when all of these were gone. Raises TimeoutError."""
        return self._until(names, lambda name: name in self.gone, "gone", timeout)

    def _until(self, names: Iterable[str], holds: Any, what: str, timeout: float) -> float:
        wanted = set(names)

        def reached() -> bool:
            done.update(name for name in wanted - done if holds(name))
            return done == wanted

        done: set[str] = set()
        with self._changed:
            if not self._changed.wait_for(reached, timeout):
                raise TimeoutError(f"{len(done)} of {len(wanted)} topics were {what} in {timeout} s")
            return max(self.when[name] for name in wanted)


def events_of(chunks: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Events of a watch. It is over with an ERROR, whose object is a Status."""
    buffer = b""
    for chunk in chunks:
        *lines, buffer = (buffer + chunk).split(b"\n")
        for event in map(json.loads, lines):
            if event["type"] == "ERROR":
                return
            yield event

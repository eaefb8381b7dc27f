"""Watches of the measured objects. They are started again after errors."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import urllib3
from kubernetes import client

from benchmarks.contender import generation_when_ready

_WATCH_SECONDS = 300
_READ_SECONDS = 330
"""The timeout of a watch that sends nothing and does not end."""
_CHECK_SECONDS = 2


class Watch:
    """Watches all objects of a collection, in a separate thread. Subclasses handle the events.

    The API server ends a watch if it is too slow, if its version has expired, or with an ERROR. Then the objects are
    listed again, and objects that are not in the list count as deleted. `ask` is the method of the official client that
    lists the collection.
    """

    def __init__(self, ask: Callable[..., Any]) -> None:
        self.over = False
        self._ask = ask
        self._changed = threading.Condition()
        self._seen: set[str] = set()
        threading.Thread(target=self._follow, daemon=True).start()

    def take(self, what: str, found: dict[str, Any]) -> None:
        """Handle one event of type `what` about the object `found`."""
        raise NotImplementedError

    def _follow(self) -> None:
        while not self.over:
            with suppress(urllib3.exceptions.HTTPError, client.ApiException, OSError):
                version = self._list()
                stream = self._ask(
                    watch=True,
                    resource_version=version,
                    timeout_seconds=_WATCH_SECONDS,
                    _request_timeout=(10, _READ_SECONDS),
                    _preload_content=False,
                )
                for event in events_of(stream.stream(2**16)):
                    self._hear(event["type"], event["object"])
                continue
            time.sleep(0.5)  # the API server is not reachable

    def _list(self) -> str:
        found = json.loads(self._ask(_preload_content=False).data)
        there = {item["metadata"]["name"] for item in found["items"]}
        for item in found["items"]:
            self._hear("ADDED", item)
        for name in self._seen - there:
            self._hear("DELETED", {"metadata": {"name": name}})
        return str(found["metadata"]["resourceVersion"])

    def _hear(self, what: str, found: dict[str, Any]) -> None:
        name = found["metadata"]["name"]
        with self._changed:
            if what == "DELETED":
                self._seen.discard(name)
            else:
                self._seen.add(name)
            self.take(what, found)
            self._changed.notify_all()


class ReadyWatch(Watch):
    """Records which objects of a collection are Ready, with generation and time, and which ones are deleted.

    `check` is called while waiting, and raises an exception to end the wait.
    """

    def __init__(self, api: client.ApiClient, path: str, check: Callable[[], None] = lambda: None) -> None:
        self._check = check
        self.ready: dict[str, int] = {}
        self.when: dict[str, float] = {}
        self.gone: set[str] = set()
        _, _, group, version, _, namespace, plural = path.split("/")
        ask = client.CustomObjectsApi(api).list_namespaced_custom_object
        super().__init__(partial(ask, group, version, namespace, plural))

    def take(self, what: str, found: dict[str, Any]) -> None:
        """Handle one event of type `what` about the object `found`."""
        name = found["metadata"]["name"]
        if what == "DELETED":
            self.gone.add(name)
            self.ready.pop(name, None)
        else:
            generation = generation_when_ready(found)
            if generation is None or self.ready.get(name) == generation:
                return
            self.ready[name] = generation
        self.when[name] = time.perf_counter()

    def until_ready(self, names: Iterable[str], generation: int, timeout: float) -> float:
        """Wait until all objects are Ready for `generation`. Return the time of the last one. Raises TimeoutError."""
        return self._until(names, lambda name: self.ready.get(name, -1) >= generation, "Ready", timeout)

    def until_gone(self, names: Iterable[str], timeout: float) -> float:
        """Wait until all objects are deleted. Return the time of the last one. Raises TimeoutError."""
        return self._until(names, lambda name: name in self.gone, "gone", timeout)

    def _until(self, names: Iterable[str], holds: Callable[[str], bool], what: str, timeout: float) -> float:
        wanted = list(names)
        left = list(wanted)

        def reached() -> bool:
            while left and holds(left[-1]):  # checks few names per call, because it is called for each event
                left.pop()
            return not left

        deadline = time.monotonic() + timeout
        with self._changed:
            while not self._changed.wait_for(reached, min(timeout, _CHECK_SECONDS)):
                self._check()
                if time.monotonic() >= deadline:
                    done = sum(map(holds, wanted))
                    raise TimeoutError(f"{done} of {len(wanted)} topics were {what} in {timeout} s")
            return max(self.when[name] for name in wanted)


class ToldWatch(Watch):
    """Records when objects of a collection first reported a word. `told` returns the words that an object reports."""

    def __init__(self, ask: Callable[..., Any], told: Callable[[dict[str, Any]], Iterable[str]]) -> None:
        self._told = told
        self._when: dict[str, float] = {}
        super().__init__(ask)

    def take(self, what: str, found: dict[str, Any]) -> None:
        """Handle one event of type `what` about the object `found`."""
        if what != "DELETED":
            now = time.perf_counter()
            for word in self._told(found):
                self._when.setdefault(word, now)

    def until_told(self, word: str, timeout: float) -> float:
        """Wait until the word is reported. Return the time of the first report. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: word in self._when, timeout):
                raise TimeoutError(f"no object reported {word} in {timeout} s")
            return self._when[word]


def events_of(chunks: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the events of a watch up to an ERROR, whose object is a Status."""
    buffer = b""
    for chunk in chunks:
        *lines, buffer = (buffer + chunk).split(b"\n")
        for event in map(json.loads, lines):
            if event["type"] == "ERROR":
                return
            yield event

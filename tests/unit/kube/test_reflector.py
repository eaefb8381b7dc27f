"""The reflector reports all objects in spite of failed lists and watches, and reads only the needed fields."""

import asyncio
import json
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.aio import client
from prometheus_client import REGISTRY
from tests.unit.kube.recording import Answer, RecordingApi

from rackspan.api.meta import ObjectKey
from rackspan.api.reasons import Reason
from rackspan.kube import reflector as reflector_module
from rackspan.kube.paths import NODES, PODS
from rackspan.kube.reflector import KubeReflector
from rackspan.kube.rest import ExpiredError, ForbiddenError, Rest
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import Listener

PAGE = 2
AWAY = FailureError(Failure("ApiServerUnreachable", "away", Remedy.RETRY))
EXPIRED = ExpiredError(Failure("ApiServerUnreachable", "too old", Remedy.RETRY))


class OverError(Exception):
    """Ends a watch, which is endless otherwise."""


class Store:
    """The labels of the current objects (`objects`), and all reported objects in order (`told`)."""

    def __init__(self):
        self.objects = {}
        self.told = []

    @property
    def listener(self):
        return Listener(self.objects.keys, self._seen, self._gone)

    def _seen(self, body):
        key = ObjectKey(body["metadata"].get("namespace", ""), body["metadata"]["name"])
        self.objects[key] = body["metadata"].get("labels")
        self.told.append(body)

    def _gone(self, key):
        self.objects.pop(key, None)


class ApiServer:
    """Implements `Rest.read` and `Rest.lines`. Runs the next step of the script before each response and each event."""

    def __init__(self, script):
        self.script = list(script)
        self.version = 1
        self.oldest = 0
        self.objects = {}
        self.events = []
        self.lists = {}
        self.broken = False

    def step(self):
        match self.script.pop(0) if self.script else None:
            case ("put", name):
                self._note("MODIFIED" if name in self.objects else "ADDED", name)
            case ("delete", name) if name in self.objects:
                self._note("DELETED", name)
            case "forget":
                self.oldest = self.version
                self.lists.clear()
            case "break":
                self.broken = True

    def _note(self, what, name):
        self.version += 1
        body = {"metadata": {"name": name, "resourceVersion": str(self.version), "labels": {"at": str(self.version)}}}
        if what == "DELETED":
            del self.objects[name]
        else:
            self.objects[name] = body
        self.events.append((self.version, {"type": what, "object": body}))

    def _may_break(self):
        if self.broken:
            self.broken = False
            raise AWAY

    pages = Rest.pages

    async def read(self, _, path, *__):
        self.step()
        self._may_break()
        asked = parse_qs(urlsplit(path).query)
        if "continue" in asked:
            at, first = map(int, asked["continue"][0].split("-"))
            if at not in self.lists:
                raise EXPIRED
        else:
            at, first = self.version, 0
            self.lists[at] = [self.objects[name] for name in sorted(self.objects)]
        items = self.lists[at][first : first + PAGE]
        more = {"continue": f"{at}-{first + PAGE}"} if first + PAGE < len(self.lists[at]) else {}
        return json.dumps({"metadata": {"resourceVersion": str(at), **more}, "items": items or None}).encode()

    async def lines(self, path, *_):
        asked = parse_qs(urlsplit(path).query)
        version = int(asked["resourceVersion"][0])
        self._may_break()
        while True:
            self.step()
            self._may_break()
            if version < self.oldest:
                yield b'{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":410,"message":"too old"}}'
                return
            due = [(at, event) for at, event in self.events if at > version]
            if not due:
                mark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self.version)}}}
                yield json.dumps(mark).encode()
                return
            version, event = due[0]
            yield json.dumps(event).encode()


@pytest.fixture
def patience(monkeypatch):
    """The pauses, which end immediately. The watch ends as soon as `may_end` returns true."""

    found = SimpleNamespace(seconds=[], may_end=lambda: True)

    async def pause(seconds):
        found.seconds.append(seconds)
        if found.may_end():
            raise OverError

    monkeypatch.setattr(reflector_module, "_pause", pause)
    return found


names = st.sampled_from("abcde")
steps = st.one_of(
    st.tuples(st.sampled_from(["put", "put", "delete"]), names), st.sampled_from(["forget", "break", "nothing"])
)


@given(script=st.lists(steps, max_size=40))
def test_reflector_ends_with_the_objects_of_the_server(script):
    server, store = ApiServer(script), Store()
    calm = 0

    async def pause(_):
        nonlocal calm
        calm = 0 if server.script else calm + 1
        if calm > 4:
            raise OverError

    async def run():
        await KubeReflector(server, NODES.collection(), "", store.listener).watch()

    patch = pytest.MonkeyPatch()
    with patch.context() as context:
        context.setattr(reflector_module, "_pause", pause)
        with pytest.raises(OverError):
            asyncio.run(run())
    assert store.objects == {ObjectKey("", name): body["metadata"]["labels"] for name, body in server.objects.items()}


async def test_watch_continues_from_the_version_of_the_list(patience):
    server, store = ApiServer([("put", "a")]), Store()
    reflector = KubeReflector(server, NODES.collection(), "", store.listener)
    await reflector.list()
    server.script = [("put", "b")]
    with pytest.raises(OverError):
        await reflector.watch()
    assert [body["metadata"]["name"] for body in store.told] == ["a", "b"]


async def test_reflector_lists_again_after_the_version_was_rejected_twice(patience):
    """After a restore from a backup, the API server may not have reached that version yet."""
    asked = []

    class Restored:
        pages = Rest.pages

        async def read(self, _, path, *__):
            asked.append(path)
            return b'{"metadata":{"resourceVersion":"7"},"items":[]}'

        async def lines(self, path, *_):
            asked.append(path)
            if "resourceVersion=7" not in path:
                raise AWAY
            yield b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"8"}}}'

    reflector = KubeReflector(Restored(), NODES.collection(), "", Store().listener)
    reflector._version = "900"
    patience.may_end = lambda: len(patience.seconds) == 3
    with pytest.raises(OverError):
        await reflector.watch()
    assert ["watch=true" in path for path in asked] == [True, True, False, True]
    assert patience.seconds == [1.0, 2.0, 0.5]


@pytest.mark.parametrize("end", [None, AWAY])
async def test_reflector_lists_again_after_a_watch_without_events(patience, monkeypatch, end):
    """After a restore from a backup, the API server accepts a version in the future and sends no bookmark."""
    monkeypatch.setattr(reflector_module, "SILENT_SECONDS", 0.0)
    asked = []

    class Silent:
        pages = Rest.pages

        async def read(self, *_):
            asked.append("list")
            return b'{"metadata":{"resourceVersion":"7"},"items":[]}'

        async def lines(self, path, *_):
            asked.append("watch")
            if "resourceVersion=7" in path:
                yield b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"8"}}}'
            elif end:
                raise end

    reflector = KubeReflector(Silent(), NODES.collection(), "", Store().listener)
    reflector._version = "900"
    patience.may_end = lambda: len(patience.seconds) == 2
    with pytest.raises(OverError):
        await reflector.watch()
    assert asked == ["watch", "list", "watch"]


async def test_reflector_retries_with_backoff_while_the_api_server_is_unreachable(patience):
    class Away:
        pages = Rest.pages

        async def read(self, *_):
            raise AWAY

    patience.may_end = lambda: len(patience.seconds) == 6
    with pytest.raises(OverError):
        await KubeReflector(Away(), NODES.collection(), "", Store().listener).watch()
    assert patience.seconds == [1.0, 2.0, 4.0, 5.0, 5.0, 5.0]


async def test_watch_that_is_refused_counts_as_an_error_each_time_unless_its_namespace_is_left_out(patience):
    class Refusing:
        pages = Rest.pages

        async def read(self, *_):
            raise ForbiddenError(Failure(Reason.NOT_AUTHORIZED, "may not list", Remedy.ACCESS))

    def counted():
        labels = {"topology": "", "remedy": Remedy.ACCESS, "reason": Reason.NOT_AUTHORIZED}
        return REGISTRY.get_sample_value("rackspan_errors_total", labels) or 0

    patience.may_end = lambda: len(patience.seconds) == 3
    for path, namespace, errors in ((NODES.collection(), "", 3), (PODS.in_namespace("shop"), "shop", 0)):
        before = counted()
        patience.seconds.clear()
        with pytest.raises(OverError):
            await KubeReflector(Refusing(), path, namespace, Store().listener).watch()
        assert counted() - before == errors


async def test_watches_that_break_after_an_event_do_not_count_as_consecutive_failures(patience):
    """For example, a proxy closes each watch after some time. No new list is needed, and the pause does not grow."""
    asked = []

    class Cutting:
        pages = Rest.pages

        async def read(self, _, path, *__):
            asked.append("list")
            return b'{"metadata":{"resourceVersion":"7"},"items":[]}'

        async def lines(self, path, *_):
            asked.append("watch")
            yield b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"8"}}}'
            raise AWAY

    patience.may_end = lambda: len(patience.seconds) == 4
    with pytest.raises(OverError):
        await KubeReflector(Cutting(), NODES.collection(), "", Store().listener).watch()
    assert asked == ["list", *["watch"] * 4]
    assert patience.seconds == [1.0] * 4


@pytest.mark.parametrize("garbage", [b"<html>", b'{"type":"ADDED","object":{"metadata":{"name":5}}}', b'{"type":"X"}'])
async def test_watch_continues_after_an_invalid_event(patience, garbage):
    class Strange:
        pages = Rest.pages

        async def read(self, *_):
            return b'{"metadata":{"resourceVersion":"7"},"items":[]}'

        async def lines(self, *_):
            yield garbage

    patience.may_end = lambda: len(patience.seconds) == 3
    with pytest.raises(OverError):
        await KubeReflector(Strange(), NODES.collection(), "", Store().listener).watch()


async def test_list_raises_failure_error_for_each_error_status():
    def refusing(status):
        return Rest(RecordingApi(lambda *_: Answer(status, {"message": "no"})))

    for status in (403, 404, 410, 500):
        with pytest.raises(FailureError):
            await KubeReflector(refusing(status), NODES.collection(), "", Store().listener).list()


async def test_list_of_one_namespace_keeps_the_objects_of_others():
    store = Store()
    store.objects = {ObjectKey("shop", "old"): {}, ObjectKey("dev", "other"): {}}
    rest = Rest(RecordingApi(lambda *_: Answer(body={"metadata": {"resourceVersion": "1"}, "items": []})))
    await KubeReflector(rest, PODS.in_namespace("shop"), "shop", store.listener).list()
    assert list(store.objects) == [ObjectKey("dev", "other")]


async def test_reflector_reports_only_the_needed_fields_of_a_pod():
    metadata = {"name": "kafka-0", "namespace": "shop", "labels": {"app": "kafka"}, "annotations": None}
    pod = {
        "metadata": {**metadata, "managedFields": [{"fieldsV1": {"f:metadata": {}}}]},
        "spec": {"nodeName": "n1", "containers": [{"name": "kafka"}]},
        "status": {"phase": "Running", "conditions": []},
    }
    store = Store()
    rest = Rest(RecordingApi(lambda *_: Answer(body={"items": [pod]})))
    await KubeReflector(rest, PODS.collection(), "", store.listener).list()
    assert store.told == [{"metadata": metadata, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}]


async def test_lines_are_complete_regardless_of_the_chunks_of_the_response():
    """A real server sends chunks that end in the middle of lines."""

    async def answer(request):
        response = web.StreamResponse(status=200 if "watch" in request.query else 410)
        await response.prepare(request)
        for piece in (b'{"a":', b"1}\n{", b'"b":2}\n', b'{"c":3}\n{"d"'):
            await response.write(piece)
        return response

    app = web.Application()
    app.router.add_get("/api/v1/nodes", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    settings = client.Configuration(host=f"http://127.0.0.1:{runner.addresses[0][1]}")
    rest = Rest(client.ApiClient(settings))
    try:
        found = [line async for line in rest.lines("/api/v1/nodes?watch=true", 90)]
        assert found == [b'{"a":1}', b'{"b":2}', b'{"c":3}']
        with pytest.raises(ExpiredError):
            _ = [line async for line in rest.lines("/api/v1/nodes", 90)]
        await runner.cleanup()
        with pytest.raises(FailureError):
            _ = [line async for line in rest.lines("/api/v1/nodes", 90)]
    finally:
        await rest.close()

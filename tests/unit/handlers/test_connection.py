"""Kopf receives only the fields of objects that Rackspan reads, in responses of few bytes."""

import json
import ssl
from types import SimpleNamespace

import kopf
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kopf._cogs.clients import auth, fetching, watching
from kopf._cogs.structs import credentials

from rackspan.handlers.api_session import Survival, connect
from rackspan.kube.authentication import Login

PATH = "/apis/rackspan.dev/v1alpha1/kafkatopics"
RESOURCE = kopf.Resource("rackspan.dev", "v1alpha1", "kafkatopics", namespaced=True)
COUNT = 120


def topic(number, size):
    annotations = {"note": "😀" * (size // 4), "rackspan.dev/paused": "true"}
    meta = {"name": f"t-{number}", "namespace": "shop", "uid": str(number), "resourceVersion": str(number)}
    return {
        "metadata": {**meta, "annotations": annotations, "labels": {"a": "b"}},
        "spec": {"partitions": 1},
        "status": {},
    }


def login(url, token="t"):
    return Login(
        url,
        None,
        insecure=False,
        scheme="Bearer",
        token=token,
        certificate_path=None,
        private_key_path=None,
        proxy_url=None,
    )


@pytest.fixture
async def served():
    """An API server that lists large topics. A watch reports a change of one topic, a bookmark and an error."""
    found = SimpleNamespace(asked=[], sent=[], size=100_000)

    async def answer(request):
        if "watch" in request.query:
            response = web.StreamResponse()
            await response.prepare(request)
            for line in (
                {"type": "MODIFIED", "object": topic(1, found.size)},
                {"type": "BOOKMARK", "object": {"kind": "KafkaTopic", "metadata": {"resourceVersion": "900"}}},
                {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}},
            ):
                await response.write(json.dumps(line).encode() + b"\n")
            return response
        start, limit = int(request.query.get("continue", 0)), int(request.query["limit"])
        items = [topic(number, found.size) for number in range(start, min(start + limit, COUNT))]
        more = {"continue": str(start + limit)} if start + limit < COUNT else {}
        text = json.dumps(
            {
                "kind": "KafkaTopicList",
                "apiVersion": "rackspan.dev/v1alpha1",
                "metadata": {"resourceVersion": "800", **more},
                "items": items,
            },
            ensure_ascii=False,
        )
        found.asked.append(limit)
        return web.Response(text=text, content_type="application/json")

    app = web.Application()
    app.router.add_get(PATH, answer)
    async with TestServer(app) as server:
        found.url = str(server.make_url("/")).rstrip("/")
        found.vault = vault = credentials.Vault()
        await log_in(found)
        token = auth.vault_var.set(vault)
        yield found
        auth.vault_var.reset(token)
        await vault.close()


async def log_in(served):
    tls = ssl.create_default_context()
    await served.vault.populate({"login": connect(login(served.url), Survival(), tls=tls, trust_env=False)})


def settings():
    found = kopf.OperatorSettings()
    found.watching.chunk_size = 500
    return found


class Log:
    def debug(self, *_):
        pass


async def test_list_has_pages_of_few_bytes_with_only_the_needed_fields(served):
    pages = [
        page
        async for page, _ in fetching.fetch_objs(settings=settings(), resource=RESOURCE, namespace=None, logger=Log())
    ]
    bodies = [body for page in pages for body in page]
    assert [body["metadata"]["uid"] for body in bodies] == [str(number) for number in range(COUNT)]
    assert all(len(page) * served.size <= 2 << 20 for page in pages)
    assert all(body["metadata"]["annotations"] == {"rackspan.dev/paused": "true"} for body in bodies)
    assert all("labels" not in body["metadata"] and body["spec"] == {"partitions": 1} for body in bodies)
    assert len(served.asked) < 20


async def test_small_objects_are_listed_in_large_pages(served):
    served.size = 100
    pages = [
        page
        async for page, _ in fetching.fetch_objs(settings=settings(), resource=RESOURCE, namespace=None, logger=Log())
    ]
    assert [len(page) for page in pages] == [50, 70]


async def test_list_continues_after_kopf_logs_in_again_between_two_pages(served):
    served.size, listed = 100, []
    pages = fetching.fetch_objs(settings=settings(), resource=RESOURCE, namespace=None, logger=Log())
    async for page, _ in pages:
        listed += page
        await log_in(served)
    assert len(listed) == COUNT


async def test_watch_events_have_only_the_needed_fields_and_errors_are_passed_on(served):
    stream = watching.watch_objs(
        settings=settings(),
        resource=RESOURCE,
        namespace=None,
        since="800",
        operator_pause_waiter=SimpleNamespace(
            done=lambda: False, add_done_callback=lambda _: None, remove_done_callback=lambda _: None
        ),
    )
    modified, mark, error = [event async for event in stream]
    assert modified["type"] == "MODIFIED"
    assert modified["object"]["metadata"]["annotations"] == {"rackspan.dev/paused": "true"}
    assert mark == {"type": "BOOKMARK", "object": {"kind": "KafkaTopic", "metadata": {"resourceVersion": "900"}}}
    assert error == {"type": "ERROR", "object": {"kind": "Status", "code": 410}}


async def test_sessions_are_equal_if_and_only_if_their_credentials_are():
    one, same, other = (
        connect(login("http://127.0.0.1", token), Survival(), tls=ssl.create_default_context(), trust_env=False)
        for token in ("a", "a", "b")
    )
    assert one == same
    assert one != other
    for each in (one, same, other):
        await each.aiohttp_session.close()

"""Kopf continues to watch after any response of the API server, or of a proxy in front of it, to a list or watch."""

import asyncio
import contextlib
import dataclasses
import itertools
import json
import ssl
from unittest.mock import MagicMock

import kopf
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kopf._cogs.clients import auth, errors, watching
from kopf._cogs.structs import credentials

from rackspan.handlers import api_session
from rackspan.handlers.api_session import Survival, connect
from rackspan.handlers.lifecycle import configure
from rackspan.kube.authentication import Login

PATH = "/apis/rackspan.dev/v1alpha1/kafkatopics"
PATH_IN_SHOP = "/apis/rackspan.dev/v1alpha1/namespaces/shop/kafkatopics"
RESOURCE = kopf.Resource("rackspan.dev", "v1alpha1", "kafkatopics", namespaced=True)
NOT_NEEDED = ("scheme", "token", "certificate_path", "private_key_path", "proxy_url")
META = {"name": "orders", "namespace": "shop", "uid": "u", "resourceVersion": "2"}
ADDED = {"type": "ADDED", "object": {"metadata": META, "spec": {}, "status": {}}}
BOOKMARK = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}
LEADER_CHANGED = {"kind": "Status", "code": 500, "message": "etcdserver: leader changed"}


def listed(more=""):
    return web.json_response({"metadata": {"resourceVersion": "1", "continue": more}, "items": []})


def refused(code, **headers):
    return web.json_response({"kind": "Status", "code": code}, status=code, headers=headers)


def told(*events):
    return web.Response(text="".join(json.dumps(event) + "\n" for event in events))


@contextlib.asynccontextmanager
async def answered(answer, survival=None):
    """Run an API server with this handler and log kopf in. Log in again with a new token if the token is rejected."""
    app = web.Application()
    app.router.add_get(PATH, answer)
    app.router.add_get(PATH_IN_SHOP, answer)
    async with TestServer(app, shutdown_timeout=0.1) as server:
        login = Login(str(server.make_url("/")), None, insecure=False, **dict.fromkeys(NOT_NEEDED))
        vault, survival = credentials.Vault(), survival or Survival()

        async def log_in():
            for number in itertools.count():
                await vault.wait_for_emptiness()
                session = connect(
                    dataclasses.replace(login, token=f"t-{number}"),
                    survival,
                    tls=ssl.create_default_context(),
                    trust_env=False,
                )
                await vault.populate({"login": session})

        logging_in = asyncio.create_task(log_in())
        token = auth.vault_var.set(vault)
        try:
            yield
        finally:
            logging_in.cancel()
            auth.vault_var.reset(token)
            await vault.close()


async def next_event(namespace=None, **watching_settings):
    """Return the next event from kopf. Kopf may list and watch several times before that."""
    settings = kopf.OperatorSettings()
    settings.watching.chunk_size = 500
    settings.watching.reconnect_backoff = 0
    for name, value in watching_settings.items():
        setattr(settings.watching, name, value)
    settings.networking.error_backoffs = (0, 0)
    watch = watching.infinite_watch(settings=settings, resource=RESOURCE, namespace=namespace)
    async with asyncio.timeout(60), contextlib.aclosing(watch):
        async for event in watch:
            if not isinstance(event, watching.Bookmark) and event["type"] != "BOOKMARK":
                return event
    return None


@pytest.mark.parametrize(
    ("brought", "then"),
    [(None, ["watch 1"]), ((), ["watch 1", "list", "watch 1"]), ((BOOKMARK,), ["watch 9"])],
    ids=["no answer", "nothing", "a bookmark"],
)
async def test_kopf_watches_again_after_the_inactivity_timeout(monkeypatch, brought, then):
    """After a watch without any event, kopf lists again: the API server may not have reached the version."""
    monkeypatch.setattr(api_session, "SILENT_SECONDS", 1)
    asked = []

    async def answer(request):
        if "watch" not in request.query:
            asked.append("list")
            return listed()
        asked.append(f"watch {request.query['resourceVersion']}")
        if len(asked) > 2:
            return told(ADDED)
        silent = web.StreamResponse()
        if brought is not None:
            await silent.prepare(request)
            await silent.write(told(*brought).body)
        await asyncio.sleep(60)
        return silent

    async with answered(answer):
        assert (await next_event(inactivity_timeout=2))["type"] == "ADDED"
    assert asked == ["list", "watch 1", *then]


def test_inactivity_timeout_is_between_the_silent_time_and_the_server_timeout():
    settings = kopf.OperatorSettings()
    asyncio.run(configure(settings, MagicMock()))
    assert api_session.SILENT_SECONDS < settings.watching.inactivity_timeout < settings.watching.server_timeout


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(lambda: refused(410), id="expired"),
        pytest.param(lambda: web.Response(text="<html>", content_type="text/html"), id="a page of a proxy"),
        pytest.param(lambda: web.json_response([]), id="another type"),
        *(
            pytest.param(lambda after=after: refused(429, **{"Retry-After": after}), id=f"busy until {after[:8]}")
            for after in ("Wed, 21 Oct 2015 07:28:00 GMT", "inf", "9" * 400, "86400")
        ),
    ],
)
async def test_kopf_lists_again_after_an_invalid_page_of_a_list(bad):
    asked = []

    async def answer(request):
        if "watch" in request.query:
            return told(ADDED)
        asked.append(request.query.get("continue"))
        return {1: lambda: listed("more"), 2: bad}.get(len(asked), listed)()

    async with answered(answer):
        assert (await next_event())["type"] == "ADDED"
    assert asked[:2] == [None, "more"]
    assert len(asked) > 2


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(lambda: refused(410), id="expired"),
        pytest.param(lambda: refused(400), id="not a version"),
        pytest.param(lambda: told({"type": "ERROR", "object": LEADER_CHANGED}), id="an error"),
        pytest.param(lambda: told({"type": "ERROR", "object": {}}), id="an error without a code"),
        pytest.param(lambda: web.Response(text="<html>\n"), id="a page of a proxy"),
        pytest.param(lambda: web.Response(text="\n"), id="a blank line"),
        pytest.param(lambda: web.Response(body=b'{"type":"ADDED","object":"\xff"}\n'), id="not a text"),
        pytest.param(lambda: told({"type": "ADDED", "object": []}), id="another type"),
    ],
)
async def test_kopf_lists_again_after_an_invalid_response_to_a_watch(bad):
    asked = []

    async def answer(request):
        kind = "watch" if "watch" in request.query else "list"
        asked.append(kind)
        if kind == "list":
            return listed()
        return bad() if asked.count("watch") == 1 else told(ADDED)

    async with answered(answer):
        assert (await next_event())["type"] == "ADDED"
    assert asked == ["list", "watch", "list", "watch"]


async def hung_up(request):
    request.transport.close()
    return web.Response()


async def unavailable(_):
    return refused(503)


async def unauthorized(_):
    return refused(401)


@pytest.mark.parametrize("outage", [(hung_up, hung_up), (unavailable, unavailable), (unavailable, unauthorized)])
async def test_kopf_lists_again_after_an_outage(outage):
    """etcd may have been restored from a backup, with versions older than those of the watches."""
    asked = []

    async def answer(request):
        asked.append("watch" if "watch" in request.query else "list")
        if asked[-1] == "list":
            return listed()
        match asked.count("watch"):
            case 1:
                return told(BOOKMARK)
            case 2 | 3 as number:
                return await outage[number - 2](request)
            case _:
                return told(ADDED)

    async with answered(answer):
        assert (await next_event())["type"] == "ADDED"
    assert asked.count("list") > 1
    assert asked[-2:] == ["list", "watch"]


@pytest.mark.parametrize(("brought", "then"), [((), "list"), ((BOOKMARK,), "watch")])
async def test_kopf_lists_again_after_a_long_watch_without_events(monkeypatch, brought, then):
    """Without even a bookmark, which comes once a minute, the API server has not reached that version yet."""
    monkeypatch.setattr(api_session, "SILENT_SECONDS", 1)
    asked = []

    async def answer(request):
        asked.append("watch" if "watch" in request.query else "list")
        if asked[-1] == "list":
            return listed()
        if asked.count("watch") > 1:
            return told(ADDED)
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(told(*brought).body)
        await asyncio.sleep(1.5)
        return response

    async with answered(answer):
        await next_event()
    assert asked[:3] == ["list", "watch", then]


@pytest.fixture
def pauses(monkeypatch):
    """The delays of responses to kopf, in seconds. They end immediately."""
    found = []

    async def pause(seconds):
        found.append(seconds)

    monkeypatch.setattr(api_session, "_pause", pause)
    return found


async def ended(_):
    return web.Response(text='{"type":"ADD')


async def broken(request):
    response = web.StreamResponse()
    await response.prepare(request)
    request.transport.close()
    return response


@pytest.mark.parametrize("cut", [ended, broken])
async def test_end_of_watches_that_are_cut_off_is_delayed_with_backoff_until_one_lasts(pauses, monkeypatch, cut):
    lasting, watches = 7, 0

    async def answer(request):
        nonlocal watches
        if "watch" not in request.query:
            return listed()
        watches += 1
        monkeypatch.setattr(api_session, "_SHORT_SECONDS", 0 if watches == lasting else 1e6)
        return await cut(request) if watches < 10 else told(ADDED)

    async with answered(answer):
        await next_event()
    assert pauses == [0.5, 1, 2, 4, 8, 10, 0.5, 1]


@pytest.mark.parametrize("refused_now", [("list", "watch"), ("watch",)])
async def test_forbidden_namespace_is_retried_with_backoff_until_it_is_readable(pauses, refused_now):
    left_out = []

    async def answer(request):
        kind = "watch" if "watch" in request.query else "list"
        if kind in refused_now and len(pauses) < 3:
            return refused(403)
        return listed() if kind == "list" else told(ADDED)

    async with answered(answer, Survival(left_out.append)):
        assert (await next_event("shop"))["type"] == "ADDED"
    assert pauses == [0.5, 1, 2]
    assert left_out == [{"shop"}, set()], "each change is reported once"


async def test_namespace_is_left_out_while_any_kind_is_forbidden_there():
    left_out = []
    survival = Survival(left_out.append)
    for path, namespace in (("a", "shop"), ("b", "shop"), ("c", "dev"), ("a", None), ("c", None), ("b", None)):
        survival._note_refusal(path, namespace)
    assert left_out == [{"shop"}, {"shop"}, {"shop", "dev"}, {"shop", "dev"}, {"shop"}, set()]


async def test_kopf_exits_if_the_list_of_all_namespaces_is_forbidden():
    async def answer(_):
        return refused(403)

    async with answered(answer):
        with pytest.raises(errors.APIForbiddenError):
            await next_event()

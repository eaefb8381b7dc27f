"""Watches of kopf end with the operator, even if the API server does not respond or no longer serves a kind."""

import asyncio
import ssl

import kopf
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from rackspan.api import racktopology
from rackspan.api.labels import GROUP, VERSION
from rackspan.handlers.watches import Memo
from rackspan.kube.authentication import Login
from rackspan.main import HANDLERS

PLURALS = ("compliancereports", "kafkatopics", "racktopologies", "reassignments")
NOT_NEEDED = ("scheme", "token", "certificate_path", "private_key_path", "proxy_url")


class StubManager:
    """A manager that can be started and stopped, and receives no objects."""

    stopped = False

    def start(self):
        pass

    async def stop(self):
        self.stopped = True


class StubAccess:
    tls = ssl.create_default_context()

    def __init__(self, server):
        self._server = server

    async def login(self):
        return Login(self._server, None, insecure=False, **dict.fromkeys(NOT_NEEDED))


@pytest.fixture
async def watched():
    """Serve empty lists of all kinds. Watches of RackTopologies fail as soon as all other watches wait."""
    waiting, all_wait = set(), asyncio.Event()

    def resources(*plurals, namespaced=True):
        async def answer(_):
            common = {"singularName": "", "namespaced": namespaced, "verbs": ["list", "watch"]}
            kinds = [{"name": plural, "kind": plural.title(), **common} for plural in plurals]
            return web.json_response({"kind": "APIResourceList", "resources": kinds})

        return answer

    async def versions(_):
        return web.json_response({"versions": ["v1"]})

    async def groups(_):
        served = [(GROUP, VERSION), ("apiextensions.k8s.io", "v1")]
        each = [(group, {"groupVersion": f"{group}/{version}", "version": version}) for group, version in served]
        return web.json_response({"groups": [{"name": g, "versions": [v], "preferredVersion": v} for g, v in each]})

    async def objects(request):
        plural = request.match_info["plural"]
        if "watch" not in request.query:
            return web.json_response({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []})
        if plural == racktopology.PLURAL:
            await all_wait.wait()
            raise web.HTTPNotFound
        waiting.add(plural)
        if len(waiting) == len(PLURALS) - 1:
            all_wait.set()
        return await asyncio.Event().wait()

    app = web.Application()
    app.router.add_get("/api", versions)
    app.router.add_get("/api/v1", resources("namespaces", namespaced=False))
    app.router.add_get("/apis", groups)
    app.router.add_get("/apis/apiextensions.k8s.io/v1", resources("customresourcedefinitions", namespaced=False))
    app.router.add_get(f"/apis/{GROUP}/{VERSION}", resources(*PLURALS))
    app.router.add_get(f"/apis/{GROUP}/{VERSION}/{{plural}}", objects)
    async with TestServer(app) as server:
        yield str(server.make_url("/"))


async def test_waiting_watches_end_when_another_watch_fails(watched):
    assert HANDLERS
    manager = StubManager()
    with pytest.raises(Exception, match="404"):
        async with asyncio.timeout(300):
            await kopf.operator(
                memo=Memo(manager, StubAccess(watched), manager.stop), standalone=True, clusterwide=True
            )
    assert manager.stopped

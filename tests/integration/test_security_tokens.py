"""A kubeconfig whose tokens are good for ten seconds, as of a cloud that trusts nobody for long."""

import asyncio
import ssl
import sys
import threading
import time
from collections import defaultdict
from contextlib import suppress

import aiohttp
import pytest
import yaml
from aiohttp import web
from tests.support.waiting import until

SECONDS = 10
PLUGIN = f"""
import json, time
now = time.time()
ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + {SECONDS}))
status = {{"token": f"{{now:.6f}}", "expirationTimestamp": ends}}
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}}))
"""


class Gate:
    """Before the API server: lets through who has a token of the last ten seconds, and ends watches with theirs."""

    def __init__(self, settings) -> None:
        self.tokens = defaultdict(set)
        """By the client that came with them."""
        self.rejected = 0
        self.port = 0
        self._server = settings.host
        self._tls = ssl.create_default_context(cafile=settings.ssl_ca_cert)
        self._tls.load_cert_chain(settings.cert_file, settings.key_file)
        self._ready, self._loop = threading.Event(), asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(300)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)

    def _serve(self):
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._open())
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._close())
        self._loop.close()

    async def _open(self):
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self._tls, limit=0))
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._pass)
        self._runner = web.AppRunner(app, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]

    async def _close(self):
        await self._session.close()
        await self._runner.cleanup()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _pass(self, request):
        token = request.headers.get("Authorization", "Bearer 0").removeprefix("Bearer ")
        left = float(token) + SECONDS - time.time()
        if left <= 0:
            self.rejected += 1
            return web.json_response({"kind": "Status", "message": "Unauthorized", "code": 401}, status=401)
        self.tokens[request.headers.get("User-Agent", "").partition("/")[0]].add(token)
        headers = {key: request.headers[key] for key in ("Accept", "Content-Type") if key in request.headers}
        url = f"{self._server}{request.raw_path}"
        body = await request.read()
        async with self._session.request(request.method, url, data=body or None, headers=headers) as answer:
            response = web.StreamResponse(
                status=answer.status, headers={"Content-Type": answer.headers["Content-Type"]}
            )
            await response.prepare(request)
            with suppress(TimeoutError, ConnectionError, aiohttp.ClientError):
                async with asyncio.timeout(left if "watch" in request.query else None):
                    async for chunk in answer.content.iter_any():
                        await response.write(chunk)
            return response


@pytest.fixture
def gate(api_client):
    with Gate(api_client.configuration) as gate:
        yield gate


@pytest.fixture
def kubeconfig(gate, tmp_path):
    plugin, path = tmp_path / "plugin.py", tmp_path / "kubeconfig"
    plugin.write_text(PLUGIN)
    program = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(plugin)],
        "interactiveMode": "Never",
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "here", "cluster": {"server": f"http://127.0.0.1:{gate.port}"}}],
        "users": [{"name": "me", "user": {"exec": program}}],
        "contexts": [{"name": "now", "context": {"cluster": "here", "user": "me"}}],
        "current-context": "now",
    }
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture
def alone(_turns):
    """Without the operator that the run shares, which would decide about the same objects."""
    _turns.pause()


@pytest.mark.usefixtures("alone", "broker_sites")
def test_a_token_that_runs_out_is_renewed_for_both_clients(objects, kafka, gate, kubeconfig, operator_factory):
    operator = operator_factory(f"--namespace={objects.namespace}", kubeconfig=kubeconfig)
    objects.create_topology(kafka.bootstrap())
    objects.create_topic("early")
    objects.until_ready("early")
    until(lambda: len(gate.tokens["kopf"]) > 2, "the watches to have had three tokens")
    objects.create_topic("late")
    objects.until_ready("late")
    assert len(gate.tokens["rackspan"]) > 1
    assert operator.running
    assert "Unauthorized" not in operator.output

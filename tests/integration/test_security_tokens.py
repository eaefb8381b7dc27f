"""A kubeconfig with tokens that expire after ten seconds, like the short-lived tokens of clouds."""

import sys
import time
from collections import defaultdict

import pytest
from aiohttp import web
from tests.support.api_proxy import ApiProxy
from tests.support.waiting import until

SECONDS = 10
PLUGIN = f"""
import json, time
now = time.time()
ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + {SECONDS}))
status = {{"token": f"{{now:.6f}}", "expirationTimestamp": ends}}
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}}))
"""


class Gate(ApiProxy):
    """A proxy that accepts tokens of the last ten seconds, and ends a watch when its token expires."""

    def __init__(self, settings) -> None:
        super().__init__(settings)
        self.tokens = defaultdict(set)
        """The accepted tokens by client."""
        self.rejected = 0

    async def refuse(self, request):
        if self.watch_seconds(request) <= 0:
            self.rejected += 1
            return web.json_response({"kind": "Status", "message": "Unauthorized", "code": 401}, status=401)
        self.tokens[request.headers.get("User-Agent", "").partition("/")[0]].add(_token(request))
        return None

    def watch_seconds(self, request):
        return float(_token(request)) + SECONDS - time.time()


def _token(request):
    return request.headers.get("Authorization", "Bearer 0").removeprefix("Bearer ")


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
    return gate.kubeconfig(path, {"exec": program})


@pytest.mark.usefixtures("alone", "broker_sites")
def test_expired_kubeconfig_token_is_renewed_for_both_clients(objects, kafka, gate, kubeconfig, operator_factory):
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

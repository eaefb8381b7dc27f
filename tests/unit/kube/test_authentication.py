"""Tokens that a credential plugin prints for a kubeconfig, and that expire."""

import asyncio
import base64
import filecmp
import json
import os
import signal
import ssl
import sys
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import kopf
import pytest
from aiohttp import web
from dev.stack.certificates import CertificateAuthority
from kubernetes.aio.config import ConfigException
from tests.support.kubeconfigs import write_kubeconfig

from rackspan.kube import authentication as access_module
from rackspan.kube.authentication import Authentication
from rackspan.kube.paths import NODES
from rackspan.kube.rest import KubeClient, Rest, connect
from rackspan.reconcile.failures import FailureError

PLUGIN = """
import json, pathlib, sys
state = pathlib.Path(sys.argv[1])
(state / "runs").open("a").write("x")
status = {"token": (state / "token").read_text(), "expirationTimestamp": (state / "ends").read_text()}
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}))
"""


@dataclass
class Issuer:
    """Issues tokens. The server accepts only the latest one."""

    folder: object
    seen: list = field(default_factory=list)

    def issue(self, token, *, seconds):
        ends = datetime.now(UTC) + timedelta(seconds=seconds)
        (self.folder / "token").write_text(token)
        (self.folder / "ends").write_text(ends.strftime("%Y-%m-%dT%H:%M:%SZ"))

    @property
    def runs(self):
        return len((self.folder / "runs").read_text())

    async def answer(self, request):
        self.seen.append(request.headers.get("Authorization"))
        if self.seen[-1] != f"Bearer {(self.folder / 'token').read_text()}":
            return web.json_response({"message": "Unauthorized"}, status=401)
        return web.json_response({"items": []})


@pytest.fixture
def issuer(tmp_path, monkeypatch):
    monkeypatch.setattr(access_module, "_PAUSE_SECONDS", 0.0)
    issuer = Issuer(tmp_path)
    issuer.issue("first", seconds=3600)
    return issuer


@pytest.fixture
async def kubeconfig(issuer, tmp_path):
    app = web.Application()
    app.router.add_get("/{path:.*}", issuer.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    plugin = tmp_path / "plugin.py"
    plugin.write_text(PLUGIN)
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(plugin), str(tmp_path)],
        }
    }
    yield write_kubeconfig(tmp_path / "kubeconfig", {"server": f"http://127.0.0.1:{port}"}, user)
    await runner.cleanup()


@pytest.fixture
async def rest(kubeconfig):
    rest = Rest(await connect(kubeconfig))
    yield rest
    await rest.close()


async def test_credential_plugin_runs_once_while_the_token_is_valid(rest, issuer):
    for _ in range(3):
        await rest.get("list", NODES.collection())
    assert issuer.runs == 1


async def test_expired_token_is_renewed_before_the_request(rest, issuer, kubeconfig):
    issuer.issue("second", seconds=-1)
    late = Rest(await connect(kubeconfig))
    issuer.issue("third", seconds=3600)
    await late.get("list", NODES.collection())
    await late.close()
    assert issuer.seen == ["Bearer third"]


async def test_rejected_token_is_renewed_and_the_request_is_sent_again(rest, issuer):
    await rest.get("list", NODES.collection())
    issuer.issue("second", seconds=3600)
    await rest.get("list", NODES.collection())
    await rest.get("list", NODES.collection())
    assert issuer.seen == ["Bearer first", "Bearer first", "Bearer second", "Bearer second"]
    assert issuer.runs == 2


async def test_request_fails_if_the_rejected_token_cannot_be_renewed(rest, issuer):
    (issuer.folder / "plugin.py").write_text("raise SystemExit(1)")
    issuer.issue("second", seconds=3600)
    with pytest.raises(FailureError, match="401"):
        await rest.get("list", NODES.collection())


async def test_credential_plugin_continues_after_its_caller_has_timed_out(rest, issuer):
    """For example, an attempt to renew the Lease ends after a sixth of the Lease duration."""
    issuer.issue("second", seconds=3600)
    (issuer.folder / "plugin.py").write_text(f"import time; time.sleep(2){PLUGIN}")
    for _ in range(100):
        with suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await rest.get("list", NODES.collection())
                break
    assert issuer.seen[-1] == "Bearer second"
    assert issuer.runs == 2


async def test_kopf_and_rest_client_share_the_renewed_token(issuer, kubeconfig):
    access = Authentication(kubeconfig)
    await access.load()
    rest = Rest(KubeClient(access))
    first = await access.login()
    assert (first.scheme, first.token) == ("Bearer", "first")
    issuer.issue("second", seconds=3600)
    await rest.get("list", NODES.collection())  # the server rejects the first token
    second = await access.login()
    await rest.close()
    assert (second.scheme, second.token) == ("Bearer", "second")
    assert issuer.runs == 2


async def test_second_login_returns_a_new_token(issuer, kubeconfig):
    access = Authentication(kubeconfig)
    await access.load()
    assert (await access.login()).token == "first"
    issuer.issue("second", seconds=3600)
    assert (await access.login()).token == "second"


async def test_login_after_forget_login_returns_the_current_token(issuer, kubeconfig):
    access = Authentication(kubeconfig)
    await access.load()
    for _ in range(2):
        access.forget_login()
        assert (await access.login()).token == "first"
    assert issuer.runs == 1


@pytest.fixture
def inline(tmp_path):
    """Return a function that writes a kubeconfig with a certificate and a key in it."""
    authority = CertificateAuthority(tmp_path / "pki")
    mine = authority.client("me", "me")

    def text(path):
        return base64.b64encode(path.read_bytes()).decode()

    cluster = {"server": "https://127.0.0.1:6443", "certificate-authority-data": text(authority.cert)}
    given = {"client-certificate-data": text(mine.cert), "client-key-data": text(mine.key)}

    def write(user=given):
        return write_kubeconfig(tmp_path / "kubeconfig", cluster, user), mine

    return write


HOLDS = """
import asyncio, pathlib, sys
from rackspan.kube.authentication import Authentication

async def hold():
    access = Authentication(pathlib.Path(sys.argv[1]))
    await access.load()
    assert access.settings.key_file
    print("loaded", flush=True)
    await asyncio.Event().wait()

asyncio.run(hold())
"""


def _printing(answer, certificate, key):
    """Return a user of a kubeconfig whose credential plugin prints these."""
    status = {"clientCertificateData": certificate, "clientKeyData": key}
    about = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    answer.write_text(json.dumps(about))
    return {"exec": {"apiVersion": about["apiVersion"], "command": "cat", "args": [str(answer)]}}


@pytest.mark.parametrize("source", ["kubeconfig", "credential plugin"])
async def test_private_key_is_never_on_a_disk_even_if_a_signal_ends_the_process(inline, tmp_path, source):
    path, mine = inline()
    if source == "credential plugin":
        path, _ = inline(_printing(tmp_path / "answer", mine.cert.read_text(), mine.key.read_text()))
    folder = tmp_path / "tmp"
    folder.mkdir()
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDS, path, env={**os.environ, "TMPDIR": str(folder)}, stdout=asyncio.subprocess.PIPE
    )
    assert await child.stdout.readline() == b"loaded\n"
    child.kill()
    assert await child.wait() == -signal.SIGKILL
    assert list(folder.iterdir()) == []


async def test_login_returns_the_certificates_of_the_kubeconfig_for_kopf(inline):
    path, mine = inline()
    access = Authentication(path)
    await access.load()
    info = kopf.ConnectionInfo(**asdict(await access.login()))
    assert info.as_http_headers() == {}
    assert info.server == "https://127.0.0.1:6443"
    (trusted,) = info.as_ssl_context().get_ca_certs()
    assert "rackspan-dev-ca" in str(trusted["subject"])
    assert filecmp.cmp(info.certificate_path, mine.cert, shallow=False)


def _descriptors():
    return len([*Path("/proc/self/fd").iterdir()])


def _content(path):
    return Path(path).read_text()


async def test_certificates_of_a_credential_plugin_are_closed_once_no_client_uses_them(inline, tmp_path):
    authority = CertificateAuthority(tmp_path / "pki-of-the-plugin")
    mine = authority.client("me", "me")
    certificate, key = mine.cert.read_text(), mine.key.read_text()
    path, _ = inline(_printing(tmp_path / "answer", certificate, key))
    first, latest = Authentication(path), Authentication(path)
    await first.load()
    held = []
    for hour in range(20):
        _printing(tmp_path / "answer", f"{certificate}\n# {hour}", f"{key}\n# {hour}")
        await latest.load()
        held.append(_descriptors())
    assert held[-1] <= held[10], "those of other tests may be closed meanwhile"
    assert [_content(path) for path in (first.settings.cert_file, first.settings.key_file)] == [certificate, key]
    assert _content(latest.settings.key_file) == f"{key}\n# 19"
    KubeClient(first).access.tls.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO())


@pytest.fixture
def good(tmp_path, monkeypatch):
    """Return a kubeconfig that can be used. The tests name it in other ways."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "good"
    path.write_text(
        "current-context: 5\ncontexts: [{name: 5, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://good'}}]\nusers: [{name: u, user: {token: t}}]\n"
    )
    return path


@pytest.mark.parametrize("named", [":{0}", "~/good", "{0.parent}/away:{0}", "{0.parent}/stale:{0}"])
async def test_kubeconfig_variable_may_have_empty_parts_a_home_and_files_that_are_away_or_stale(
    good, monkeypatch, named
):
    (good.parent / "stale").write_text("current-context: gone\ncontexts: [{name: other}]")
    monkeypatch.setenv("KUBECONFIG", named.format(good))
    access = Authentication(None)
    await access.load()
    assert access.settings.host == "http://good"


async def test_name_of_a_context_may_be_a_number(good):
    await (await connect(good)).close()


async def test_context_may_stand_in_another_file_than_its_name(good, monkeypatch):
    (good.parent / "name").write_text("current-context: 5\n")
    good.write_text(good.read_text().replace("current-context: 5\n", ""))
    monkeypatch.setenv("KUBECONFIG", f"{good}:{good.parent / 'name'}")
    await Authentication(None).load()


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("", nullcontext()),
        (
            "current-context: gone\n",
            pytest.raises(FailureError, match=r"Expected object with name gone in .*/contexts"),
        ),
    ],
)
async def test_kubeconfig_may_be_a_pipe_which_is_read_once(good, text, outcome):
    reader, writer = os.pipe()
    os.write(writer, (text or good.read_text()).encode())
    os.close(writer)
    with outcome:
        await (await connect(Path(f"/dev/fd/{reader}"))).close()
    os.close(reader)


async def test_kubeconfig_that_cannot_be_read_is_no_defect(good, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(good.parent))
    with pytest.raises(ConfigException, match="cannot be read: Is a directory"):
        await Authentication(None).load()

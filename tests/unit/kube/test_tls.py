"""Certificates that the kubelet or cert-manager replaces while the operator runs."""

import shutil
import ssl
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from dev.stack.certificates import CertificateAuthority
from kubernetes.aio.config import incluster_config
from tests.support.kubeconfigs import write_kubeconfig

from rackspan.api.reasons import Reason
from rackspan.handlers.api_session import Survival, connect
from rackspan.kube.authentication import Authentication
from rackspan.kube.paths import NODES
from rackspan.kube.rest import KubeClient, Rest
from rackspan.reconcile.failures import FailureError


class Server:
    """An API server that can be restarted with other certificates on the same port."""

    def __init__(self):
        self.port = 0
        self.clients = []
        """The common names in the client certificates, in order of the requests."""

    @asynccontextmanager
    async def running(self, certificate, clients=None):
        """Run the server. `clients` is the CA of client certificates; without it, clients need no certificate."""
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificate.cert, certificate.key)
        if clients is not None:
            tls.load_verify_locations(clients.cert)
            tls.verify_mode = ssl.CERT_REQUIRED
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=tls).start()
        self.port = runner.addresses[0][1]
        try:
            yield
        finally:
            await runner.cleanup()

    async def _answer(self, request):
        peer = request.transport.get_extra_info("peercert") or {}
        self.clients.append(dict(part[0] for part in peer.get("subject", ())).get("commonName"))
        return web.json_response({"items": []})


@pytest.fixture
def authorities(tmp_path):
    return CertificateAuthority(tmp_path / "old"), CertificateAuthority(tmp_path / "new")


def _replace(path, source):
    """Replace a file atomically, like the kubelet."""
    shutil.copy(source, path.with_suffix(".next"))
    path.with_suffix(".next").replace(path)


def _kubeconfig(folder, port, user):
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(folder / "ca.crt")}
    return write_kubeconfig(folder / "kubeconfig", cluster, user)


def _in_a_pod(folder, port, monkeypatch):
    """Set up the files and variables that the kubelet gives to a Pod."""
    (folder / "token").write_text("secret")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(folder / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(folder / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(port))


async def _assert_trusted(rest, session):
    """Check that requests of the operator and of kopf succeed."""
    await rest.get("list", NODES.collection())
    async with session.aiohttp_session.get(f"{session.server}/api") as answer:
        assert answer.status == 200


async def _assert_distrusted(rest, session):
    with pytest.raises(FailureError, match=": its certificate is not trusted: ") as error:
        await rest.get("list", NODES.collection())
    assert error.value.failure.reason is Reason.API_SERVER_UNREACHABLE
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await session.aiohttp_session.get(f"{session.server}/api")


@pytest.mark.parametrize("where", ["Pod", "kubeconfig"])
async def test_replaced_ca_certificate_is_trusted_instead_of_the_old_one(where, authorities, tmp_path, monkeypatch):
    old, new = authorities
    trusted, server = tmp_path / "ca.crt", Server()
    _replace(trusted, old.cert)
    before, after = old.server("before"), new.server("after")
    async with server.running(before):
        if where == "Pod":
            _in_a_pod(tmp_path, server.port, monkeypatch)
        access = Authentication(_kubeconfig(tmp_path, server.port, {}) if where == "kubeconfig" else None)
        await access.load()
        rest = Rest(KubeClient(access))
        session = connect(await access.login(), Survival(), tls=access.tls, trust_env=False)
        await _assert_trusted(rest, session)
    async with server.running(after):
        await _assert_distrusted(rest, session)
        _replace(trusted, new.cert)
        await _assert_trusted(rest, session)
    async with server.running(before):
        await _assert_distrusted(rest, session)
    await rest.close()
    await session.aiohttp_session.close()


async def test_unreadable_ca_file_keeps_the_certificates_read_before(authorities, tmp_path):
    old, new = authorities
    trusted, server = tmp_path / "ca.crt", Server()
    _replace(trusted, old.cert)
    certificate = old.server("server")
    async with server.running(certificate):
        access = Authentication(_kubeconfig(tmp_path, server.port, {}))
        await access.load()
        rest = Rest(KubeClient(access))
        await rest.get("list", NODES.collection())
    for spoil in (lambda: trusted.write_text("-----BEGIN CERTIFI"), trusted.unlink):
        spoil()
        async with server.running(certificate):
            await rest.get("list", NODES.collection())
    _replace(trusted, new.cert)
    async with server.running(new.server("server")):
        await rest.get("list", NODES.collection())
    await rest.close()


async def test_replaced_client_certificate_is_presented(authorities, tmp_path):
    authority, _ = authorities
    server, mine = Server(), {}
    for name in ("before", "after"):
        mine[name] = authority.client(name, name)
    shown = authority.client("shown", "before")
    _replace(tmp_path / "ca.crt", authority.cert)
    certificate = authority.server("server")
    user = {"client-certificate": str(shown.cert), "client-key": str(shown.key)}
    async with server.running(certificate, authority):
        access = Authentication(_kubeconfig(tmp_path, server.port, user))
        await access.load()
        rest = Rest(KubeClient(access))
        await rest.get("list", NODES.collection())
    _replace(shown.cert, mine["after"].cert)
    _replace(shown.key, mine["after"].key)
    async with server.running(certificate, authority):
        await rest.get("list", NODES.collection())
    await rest.close()
    assert server.clients == ["before", "after"]

"""Tokens of an OAuth 2 server: one request for all threads, renewal before expiry, and a message for each failure."""

import base64
import json
import re
import socket
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest
from dev.stack.certificates import CertificateAuthority
from tests.support.token_server import CLIENT, SECRET, token_server
from tests.support.waiting import until

from rackspan.api.reasons import Reason
from rackspan.kafka.admin import ConfluentAdmin
from rackspan.kafka.oauth_login import OauthLogin, login_of, wrong_with_url
from rackspan.kafka.python_connection import PythonConnection
from rackspan.kafka.token_provider import TokenProvider, token_provider
from rackspan.reconcile.failures import FailureError, KafkaSetting, Remedy

REFUSED = (Reason.AUTHENTICATION_FAILED, Remedy.ACCESS, KafkaSetting.TOKEN_ENDPOINT)
BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
LATER = (Reason.AUTHENTICATION_FAILED, Remedy.RETRY, KafkaSetting.TOKEN_ENDPOINT)


@pytest.fixture
def server():
    with token_server() as running:
        yield running


def login(server, **more):
    return replace(OauthLogin(server.url, CLIENT, SECRET), **more)


def failure(provider):
    with pytest.raises(FailureError) as caught:
        provider.token()
    found = caught.value.failure
    assert provider.failure == found
    return found


def refused(server, seconds=10.0, **more):
    return failure(TokenProvider(login(server, **more), seconds))


def test_concurrent_threads_share_one_token_request(server):
    provider, found = TokenProvider(login(server, scope="topics groups")), []
    threads = [threading.Thread(target=lambda: found.append(provider.token())) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(set(found)) == 1
    assert server.asked == [{"grant_type": ["client_credentials"], "scope": ["topics groups"]}]
    text, expires = provider.for_librdkafka()
    assert text == found[0]
    assert expires == pytest.approx(time.time() + 300, abs=60)


def test_token_is_renewed_after_four_fifths_of_its_lifetime(server, monkeypatch):
    provider, started = TokenProvider(login(server)), time.monotonic()
    now = [started]
    monkeypatch.setattr("rackspan.kafka.token_provider.uptime", lambda: now[0])
    first = provider.token()
    now[0] = started + 239
    assert provider.token() == first
    now[0] = started + 241
    assert provider.token() != first


def test_token_that_expired_while_the_machine_was_suspended_is_not_used(server, monkeypatch):
    provider, clock_gettime = TokenProvider(login(server)), time.clock_gettime
    first = provider.token()
    monkeypatch.setattr(time, "clock_gettime", lambda clock: clock_gettime(clock) + 7200 * (clock == BOOTTIME))
    assert provider.token() != first


def test_failed_renewal_is_no_failure_while_the_token_is_valid(server, monkeypatch):
    provider, now = TokenProvider(login(server)), [0.0]
    monkeypatch.setattr("rackspan.kafka.token_provider.uptime", lambda: now[0])
    first = provider.token()
    server.status, now[0] = 503, 250.0
    assert provider.token() == first
    assert provider.failure is None
    assert provider.token() == first
    assert len(server.asked) == 2, "a failed endpoint is not asked again during a pause"
    now[0] = 301.0
    assert failure(provider).remedy is Remedy.RETRY
    server.status, now[0] = 200, 305.0
    assert provider.token() != first
    assert provider.failure is None


@pytest.mark.parametrize(
    ("status", "body", "sentence", "kind"),
    [
        (
            401,
            b"",
            "answers with status 401: the client id or the client secret is wrong, or this client may not get tokens",
            REFUSED,
        ),
        (400, b'{"error": "invalid_scope"}', "answers with status 400 (invalid_scope)", REFUSED),
        (400, b'{"error": "<a page of somebody>"}', "answers with status 400", REFUSED),
        (302, b"", "answers with status 302", REFUSED),
        (503, b"", "answers with status 503", LATER),
        (429, b"", "answers with status 429", LATER),
        (
            401,
            b'{"error": {"code": 401, "message": "invalid_client"}}',
            "answers with status 401: the client id or the client secret is wrong, or this client may not get tokens",
            REFUSED,
        ),
        (503, b'{"error": ["invalid_client"]}', "answers with status 503", LATER),
        (400, b'{"error": null}', "answers with status 400", REFUSED),
        (400, b'{"error": 17}', "answers with status 400", REFUSED),
        (400, b'["invalid_client"]', "answers with status 400", REFUSED),
    ],
)
def test_error_status_maps_to_a_failure(server, status, body, sentence, kind):
    server.status, server.body = status, body
    found = refused(server)
    assert found.what == f"no token for Kafka: 127.0.0.1:{server.port} {sentence}"
    assert (found.reason, found.remedy, found.setting) == kind


@pytest.mark.parametrize("error", [TypeError("canary"), KeyError("canary"), RecursionError("canary")])
def test_unexpected_exception_in_a_renewal_is_no_failure_while_the_token_is_valid(server, monkeypatch, error):
    provider, now, asked = TokenProvider(login(server)), [0.0], []
    monkeypatch.setattr("rackspan.kafka.token_provider.uptime", lambda: now[0])
    first = provider.token()
    monkeypatch.setattr("rackspan.kafka.token_provider.ask", lambda *_: _raise(error, asked))
    now[0] = 250.0
    assert provider.token() == first
    assert provider.token() == first
    assert len(asked) == 1, "a failed endpoint is not asked again during a pause"
    now[0] = 301.0
    found = failure(provider)
    assert found.what == f"no token for Kafka: the request failed with {type(error).__name__}"
    assert (found.reason, found.remedy, found.setting) == LATER


def test_lack_of_memory_is_not_reported_as_a_failure_of_the_endpoint(server, monkeypatch):
    provider = TokenProvider(login(server))
    with monkeypatch.context() as patched:
        patched.setattr("rackspan.kafka.token_provider.ask", lambda *_: _raise(MemoryError(), []))
        with pytest.raises(MemoryError):
            provider.token()
    assert provider.token()


def _raise(error, asked):
    asked.append(1)
    raise error


def test_token_is_requested_again_after_a_thread_could_not_start(server, monkeypatch):
    provider, now = TokenProvider(login(server), 1.0), [0.0]
    monkeypatch.setattr("rackspan.kafka.token_provider.uptime", lambda: now[0])
    with _no_threads(monkeypatch):
        found = failure(provider)
    assert found.what == "no token for Kafka: no thread can be started for the request"
    assert (found.reason, found.remedy, found.setting) == (Reason.AUTHENTICATION_FAILED, Remedy.RETRY, None)
    now[0] = 10.0
    first = provider.token()
    now[0] = 260.0
    with _no_threads(monkeypatch):
        assert provider.token() == first, "the token is still valid"
    now[0] = 270.0
    assert provider.token() != first


@contextmanager
def _no_threads(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", lambda _: _raise(RuntimeError("can't start new thread"), []))
        yield


def test_wrong_client_secret_is_reported_and_not_shown(server):
    found = refused(server, client_secret="canary")
    assert "status 401 (invalid_client): the client id or the client secret is wrong" in found.message
    assert "canary" not in found.message + repr(login(server, client_secret="canary"))


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"<html>", "the answer of SERVER is not a JSON object"),
        (b"[]", "the answer of SERVER is not a JSON object"),
        (b"[" * 60_000, "the answer of SERVER is not a JSON object"),
        (b'{"token": "a"}', "the answer of SERVER has no access_token"),
        (b'{"access_token": 1}', "the answer of SERVER has no access_token"),
        (b'{"access_token": "a\\u0001auth=b"}', "the access_token of SERVER has characters that a token cannot have"),
        (b'{"access_token": "a"}', "SERVER does not say when its token expires: there is neither expires_in nor exp"),
        (b'{"access_token": "a", "expires_in": 1e400}', "the answer of SERVER is not a JSON object"),
        (
            b'{"access_token": "a", "expires_in": 0}',
            "the token of SERVER expired at once by this clock: compare it with",
        ),
        (b" " * 70_000, "the answer of SERVER is larger than 64 KiB"),
    ],
)
def test_response_without_a_usable_token_is_a_failure(server, body, sentence):
    server.body = body
    found = refused(server)
    assert found.what.startswith("no token for Kafka: " + sentence.replace("SERVER", f"127.0.0.1:{server.port}"))
    assert (found.reason, found.remedy, found.setting) == REFUSED


def test_expiry_is_that_of_the_jwt_if_expires_in_is_missing(server):
    server.seconds = 90
    server.body = json.dumps({"access_token": server.token(), "expires_in": None}).encode()
    assert TokenProvider(login(server)).for_librdkafka()[1] == pytest.approx(time.time() + 90, abs=60)


def test_expired_jwt_is_a_failure_unless_expires_in_is_set(server):
    server.seconds = -600
    server.body = json.dumps({"access_token": server.token()}).encode()
    expected = (
        rf"the token of 127.0.0.1:{server.port} expired 6\d\d s ago by this clock: compare it with the endpoint's$"
    )
    assert re.search(expected, refused(server).what)
    server.body = json.dumps({"access_token": server.token(), "expires_in": "300"}).encode()
    assert TokenProvider(login(server)).token(), "expires_in does not depend on the clock"


def test_unreachable_endpoint_is_a_failure(server):
    assert refused(server, url="http://127.0.0.1:1/token").what == (
        "no token for Kafka: 127.0.0.1:1 cannot be asked: Connection refused"
    )
    found = refused(server, url="https://tokens.invalid/token")
    assert found.what.startswith("no token for Kafka: tokens.invalid:443 cannot be reached: ")
    assert (found.reason, found.remedy, found.setting) == LATER


@pytest.mark.parametrize(("delay", "trickle"), [(30, 0), (0, 0.2)])
def test_slow_response_times_out(server, delay, trickle):
    server.delay, server.trickle, started = delay, trickle, time.monotonic()
    found = refused(server, seconds=1.0)
    assert found.what == f"no token for Kafka: 127.0.0.1:{server.port} has not answered within 1 s"
    assert time.monotonic() - started < 25
    assert found.remedy is Remedy.RETRY


def test_endpoint_that_does_not_speak_http_is_a_failure():
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer():
            with other.accept()[0] as client:
                client.recv(100)
                client.sendall(b"SSH-2.0-x\r\n")

        threading.Thread(target=answer, daemon=True).start()
        url = f"http://127.0.0.1:{other.getsockname()[1]}/"
        found = failure(TokenProvider(OauthLogin(url, CLIENT, SECRET)))
    assert found.what.endswith("cannot be asked: it ends the connection, or does not speak HTTP")


@contextmanager
def endless_answer(head, block):
    """Yield a URL, and a list with the sum of bytes sent: `head`, then `block` until nobody reads, up to 64 MiB."""
    sent = [0]
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer():
            with other.accept()[0] as client, suppress(OSError):
                client.recv(10_000)
                client.sendall(head)
                while block and sent[0] < 64 << 20:
                    client.sendall(block * (1 << 20 // len(block)))
                    sent[0] += len(block) * (1 << 20 // len(block))

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{other.getsockname()[1]}/", sent
        thread.join(30)
        assert not thread.is_alive()


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
TOO_LARGE = "is larger than 64 KiB"
NO_HTTP = "cannot be asked: it ends the connection, or does not speak HTTP"


@pytest.mark.parametrize(
    ("head", "block", "sentence"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", bytes(1024), TOO_LARGE),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", bytes(1024), TOO_LARGE),
        (CHUNKED + b"-1\r\n", bytes(1024), TOO_LARGE),
        (CHUNKED + b"ffffffffffffffffffff\r\n", bytes(1024), TOO_LARGE),
        (CHUNKED, b"1\r\na\r\n", TOO_LARGE),
        (CHUNKED + b"0\r\n", b"a: b\r\n", TOO_LARGE),
        (CHUNKED + b"1;", b"a" * 1024, NO_HTTP),
        (CHUNKED + b"-5\r\n", b"", NO_HTTP),
        (CHUNKED + b"canary\r\n", b"", NO_HTTP),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", TOO_LARGE),
        (b"HTTP/1.1 200 OK\r\n", b"a: " + b"b" * 60_000 + b"\r\n", TOO_LARGE),
        (b"HTTP/1.1 200 OK\r\n", b"a: b\r\n", NO_HTTP),
        (b"HTTP/1.1 200 ", b"a" * 1024, NO_HTTP),
    ],
    ids=[
        "no length",
        "large length",
        "chunk of size -1",
        "large chunk",
        "small chunks",
        "trailers",
        "chunk extension",
        "chunk of size -5",
        "chunk without a size",
        "1xx responses",
        "long headers",
        "short headers",
        "status line",
    ],
)
def test_endless_response_is_read_in_part_only(head, block, sentence):
    with endless_answer(head, block) as (url, sent):
        assert failure(TokenProvider(OauthLogin(url, CLIENT, SECRET))).what.endswith(sentence)
    assert sent[0] < 32 << 20


def test_chunked_response_of_64_kib_is_read():
    body = json.dumps({"access_token": "a" * 60_000, "expires_in": 300}).ljust(64 << 10).encode()
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:40_000], body[40_000:]))
    with endless_answer(CHUNKED + chunks + b"0\r\n\r\n", b"") as (url, _):
        assert TokenProvider(OauthLogin(url, CLIENT, SECRET)).token() == "a" * 60_000


def test_certificate_and_host_name_of_the_endpoint_are_verified(tmp_path):
    ours, theirs = CertificateAuthority(tmp_path / "ours"), CertificateAuthority(tmp_path / "theirs")
    with token_server(ours.server("tokens")) as server:
        assert TokenProvider(login(server, ca_file=str(ours.cert))).token()
        assert TokenProvider(login(server, ca_pem=ours.cert.read_text())).token()
        for trusted in (theirs.cert.read_text(), None):
            found = refused(server, ca_pem=trusted)
            assert (found.reason, found.remedy, found.setting) == (
                Reason.TLS_FAILED,
                Remedy.ACCESS,
                KafkaSetting.TOKEN_CA,
            )
            assert "is not from this authority, or is for another host name" in found.what
    with token_server(ours.server("elsewhere", ["tokens.example"])) as server:
        assert refused(server, ca_file=str(ours.cert)).reason is Reason.TLS_FAILED
    with token_server() as plain:
        url = plain.url.replace("http:", "https:")
        assert "no TLS connection to 127.0.0.1:" in refused(plain, url=url).what


def test_certificates_of_the_endpoint_may_have_comments_in_any_language(tmp_path):
    ours = CertificateAuthority(tmp_path)
    with token_server(ours.server("tokens")) as server:
        assert TokenProvider(login(server, ca_pem=f"# Főtanúsítvány\n{ours.cert.read_text()}")).token()


def test_invalid_ca_certificate_is_a_tls_failure(server):
    for bad in ({"ca_pem": "no PEM"}, {"ca_pem": "ő"}, {"ca_file": "/nope.pem"}):
        with pytest.raises(FailureError, match="a certificate cannot be used") as caught:
            TokenProvider(login(server, url="https://tokens.example/", **bad))
        assert caught.value.failure.reason is Reason.TLS_FAILED


def test_id_and_secret_are_url_encoded_only_if_requested(server, monkeypatch):
    seen = []
    monkeypatch.setattr(
        server, "answer", lambda header, _: (seen.append(base64.b64decode(header.split()[1])), (503, b""))[1]
    )
    for encoded in (False, True):
        refused(server, client_secret="a+b%", url_encoded=encoded)
    assert seen == [b"rackspan:a+b%", b"rackspan:a%2Bb%25"]


LOGIN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://tokens.example/token",
    "sasl.oauthbearer.client.credentials.client.id": "me",
    "sasl.oauthbearer.client.credentials.client.secret": "canary",
}


def test_login_properties_are_read_and_the_secret_is_not_in_repr():
    found = login_of({**LOGIN, "sasl.oauthbearer.scope": "s", "https.ca.location": "ca.pem"})
    assert (found.client_id, found.client_secret, found.scope, found.ca_file) == ("me", "canary", "s", "ca.pem")
    assert "canary" not in repr(found)
    assert token_provider({**LOGIN, "sasl.mechanism": "PLAIN"}) is None


@pytest.mark.parametrize("name", [name for name in LOGIN if name.startswith("sasl.oauthbearer")])
def test_error_names_the_missing_property(name):
    with pytest.raises(FailureError, match=f"OAUTHBEARER needs {name}"):
        login_of({key: value for key, value in LOGIN.items() if key != name})


def test_error_names_the_unknown_property_without_its_value():
    with pytest.raises(FailureError, match=r"^sasl.oauthbearer.assertion.file is not supported$"):
        login_of({**LOGIN, "sasl.oauthbearer.assertion.file": "canary"})


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("http://tokens.example/token", "has to begin with https://"),
        ("file:///token", "no host name"),
        ("https://me:canary@tokens.example/", "a user name or a password has no place"),
        ("https://tokens.example/#a", "has no fragment"),
        ("https://tokens.example/\n", "not a URL of up to"),
        ("https://tokens.example:0/", "no port from 1"),
        ("https://tokens.example:99999/", "not a URL"),
        ("https:///token", "no host name"),
        ("https://[::1/", "not a URL"),
        ("", "no host name"),
        ("https://" + "a" * 3_000, "not a URL of up to"),
        ("https://tokens..example/token", "a part of its host name is empty"),
        ("https://.tokens.example/", "a part of its host name is empty"),
        ("https://tokens.example..:443/", "a part of its host name is empty"),
        ("https://./", "a part of its host name is empty"),
        ("https://1..2/", "a part of its host name is empty"),
        (f"https://a.{'b' * 64}.example/", "or longer than 63 characters"),
        (f"https://a.{'b' * 64}", "or longer than 63 characters"),
    ],
)
def test_invalid_endpoint_url_is_rejected(url, sentence):
    wrong = wrong_with_url(url, loopback=True)
    assert sentence in wrong
    assert "canary" not in wrong


@pytest.mark.parametrize("host", ["a", "tokens.example.", "10.0.0.1", "[2001:db8::1]", "[::ffff:10.0.0.1]", "b" * 63])
def test_valid_host_of_an_endpoint_is_accepted(host):
    assert wrong_with_url(f"https://{host}:8443/a..b/{'c' * 64}", loopback=False) is None


def test_host_name_that_cannot_be_encoded_is_a_failure(server):
    found = refused(server, url="https://tokens..example/token")
    assert (found.reason, found.remedy, found.setting) == LATER


def test_plain_http_is_allowed_for_loopback_only():
    for host in ("127.0.0.1:80", "[::1]:80", "localhost"):
        assert wrong_with_url(f"http://{host}/token", loopback=True) is None
        assert wrong_with_url(f"http://{host}/token", loopback=False) is not None


def at_nobody(server):
    """Return the properties of a client that cannot reach a broker."""
    return {
        "bootstrap.servers": "127.0.0.1:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": server.url,
        "sasl.oauthbearer.client.credentials.client.id": CLIENT,
        "sasl.oauthbearer.client.credentials.client.secret": SECRET,
    }


def test_both_kafka_clients_raise_the_same_failure(server):
    server.status = 503
    with pytest.raises(FailureError) as by_librdkafka:
        ConfluentAdmin(at_nobody(server))
    with pytest.raises(FailureError) as by_kafka_python:
        PythonConnection(at_nobody(server)).reassigned()
    assert by_librdkafka.value.failure == by_kafka_python.value.failure
    assert "answers with status 503" in by_librdkafka.value.failure.what


async def test_call_with_an_expired_token_fails_with_the_error_of_the_endpoint(server):
    server.seconds = 2
    admin = ConfluentAdmin(at_nobody(server))
    try:
        with pytest.raises(FailureError, match=r"^no broker of 127.0.0.1:1 can be reached"):
            await admin.cluster()
        server.status = 503
        until(lambda: admin._tokens.failure, "the token to expire")
        with pytest.raises(FailureError, match=r"answers with status 503$"):
            await admin.cluster()
    finally:
        await admin.close()

"""A token endpoint with its keys, like those of an OAuth 2 server (RFC 6749, RFC 7517), on loopback."""

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from dev.stack.certificates import Certificate

ISSUER = "https://tokens.example"
AUDIENCE = "kafka"
CLIENT, SECRET = "rackspan", "a-secret-of-the-client"


@cache
def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@dataclass
class TokenServer:
    """A token server. Tests may change its responses at any time. `asked` lists the requests."""

    key: rsa.RSAPrivateKey = field(default_factory=_key)
    seconds: int = 300
    """How long a token is valid."""
    key_id: str = "of-the-tests"
    """The id of the key, by which brokers look it up."""
    keys_status: int = 200
    """The HTTP status of the response with the public key."""
    claims: dict[str, Any] = field(default_factory=dict)
    """Additional or replaced claims of a token."""
    status: int = 200
    body: bytes | None = None
    """A response body instead of a token."""
    delay: float = 0
    """Seconds before a response."""
    trickle: float = 0
    """Seconds between two bytes of a response."""
    asked: list[Mapping[str, list[str]]] = field(default_factory=list)
    given: list[str] = field(default_factory=list)
    """The issued tokens."""
    port: int = 0
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/token"

    @property
    def jwks_url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/jwks"

    def token(self) -> str:
        """Return a signed token (RFC 7519)."""
        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": CLIENT,
            "iat": now,
            "exp": now + self.seconds,
            "jti": str(len(self.asked)),
            **self.claims,
        }
        signed = f"{_encoded({'alg': 'RS256', 'typ': 'JWT', 'kid': self.key_id})}.{_encoded(claims)}"
        signature = self.key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_base64(signature)}"

    def keys(self) -> bytes:
        """Return the public key as a JSON Web Key Set."""
        numbers = self.key.public_key().public_numbers()
        n, e = (_base64(one.to_bytes((one.bit_length() + 7) // 8)) for one in (numbers.n, numbers.e))
        key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": self.key_id, "n": n, "e": e}
        return json.dumps({"keys": [key]}).encode()

    def answer(self, authorization: str, form: Mapping[str, list[str]]) -> tuple[int, bytes]:
        """Return the status and the body of the response to a token request."""
        self.asked.append(form)
        if self.body is not None or self.status != 200:
            return self.status, self.body or b""
        expected = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if authorization != f"Basic {expected}":
            return 401, b'{"error": "invalid_client", "error_description": "who are you?"}'
        if form.get("grant_type") != ["client_credentials"]:
            return 400, b'{"error": "unsupported_grant_type"}'
        self.given.append(self.token())
        found = {"access_token": self.given[-1], "token_type": "Bearer", "expires_in": self.seconds}
        return 200, json.dumps(found).encode()


@contextmanager
def token_server(certificate: Certificate | None = None) -> Iterator[TokenServer]:
    """Serve until the block ends, with TLS if there is a certificate."""
    server = TokenServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(server.keys_status, server.keys() if server.keys_status == 200 else b"")

        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            time.sleep(server.delay)
            self._send(*server.answer(self.headers.get("Authorization", ""), parse_qs(form)))

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            if status == 302:
                self.send_header("Location", f"{server.url}/elsewhere")
            self.end_headers()
            for byte in (bytes([one]) for one in body) if server.trickle else (body,):
                time.sleep(server.trickle)
                self.wfile.write(byte)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    http.handle_error = lambda *_: None  # type: ignore[method-assign]  # some tests disconnect early
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.cert, certificate.key)
        http.socket = context.wrap_socket(http.socket, server_side=True, do_handshake_on_connect=False)
        server.scheme = "https"
    server.port = http.server_address[1]
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()


def reset(server: TokenServer) -> None:
    """Reset the settings of the server to their defaults."""
    fresh = TokenServer()
    for name in ("seconds", "key_id", "keys_status", "claims", "status", "body", "delay", "trickle"):
        setattr(server, name, getattr(fresh, name))


def broker_properties(server: TokenServer) -> dict[str, str | None]:
    """Return broker properties to accept tokens with and without TLS, and to end sessions with the token (KIP-368)."""
    return _at("listener.name.sasl_plaintext", server) | _at("listener.name.sasl_ssl", server)


def _at(listener: str, server: TokenServer) -> dict[str, str | None]:
    kafka = "org.apache.kafka.common.security.oauthbearer"
    return {
        f"{listener}.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{listener}.oauthbearer.sasl.server.callback.handler.class": f"{kafka}.OAuthBearerValidatorCallbackHandler",
        f"{listener}.oauthbearer.sasl.jaas.config": f"{kafka}.OAuthBearerLoginModule required ;",
        f"{listener}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": server.jwks_url,
        f"{listener}.oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
        f"{listener}.oauthbearer.sasl.oauthbearer.expected.issuer": ISSUER,
        f"{listener}.oauthbearer.sasl.oauthbearer.clock.skew.seconds": "0",
        f"{listener}.oauthbearer.connections.max.reauth.ms": "3600000",
    }


def broker_jvm(server: TokenServer) -> tuple[str, ...]:
    """Return the JVM option without which Kafka 4 requests no keys from a server (CVE-2025-27817)."""
    return (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={server.jwks_url}",)


def _encoded(part: Mapping[str, Any]) -> str:
    return _base64(json.dumps(part).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")

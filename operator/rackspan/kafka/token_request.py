"""One request to a token endpoint: OAuth 2's client credentials (RFC 6749, section 4.4).

The endpoint is not trusted. The response is limited in size and time, redirects are not followed, and the certificate
is verified. Messages quote only the status and the error codes of RFC 6749, so that a user who configures an endpoint
learns nothing else about the server.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import http.client
import io
import re
import socket
import ssl
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, urlencode

import msgspec

from rackspan.api.reasons import Reason
from rackspan.kafka.authorities import context_of
from rackspan.reconcile.failures import Failure, FailureError, KafkaSetting, Remedy

if TYPE_CHECKING:
    from rackspan.kafka.oauth_login import OauthLogin

_CONNECT_SECONDS = 5.0
_LONGEST_ANSWER = 64 << 10
_LONGEST_LIFE = 366 * 86_400.0
_BEARER = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""A token by RFC 6750. Other characters could add fields to the SASL message."""
_OK, _SERVER_ERROR, _TOO_MANY = 200, 500, 429
_CODES = frozenset(
    {
        "invalid_client",
        "invalid_grant",
        "invalid_request",
        "invalid_scope",
        "unauthorized_client",
        "unsupported_grant_type",
    }
)


@dataclass(frozen=True, slots=True)
class Token:
    """An access token, and for how many seconds after the request it is valid."""

    text: str = field(repr=False)
    seconds: float


def trust(login: OauthLogin) -> ssl.SSLContext | None:
    """Return the TLS context for the endpoint's CA, or None for http. Raises FailureError if the CA cannot be read."""
    if login.parts.scheme != "https":
        return None
    try:
        return context_of(login.ca_file, login.ca_pem)
    except (OSError, ValueError) as error:
        words = f"a certificate cannot be used: {getattr(error, 'strerror', None) or error}"
        raise FailureError(Failure(Reason.TLS_FAILED, words, Remedy.ACCESS, KafkaSetting.TOKEN_CA)) from error


def ask(login: OauthLogin, context: ssl.SSLContext | None, seconds: float) -> Token:
    """Return a new token. Raises FailureError, also after `seconds`, or later if the name resolution takes longer."""
    deadline = time.monotonic() + seconds
    try:
        status, body = _answer(login, context, seconds)
    except ssl.SSLCertVerificationError as error:
        what = f"the certificate of {login.server} is not from this authority, or is for another host name"
        raise FailureError(_failure(what, Reason.TLS_FAILED, setting=KafkaSetting.TOKEN_CA)) from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise FailureError(_unanswered(login, error, seconds, in_time=time.monotonic() < deadline)) from error
    if time.monotonic() >= deadline:  # a response that was cut off can look complete
        raise FailureError(no_answer(login, seconds))
    if status != _OK:
        raise FailureError(_refusal(login, status, body))
    return _token(login, body)


def no_answer(login: OauthLogin, seconds: float) -> Failure:
    """Return the Failure of an endpoint that does not respond in time."""
    return _failure(f"{login.server} has not answered within {seconds:g} s", remedy=Remedy.RETRY)


def _answer(login: OauthLogin, context: ssl.SSLContext | None, seconds: float) -> tuple[int, bytes]:
    host = login.parts.hostname or ""
    opened = socket.create_connection((host, login.port), timeout=min(seconds, _CONNECT_SECONDS))
    if context is not None:
        opened = context.wrap_socket(opened, server_hostname=host, do_handshake_on_connect=False)
    with opened:
        # A timeout of each read does not limit all reads together, so a timer shuts the socket down.
        end = threading.Timer(seconds, _shut, [opened])
        end.daemon = True
        end.start()
        try:
            opened.settimeout(seconds)
            if isinstance(opened, ssl.SSLSocket):
                opened.do_handshake()
            connection = http.client.HTTPConnection(host, login.port)
            connection.default_port = 80 if context is None else 443  # the Host header leaves the default port out
            connection.sock = opened
            path = login.parts.path or "/"
            connection.request(
                "POST",
                f"{path}?{login.parts.query}" if login.parts.query else path,
                urlencode({"grant_type": "client_credentials"} | ({"scope": login.scope} if login.scope else {})),
                {
                    "Accept": "application/json",
                    "Authorization": _basic(login),
                    "Connection": "close",
                    "Content-Type": "application/x-www-form-urlencoded",
                    "User-Agent": "rackspan",
                },
            )
            response = http.client.HTTPResponse(opened, method="POST")
            response.fp = io.BufferedReader(_Limited(opened, login))
            response.begin()
            body = response.read(_LONGEST_ANSWER + 1)
        finally:
            end.cancel()
    if len(body) > _LONGEST_ANSWER:
        raise FailureError(_too_large(login))
    return response.status, body


class _Limited(io.RawIOBase):
    """What a socket receives, up to twice `_LONGEST_ANSWER`: a body, and as much for all that is no body.

    http.client limits neither the number of 1xx responses, chunks and trailers nor the size of a chunk of size -1.
    """

    def __init__(self, opened: socket.socket, login: OauthLogin) -> None:
        super().__init__()
        self._opened, self._login = opened, login
        self._left = 2 * _LONGEST_ANSWER

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a part of `buffer`, and return its size. Raises FailureError after the limit."""
        if self._left <= 0:
            raise FailureError(_too_large(self._login))
        size = self._opened.recv_into(buffer)
        self._left -= size
        return size


def _too_large(login: OauthLogin) -> Failure:
    return _failure(f"the answer of {login.server} is larger than {_LONGEST_ANSWER >> 10} KiB")


def _shut(opened: socket.socket) -> None:
    with contextlib.suppress(OSError):
        socket.socket.shutdown(opened, socket.SHUT_RDWR)  # ssl's own would remove the TLS state that the reader uses


def _basic(login: OauthLogin) -> str:
    pair = (login.client_id, login.client_secret)
    text = ":".join(map(quote_plus, pair) if login.url_encoded else pair)
    return f"Basic {base64.b64encode(text.encode()).decode()}"


def _unanswered(login: OauthLogin, error: Exception, seconds: float, *, in_time: bool) -> Failure:
    if not in_time or isinstance(error, TimeoutError):
        return no_answer(login, seconds)
    if isinstance(error, ssl.SSLError):
        return _failure(f"no TLS connection to {login.server}: {error.reason or error}", Reason.TLS_FAILED)
    if isinstance(error, http.client.RemoteDisconnected | ConnectionError) or not isinstance(error, OSError):
        refused = isinstance(error, ConnectionRefusedError)
        why = "Connection refused" if refused else "it ends the connection, or does not speak HTTP"
        return _failure(f"{login.server} cannot be asked: {why}", remedy=Remedy.RETRY)
    return _failure(f"{login.server} cannot be reached: {error.strerror or error}", remedy=Remedy.RETRY)


def _refusal(login: OauthLogin, status: int, body: bytes) -> Failure:
    answer = _decoded(body)
    code = answer.get("error") if isinstance(answer, dict) else None
    known = f" ({code})" if isinstance(code, str) and code in _CODES else ""
    what = f"{login.server} answers with status {status}{known}"
    if status in (401, 403) or code == "invalid_client":
        return _failure(f"{what}: the client id or the client secret is wrong, or this client may not get tokens")
    remedy = Remedy.RETRY if status >= _SERVER_ERROR or status == _TOO_MANY else Remedy.ACCESS
    return _failure(what, remedy=remedy)


def _token(login: OauthLogin, body: bytes) -> Token:
    answer = _decoded(body)
    if not isinstance(answer, dict):
        raise FailureError(_failure(f"the answer of {login.server} is not a JSON object"))
    text = answer.get("access_token")
    if not isinstance(text, str) or not text:
        raise FailureError(_failure(f"the answer of {login.server} has no access_token"))
    if _BEARER.fullmatch(text) is None:
        raise FailureError(_failure(f"the access_token of {login.server} has characters that a token cannot have"))
    seconds = _number(answer.get("expires_in"))
    if seconds is None:
        expires = _number(_claims(text).get("exp"))
        if expires is None:
            raise FailureError(
                _failure(f"{login.server} does not say when its token expires: there is neither expires_in nor exp")
            )
        seconds = expires - time.time()
    if seconds <= 0:
        late = f"{-seconds:.0f} s ago" if seconds < 0 else "at once"
        raise FailureError(
            _failure(f"the token of {login.server} expired {late} by this clock: compare it with the endpoint's")
        )
    return Token(text, min(seconds, _LONGEST_LIFE))


def _claims(text: str) -> dict[str, Any]:
    """Return the claims of a JWT, none if the token is not a JWT. Only brokers verify them."""
    _, _, rest = text.partition(".")
    body = rest.partition(".")[0]
    try:
        claims = _decoded(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (binascii.Error, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _number(value: Any) -> float | None:
    """Return a number of seconds, or None. Some endpoints send the number as text."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,12}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:  # noqa: PLR2004
        return None
    return float(value)


def _failure(
    what: str,
    reason: Reason = Reason.AUTHENTICATION_FAILED,
    *,
    remedy: Remedy = Remedy.ACCESS,
    setting: KafkaSetting = KafkaSetting.TOKEN_ENDPOINT,
) -> Failure:
    return Failure(reason, f"no token for Kafka: {what}", remedy, setting)

"""How a Kafka client gets its tokens (SASL/OAUTHBEARER, KIP-768), read from properties with librdkafka's names.

librdkafka does not get the secret, because its own client for token endpoints is not used (see `token_provider`).
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urlsplit

from rackspan.kafka.msk_login import MSK_MECHANISM, PREFIX, msk_login_of
from rackspan.reconcile.failures import KafkaSetting, invalid_spec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.kafka.msk_login import MskLogin

MECHANISM: Final = "OAUTHBEARER"
ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105 - a property's name
SCOPE: Final = "sasl.oauthbearer.scope"
CA_FILE: Final = "https.ca.location"
CA_PEM: Final = "https.ca.pem"
URL_ENCODED: Final = "sasl.oauthbearer.header.urlencode"
"""Kafka's name: librdkafka has no counterpart."""
_NAMES: Final = frozenset({ENDPOINT, CLIENT_ID, CLIENT_SECRET, SCOPE, CA_FILE, CA_PEM, URL_ENCODED})
_OAUTH: Final = ("sasl.oauthbearer.", "https.ca.")
_LONGEST_URL = 2_048
_LONGEST_LABEL = 63
"""The longest part of a host name between dots (RFC 1035, section 2.3.4)."""
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9A-Fa-f:.]{2,45}")


@dataclass(frozen=True, slots=True)
class OauthLogin:
    """A token endpoint and the client's credentials. `ca_file` and `ca_pem` are its CA, else the system's CAs count."""

    url: str
    client_id: str = field(repr=False)
    client_secret: str = field(repr=False)
    scope: str = ""
    ca_file: str | None = None
    ca_pem: str | None = field(default=None, repr=False)
    url_encoded: bool = False
    """Whether id and secret are URL-encoded in the header, by RFC 6749. Kafka's clients do not encode by default."""

    @property
    def parts(self) -> SplitResult:
        """The parsed URL."""
        return urlsplit(self.url)

    @property
    def server(self) -> str:
        """`host:port` of the token endpoint."""
        host = self.parts.hostname or ""
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def port(self) -> int:
        """The token endpoint's port."""
        return self.parts.port or (443 if self.parts.scheme == "https" else 80)


def uses_tokens(properties: Mapping[str, str | int | bool]) -> bool:
    """Return whether a client with these properties logs in with tokens."""
    mechanism = _mechanism(properties)
    protocol = str(properties.get("security.protocol", ""))
    return mechanism == MSK_MECHANISM or (mechanism == MECHANISM and protocol.upper().startswith("SASL"))


def login_of(properties: Mapping[str, str | int | bool]) -> OauthLogin | MskLogin:
    """Return the login in a client's properties. Raises FailureError if any is missing, invalid or unsupported."""
    if _mechanism(properties) == MSK_MECHANISM:
        return msk_login_of(properties)
    given = {name: str(value) for name, value in properties.items() if name.startswith(_OAUTH)}
    for name in sorted(given.keys() - _NAMES):
        raise invalid_spec(f"{name} is not supported")
    for name in (ENDPOINT, CLIENT_ID, CLIENT_SECRET):
        if not given.get(name):
            raise invalid_spec(f"{MECHANISM} needs {name}")
    wrong = wrong_with_url(given[ENDPOINT], loopback=True)
    if wrong is not None:
        raise invalid_spec(wrong, KafkaSetting.TOKEN_ENDPOINT)
    return OauthLogin(
        given[ENDPOINT],
        given[CLIENT_ID],
        given[CLIENT_SECRET],
        given.get(SCOPE, ""),
        given.get(CA_FILE),
        given.get(CA_PEM),
        given.get(URL_ENCODED, "false").lower() == "true",
    )


def without_login(properties: Mapping[str, str | int | bool]) -> dict[str, str | int | bool]:
    """Return the properties without those that `login_of` reads, for the Kafka clients, which know OAUTHBEARER only."""
    rest = {name: value for name, value in properties.items() if not name.startswith((*_OAUTH, PREFIX))}
    rest.pop("sasl.mechanisms", None)
    return {**rest, "sasl.mechanism": MECHANISM}


def _mechanism(properties: Mapping[str, str | int | bool]) -> str | int | bool | None:
    return properties.get("sasl.mechanism") or properties.get("sasl.mechanisms")


def wrong_with_url(url: str, *, loopback: bool) -> str | None:
    """Return why a token endpoint's URL is invalid, or None. `loopback` allows http for loopback addresses.

    The text does not contain the URL, because a user may have written a password into it.
    """
    if len(url) > _LONGEST_URL or not url.isascii() or not url.isprintable() or " " in url:
        return f"it is not a URL of up to {_LONGEST_URL} printable ASCII characters"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "it is not a URL"
    if parts.username is not None or "@" in parts.netloc:
        return "a user name or a password has no place in the URL"
    if parts.fragment or "#" in url:
        return "a token endpoint has no fragment (#)"
    if not parts.hostname or _HOST.fullmatch(parts.hostname) is None or port == 0:
        return "it has no host name, or no port from 1 to 65535"
    if not all(1 <= len(label) <= _LONGEST_LABEL for label in parts.hostname.removesuffix(".").split(".")):
        return f"a part of its host name is empty, or longer than {_LONGEST_LABEL} characters"
    if parts.scheme != "https" and not (loopback and parts.scheme == "http" and _is_loopback(parts.hostname)):
        return "it has to begin with https://, so that the secret is encrypted"
    return None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

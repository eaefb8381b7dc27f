"""The properties of librdkafka's client that a RackTopology may set: these and no others.

Clients of several users may share a worker process of the operator. librdkafka has properties that end the process
(`internal.termination.signal`), run a command, load a library or read a file, and new versions may add more. So this is
a list of the allowed properties. Tests check the rule of the CRD against the list, and the reference is generated from
it. Numbers that could keep processors busy without need have Rackspan's own limits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LONGEST: Final = 1024
_INT32: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ClientProperty:
    """One property: its name, its meaning, a description of its values, and a check whether a value is valid."""

    name: str
    meaning: str
    values: str
    admits: Callable[[str], bool]


def first_error(properties: Mapping[str, str]) -> str | None:
    """Return a message about the first property that is unknown or has an invalid value, or None if all are valid."""
    for name, value in properties.items():
        known = CLIENT_PROPERTIES.get(name)
        if known is None:
            return f"{name[:80]!a} is not among the client properties that may be set"
        if len(value) > _LONGEST or not value.isprintable() or not known.admits(value):
            return f"{name} is {known.values}, not {value[:80]!a}"
    return None


def _number(name: str, lowest: int, highest: int, meaning: str) -> ClientProperty:
    def admits(value: str) -> bool:
        return re.fullmatch(r"[0-9]{1,10}", value) is not None and lowest <= int(value) <= highest

    return ClientProperty(name, meaning, f"a whole number from {lowest} to {highest}", admits)


def _one_of(name: str, words: tuple[str, ...], meaning: str) -> ClientProperty:
    return ClientProperty(name, meaning, "one of " + ", ".join(words), words.__contains__)


def _switch(name: str, meaning: str) -> ClientProperty:
    return ClientProperty(name, meaning, "true or false", ("true", "false").__contains__)


def _text(name: str, pattern: re.Pattern[str], values: str, meaning: str) -> ClientProperty:
    def admits(value: str) -> bool:
        return pattern.fullmatch(value) is not None

    return ClientProperty(name, meaning, values, admits)


_LISTED: Final = (
    _text(
        "client.id",
        re.compile(r".{1,255}"),
        "up to 255 characters",
        "What Kafka calls the client in its logs and quotas.",
    ),
    # Sockets.
    _number("socket.timeout.ms", 100, 300_000, "How long an answer may take."),
    _number(
        "socket.connection.setup.timeout.ms", 1_000, 600_000, "How long a connection may take, TLS and SASL included."
    ),
    _number("socket.send.buffer.bytes", 0, 16_777_216, "The socket's send buffer; 0 leaves it to the system."),
    _number("socket.receive.buffer.bytes", 0, 16_777_216, "The socket's receive buffer; 0 leaves it to the system."),
    _switch("socket.keepalive.enable", "TCP keep-alives on connections."),
    _switch("socket.nagle.disable", "Send small packets at once (TCP_NODELAY)."),
    _number("socket.max.fails", 0, 1_000_000, "Close a connection after so many requests failed; 0 for never."),
    _number("connections.max.idle.ms", 0, _INT32, "Close a connection that was idle for so long; 0 for never."),
    # Names of brokers.
    _one_of("broker.address.family", ("any", "v4", "v6"), "Which addresses of a broker are used."),
    _number("broker.address.ttl", 1_000, 86_400_000, "How long a broker's addresses are remembered."),
    _one_of(
        "client.dns.lookup",
        ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        "Whether every address of a name is tried, or the names behind a bootstrap server's addresses (Kerberos).",
    ),
    # Retries.
    _number("reconnect.backoff.ms", 10, 3_600_000, "The first pause before connecting again."),
    _number("reconnect.backoff.max.ms", 100, 3_600_000, "The longest pause before connecting again."),
    _number("retry.backoff.ms", 10, 300_000, "The first pause before a request is sent again."),
    _number("retry.backoff.max.ms", 10, 300_000, "The longest pause before a request is sent again."),
    # Metadata.
    _number("metadata.max.age.ms", 1_000, 86_400_000, "How old metadata may be."),
    _one_of(
        "metadata.recovery.strategy", ("none", "rebootstrap"), "What to do when no known broker answers (KIP-899)."
    ),
    _number(
        "metadata.recovery.rebootstrap.trigger.ms",
        1_000,
        _INT32,
        "After how long the bootstrap servers are asked again.",
    ),
    _number("api.version.request.timeout.ms", 100, 300_000, "How long a broker may take to say what it can do."),
    _switch("enable.metrics.push", "Send the client's metrics to brokers that ask for them (KIP-714)."),
    # TLS, beyond spec.kafka.tls.
    _text(
        "ssl.cipher.suites",
        re.compile(r"[-A-Za-z0-9_:+!@=., ]+"),
        "a list of ciphers",
        "The ciphers to offer, as OpenSSL writes them.",
    ),
    _text(
        "ssl.curves.list",
        re.compile(r"[-A-Za-z0-9_:]+"),
        "a list of curves",
        "The curves to offer, as OpenSSL writes them.",
    ),
    _text(
        "ssl.sigalgs.list",
        re.compile(r"[-A-Za-z0-9_:+]+"),
        "a list of algorithms",
        "The signature algorithms to accept, as OpenSSL writes them.",
    ),
    _text(
        "debug",
        re.compile(r"[a-z](?:[a-z]|,(?=[a-z]))*"),
        "a list of words such as broker,security",
        "What librdkafka writes to the operator's log at level debug. No password is ever in it.",
    ),
)
CLIENT_PROPERTIES: Final[Mapping[str, ClientProperty]] = {one.name: one for one in _LISTED}
"""All properties that may be set, by name."""

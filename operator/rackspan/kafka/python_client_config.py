"""kafka-python's client properties, made from librdkafka's: the same cluster, log-in and certificates for both."""

from __future__ import annotations

import os
import re
import ssl
from typing import TYPE_CHECKING, Any

from rackspan.kafka.authorities import context_of
from rackspan.kafka.oauth_login import MECHANISM
from rackspan.reconcile.failures import KafkaSetting, invalid_spec

if TYPE_CHECKING:
    from collections.abc import Mapping

_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", MECHANISM)
_PASSED_ON = {
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
    "socket.timeout.ms": "request_timeout_ms",
}
_SECURITY = ("ssl.", "sasl.", "security.", "oauthbearer", "enable.ssl", "enable.sasl", "https.")
"""Prefixes of properties that must not be left out. Other properties only tune librdkafka."""
_READ = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.key.pem",
        "ssl.key.password",
        "ssl.crl.location",
        "ssl.cipher.suites",
        "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
    }
)
_NEVER = ("false", "f", "none", "0", "")
_NUMBER = re.compile(r"\s*([+-]?)(0x[0-9a-f]+|0[0-7]*|[1-9][0-9]*)", re.IGNORECASE)
_MOST_DIGITS = 12
"""Numbers of librdkafka have 32 bits."""


class UnsupportedPropertyError(ValueError):
    """A property for trust or log-in that the client for reassignments does not support."""


def python_client_properties(properties: Mapping[str, str | int | bool]) -> dict[str, Any]:
    """Return the properties for kafka-python's admin client.

    Raises UnsupportedPropertyError, FailureError for an invalid number or cipher, and OSError (such as ssl.SSLError) or
    ValueError if certificates cannot be read. No message contains a password.
    """
    given = {name: str(value) for name, value in properties.items()}
    for name in given:
        if name.startswith(_SECURITY) and name not in _READ:
            raise UnsupportedPropertyError(
                f"{name} is not supported where replicas are moved"
                + (": name PEM files instead of a PKCS12 store" if name.startswith("ssl.keystore.") else "")
            )
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    found: dict[str, Any] = {new: _number(old, given[old]) for old, new in _PASSED_ON.items() if old in given}
    found["client_id"] = given.get("client.id", "rackspan")
    found["bootstrap_servers"] = [one.strip() for one in given["bootstrap.servers"].split(",")]
    found["security_protocol"] = protocol
    if protocol.endswith("SSL"):
        found["ssl_context"] = _context(given)
    if protocol.startswith("SASL"):
        mechanism = given.get("sasl.mechanism") or given.get("sasl.mechanisms") or "GSSAPI"
        if mechanism not in _MECHANISMS:
            raise UnsupportedPropertyError(
                f"sasl.mechanism {mechanism} is not supported where replicas are moved: {', '.join(_MECHANISMS)} are"
            )
        found["sasl_mechanism"] = mechanism
        if mechanism != MECHANISM:
            found["sasl_plain_username"] = given.get("sasl.username", "")
            found["sasl_plain_password"] = given.get("sasl.password", "")
    return found


def _number(name: str, text: str) -> int:
    """Return a number as librdkafka reads it, by C's strtol: octal after 0, hexadecimal after 0x, the rest ignored."""
    found = _NUMBER.match(text)
    if found is None or len(found[2]) > _MOST_DIGITS:
        raise invalid_spec(f"{name} is not a valid number", KafkaSetting.PROPERTIES)
    digits = found[2].lower()
    base = 16 if digits.startswith("0x") else 8 if digits.startswith("0") else 10
    return int(found[1] + digits, base)


def _context(given: Mapping[str, str]) -> ssl.SSLContext:
    context = context_of(given.get("ssl.ca.location"), given.get("ssl.ca.pem"))
    if given.get("ssl.endpoint.identification.algorithm", "https").lower() in _NEVER:
        context.check_hostname = False
    if given.get("enable.ssl.certificate.verification", "true").lower() in _NEVER:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if "ssl.crl.location" in given:
        context.load_verify_locations(given["ssl.crl.location"])
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if "ssl.cipher.suites" in given:
        try:
            context.set_ciphers(given["ssl.cipher.suites"])
        except ssl.SSLError as error:
            raise invalid_spec("ssl.cipher.suites names no known cipher", KafkaSetting.PROPERTIES) from error
    _load_certificate(context, given)
    return context


def _load_certificate(context: ssl.SSLContext, given: Mapping[str, str]) -> None:
    """Load the client's certificate. Python reads only files, so PEM text is put into a temporary file in memory."""
    certificate, key = given.get("ssl.certificate.location"), given.get("ssl.key.location")
    chain, private = given.get("ssl.certificate.pem"), given.get("ssl.key.pem")
    password = given.get("ssl.key.password", "")  # never None: Python would prompt on the terminal
    if chain and private:
        with open(os.memfd_create("certificate"), "w", encoding="utf-8") as file:  # noqa: PTH123 - never on a disk
            file.write(f"{private}\n{chain}\n")
            file.flush()
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}", password=password)
    elif certificate:
        context.load_cert_chain(certificate, key or None, password=password)

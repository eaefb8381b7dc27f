"""
The properties file that Kafka's own tools take with `--command-config`, for librdkafka.

Java and librdkafka name most properties alike. What differs is translated; what has no counterpart, such as a JKS
store, is refused with the command that helps. Properties under librdkafka's own names pass through.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import javaproperties

from rackspan.reconcile.failures import KafkaSetting

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_JAAS = re.compile(r"\s*(?P<module>[\w.$]+)\s+\w+\s*(?P<options>.*?);?\s*", re.DOTALL)
_OPTION = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;]+))""")
_LOGIN_MODULES = ("PlainLoginModule", "ScramLoginModule")
_PEM = "PEM"
_JAVA_ONLY = frozenset(
    {
        "bootstrap.servers",  # --bootstrap-server says it
        "default.api.timeout.ms",
        "request.timeout.ms",
        "retries",
        "client.dns.lookup",
        "security.providers",
        "ssl.enabled.protocols",
        "ssl.protocol",
        "ssl.trustmanager.algorithm",
        "ssl.keymanager.algorithm",
        "ssl.truststore.password",
        "sasl.client.callback.handler.class",
    }
)
"""What tools' files may hold and a client here neither needs nor knows."""


SETTINGS: Final = {
    KafkaSetting.PROPERTIES: "--command-config",
    KafkaSetting.TLS: "--command-config",
    KafkaSetting.CA: "ssl.truststore.location",
    KafkaSetting.CLIENT_CERTIFICATE: "ssl.keystore.location",
}
"""How such a file calls what failures are about."""


class CommandConfigError(ValueError):
    """A properties file that cannot be used; the message names the file and the property, never a password."""


def read_command_config(path: Path) -> dict[str, str]:
    """Properties for a librdkafka client. Raises CommandConfigError."""
    try:
        java = javaproperties.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CommandConfigError(f"{path}: cannot be read: it is not UTF-8") from None
    except javaproperties.InvalidUEscapeError:  # which quotes what may be a part of a password
        raise CommandConfigError(f"{path}: cannot be read: a \\u in it has no four hexadecimal digits") from None
    return translated(java, str(path))


def translated(java: Mapping[str, str], name: str) -> dict[str, str]:
    """Give the properties under librdkafka's names. Raises CommandConfigError, which begins with `name`."""
    rest = {key: value for key, value in java.items() if key not in _JAVA_ONLY}
    found: dict[str, str] = {}
    _take_login(rest, found, name)
    _take_trust(rest, found, name)
    _take_key(rest, found, name)
    if "ssl.endpoint.identification.algorithm" in rest:
        found["ssl.endpoint.identification.algorithm"] = rest.pop("ssl.endpoint.identification.algorithm") or "none"
    return {**rest, **found}


def _take_login(rest: dict[str, str], found: dict[str, str], name: str) -> None:
    jaas = rest.pop("sasl.jaas.config", None)
    if jaas is None:
        return
    match = _JAAS.fullmatch(jaas)
    if match is None or not match["module"].endswith(_LOGIN_MODULES):
        raise CommandConfigError(
            f"{name}: sasl.jaas.config: only PlainLoginModule and ScramLoginModule are understood; for other "
            "mechanisms write librdkafka's own properties"
        )
    options = {key: re.sub(r"\\(.)", r"\1", a or b) or c for key, a, b, c in _OPTION.findall(match["options"])}
    for option in ("username", "password"):
        if option not in options:
            raise CommandConfigError(f"{name}: sasl.jaas.config: holds no {option}")
        found[f"sasl.{option}"] = options[option]


def _take_trust(rest: dict[str, str], found: dict[str, str], name: str) -> None:
    kind = rest.pop("ssl.truststore.type", "JKS").upper()
    inline, location = rest.pop("ssl.truststore.certificates", None), rest.pop("ssl.truststore.location", None)
    if inline is not None:
        found["ssl.ca.pem"] = inline
    if location is None:
        return
    if kind != _PEM:
        raise CommandConfigError(
            f"{name}: ssl.truststore.location: {location} is a {kind} store, which cannot be read here; run "
            f"`keytool -list -rfc -keystore {location} > truststore.pem`, name that file, and set "
            "ssl.truststore.type=PEM"
        )
    found["ssl.ca.location"] = location


def _take_key(rest: dict[str, str], found: dict[str, str], name: str) -> None:
    kind = rest.pop("ssl.keystore.type", "JKS").upper()
    chain, key = rest.pop("ssl.keystore.certificate.chain", None), rest.pop("ssl.keystore.key", None)
    if chain is not None:
        found["ssl.certificate.pem"] = chain
    if key is not None:
        found["ssl.key.pem"] = key
    location = rest.get("ssl.keystore.location")
    if location is None or kind == "PKCS12":  # which librdkafka reads under the same names
        return
    if kind != _PEM:
        raise CommandConfigError(
            f"{name}: ssl.keystore.location: {location} is a {kind} store, which cannot be read here; run "
            f"`keytool -importkeystore -srckeystore {location} -destkeystore keystore.p12 -deststoretype PKCS12`, "
            "name that file, and set ssl.keystore.type=PKCS12"
        )
    del rest["ssl.keystore.location"]
    found["ssl.certificate.location"] = found["ssl.key.location"] = location

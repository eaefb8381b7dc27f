"""Translates the properties files of Kafka's own tools (`--command-config`) for librdkafka.

Most properties have the same name in Java and librdkafka. The others are translated, or refused if they have no
counterpart, such as a JKS store, with a command that helps. Properties with librdkafka's own names stay unchanged.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import javaproperties

from rackspan.api.racktopology import KafkaSpec
from rackspan.kafka import msk_login
from rackspan.kafka.client_config import client_properties
from rackspan.kafka.oauth_login import CLIENT_ID, CLIENT_SECRET, ENDPOINT, SCOPE
from rackspan.reconcile.failures import KafkaSetting
from rackspan.reconcile.ports import Credentials

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_JAAS = re.compile(r"\s*(?P<module>[\w.$]+)\s+\w+\s*(?P<options>.*?);?\s*", re.DOTALL)
_OPTION = re.compile(r"""(?<!\S)([\w.$-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))(?!\S)""")
_LOGIN_MODULES = ("PlainLoginModule", "ScramLoginModule")
_TOKEN_MODULE = "OAuthBearerLoginModule"  # noqa: S105 - a class's name
_MSK_MODULE = "IAMLoginModule"
_PEM = "PEM"
_JAVA_ONLY = frozenset(
    {
        "bootstrap.servers",  # --bootstrap-server has it
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
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.jwt.validator.class",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
    }
)
"""Properties that files for Kafka's tools may contain, but that the clients here neither need nor know."""

_TOKENS_FROM = {
    "sasl.login.callback.handler.class": ("OAuthBearerLoginCallbackHandler",),
    "sasl.oauthbearer.jwt.retriever.class": ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever"),
    "sasl.oauthbearer.method": ("oidc",),
    "sasl.oauthbearer.grant.type": ("client_credentials",),
}
"""The supported values: those of Kafka and librdkafka for client credentials (KIP-768)."""
_OLDER = {
    "sasl.oauthbearer.client.id": CLIENT_ID,
    "sasl.oauthbearer.client.secret": CLIENT_SECRET,
    "clientId": CLIENT_ID,
    "clientSecret": CLIENT_SECRET,
    "scope": SCOPE,
}
"""Other names of these properties, in librdkafka and in JAAS options until Kafka 4.1."""
_MSK_OPTIONS = {
    "awsProfileName": msk_login.PROFILE,
    "awsRoleArn": msk_login.ROLE_ARN,
    "awsRoleSessionName": msk_login.ROLE_SESSION_NAME,
    "awsStsRegion": msk_login.STS_REGION,
}


SETTINGS: Final = {
    KafkaSetting.PROPERTIES: "--command-config",
    KafkaSetting.TLS: "--command-config",
    KafkaSetting.CA: "ssl.truststore.location",
    KafkaSetting.CLIENT_CERTIFICATE: "ssl.keystore.location",
    KafkaSetting.TOKEN_ENDPOINT: ENDPOINT,
    KafkaSetting.TOKEN_CA: "ssl.truststore.location in sasl.jaas.config",
}
"""The names of settings in such a file, for failure messages."""


class CommandConfigError(ValueError):
    """A properties file that cannot be used. The message names the file and the property, never a password."""


def command_properties(servers: str, file: Path | None = None) -> dict[str, str | int | bool]:
    """Return the client properties for a command that a user runs: the defaults, overridden by `--command-config`.

    Raises CommandConfigError, and FailureError if `servers` is invalid.
    """
    given = {} if file is None else read_command_config(file)
    return {**client_properties(KafkaSpec(servers), Credentials()), **given, "bootstrap.servers": servers}


def read_command_config(path: Path) -> dict[str, str]:
    """Return the properties in a file, for a librdkafka client. Raises CommandConfigError."""
    try:
        java = javaproperties.loads(path.read_text(encoding="utf-8"))
        "".join((*java, *java.values())).encode()
    except OSError as error:
        raise CommandConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CommandConfigError(f"{path}: cannot be read: it is not UTF-8") from None
    except javaproperties.InvalidUEscapeError:  # its message may quote a part of a password
        raise CommandConfigError(f"{path}: cannot be read: a \\u in it has no four hexadecimal digits") from None
    except UnicodeEncodeError:
        raise CommandConfigError(f"{path}: cannot be read: a \\u in it is one half of a surrogate pair") from None
    return translated(java, str(path))


def translated(java: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the properties with librdkafka's names. Raises CommandConfigError, whose message begins with `name`."""
    rest = {key: value for key, value in java.items() if key not in _JAVA_ONLY}
    found: dict[str, str] = {}
    _take_tokens(rest, name)
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
    if match is None or not match["module"].endswith((*_LOGIN_MODULES, _TOKEN_MODULE, _MSK_MODULE)):
        raise CommandConfigError(
            f"{name}: sasl.jaas.config: only {', '.join(_LOGIN_MODULES)}, {_TOKEN_MODULE} and {_MSK_MODULE} are "
            "understood; for other mechanisms write librdkafka's own properties"
        )
    if _OPTION.sub("", match["options"]).strip():  # the rest may be a part of a secret, as may names of options
        raise CommandConfigError(
            f'{name}: sasl.jaas.config: the options are not all name="value" with a space between them; write '
            '\\\\" for a quotation mark in a value'
        )
    options = {key: re.sub(r"\\(.)", r"\1", a or b) or c for key, a, b, c in _OPTION.findall(match["options"])}
    if match["module"].endswith(_TOKEN_MODULE):
        _take_token_options(options, rest, found, name)
        return
    if match["module"].endswith(_MSK_MODULE):
        _take_msk_options(options, rest, found, name)
        return
    for option in ("username", "password"):
        if option not in options:
            raise CommandConfigError(f"{name}: sasl.jaas.config: holds no {option}")
        found[f"sasl.{option}"] = options[option]


def _take_tokens(rest: dict[str, str], name: str) -> None:
    """Remove the settings that choose how to get tokens, and give each credential a single name."""
    for key, ways in _TOKENS_FROM.items():
        way = rest.pop(key, None)
        if way is not None and way.rpartition(".")[2] not in ways:
            raise CommandConfigError(
                f"{name}: {key}: {way} is not supported: tokens come by client credentials only (a client id and a "
                f"client secret), or at MSK by sasl.mechanism={msk_login.MSK_MECHANISM} with {_MSK_MODULE}"
            )
    for old, new in _OLDER.items():
        if old in rest and old.startswith("sasl."):
            rest.setdefault(new, rest.pop(old))


def _take_token_options(options: Mapping[str, str], rest: dict[str, str], found: dict[str, str], name: str) -> None:
    """Take the options of OAuthBearerLoginModule. Properties of the file override options, as in Kafka 4.1."""
    trust = {key: value for key, value in options.items() if key.startswith("ssl.truststore.")}
    for option in sorted(options.keys() - trust.keys() - _OLDER.keys()):
        raise CommandConfigError(f"{name}: sasl.jaas.config: {option} is not supported")
    for option, value in options.items():
        if option in _OLDER:
            rest.setdefault(_OLDER[option], value)
    own: dict[str, str] = {}
    trust.pop("ssl.truststore.password", None)
    _take_trust(trust, own, f"{name}: sasl.jaas.config")
    found |= {key.replace("ssl.ca.", "https.ca."): value for key, value in own.items()}


def _take_msk_options(options: Mapping[str, str], rest: Mapping[str, str], found: dict[str, str], name: str) -> None:
    """Take the options of Amazon's login module, which uses the credentials of the user who runs the command."""
    if rest.get("sasl.mechanism") != msk_login.MSK_MECHANISM:
        raise CommandConfigError(
            f"{name}: sasl.jaas.config: {_MSK_MODULE} needs sasl.mechanism={msk_login.MSK_MECHANISM}"
        )
    for option in sorted(options.keys() - _MSK_OPTIONS.keys()):
        raise CommandConfigError(f"{name}: sasl.jaas.config: {option} is not supported")
    found |= {msk_login.USER: "true"} | {_MSK_OPTIONS[option]: value for option, value in options.items()}


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
    if location is None or kind == "PKCS12":  # librdkafka reads PKCS12 under the same names
        return
    if kind != _PEM:
        raise CommandConfigError(
            f"{name}: ssl.keystore.location: {location} is a {kind} store, which cannot be read here; run "
            f"`keytool -importkeystore -srckeystore {location} -destkeystore keystore.p12 -deststoretype PKCS12`, "
            "name that file, and set ssl.keystore.type=PKCS12"
        )
    del rest["ssl.keystore.location"]
    found["ssl.certificate.location"] = found["ssl.key.location"] = location

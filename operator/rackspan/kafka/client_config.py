"""librdkafka's client properties, made from a RackTopology's `spec.kafka` and its Secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rackspan.api.client_properties import first_error
from rackspan.api.racktopology import SaslMechanism
from rackspan.kafka import msk_login
from rackspan.kafka.oauth_login import CA_PEM, CLIENT_ID, CLIENT_SECRET, ENDPOINT, SCOPE, wrong_with_url
from rackspan.reconcile.failures import KafkaSetting, invalid_spec

if TYPE_CHECKING:
    from rackspan.api.racktopology import KafkaSpec, SaslSpec
    from rackspan.reconcile.ports import Credentials

_PROTOCOLS = {
    (False, False): "PLAINTEXT",
    (True, False): "SSL",
    (False, True): "SASL_PLAINTEXT",
    (True, True): "SASL_SSL",
}


def client_properties(kafka: KafkaSpec, credentials: Credentials) -> dict[str, str | int | bool]:
    """Return the properties for an AdminClient. The settings of TLS and SASL override `spec.kafka.properties`.

    Raises FailureError for an invalid property or field, even if admission has accepted it.
    """
    wrong = first_error(kafka.properties)
    if wrong is not None:
        raise invalid_spec(wrong, KafkaSetting.PROPERTIES)
    if not kafka.bootstrap_servers.isprintable():
        raise invalid_spec("spec.kafka.bootstrapServers has control characters in it")
    tls, sasl = kafka.tls, kafka.sasl
    properties: dict[str, str | int | bool] = {
        "client.id": "rackspan",
        "socket.timeout.ms": 30_000,
        "socket.connection.setup.timeout.ms": 5_000,
        "reconnect.backoff.ms": 100,
        "reconnect.backoff.max.ms": 2_000,
        # Only producers and consumers need the background refresh of every topic's metadata.
        "topic.metadata.refresh.interval.ms": -1,
        **kafka.properties,
        "bootstrap.servers": kafka.bootstrap_servers,
        "security.protocol": _PROTOCOLS[tls is not None, sasl is not None],
    }
    if tls is not None:
        properties["ssl.endpoint.identification.algorithm"] = "https" if tls.verify_hostname else "none"
        if credentials.ca_pem:
            properties["ssl.ca.pem"] = credentials.ca_pem
        if credentials.certificate_pem and credentials.key_pem:
            properties["ssl.certificate.pem"] = credentials.certificate_pem
            properties["ssl.key.pem"] = credentials.key_pem
    if sasl is not None:
        properties["sasl.mechanism"] = sasl.mechanism
        properties |= _login(sasl, credentials)
    return properties


def _login(sasl: SaslSpec, credentials: Credentials) -> dict[str, str]:
    first, second = credentials.username or "", credentials.password or ""
    if sasl.mechanism is SaslMechanism.AWS_MSK_IAM:
        if sasl.msk_iam is None:
            raise invalid_spec(f"{sasl.mechanism} needs spec.kafka.sasl.mskIam")
        keys = {msk_login.ACCESS_KEY_ID: first, msk_login.SECRET_ACCESS_KEY: second}
        token = {msk_login.SESSION_TOKEN: credentials.session_token} if credentials.session_token else {}
        return keys | token | {msk_login.REGION: sasl.msk_iam.region}
    if sasl.mechanism is not SaslMechanism.OAUTHBEARER:
        return {"sasl.username": first, "sasl.password": second}
    if sasl.oauth is None:
        raise invalid_spec(f"{sasl.mechanism} needs spec.kafka.sasl.oauth")
    # No plain text, not even on loopback: servers there belong to the operator's pod, not to the topology's author.
    wrong = wrong_with_url(sasl.oauth.token_endpoint, loopback=False)
    if wrong is not None:
        raise invalid_spec(wrong, KafkaSetting.TOKEN_ENDPOINT)
    scope = sasl.oauth.scope
    if scope is not None and not (scope.isascii() and scope.isprintable()):
        raise invalid_spec("spec.kafka.sasl.oauth.scope is not printable ASCII")
    login = {ENDPOINT: sasl.oauth.token_endpoint, CLIENT_ID: first, CLIENT_SECRET: second}
    more = {SCOPE: scope, CA_PEM: credentials.token_ca_pem}
    return login | {name: value for name, value in more.items() if value is not None}

"""Values of Secrets appear nowhere else: not in a debug log, a status, an Event or a metric."""

import base64
import json
import secrets

import pytest
from kubernetes import client
from tests.support.objects import GROUP, PLURALS, VERSION, condition
from tests.support.secure import USER, Secure

from rackspan.api.racktopology import CaSecretRef, KafkaSpec, SaslSecretRef, SaslSpec, TlsSpec
from rackspan.kafka.admin import ConfluentAdmin
from rackspan.kafka.client_config import client_properties
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.ports import Credentials


@pytest.fixture
def secure(objects, secure_kafka, operator_factory) -> Secure:
    secure = Secure(objects, secure_kafka)
    secure.default_secrets()
    return secure


def _topology(secure, name, kafka):
    """Create a topology with this name and all debug output of librdkafka."""
    manifest = secure.objects.topology_manifest("", name, kafka={**kafka, "properties": {"debug": "all"}})
    manifest["spec"] |= {"rackSource": "Broker", "brokers": None}
    secure.objects.create(manifest)


def test_secret_values_appear_in_no_log_status_event_or_metric(secure, operator_factory, operator):
    canaries = {
        name: f"canary-{name}-{secrets.token_hex(8)}" for name in ("good", "plain", "wrong", "key", "other", "bytes")
    }
    user = f"canary{secrets.token_hex(3)}"
    secure.kafka.set_password(user, canaries["good"])
    certificate = secure.kafka.client_certificate
    private_key = certificate.key.read_text()
    secure.secret("good", username=user, password=canaries["good"], unused=canaries["other"])
    secure.secret("wrong", username=USER, password=canaries["wrong"])
    secure.secret("no-password", username=USER, passwort=canaries["other"])
    secure.secret("no-text", username=USER, password=canaries["bytes"].encode() + b"\xff")
    secure.secret("no-key", tls_crt=certificate.cert.read_text(), tls_key=canaries["key"])
    secure.secret("no-ca", ca_crt=canaries["key"])
    own = operator_factory("--log-level=debug")

    def sasl(secret, mechanism="SCRAM-SHA-512"):
        return {"sasl": {"mechanism": mechanism, "secretRef": {"name": secret}}}

    _topology(secure, "kafka", secure.spec("SASL_SSL", **sasl("good")))
    _topology(secure, "plain", secure.spec("SASL_SSL", **sasl("user", "PLAIN")))
    _topology(secure, "client", secure.spec("SSL"))
    bad = {
        "wrong": secure.spec("SASL_SSL", **sasl("wrong")),
        "wrong-plain": secure.spec("SASL_SSL", **sasl("wrong", "PLAIN")),
        "no-password": secure.spec("SASL_SSL", **sasl("no-password")),
        "no-text": secure.spec("SASL_SSL", **sasl("no-text")),
        "no-key": secure.spec("SSL", tls={"clientCertSecretRef": {"name": "no-key"}}),
        "no-ca": secure.spec("SASL_SSL", tls={"caSecretRef": {"name": "no-ca"}}),
    }
    for name, kafka in bad.items():
        _topology(secure, name, kafka)
    secure.objects.create_topic("orders")
    secure.objects.until_ready("orders")
    for name in ("kafka", "plain", "client"):
        secure.objects.until_topology(name=name)
    for name in bad:
        secure.objects.until_topology("Stalled", "True", name=name)
    secure.secret("good", username=user, password=canaries["wrong"])
    secure.objects.until_topology("Stalled", "True", "AuthenticationFailed")
    told = secure.objects.topology()
    assert condition(told, "Ready")["status"] == "False"

    output = own.output
    assert '"severity": "debug"' in output
    assert "librdkafka" in output or "rdkafka" in output, "the client did not write its debug log"
    outside = {
        "log": output,
        "metrics": own.get("/metrics")[1],
        "probes": own.get("/healthz")[1] + own.get("/readyz")[1],
        "objects": _everything_but_secrets(secure.objects),
    }
    hidden = {**canaries, "password": secure.password, "private key": private_key.splitlines()[1]}
    for what, secret in hidden.items():
        for form in (secret, base64.b64encode(secret.encode()).decode(), secret.encode().hex()):
            seen = [place for place, text in outside.items() if form in text]
            assert seen == [], what


def _everything_but_secrets(objects):
    custom, core = client.CustomObjectsApi(objects.api), client.CoreV1Api(objects.api)
    found = [
        custom.list_namespaced_custom_object(GROUP, VERSION, objects.namespace, plural) for plural in PLURALS.values()
    ]
    events = core.list_namespaced_event(objects.namespace).items
    assert events, "there are no Events to check"
    return json.dumps([*found, *(event.to_dict() for event in events)], default=str)


def test_string_forms_of_credentials_contain_no_secret():
    canary = f"canary-{secrets.token_hex(8)}"
    credentials = Credentials(canary, canary, canary, canary, canary)
    assert canary not in repr(credentials) + str(credentials) + f"{credentials}"


def test_error_of_a_client_that_cannot_be_created_contains_no_secret():
    canary = f"canary-{secrets.token_hex(8)}"
    kafka = KafkaSpec(
        "127.0.0.1:9",
        tls=TlsSpec(ca_secret_ref=CaSecretRef("ca")),
        sasl=SaslSpec("PLAIN", SaslSecretRef("user")),
        properties={"reconnect.backoff.ms": "5000"},
    )
    credentials = Credentials(ca_pem=canary, username="me", password=canary)
    with pytest.raises(FailureError) as caught:
        ConfluentAdmin(client_properties(kafka, credentials))
    error = caught.value
    assert canary not in f"{error!r} {error} {error.failure!r} {error.__cause__!r}"

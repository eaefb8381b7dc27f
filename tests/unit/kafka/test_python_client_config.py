"""Properties for the client of reassignments: unsupported properties are rejected, not omitted."""

import ssl

import pytest
from dev.stack.certificates import CertificateAuthority

from rackspan.api.reasons import Reason
from rackspan.kafka.admin import ConfluentAdmin
from rackspan.kafka.python_client_config import UnsupportedPropertyError, python_client_properties
from rackspan.kafka.python_connection import PythonConnection
from rackspan.reconcile.failures import FailureError, KafkaSetting, Remedy

SERVERS = {"bootstrap.servers": "one:9092, two:9092"}


def test_login_properties_are_converted():
    found = python_client_properties(
        {
            **SERVERS,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "me",
            "sasl.password": "secret",
            "socket.timeout.ms": 30_000,
            "socket.keepalive.enable": True,
        }
    )
    assert found == {
        "bootstrap_servers": ["one:9092", "two:9092"],
        "client_id": "rackspan",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "me",
        "sasl_plain_password": "secret",
        "request_timeout_ms": 30_000,
    }


def test_oauthbearer_needs_no_password():
    found = python_client_properties({**SERVERS, "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"})
    assert found["sasl_mechanism"] == "OAUTHBEARER"
    assert not any(name.startswith("sasl_plain") for name in found)


def test_tls_verifies_certificates_and_also_host_names_unless_disabled():
    context = python_client_properties({**SERVERS, "security.protocol": "SSL"})["ssl_context"]
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    loose = {"ssl.endpoint.identification.algorithm": "none"}
    context = python_client_properties({**SERVERS, "security.protocol": "SSL", **loose})["ssl_context"]
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, False)


@pytest.mark.parametrize("off", ["false", "FALSE", "f", "F", "0"])
def test_verification_of_certificates_is_disabled_by_each_value_of_librdkafka(off):
    more = {"security.protocol": "SSL", "enable.ssl.certificate.verification": off}
    assert python_client_properties({**SERVERS, **more})["ssl_context"].verify_mode == ssl.CERT_NONE


def test_own_certificate_authority_is_trusted_in_place_of_those_of_the_system(tmp_path):
    ours = CertificateAuthority(tmp_path).cert
    comment = f"# Főtanúsítvány\n{ours.read_text()}"
    for own in ({"ssl.ca.location": str(ours)}, {"ssl.ca.pem": ours.read_text()}, {"ssl.ca.pem": comment}):
        context = python_client_properties({**SERVERS, "security.protocol": "SSL", **own})["ssl_context"]
        assert len(context.get_ca_certs()) == 1
        assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    system = python_client_properties({**SERVERS, "security.protocol": "SSL"})["ssl_context"]
    assert system.get_ca_certs() == ssl.create_default_context().get_ca_certs()


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (30_000, 30_000),
        ("0x7530", 30_000),
        ("0X7530", 30_000),
        (" +30000 ", 30_000),
        ("072460", 30_000),
        ("30000ms", 30_000),
        ("1_000", 1),
        ("09", 0),
        ("-1", -1),
        ("0", 0),
    ],
)
def test_numbers_are_read_as_by_librdkafka(text, number):
    """librdkafka uses strtol of C, which also reads octal and hexadecimal numbers, and ignores what follows."""
    assert python_client_properties({**SERVERS, "socket.timeout.ms": text})["request_timeout_ms"] == number


@pytest.mark.parametrize("client", [PythonConnection, ConfluentAdmin])
def test_invalid_cipher_is_reported_as_an_invalid_property_and_an_invalid_file_as_a_tls_failure(client):
    tls = {**SERVERS, "security.protocol": "SSL"}
    with pytest.raises(FailureError, match=r"^spec.kafka.properties: ssl.cipher.suites ") as caught:
        client({**tls, "ssl.cipher.suites": "nonsense"})
    assert (caught.value.failure.reason, caught.value.failure.remedy) == (Reason.INVALID_SPEC, Remedy.SPEC)
    for name, value in (("ssl.ca.location", "/nope.pem"), ("ssl.crl.location", "/nope.pem"), ("ssl.ca.pem", "ő")):
        with pytest.raises(FailureError, match=r"^spec.kafka.tls: a certificate or key cannot be used: ") as caught:
            client({**tls, name: value})
        assert (caught.value.failure.reason, caught.value.failure.remedy) == (Reason.TLS_FAILED, Remedy.ACCESS)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.curves.list", "nonsense"),
        ("ssl.sigalgs.list", "nonsense"),
        ("ssl.endpoint.identification.algorithm", "nonsense"),
        ("enable.ssl.certificate.verification", "no"),
        ("socket.timeout.ms", "nonsense"),
    ],
)
def test_property_that_librdkafka_rejects_is_reported_as_an_invalid_property(name, value):
    with pytest.raises(FailureError, match=rf"^spec.kafka.properties: .*{name}") as caught:
        ConfluentAdmin({**SERVERS, "security.protocol": "SSL", name: value})
    assert (caught.value.failure.reason, caught.value.failure.remedy) == (Reason.INVALID_SPEC, Remedy.SPEC)


@pytest.mark.parametrize("value", ["abc", "", "\u0663", "-", "9" * 5_000, "0x" + "f" * 30])
@pytest.mark.parametrize(
    "name",
    [
        "reconnect.backoff.ms",
        "reconnect.backoff.max.ms",
        "retry.backoff.ms",
        "metadata.max.age.ms",
        "socket.timeout.ms",
    ],
)
def test_invalid_number_is_reported_with_the_name_of_the_property(name, value):
    with pytest.raises(FailureError) as caught:
        PythonConnection({**SERVERS, "security.protocol": "SSL", name: value})
    found = caught.value.failure
    assert found.what == f"{name} is not a valid number"
    assert (found.reason, found.remedy, found.setting) == (Reason.INVALID_SPEC, Remedy.SPEC, KafkaSetting.PROPERTIES)


@pytest.mark.parametrize(
    "more",
    [
        {"ssl.keystore.location": "store.p12"},
        {"ssl.curves.list": "X25519"},
        {"sasl.kerberos.service.name": "kafka"},
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"},
        {"security.protocol": "SASL_PLAINTEXT"},
    ],
)
def test_unsupported_security_property_raises_an_error(more):
    with pytest.raises(UnsupportedPropertyError, match="is not supported where replicas are moved"):
        python_client_properties({**SERVERS, **more})

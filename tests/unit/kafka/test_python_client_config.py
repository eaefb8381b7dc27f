"""Properties for the client of reassignments: unsupported properties are rejected, not omitted."""

import ssl

import pytest

from rackspan.kafka.python_client_config import UnsupportedPropertyError, python_client_properties

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

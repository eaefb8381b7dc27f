"""The same cluster and log-in for the client of reassignments; what it does not know is refused, never left out."""

import ssl

import pytest

from rackspan.kafka.python_client_config import UnsupportedPropertyError, python_client_properties

SERVERS = {"bootstrap.servers": "one:9092, two:9092"}


def test_a_log_in_is_taken_over():
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


def test_tokens_need_no_password():
    found = python_client_properties({**SERVERS, "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"})
    assert found["sasl_mechanism"] == "OAUTHBEARER"
    assert not any(name.startswith("sasl_plain") for name in found)


def test_tls_verifies_certificates_and_host_names_unless_told_otherwise():
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
def test_what_decides_about_trust_and_is_not_supported_is_an_error_that_says_so(more):
    with pytest.raises(UnsupportedPropertyError, match="is not supported where replicas are moved"):
        python_client_properties({**SERVERS, **more})

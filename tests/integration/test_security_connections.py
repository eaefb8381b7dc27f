"""TLS and logins: every connection type that a RackTopology offers, and changes of Secrets."""

import secrets

import pytest
from tests.support.objects import condition
from tests.support.secure import USER, Secure
from tests.support.waiting import until


@pytest.fixture
def secure(objects, secure_kafka, operator) -> Secure:
    secure = Secure(objects, secure_kafka)
    secure.default_secrets()
    return secure


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [
        ("SASL_SSL", "SCRAM-SHA-512"),
        ("SASL_SSL", "SCRAM-SHA-256"),
        ("SASL_SSL", "PLAIN"),
        ("SASL_PLAINTEXT", "PLAIN"),
        ("SASL_PLAINTEXT", "SCRAM-SHA-512"),
        ("SSL", None),
    ],
)
def test_topic_is_created_through_each_listener_and_mechanism(listener, mechanism, secure):
    secure.create_topology(secure.spec(listener, mechanism))
    secure.objects.create_topic("orders")
    ready = secure.objects.until_ready("orders")
    assert ready["status"]["clusterId"] == secure.kafka.cluster_id
    name = secure.objects.kafka_name("orders")
    until(lambda: name in secure.kafka.admin().list_topics(timeout=300).topics, "the topic to be there")


def test_secret_keys_may_have_other_names(secure):
    secure.secret("mine", authority=secure.ca, who=USER, what=secure.password)
    secure.create_topology(
        secure.spec(
            "SASL_SSL",
            tls={"caSecretRef": {"name": "mine", "key": "authority"}},
            sasl={
                "mechanism": "PLAIN",
                "secretRef": {"name": "mine", "usernameKey": "who", "passwordKey": "what"},
            },
        )
    )
    secure.objects.until_topology()


def test_credentials_with_a_trailing_newline_are_accepted(secure):
    secure.secret("user", username=f"{USER}\n", password=f"{secure.password}\n")
    secure.create_topology(secure.spec("SASL_SSL"))
    secure.objects.until_topology()


def test_changed_password_is_used_without_restart(secure, operator):
    user = f"rotated-{secrets.token_hex(3)}"
    secure.kafka.set_password(user, "the first")
    secure.secret("user", username=user, password="the first")
    secure.create_topology(secure.spec("SASL_SSL"))
    secure.objects.create_topic("before")
    secure.objects.until_ready("before")
    pid = operator.pid

    def logins():
        connected = f"topology {secure.objects.namespace}/kafka: connected to"
        return sum(line["message"].startswith(connected) for line in operator.log)

    before = logins()
    secure.kafka.set_password(user, "the second")
    secure.secret("user", username=user, password="the second")
    until(lambda: logins() > before, "a log-in with the new password")
    secure.objects.create_topic("after")
    secure.objects.until_ready("after")
    assert operator.pid == pid
    assert condition(secure.objects.topology(), "Connected")["status"] == "True"


def test_temporarily_wrong_password_delays_only_new_topics(secure, operator):
    """Users change first the Secret or first Kafka, never both at the same time."""
    secure.create_topology(secure.spec("SASL_SSL"))
    secure.objects.create_topic("before")
    before = secure.objects.until_complete("before")
    secure.secret("user", username=USER, password="not yet known to Kafka")
    secure.objects.until_topology("Connected", "False", "AuthenticationFailed")
    secure.objects.create_topic("after")
    secure.objects.until_not_ready("after", "TopologyNotReady")
    assert secure.objects.topic("before")["status"] == before["status"], "the status of an existing topic has changed"
    secure.secret("user", username=USER, password=secure.password)
    secure.objects.until_ready("after")
    secure.objects.until_topology("Connected", "True")

"""Logins with tokens (SASL/OAUTHBEARER) at brokers that end a session when its token expires."""

import asyncio
import base64
import json
import time
from dataclasses import dataclass
from typing import Any

import pytest
from dev.stack.certificates import CertificateAuthority
from dev.stack.kafka_cluster import FAST_START, PATIENT, KafkaCluster, Security
from tests.support.command import cli
from tests.support.moves import LEVELS, filled, moved_topic, nothing_left_over, until_sizes
from tests.support.objects import condition
from tests.support.processes import run_in_process
from tests.support.secure import Secure
from tests.support.token_server import CLIENT, SECRET, TokenServer, broker_jvm, broker_properties, reset, token_server
from tests.support.topics import Topics

from rackspan.api.labels import APPROVE_PLAN
from rackspan.kafka.kafka_reassignments import KafkaReassignments
from rackspan.kafka.oauth_login import CLIENT_ID, CLIENT_SECRET, ENDPOINT

RACKS = ["/eu/eu-1a/r1", "/eu/eu-1b/r1", "/eu/eu-1c/r1"]
LIFE = 30
"""Seconds. Sessions end when the token expires."""
SHORT_LIFE = 15
"""Seconds, for tests in which failed calls are retried."""
SIZE = 4_000_000
"""Bytes per partition. At 100 kB/s the copy takes longer than two short lifetimes."""

REFUSED = (
    "Kafka refuses the log-in: the token is invalid: the log of a broker says whether by its signature, issuer, "
    "audience, or by the time on the broker's clock"
)


@pytest.fixture(scope="module")
def tokens():
    with token_server() as server:
        yield server


@pytest.fixture(scope="module")
def oauth_kafka(processes, kafka_distribution, tokens):
    cluster = KafkaCluster.start(
        processes.directory / "oauth-kafka",
        processes,
        kafka_distribution,
        RACKS,
        security=Security(users={"unused": "unused"}),
        properties=PATIENT,
        broker_properties=dict.fromkeys(range(len(RACKS)), broker_properties(tokens)),
        jvm=(*FAST_START, *broker_jvm(tokens)),
    )
    yield cluster
    cluster.destroy()


@pytest.fixture
def oauth(tokens):
    """The token endpoint without TLS, for the command line. It is reset at the start of each test."""
    reset(tokens)
    return tokens


@pytest.fixture
def config(oauth, tmp_path):
    """A properties file in the format of Kafka's own tools."""
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.oauthbearer.token.endpoint.url={oauth.url}\n"
        "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        f'clientId="{CLIENT}" clientSecret="{SECRET}";\n'
    )
    return file


def test_apply_completes_a_reassignment_longer_than_the_token_lifetime(oauth_kafka, oauth, config, tmp_path):
    live = ("--bootstrap-server", oauth_kafka.bootstrap("SASL_PLAINTEXT"), "--command-config", config, *LEVELS)
    topics = Topics(oauth_kafka.admin())
    with moved_topic(topics, [[0, 1], [1, 2]]) as topic:
        filled(oauth_kafka, topic, 2, SIZE)
        checked = cli("check", *live, "--topic", topic)
        assert checked.code in (0, 1), checked.err
        oauth.seconds = SHORT_LIFE
        wish = (*live, "--topic", topic, "--replication-factor", f"{topic}=3")
        oauth_kafka.wait_until_agreed()
        plan = cli("plan", *wish, "-o", "json")
        assert plan.code == 0, plan.err
        journal, asked, started = tmp_path / "journal.json", len(oauth.asked), time.monotonic()
        arguments = (*wish, "--journal", journal, "--approve", plan.json["hash"], "--throttle", "100kB/s", "-o", "json")
        ran = run_in_process(tmp_path, "apply", *arguments)
        assert ran.code == 0, ran.err
        assert json.loads(ran.out.splitlines()[-1])["event"] == "finished"
        assert time.monotonic() - started > 2 * SHORT_LIFE, "the copies ended before the tokens expired"
        assert len(oauth.asked) - asked >= 3
        assert SECRET not in ran.out + ran.err
        until_sizes(topics, topic, 3)
        nothing_left_over(oauth_kafka, topic, journal)


async def test_calls_of_both_clients_succeed_when_tokens_expire(oauth_kafka, oauth):
    oauth.seconds = LIFE
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", ENDPOINT: oauth.url}
    login |= {"bootstrap.servers": oauth_kafka.bootstrap("SASL_PLAINTEXT"), CLIENT_ID: CLIENT, CLIENT_SECRET: SECRET}
    asked, end = len(oauth.asked), time.monotonic() + 1.5 * LIFE
    admin = KafkaReassignments(login)
    try:
        while time.monotonic() < end:
            await admin.assignments()  # through librdkafka
            await admin.topic_names()  # through kafka-python
            await asyncio.sleep(0.5)
    finally:
        await admin.close()
    assert len(oauth.asked) >= asked + 2


def test_token_refused_by_brokers_is_reported_in_one_sentence(oauth_kafka, oauth, config):
    live = ("--bootstrap-server", oauth_kafka.bootstrap("SASL_PLAINTEXT"), "--command-config", config)
    now = int(time.time())
    for claims in ({"aud": "others"}, {"iss": "https://others.example"}, {"iat": now - 900, "exp": now - 600}):
        oauth.claims = claims
        ran = cli("check", *live)
        assert (ran.code, ran.error) == (3, REFUSED)


def test_cli_sends_an_amazon_msk_token_that_the_test_brokers_refuse(oauth_kafka, tmp_path, monkeypatch):
    for name, value in (
        ("ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
        ("SECRET_ACCESS_KEY", "canary"),
        ("REGION", "eu-west-1"),
    ):
        monkeypatch.setenv(f"AWS_{name}", value)
    file = tmp_path / "msk.properties"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=AWS_MSK_IAM\n"
        "sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required;\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={oauth_kafka.ca.cert}\n"
    )
    servers = oauth_kafka.bootstrap("SASL_SSL")
    ran = cli("check", "--bootstrap-server", servers, "--command-config", file)
    assert (ran.code, ran.error) == (3, REFUSED)


@dataclass(frozen=True, slots=True)
class WithTokens(Secure):
    """A namespace with the Secrets for a token endpoint with TLS. Brokers accept its tokens like those without TLS."""

    endpoint: TokenServer
    authority: CertificateAuthority

    def default_secrets(self) -> None:
        self.secret("client", clientId=CLIENT, clientSecret=SECRET)
        self.secret("endpoint-ca", ca_crt=self.authority.cert.read_text())

    def spec(self, **oauth: Any):
        default = {"tokenEndpoint": self.endpoint.url, "caSecretRef": {"name": "endpoint-ca"}}
        sasl = {"mechanism": "OAUTHBEARER", "secretRef": {"name": "client"}, "oauth": {**default, **oauth}}
        return {"bootstrapServers": self.kafka.bootstrap("SASL_PLAINTEXT"), "sasl": sasl}


@pytest.fixture(scope="module")
def _endpoint(tmp_path_factory):
    authority = CertificateAuthority(tmp_path_factory.mktemp("endpoint"))
    with token_server(authority.server("endpoint")) as server:
        yield server, authority


@pytest.fixture
def secure(objects, oauth_kafka, _endpoint):
    secure = WithTokens(objects, oauth_kafka, *_endpoint)
    reset(secure.endpoint)
    secure.default_secrets()
    return secure


def test_operator_reassignment_and_a_later_scan_succeed_when_tokens_expire(secure, operator, control_plane):
    secure.endpoint.seconds = SHORT_LIFE
    objects = secure.objects
    secure.create_topology(secure.spec(), reassignment={"throttle": 100_000})
    objects.create_topic("orders", partitions=2, replicationFactor=2)
    objects.until_ready("orders")
    filled(secure.kafka, objects.kafka_name("orders"), 2, SIZE)
    objects.change_topic("orders", replicationFactor=3)
    objects.until_not_ready("orders", "PlanPending")
    found = objects.until_condition("RackTopology", "kafka", "Reassigned", "False", "PlanPending")
    asked, approval = len(secure.endpoint.asked), {APPROVE_PLAN: found["status"]["plan"]["hash"]}
    objects.patch("RackTopology", "kafka", {"metadata": {"annotations": approval}})
    until_sizes(Topics(secure.kafka.admin()), objects.kafka_name("orders"), 3)
    objects.until_ready("orders")
    assert len(secure.endpoint.asked) >= asked + 3, "the copies ended before the tokens expired"
    reset(secure.endpoint)  # a scan may take longer than a short lifetime
    topology = f"{objects.namespace}/kafka"
    scanned = cli("scan", "--topology", topology, "--kubeconfig", control_plane.kubeconfig, "--engine", "local")
    assert scanned.code == 0, scanned.err


def _refused(secure, spec, type_, reason, promise):
    secure.create_topology(spec)
    told = secure.objects.until_topology(type_, "True", reason)
    assert condition(told, "Connected")["reason"] == reason
    promise.kept_by(told, type_)


def _goes_on(secure):
    reset(secure.endpoint)
    secure.default_secrets()
    secure.objects.until_topology()


def test_wrong_client_secret_stalls_topology_until_it_is_corrected(secure, operator, promise):
    secure.secret("client", clientId=CLIENT, clientSecret="wrong")
    _refused(secure, secure.spec(), "Stalled", "AuthenticationFailed", promise)
    _goes_on(secure)


def test_token_endpoint_of_another_authority_stalls_topology_until_it_is_corrected(secure, operator, tmp_path, promise):
    secure.secret("endpoint-ca", ca_crt=CertificateAuthority(tmp_path / "other").cert.read_text())
    _refused(secure, secure.spec(), "Stalled", "TlsFailed", promise)
    _goes_on(secure)


def test_token_for_another_audience_stalls_topology_until_it_is_corrected(secure, operator, promise):
    secure.endpoint.claims = {"aud": "others"}
    _refused(secure, secure.spec(), "Stalled", "AuthenticationFailed", promise)
    _goes_on(secure)


def test_token_with_a_key_that_brokers_cannot_get_stalls_topology_until_it_is_corrected(secure, operator, promise):
    """The key is new and the key server does not respond. Brokers accept tokens of the known key."""
    secure.endpoint.key_id, secure.endpoint.keys_status = "rotated", 503
    _refused(secure, secure.spec(), "Stalled", "AuthenticationFailed", promise)
    _goes_on(secure)


def _msk(secure, identifier):
    secure.secret("ca", ca_crt=secure.kafka.ca.cert.read_text())
    secure.secret("aws", accessKeyId=identifier, secretAccessKey="canary")
    return {
        "bootstrapServers": secure.kafka.bootstrap("SASL_SSL"),
        "tls": {"caSecretRef": {"name": "ca"}},
        "sasl": {"mechanism": "AWS_MSK_IAM", "secretRef": {"name": "aws"}, "mskIam": {"region": "eu-west-1"}},
    }


def test_invalid_aws_access_key_id_stalls_topology(secure, operator, promise):
    kafka = _msk(secure, "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    _refused(secure, kafka, "Stalled", "AuthenticationFailed", promise)


def test_operator_sends_an_amazon_msk_token_that_the_test_brokers_refuse(secure, operator):
    """The test brokers refuse such tokens, so the error shows that they received one."""
    secure.create_topology(_msk(secure, "AKIAIOSFODNN7EXAMPLE"))
    told = secure.objects.until_topology("Stalled", "True", "AuthenticationFailed")
    assert condition(told, "Stalled")["message"] == REFUSED


def test_token_endpoint_without_a_json_response_stalls_topology_until_it_is_corrected(secure, operator, promise):
    secure.endpoint.body = b"<html>"
    _refused(secure, secure.spec(), "Stalled", "AuthenticationFailed", promise)
    _goes_on(secure)


def test_unreachable_token_endpoint_is_retried(secure, operator, promise):
    _refused(
        secure, secure.spec(tokenEndpoint="https://127.0.0.1:1/token"), "Reconciling", "AuthenticationFailed", promise
    )


def test_hanging_token_endpoint_is_retried_and_does_not_delay_other_topologies(secure, operator, promise):
    secure.endpoint.delay = 60
    _refused(secure, secure.spec(), "Reconciling", "AuthenticationFailed", promise)
    manifest = secure.objects.topology_manifest("", "other", kafka={"bootstrapServers": secure.kafka.bootstrap()})
    manifest["spec"] |= {"rackSource": "Broker", "brokers": None}
    secure.objects.create(manifest)
    secure.objects.until_topology(name="other")
    assert operator.get("/healthz")[0] == 200
    _goes_on(secure)


def test_client_secret_and_tokens_appear_in_no_log_metric_or_status(secure, operator_factory):
    own = operator_factory("--log-level=debug")
    kafka = {**secure.spec(), "properties": {"debug": "all"}}
    secure.create_topology(kafka)
    secure.objects.create_topic("orders")
    secure.objects.until_ready("orders")
    secure.secret("client", clientId=CLIENT, clientSecret=f"{SECRET}-wrong")
    secure.objects.until_topology("Stalled", "True", "AuthenticationFailed")
    assert "rdkafka" in own.output, "the client did not write its debug log"
    outside = own.output + own.get("/metrics")[1] + json.dumps(secure.objects.topology())
    header = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
    assert [text for text in (SECRET, header, *secure.endpoint.given) if text in outside] == []

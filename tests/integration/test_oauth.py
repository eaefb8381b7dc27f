"""Log-ins with tokens (SASL/OAUTHBEARER) at brokers that end a session with its token."""

import json
import time

import pytest
from dev.stack.kafka_cluster import FAST_START, PATIENT, KafkaCluster, Security
from tests.support.command import cli
from tests.support.moves import LEVELS, filled, moved_topic, nothing_left_over, until_sizes
from tests.support.processes import run_in_process
from tests.support.token_server import CLIENT, SECRET, broker_jvm, broker_properties, token_server
from tests.support.topics import Topics

RACKS = ["/eu/eu-1a/r1", "/eu/eu-1b/r1", "/eu/eu-1c/r1"]
LIFE = 30
"""Seconds. Sessions end with the token."""


REFUSED = (
    "Kafka refuses the log-in: it takes the token for invalid: the brokers' log says whether it is the signature, the "
    "issuer, the audience, or the time by their clock"
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
    """The token endpoint, which is right again after each test."""
    tokens.seconds, tokens.claims, tokens.status = 300, {}, 200
    return tokens


@pytest.fixture
def config(oauth, tmp_path):
    """A file of Kafka's own tools."""
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.oauthbearer.token.endpoint.url={oauth.url}\n"
        "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        f'clientId="{CLIENT}" clientSecret="{SECRET}";\n'
    )
    return file


def test_a_reassignment_outlives_its_tokens(oauth_kafka, oauth, config, tmp_path):
    oauth.seconds = LIFE
    live = ("--bootstrap-server", oauth_kafka.bootstrap("SASL_PLAINTEXT"), "--command-config", config, *LEVELS)
    topics = Topics(oauth_kafka.admin())
    with moved_topic(topics, [[0, 1], [1, 2]]) as topic:
        filled(oauth_kafka, topic, 2, size=8_000_000)
        checked = cli("check", *live, "--topic", topic)
        assert checked.code in (0, 1), checked.err
        wish = (*live, "--topic", topic, "--replication-factor", f"{topic}=3")
        plan = cli("plan", *wish, "-o", "json")
        assert plan.code == 0, plan.err
        journal, asked, started = tmp_path / "journal.json", len(oauth.asked), time.monotonic()
        arguments = (*wish, "--journal", journal, "--approve", plan.json["hash"], "--throttle", "100kB/s", "-o", "json")
        ran = run_in_process(tmp_path, "apply", *arguments)
        assert ran.code == 0, ran.err
        assert json.loads(ran.out.splitlines()[-1])["event"] == "finished"
        assert time.monotonic() - started > 2 * LIFE, "the copies were too fast to show anything"
        assert len(oauth.asked) - asked >= 3
        assert SECRET not in ran.out + ran.err
        until_sizes(topics, topic, 3)
        nothing_left_over(oauth_kafka, topic, journal)


def test_a_token_that_brokers_refuse_is_told_in_one_sentence(oauth_kafka, oauth, config):
    live = ("--bootstrap-server", oauth_kafka.bootstrap("SASL_PLAINTEXT"), "--command-config", config)
    now = int(time.time())
    for claims in ({"aud": "others"}, {"iss": "https://others.example"}, {"iat": now - 900, "exp": now - 600}):
        oauth.claims = claims
        ran = cli("check", *live)
        assert (ran.code, ran.error) == (3, REFUSED)

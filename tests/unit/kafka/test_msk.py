"""Logins at Amazon MSK: tokens have the signature that AWS specifies, and no secret is shown."""

import base64
import logging
import sys
import threading
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.unit.reconcile.examples import topology

from rackspan.api.reasons import Reason
from rackspan.kafka import msk_login
from rackspan.kafka.admin import ConfluentAdmin
from rackspan.kafka.client_config import client_properties
from rackspan.kafka.msk_login import AwsKeys, AwsUser, MskLogin
from rackspan.kafka.msk_token import presigned_url, signing_key, token_text
from rackspan.kafka.oauth_login import login_of, uses_tokens, without_login
from rackspan.kafka.python_connection import PythonConnection
from rackspan.kafka.token_provider import TokenProvider, token_provider
from rackspan.reconcile.failures import FailureError, Remedy
from rackspan.reconcile.ports import Credentials

KEYS = AwsKeys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MSK = {"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"}
OWN = MSK | {msk_login.ACCESS_KEY_ID: KEYS.access_key_id, msk_login.SECRET_ACCESS_KEY: KEYS.secret_access_key}
USER = MSK | {msk_login.USER: "true"}
IRELAND = {"bootstrap.servers": "b-1.name.abc.c2.kafka.eu-west-1.amazonaws.com:9098"}
VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION")


@pytest.fixture(autouse=True)
def _no_aws(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def url_of(token):
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()


def test_signature_equals_the_example_of_aws():
    """Amazon S3's API reference, "Authenticating Requests: Using Query Parameters"."""
    day = datetime(2013, 5, 24, tzinfo=UTC)
    host = "examplebucket.s3.amazonaws.com"
    assert presigned_url(host, "/test.txt", {}, "s3", "us-east-1", KEYS, day, 86_400, "UNSIGNED-PAYLOAD") == (
        "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256"
        "&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
        "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
        "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    )


def test_signing_key_equals_the_example_of_aws():
    """AWS General Reference, "Deriving a signing key"."""
    key = signing_key("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "20150830/us-east-1/iam/aws4_request")
    assert key.hex() == "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9"


@pytest.mark.parametrize(
    ("session", "signature"),
    [
        (None, "bf2863582dedd310a48b9d3d7d2c336923122e0f8e851f157418d1c2eecac45b"),
        ("FwoGZXIvYXdzEXAMPLE//+a==", "1fef95d94171f2ad0822cf19a46377fad1b2227fcc483a3799f43f8d95085358"),
    ],
)
def test_token_has_the_parameters_and_the_signature_of_the_signer_of_aws(session, signature):
    """The result of aws-msk-iam-sasl-signer-python 1.0.2 for the same keys and the same time."""
    keys = AwsKeys(KEYS.access_key_id, KEYS.secret_access_key, session)
    token = token_text(keys, "eu-west-1", AT)
    assert "=" not in token
    url = urlsplit(url_of(token))
    assert (url.scheme, url.netloc, url.path) == ("https", "kafka.eu-west-1.amazonaws.com", "/")
    assert parse_qs(url.query) == {
        "Action": ["kafka-cluster:Connect"],
        "X-Amz-Algorithm": ["AWS4-HMAC-SHA256"],
        "X-Amz-Credential": ["AKIAIOSFODNN7EXAMPLE/20260102/eu-west-1/kafka-cluster/aws4_request"],
        "X-Amz-Date": ["20260102T030405Z"],
        "X-Amz-Expires": ["900"],
        "X-Amz-SignedHeaders": ["host"],
        "X-Amz-Signature": [signature],
        "User-Agent": ["rackspan"],
        **({"X-Amz-Security-Token": [session]} if session else {}),
    }


def test_token_is_renewed_after_four_fifths_of_its_lifetime(monkeypatch):
    provider, now = TokenProvider(MskLogin("eu-west-1", KEYS)), [0.0]
    monkeypatch.setattr("rackspan.kafka.token_provider.uptime", lambda: now[0])
    first = provider.token()
    now[0] = 719.0
    assert provider.token() == first
    now[0] = 721.0
    monkeypatch.setattr("rackspan.kafka.msk_token.datetime", _Clock)
    assert provider.token() == token_text(KEYS, "eu-west-1", AT) != first


class _Clock(datetime):
    @classmethod
    def now(cls, tz=None):
        return AT


@pytest.mark.parametrize(
    ("servers", "region"),
    [
        ("b-1.name.abc.c2.kafka.eu-west-1.amazonaws.com:9098", "eu-west-1"),
        ("boot-a1.c1.kafka-serverless.us-east-1.amazonaws.com:9098", "us-east-1"),
        ("B-1.NAME.C2.KAFKA.US-GOV-WEST-1.AMAZONAWS.COM", "us-gov-west-1"),
        ("b-1.name.c2.kafka.cn-north-1.amazonaws.com.cn:9098", "cn-north-1"),
        ("10.0.0.1:9098, b-1.a.c2.kafka.eu-west-1.amazonaws.com:9098", "eu-west-1"),
        ("b-1.kafka.eu-west-1.amazonaws.com.evil.example:9098", "ap-east-1"),
        ("kafka.eu-west-1.amazonaws.com:9098", "ap-east-1"),
        ("kafka:9098", "ap-east-1"),
    ],
)
def test_region_is_that_of_the_broker_names_else_of_the_environment(monkeypatch, servers, region):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "ap-east-1")
    assert login_of({**USER, "bootstrap.servers": servers}).region == region
    monkeypatch.setenv("AWS_REGION", "ap-east-2")
    assert login_of({**USER, "bootstrap.servers": "kafka:9098"}).region == "ap-east-2"


def test_unknown_region_is_an_error_that_names_aws_region():
    with pytest.raises(FailureError, match=r"needs the cluster's region, .*: set AWS_REGION$") as caught:
        login_of({**USER, "bootstrap.servers": "kafka:9098"})
    assert caught.value.failure.remedy is Remedy.SPEC


@pytest.mark.parametrize(
    "region", ["eu-west-1\n", "eu west", "evil.example/?a=1", "EU-WEST-1", "-1", "é-1", "eu-west-1&A=b", "a" * 9_999]
)
def test_invalid_region_is_rejected(region):
    with pytest.raises(FailureError, match=r"is not an AWS region, such as eu-west-1$") as caught:
        login_of({**OWN, **IRELAND, msk_login.REGION: region})
    assert caught.value.failure.message.isprintable()
    assert len(caught.value.failure.message) < 200


def test_long_list_of_hostile_servers_has_no_region():
    servers = ",".join([".kafka." * 300 + "-" * 300] * 300)
    with pytest.raises(FailureError, match=r"set AWS_REGION$"):
        login_of({**USER, "bootstrap.servers": servers})


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "PLAINTEXT", "SSL"])
def test_token_provider_requires_tls(protocol):
    properties = {**OWN, **IRELAND, "security.protocol": protocol}
    assert uses_tokens(properties)
    with pytest.raises(FailureError, match=r"^spec.kafka.tls: AWS_MSK_IAM needs TLS \(SASL_SSL\), so that"):
        token_provider(properties)


def test_login_properties_are_removed_and_unknown_ones_are_rejected():
    assert without_login({**OWN, msk_login.REGION: "eu-west-1"}) == {**MSK, "sasl.mechanism": "OAUTHBEARER"}
    with pytest.raises(FailureError, match=r"^aws\.endpoint is not supported$"):
        login_of({**OWN, **IRELAND, "aws.endpoint": "canary"})


def test_login_without_keys_does_not_use_the_keys_of_the_environment(monkeypatch):
    """The operator always sets keys. An error there must not lead to the use of the keys of its own pod."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS.secret_access_key)
    for left_out in ({}, {msk_login.USER: "false"}, {msk_login.PROFILE: "prod"}):
        with pytest.raises(FailureError, match=r"^AWS_MSK_IAM needs an access key, or sasl.jaas.config=.*$"):
            login_of({**MSK, **IRELAND, **left_out})


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        (
            {msk_login.ACCESS_KEY_ID: KEYS.secret_access_key},
            "the access key id is not valid: an id has 16 to 128 upper-case",
        ),
        ({msk_login.ACCESS_KEY_ID: "canary\nA"}, "the access key id is not valid"),
        ({msk_login.ACCESS_KEY_ID: "A" * 999}, "the access key id is not valid"),
        ({msk_login.SESSION_TOKEN: "canary\u2028"}, "the session token is not valid: it has up to 8,192 printable"),
        ({msk_login.SESSION_TOKEN: "a" * 9_000}, "the session token is not valid"),
    ],
)
def test_invalid_keys_are_rejected_and_not_shown(keys, sentence):
    with pytest.raises(FailureError, match=f"^no token for Kafka: {sentence}") as caught:
        login_of({**OWN, **IRELAND, **keys})
    failure = caught.value.failure
    assert (failure.reason, failure.remedy) == (Reason.AUTHENTICATION_FAILED, Remedy.ACCESS)
    assert not any(value in failure.message for value in keys.values())


def test_keys_and_tokens_are_not_in_repr_or_log(caplog):
    caplog.set_level(logging.DEBUG)
    login = login_of({**OWN, **IRELAND, msk_login.SESSION_TOKEN: "canary"})
    assert login == MskLogin("eu-west-1", AwsKeys(KEYS.access_key_id, KEYS.secret_access_key, "canary"))
    provider = TokenProvider(login)
    token = provider.token()
    shown = repr(login) + repr(provider) + caplog.text
    assert [one for one in (KEYS.secret_access_key, "canary", token) if one in shown] == []


def test_keys_of_the_environment_work_without_botocore(monkeypatch):
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS.secret_access_key)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session")
    query = parse_qs(urlsplit(url_of(token_provider({**USER, **IRELAND}).token())).query)
    assert query["X-Amz-Security-Token"] == ["session"]
    assert query["X-Amz-Credential"][0].startswith(KEYS.access_key_id)


@pytest.mark.parametrize("more", [{}, {msk_login.PROFILE: "prod"}, {msk_login.ROLE_ARN: "arn:aws:iam::1:role/a"}])
def test_other_credentials_without_botocore_fail_and_name_the_extra_to_install(monkeypatch, more):
    monkeypatch.setitem(sys.modules, "botocore.exceptions", None)
    if more:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS.access_key_id)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS.secret_access_key)
    with pytest.raises(FailureError, match=r"botocore is not installed: pip install 'rackspan\[msk\]'$"):
        TokenProvider(login_of({**USER, **IRELAND, **more})).token()


def test_credentials_time_out_with_a_failure_to_retry(monkeypatch):
    done = threading.Event()
    monkeypatch.setattr("rackspan.kafka.token_provider.credentials_of", lambda *_: done.wait(30))
    try:
        with pytest.raises(FailureError, match=r"AWS has given no credentials within 0.1 s$") as caught:
            TokenProvider(MskLogin("eu-west-1", AwsUser()), 0.1).token()
        assert caught.value.failure.remedy is Remedy.RETRY
    finally:
        done.set()


async def test_both_kafka_clients_share_the_token_provider():
    properties = {**OWN, "bootstrap.servers": "127.0.0.1:1", msk_login.REGION: "eu-west-1"}
    admin = ConfluentAdmin(properties)
    try:
        assert url_of(admin._tokens.token()).startswith("https://kafka.eu-west-1.amazonaws.com/?")
        assert PythonConnection(properties, admin._tokens).tokens is admin._tokens
    finally:
        await admin.close()


SASL = {"mechanism": "AWS_MSK_IAM", "secretRef": {"name": "aws"}, "mskIam": {"region": "eu-west-1"}}


def _spec(**changes):
    kafka = {"bootstrapServers": "kafka:9098", "tls": {}, "sasl": {**SASL, **changes}}
    return topology(kafka=kafka).spec.kafka


def test_topology_uses_only_the_keys_of_its_secret(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ASIA" + "B" * 16)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-pods")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    found = client_properties(
        _spec(), Credentials(username=KEYS.access_key_id, password=KEYS.secret_access_key, session_token="session")
    )
    assert login_of(found) == MskLogin("eu-west-1", AwsKeys(KEYS.access_key_id, KEYS.secret_access_key, "session"))
    assert "sasl.password" not in found
    with pytest.raises(FailureError, match="needs an access key"):
        login_of(client_properties(_spec(), Credentials()))


def test_invalid_msk_settings_are_rejected_without_admission():
    with pytest.raises(FailureError, match=r"^AWS_MSK_IAM needs spec.kafka.sasl.mskIam$"):
        client_properties(_spec(mskIam=None), Credentials(username="a", password="b"))
    keys = Credentials(username=KEYS.access_key_id, password=KEYS.secret_access_key)
    with pytest.raises(FailureError, match="is not an AWS region"):
        login_of(client_properties(_spec(mskIam={"region": "a.b/?"}), keys))

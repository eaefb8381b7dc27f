"""AWS credentials from botocore for commands against Amazon MSK. A fake STS on loopback serves the roles."""

import base64
import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from rackspan.kafka.msk_login import PROFILE, ROLE_ARN, ROLE_SESSION_NAME, STS_REGION, USER
from rackspan.kafka.token_provider import token_provider
from rackspan.reconcile.failures import FailureError

pytest.importorskip("botocore", reason="botocore is not installed: make test-msk")
LOGIN = {
    "bootstrap.servers": "b-1.name.abc.c2.kafka.eu-west-1.amazonaws.com:9098",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "AWS_MSK_IAM",
    USER: "true",
}
FILE = """
[default]
aws_access_key_id = AKIAAAAAAAAAAAAAAAAA
aws_secret_access_key = canary
[prod]
aws_access_key_id = AKIABBBBBBBBBBBBBBBB
aws_secret_access_key = canary
[half]
aws_access_key_id = AKIACCCCCCCCCCCCCCCC
[of-a-role]
role_arn = arn:aws:iam::123456789012:role/of-a-profile
source_profile = default
region = eu-west-1
[program]
credential_process = sh -c 'echo canary >&2; exit 1'
"""
ROLE = "arn:aws:iam::123456789012:role/kafka"
ANSWER = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>ASIADDDDDDDDDDDDDDDD</AccessKeyId><SecretAccessKey>canary</SecretAccessKey>
<SessionToken>canary-session</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>
</Credentials></AssumeRoleResult></AssumeRoleResponse>"""
REFUSAL = """<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>
<Code>AccessDenied</Code><Message>canary</Message></Error></ErrorResponse>"""


@pytest.fixture(autouse=True)
def aws(monkeypatch, tmp_path):
    """Set the environment of a machine with a profiles file and no other AWS settings."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "credentials").write_text(FILE)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return monkeypatch


@pytest.fixture
def sts(aws):
    """Yield a fake STS: `asked` lists the credential scope and parameters of each request, `answer` is its response."""

    class Sts(BaseHTTPRequestHandler):
        asked, answer = [], (200, ANSWER)

        def do_POST(self):
            body = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            Sts.asked.append((self.headers["Authorization"].split("Credential=")[1].split(",")[0], body))
            status, text = Sts.answer
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Sts) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        aws.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{server.server_port}")
        yield Sts
        server.shutdown()


def signed(more):
    """Return the parameters of a token."""
    token = token_provider({**LOGIN, **more}).token()
    return parse_qs(urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()).query)


def key(query):
    return query["X-Amz-Credential"][0].partition("/")[0]


def refused(more):
    with pytest.raises(FailureError) as caught:
        token_provider({**LOGIN, **more}).token()
    assert "canary" not in caught.value.failure.message
    return caught.value.failure.what


def test_credentials_come_from_the_selected_profile(aws):
    assert key(signed({})) == "AKIAAAAAAAAAAAAAAAAA"
    assert key(signed({PROFILE: "prod"})) == "AKIABBBBBBBBBBBBBBBB"
    aws.setenv("AWS_PROFILE", "prod")
    assert key(signed({})) == "AKIABBBBBBBBBBBBBBBB"


def test_named_profile_takes_precedence_over_environment_keys(aws):
    aws.setenv("AWS_ACCESS_KEY_ID", "AKIA" + "E" * 16)
    aws.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    assert key(signed({})) == "AKIA" + "E" * 16
    assert key(signed({PROFILE: "prod"})) == "AKIABBBBBBBBBBBBBBBB"


@pytest.mark.parametrize(
    ("more", "caller", "name"),
    [
        ({}, ("AKIAAAAAAAAAAAAAAAAA", "eu-west-1"), "rackspan"),
        (
            {PROFILE: "prod", STS_REGION: "us-east-2", ROLE_SESSION_NAME: "me"},
            ("AKIABBBBBBBBBBBBBBBB", "us-east-2"),
            "me",
        ),
    ],
)
def test_role_is_assumed_with_the_configured_region_and_session_name(sts, more, caller, name):
    query = signed({ROLE_ARN: ROLE, **more})
    assert (key(query), query["X-Amz-Security-Token"]) == ("ASIADDDDDDDDDDDDDDDD", ["canary-session"])
    scope, asked = sts.asked[0]
    assert (scope.split("/")[0], scope.split("/")[2]) == caller
    assert (asked["RoleArn"], asked["RoleSessionName"]) == ([ROLE], [name])


def test_denied_role_is_reported_with_the_error_code(sts):
    sts.answer = (403, REFUSAL)
    assert refused({ROLE_ARN: ROLE}) == f"no token for Kafka: AWS says AccessDenied to the role {ROLE}"


def test_denied_role_of_a_profile_is_reported_without_a_name(sts):
    sts.answer = (403, REFUSAL)
    assert refused({PROFILE: "of-a-role"}) == "no token for Kafka: AWS says AccessDenied"
    assert sts.asked[0][1]["RoleArn"] == ["arn:aws:iam::123456789012:role/of-a-profile"]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({PROFILE: "none"}, "botocore says ProfileNotFound: The config profile (none) could not be found"),
        ({PROFILE: "half"}, "botocore says PartialCredentialsError: Partial credentials found in "),
        ({PROFILE: "program"}, "botocore says CredentialRetrievalError"),
        ({ROLE_ARN: "none"}, "botocore says ParamValidationError"),
    ],
)
def test_unusable_credentials_are_reported_without_secrets(more, sentence):
    what = refused(more)
    assert what.startswith(f"no token for Kafka: {sentence}")
    assert sentence.endswith("in ") or what.endswith(sentence)


def test_missing_credentials_are_reported(aws):
    aws.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    aws.setenv("AWS_CONFIG_FILE", "/nowhere")
    assert refused({}).endswith(
        "there are no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
    )


def test_credentials_and_signatures_are_not_logged(sts, caplog):
    caplog.set_level(logging.DEBUG)
    query = signed({ROLE_ARN: ROLE})
    assert [one for one in ("canary", query["X-Amz-Signature"][0], "Signature") if one in caplog.text] == []

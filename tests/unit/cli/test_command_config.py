"""Translation of properties files of Kafka's tools to properties of librdkafka."""

import sys

import pytest

from rackspan.kafka.command_config import CommandConfigError, read_command_config

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def read(tmp_path, text):
    file = tmp_path / "client.properties"
    file.write_text(text, newline="")
    return read_command_config(file)


def test_properties_of_kafka_tools_are_translated_to_librdkafka(tmp_path):
    assert read(
        tmp_path,
        f"""
        # comment, and ! another
        ! bootstrap.servers=ignored
        security.protocol = SASL_SSL
        sasl.mechanism: SCRAM-SHA-512
        sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
            username="ann" \\
            password="a\\\\"b=c;";
        ssl.truststore.type=pem
        ssl.truststore.location=/etc/kafka/ca.pem
        ssl.truststore.password=unused
        ssl.keystore.type=PEM
        ssl.keystore.location={tmp_path}/key.pem
        ssl.key.password=secret
        ssl.endpoint.identification.algorithm=
        request.timeout.ms=5000
        """,
    ) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ann",
        "sasl.password": 'a"b=c;',
        "ssl.ca.location": "/etc/kafka/ca.pem",
        "ssl.certificate.location": f"{tmp_path}/key.pem",
        "ssl.key.location": f"{tmp_path}/key.pem",
        "ssl.key.password": "secret",
        "ssl.endpoint.identification.algorithm": "none",
    }


def test_inline_certificates_are_translated(tmp_path):
    assert read(
        tmp_path,
        "ssl.truststore.type=PEM\nssl.truststore.certificates=A\\nB\nssl.keystore.type=PEM\n"
        "ssl.keystore.certificate.chain=C\nssl.keystore.key=D\n",
    ) == {"ssl.ca.pem": "A\nB", "ssl.certificate.pem": "C", "ssl.key.pem": "D"}


def test_librdkafka_properties_and_pkcs12_keystore_are_kept(tmp_path):
    text = "sasl.username=ann\nssl.ca.location=ca.pem\nssl.keystore.type=PKCS12\nssl.keystore.location=k.p12\n"
    assert read(tmp_path, text + "ssl.keystore.password=x\n") == {
        "sasl.username": "ann",
        "ssl.ca.location": "ca.pem",
        "ssl.keystore.location": "k.p12",
        "ssl.keystore.password": "x",
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=x\u0085y", "x\u0085y"),
        ("a=x\u2028y", "x\u2028y"),
        ("a=x\x0by", "x\x0by"),
        ("a=x\fy", "x\fy"),
        ("a=\u00a0x", "\u00a0x"),
        (r"a=\ud83d\ude00", "\U0001f600"),
        ("a=x\\", "x"),
        ("a = \\\n  x \\\n  y", "x y"),
        ("a x=y:z", "x=y:z"),
    ],
    ids=ascii,
)
def test_properties_are_parsed_as_in_java(tmp_path, text, value):
    """As `java.util.Properties.load` documents: only CR and LF end a line; only space, tab and FF are white space."""
    assert read(tmp_path, text) == {"a": value}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "ssl.truststore.location=ca.jks",
            (
                "ssl.truststore.location: ca.jks is a JKS store, which cannot be read here; run "
                "`keytool -list -rfc -keystore ca.jks > truststore.pem`, name that file, and set "
                "ssl.truststore.type=PEM"
            ),
        ),
        (
            "ssl.keystore.location=k.jks",
            (
                "ssl.keystore.location: k.jks is a JKS store, which cannot be read here; run `keytool -importkeystore "
                "-srckeystore k.jks -destkeystore keystore.p12 -deststoretype PKCS12`, name that file, and set "
                "ssl.keystore.type=PKCS12"
            ),
        ),
        (
            "sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;",
            (
                "sasl.jaas.config: only PlainLoginModule, ScramLoginModule, OAuthBearerLoginModule and IAMLoginModule "
                "are understood; for other mechanisms write librdkafka's own properties"
            ),
        ),
        (f'sasl.jaas.config={PLAIN} required username="ann";', "sasl.jaas.config: holds no password"),
        (r"sasl.password=a\ucanary", r"cannot be read: a \u in it has no four hexadecimal digits"),
        (r"sasl.password=canary\ud83d", r"cannot be read: a \u in it is one half of a surrogate pair"),
        (r"a\ude00\ud83d=canary", r"cannot be read: a \u in it is one half of a surrogate pair"),
    ],
)
def test_property_that_cannot_be_translated_is_rejected_with_a_message(tmp_path, text, sentence):
    with pytest.raises(CommandConfigError) as caught:
        read(tmp_path, text)
    assert str(caught.value) == f"{tmp_path}/client.properties: {sentence}"


def test_missing_or_invalid_command_config_is_rejected_with_exit_code_2(rackspan, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    live = ("check", "--bootstrap-server", "127.0.0.1:1", "--command-config")
    ran = rackspan(*live, "nowhere.properties")
    assert (ran.code, ran.error) == (2, "nowhere.properties: cannot be read: No such file or directory")
    (tmp_path / "bad.properties").write_text("retires=3\n")
    ran = rackspan(*live, "bad.properties")
    assert (ran.code, ran.error) == (2, '--command-config: No such configuration property: "retires"')


def test_password_of_the_command_config_is_not_printed_if_the_connection_fails(rackspan, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "client.properties").write_text(
        f'security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN} required username="ann" '
        'password="canary";\n'
    )
    ran = rackspan("check", "--bootstrap-server", "127.0.0.1:1", "--command-config", "client.properties")
    assert ran.code == 3
    assert "canary" not in ran.out + ran.err


TOKENS = """
security.protocol=SASL_PLAINTEXT
sasl.mechanism=OAUTHBEARER
sasl.oauthbearer.token.endpoint.url=https://tokens.example/token
"""
READ = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://tokens.example/token",
    "sasl.oauthbearer.client.credentials.client.id": "me",
    "sasl.oauthbearer.client.credentials.client.secret": "canary",
    "sasl.oauthbearer.scope": "s",
}
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLogin"


@pytest.mark.parametrize(
    "text",
    [
        f"""sasl.login.callback.handler.class={HANDLER}CallbackHandler
        sasl.login.connect.timeout.ms=15000
        sasl.jaas.config={HANDLER}Module required clientId="me" clientSecret="canary" scope="s";""",
        f"""sasl.jaas.config={HANDLER}Module required ;
        sasl.oauthbearer.jwt.retriever.class=org.apache.kafka.common.security.oauthbearer.ClientCredentialsJwtRetriever
        sasl.oauthbearer.client.credentials.client.id=me
        sasl.oauthbearer.client.credentials.client.secret=canary
        sasl.oauthbearer.scope=s""",
        """sasl.oauthbearer.method=oidc
        sasl.oauthbearer.client.id=me
        sasl.oauthbearer.client.secret=canary
        sasl.oauthbearer.scope=s""",
        f"""sasl.jaas.config={HANDLER}Module required clientId="other" clientSecret="canary";
        sasl.oauthbearer.client.credentials.client.id=me
        sasl.oauthbearer.scope=s""",
    ],
    ids=["until Kafka 4.1", "since Kafka 4.1", "librdkafka", "properties come first"],
)
def test_oauthbearer_properties_of_old_and_new_kafka_and_of_librdkafka_are_translated(tmp_path, text):
    assert read(tmp_path, TOKENS + text) == READ


def test_truststore_of_the_token_endpoint_is_read_from_the_jaas_config(tmp_path):
    login = f'{HANDLER}Module required ssl.truststore.type="PEM" ssl.truststore.location="/ca.pem";'
    assert read(tmp_path, f"sasl.jaas.config={login}") == {"https.ca.location": "/ca.pem"}
    with pytest.raises(CommandConfigError, match=r"sasl.jaas.config: ssl.truststore.location: ca.jks is a JKS store"):
        read(tmp_path, f'sasl.jaas.config={HANDLER}Module required ssl.truststore.location="ca.jks";')


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "sasl.login.callback.handler.class=software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler",
            "IAMOAuthBearerLoginCallbackHandler is not supported: tokens come by client credentials only",
        ),
        (
            "sasl.oauthbearer.jwt.retriever.class=org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever",
            "JwtBearerJwtRetriever is not supported",
        ),
        ("sasl.oauthbearer.method=default", "sasl.oauthbearer.method: default is not supported"),
        (
            f'sasl.jaas.config={HANDLER}Module required extension_a="canary";',
            "sasl.jaas.config: extension_a is not supported",
        ),
    ],
)
def test_unsupported_oauthbearer_settings_are_rejected_without_showing_their_values(tmp_path, text, sentence):
    with pytest.raises(CommandConfigError) as caught:
        read(tmp_path, TOKENS + text)
    assert sentence in str(caught.value)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("module", [PLAIN, f"{HANDLER}Module", "software.amazon.msk.auth.iam.IAMLoginModule"])
@pytest.mark.parametrize(
    "options",
    [
        'clientId="a" clientSecret="s3"canary=cr3t"',
        'clientId="a" clientSecret="s3"canary=cr3t',
        'clientId="a" clientSecret="s3 canary=cr3t',
        "clientId='a' clientSecret='s3 canary=cr3t",
        "clientId=a clientSecret=it's canary=cr3t'",
        'clientId=a clientSecret=s3"canary=cr3t',
        'clientId="a" clientSecret= "s3" canary',
        'clientId="a" "canary"',
        'clientId="a"; canary="b"',
        'clientId="a", canary="b"',
        '/* canary="b" */ clientId="a"',
    ],
)
def test_jaas_options_that_cannot_be_parsed_are_rejected_without_showing_them(tmp_path, module, options):
    with pytest.raises(CommandConfigError) as caught:
        read(tmp_path, f"sasl.mechanism=AWS_MSK_IAM\nsasl.jaas.config={module} required {options};")
    assert str(caught.value) == (
        f'{tmp_path}/client.properties: sasl.jaas.config: the options are not all name="value" with a space between '
        'them; write \\\\" for a quotation mark in a value'
    )


@pytest.mark.parametrize(
    ("options", "password"),
    [
        ('username="a" password="it\'s; b=c";', "it's; b=c"),
        ("username = 'a'  password\t=\t'say \"b\"'  ;  ", 'say "b"'),
        (r'password="a\\"b=c\\\\" username=a', 'a"b=c\\'),
        ("username=a password=b/c=d, serviceName=kafka", "b/c=d,"),
        ('username="a" password="";', ""),
    ],
)
def test_jaas_options_are_read_with_and_without_quotes(tmp_path, options, password):
    found = read(tmp_path, f"sasl.jaas.config={PLAIN} required {options}")
    assert found == {"sasl.username": "a", "sasl.password": password}


MSK = """
security.protocol=SASL_SSL
sasl.mechanism=AWS_MSK_IAM
sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler
sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required"""


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("", {}),
        (' awsProfileName="prod"', {"aws.profile": "prod"}),
        (
            " awsRoleArn=arn:aws:iam::123456789012:role/kafka awsRoleSessionName=me awsStsRegion='eu-west-1'",
            {
                "aws.role.arn": "arn:aws:iam::123456789012:role/kafka",
                "aws.role.session.name": "me",
                "aws.sts.region": "eu-west-1",
            },
        ),
    ],
)
def test_iam_login_module_of_amazon_msk_is_translated_with_its_options(tmp_path, options, found):
    assert read(tmp_path, f"{MSK}{options};") == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "AWS_MSK_IAM",
        "aws.user": "true",
        **found,
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"{MSK} awsDebugCreds=true;", "sasl.jaas.config: awsDebugCreds is not supported"),
        (f"{MSK} awsExternalId=canary;", "sasl.jaas.config: awsExternalId is not supported"),
        (
            f"{MSK};\nsasl.mechanism=OAUTHBEARER",
            "sasl.jaas.config: IAMLoginModule needs sasl.mechanism=AWS_MSK_IAM",
        ),
    ],
)
def test_unsupported_options_of_the_iam_login_module_are_rejected(tmp_path, text, sentence):
    with pytest.raises(CommandConfigError) as caught:
        read(tmp_path, text)
    assert str(caught.value) == f"{tmp_path}/client.properties: {sentence}"


def test_missing_aws_credentials_without_botocore_give_an_error_that_names_the_extra(rackspan, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "botocore.exceptions", None)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    (tmp_path / "msk.properties").write_text(f"{MSK};\n")
    ran = rackspan("check", "--bootstrap-server", "127.0.0.1:1", "--command-config", tmp_path / "msk.properties")
    assert ran.code == 3
    assert ran.error.startswith("no token for Kafka: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set")
    assert ran.error.endswith("for other AWS credentials botocore is not installed: pip install 'rackspan[msk]'")

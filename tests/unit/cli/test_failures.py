"""Connection failures give the same error message and exit code in all commands."""

import pytest
from tests.support.command import cli

from rackspan.api.reasons import Reason
from rackspan.cli.shared.command_errors import ExitCode, command_error
from rackspan.kafka.command_config import SETTINGS
from rackspan.reconcile.failures import Failure, KafkaSetting, Remedy

COMMANDS = ("check", "plan", "what-if", "snapshot", "locality", "apply", "watch")
FILES = {
    "a store without a password": "security.protocol=SSL\nssl.keystore.type=PKCS12\nssl.keystore.location=/nope.p12",
    "an authority that is no file": "security.protocol=SSL\nssl.ca.location=/nope.pem",
    "a certificate that is no file": "security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location=/nope.pem",
    "a value that is no number": "fetch.min.bytes=x",
    "an unknown property": "no.such.thing=1",
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_unusable_client_properties_are_bad_input_of_the_command_config(tmp_path, command, text):
    file = tmp_path / "client.properties"
    file.write_text(text)
    ran = cli(command, "--bootstrap-server", "127.0.0.1:1", "--command-config", file)
    assert ran.code == 2
    assert "spec.kafka" not in ran.err
    assert ran.error.startswith(("--command-config: ", "ssl.keystore.location is not supported"))


@pytest.mark.parametrize("command", COMMANDS)
def test_unreachable_cluster_gives_exit_code_3(command):
    ran = cli(command, "--bootstrap-server", "127.0.0.1:1")
    assert (ran.code, ran.error) == (3, "no broker of 127.0.0.1:1 can be reached: Connection refused")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("more", "code", "sentence"),
    [
        ("", 2, "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url"),
        (
            "sasl.oauthbearer.token.endpoint.url=http://tokens.example/",
            2,
            "sasl.oauthbearer.token.endpoint.url: it has to begin with https://, so that the secret is encrypted",
        ),
        (
            "sasl.oauthbearer.token.endpoint.url=http://127.0.0.1:1/",
            3,
            "sasl.oauthbearer.token.endpoint.url: no token for Kafka: 127.0.0.1:1 cannot be asked: Connection refused",
        ),
    ],
)
def test_login_without_a_token_gives_a_one_line_error_without_the_secret(tmp_path, command, more, code, sentence):
    file = tmp_path / "client.properties"
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.client.id=me\n"
        f"sasl.oauthbearer.client.secret=canary\n{more}"
    )
    ran = cli(command, "--bootstrap-server", "127.0.0.1:1", "--command-config", file)
    assert (ran.code, ran.error) == (code, sentence)
    assert "canary" not in ran.err


@pytest.mark.parametrize(
    ("setting", "remedy", "code"),
    [
        (KafkaSetting.PROPERTIES, Remedy.SPEC, ExitCode.BAD_INPUT),
        (KafkaSetting.TLS, Remedy.ACCESS, ExitCode.BAD_INPUT),
        (KafkaSetting.CA, Remedy.ACCESS, ExitCode.KAFKA),
        (KafkaSetting.CLIENT_CERTIFICATE, Remedy.ACCESS, ExitCode.KAFKA),
        (None, Remedy.SPEC, ExitCode.BAD_INPUT),
        (None, Remedy.ACCESS, ExitCode.KAFKA),
        (None, Remedy.RETRY, ExitCode.KAFKA),
    ],
)
def test_failure_names_the_setting_as_the_user_knows_it(setting, remedy, code):
    failure = Failure(Reason.TLS_FAILED, "no connection", remedy, setting)
    for names in ({}, SETTINGS):
        told = command_error(failure, names)
        assert told.code is code
        assert str(told) == (f"{names.get(setting, setting)}: no connection" if setting else "no connection")


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (Reason.TOPOLOGY_NOT_FOUND, ExitCode.BAD_INPUT),
        (Reason.SECRET_NOT_FOUND, ExitCode.BAD_INPUT),
        (Reason.NOT_AUTHORIZED, ExitCode.KAFKA),
        (Reason.API_SERVER_UNREACHABLE, ExitCode.KAFKA),
        (Reason.AUTHENTICATION_FAILED, ExitCode.KAFKA),
        (Reason.TLS_FAILED, ExitCode.KAFKA),
    ],
)
def test_missing_object_is_bad_input_and_an_access_failure_is_not(reason, code):
    assert command_error(Failure(reason, "why", Remedy.ACCESS), {}).code is code


NO_KUBECONFIGS = [
    "x: [",
    "hello",
    "[1]",
    "",
    "{}",
    "contexts: 3",
    "current-context: a\ncontexts: [{name: a}]",
    "\udcff",
]


@pytest.mark.parametrize("text", NO_KUBECONFIGS)
@pytest.mark.parametrize("command", ["plan", "status"])
def test_invalid_kubeconfig_is_bad_input(tmp_path, command, text):
    file = tmp_path / "kubeconfig"
    file.write_bytes(text.encode(errors="surrogateescape"))
    ran = cli(command, "--topology", "kafka/prod", "--kubeconfig", file)
    assert (ran.code, ran.error.startswith("no usable kubeconfig: ")) == (2, True)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (None, "there is no such file"),
        ("", "is empty"),
        ("{}", "has no current-context"),
        ("[1]", "is not a kubeconfig"),
        ("a: 1\nb: [\n", "config:3: is not YAML"),
        ("current-context: c\ncontexts: [{name: a}, {name: b}]", 'has no context "c", only a, b'),
    ],
)
@pytest.mark.parametrize("how", ["option", "variable", "home"])
def test_unusable_kubeconfig_is_one_error_that_names_the_file_and_one_hint(tmp_path, monkeypatch, text, error, how):
    file = tmp_path / ".kube" / "config"
    file.parent.mkdir()
    if text is not None:
        file.write_text(text)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "RACKSPAN_KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    if how == "variable":
        monkeypatch.setenv("KUBECONFIG", str(file))
    ran = cli("status", "--topology", "kafka/prod", *(("--kubeconfig", file) if how == "option" else ()))
    assert ran.code == 2
    assert ran.error.removeprefix("no usable kubeconfig: ").startswith(str(file))
    assert error in ran.error
    assert len(ran.err.splitlines()) == 2
    assert ran.hint == "pass --kubeconfig FILE, or set KUBECONFIG"


WITH_KUBECONFIG = (
    "check", "plan", "what-if", "scan --engine local", "locality", "watch", "apply", "status", "drain 3", "uncordon 3",
    "import cluster", "import strimzi topics.yaml", "import topicctl topics.yaml",
)  # fmt: skip


@pytest.mark.parametrize("command", WITH_KUBECONFIG)
def test_kubeconfig_option_without_topology_is_rejected(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kubeconfig").touch()
    (tmp_path / "topics.yaml").touch()
    ran = cli(*command.split(), "--kubeconfig", "kubeconfig")
    assert (ran.code, ran.error) == (2, "--kubeconfig is for --topology")
    both = cli(*command.split(), "--kubeconfig", "kubeconfig", "--topology", "kafka/prod")
    assert "--kubeconfig is for --topology" not in both.err
    monkeypatch.setenv("RACKSPAN_KUBECONFIG", "kubeconfig")
    assert "--kubeconfig is for --topology" not in cli(*command.split()).err


@pytest.mark.parametrize("text", NO_KUBECONFIGS)
@pytest.mark.parametrize("how", [[], ["--watch"], ["--publish"]])
def test_invalid_kubeconfig_of_a_scan_is_bad_input(tmp_path, how, text):
    file = tmp_path / "kubeconfig"
    file.write_bytes(text.encode(errors="surrogateescape"))
    ran = cli("scan", "--topology", "kafka/prod", *how, "--kubeconfig", file)
    assert (ran.code, ran.error.startswith("no usable kubeconfig: ")) == (2, True)
    assert ran.hint == "pass --kubeconfig FILE, or set KUBECONFIG"

"""Input that `rackspan apply` and `rackspan watch` reject without a cluster. Other tests are in tests/integration."""

import pytest
from tests.support.command import cli

SERVER = ("--bootstrap-server", "127.0.0.1:1")


@pytest.mark.parametrize("command", ["apply", "watch"])
def test_apply_and_watch_fail_without_a_cluster_or_if_no_broker_can_be_reached(command):
    assert cli(command).error == "the cluster is missing"
    away = cli(command, *SERVER)
    assert (away.code, away.error.startswith("no broker of 127.0.0.1:1 can be reached")) == (3, True)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--throttle", "50"), '--throttle "50": write a number and its unit, such as 50MB/s'),
        (("--throttle", "50Mb/s"), '--throttle "50Mb/s": write a number and its unit, such as 50MB/s'),
        (("--max-bytes", "much"), '--max-bytes "much": write a number and its unit, such as 10GiB'),
    ],
)
def test_byte_options_without_a_valid_number_and_unit_are_rejected(arguments, error):
    ran = cli("apply", *SERVER, *arguments)
    assert (ran.code, ran.error) == (2, error)


def test_apply_rejects_dry_run_together_with_cancel():
    ran = cli("apply", *SERVER, "--cancel", "--dry-run")
    assert (ran.code, ran.error) == (2, "--dry-run shows a plan, and --cancel makes none")
    assert "rackspan watch --once" in ran.hint


def test_apply_rejects_a_patience_of_zero_seconds():
    assert cli("apply", *SERVER, "--patience", "0").code == 2


def test_apply_takes_a_patience_without_an_end():
    ran = cli("apply", *SERVER, "--patience", "inf")
    assert (ran.code, ran.error.startswith("no broker of 127.0.0.1:1 can be reached")) == (3, True)


def test_apply_rejects_a_pkcs12_keystore_which_only_one_of_its_two_clients_supports(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\nssl.keystore.type=PKCS12\nssl.keystore.location=/nowhere/store.p12\n")
    ran = cli("apply", *SERVER, "--command-config", file)
    assert ran.code in (2, 3)
    assert ran.error == (
        "ssl.keystore.location is not supported where replicas are moved: name PEM files instead of a PKCS12 store"
    )


def test_help_of_apply_does_not_import_kafka_clients(tmp_path):
    import subprocess
    import sys

    code = (
        "import sys; from rackspan.cli import app\n"
        "try: app(['apply', '--help'])\n"
        "except SystemExit: pass\n"
        "assert not {'kafka', 'confluent_kafka'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=600)

"""What `rackspan apply` and `rackspan watch` refuse before they ask a cluster; the rest is in tests/integration."""

import pytest
from tests.support.command import cli

SERVER = ("--bootstrap-server", "127.0.0.1:1")


@pytest.mark.parametrize("command", ["apply", "watch"])
def test_a_cluster_has_to_be_named_and_to_be_alive(command):
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
def test_bytes_need_their_unit(arguments, error):
    ran = cli("apply", *SERVER, *arguments)
    assert (ran.code, ran.error) == (2, error)


def test_what_is_cancelled_cannot_be_tried_first():
    ran = cli("apply", *SERVER, "--cancel", "--dry-run")
    assert (ran.code, ran.error) == (2, "--dry-run shows a plan, and --cancel makes none")
    assert "rackspan watch --once" in ran.hint


def test_patience_is_a_second_at_least():
    assert cli("apply", *SERVER, "--patience", "0").code == 2


def test_properties_that_only_one_of_the_clients_knows_are_refused(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\nssl.keystore.type=PKCS12\nssl.keystore.location=/nowhere/store.p12\n")
    ran = cli("apply", *SERVER, "--command-config", file)
    assert ran.code in (2, 3)
    assert ran.error == (
        "ssl.keystore.location is not supported where replicas are moved: name PEM files instead of a PKCS12 store"
    )


def test_help_needs_no_client(tmp_path):
    import subprocess
    import sys

    code = (
        "import sys; from rackspan.cli import app\n"
        "try: app(['apply', '--help'])\n"
        "except SystemExit: pass\n"
        "assert not {'kafka', 'confluent_kafka'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=600)

"""The command `rackspan rack-id`, which init containers of brokers run."""

import subprocess
import sys

import pytest

from rackspan.core.rack_file import LARGEST, RackFileError, rack_file
from rackspan.rack_id import RackNotFoundError, look_up, look_up_within, main


@pytest.fixture
def nodes(tmp_path):
    path = tmp_path / "nodes"
    path.write_text(rack_file({"n1": "/eu/eu-1a/r7", "n2": "use1-az1"}, "racks of shop/main"))
    return path


def run(*arguments):
    return main([str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("node", "options", "printed"),
    [
        ("n1", (), "/eu/eu-1a/r7"),
        ("n2", (), "use1-az1"),
        ("n1", ("--format", "properties"), "broker.rack=/eu/eu-1a/r7"),
        ("n1", ("--format", "properties", "--key", "client.rack"), "client.rack=/eu/eu-1a/r7"),
        ("n1", ("--format", "env"), "BROKER_RACK='/eu/eu-1a/r7'"),
        ("n1", ("--format", "env", "--key", "CLIENT_RACK", "--wait", "1m30s"), "CLIENT_RACK='/eu/eu-1a/r7'"),
    ],
)
def test_rack_is_printed_in_the_requested_format(nodes, capsys, node, options, printed):
    assert run("--nodes-file", nodes, "--node", node, *options) == 0
    assert capsys.readouterr().out == printed + "\n"


def test_unknown_node_is_an_error_with_a_hint(nodes, capsys):
    assert run("--nodes-file", nodes, "--node", "n3") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert f"{nodes} has no rack for node n3" in err
    assert "labels of the RackTopology's levels" in err


def test_missing_file_is_an_error_with_a_hint(tmp_path, capsys):
    assert run("--nodes-file", tmp_path / "none", "--node", "n3") == 1
    assert "is the ConfigMap of the RackTopology's racks mounted there?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"n1\n", "line 1: after the node comes its rack id"),
        (b"n0 /a\nn1 /a b\n", "line 2"),
        (b"n1 /a//b\n", "step 2 is empty"),
        (b"n1 /a\tb\n", "white space"),
        (b"n1 /a\x1b[2J\n", "a control character"),
        (b"n1 \xff\n", "cannot be read"),
        (b"n1 /a\n" * (LARGEST // 6 + 1), "is larger than"),
    ],
)
def test_malformed_file_raises_rack_not_found(tmp_path, text, why):
    path = tmp_path / "nodes"
    path.write_bytes(text)
    with pytest.raises(RackNotFoundError, match=why) as told:
        look_up(path, "n1")
    assert str(told.value).isprintable()


def test_error_with_a_long_rack_id_is_short(tmp_path):
    path = tmp_path / "nodes"
    path.write_text(f"n1 /{'x' * 1000} y\n")
    with pytest.raises(RackNotFoundError) as told:
        look_up(path, "n1")
    assert len(str(told.value)) < 800


def test_node_that_appears_during_the_wait_is_found(nodes, capsys):
    def comes(_seconds):
        nodes.write_text(rack_file({"late": "/z1"}, "changed"))

    assert look_up_within(nodes, "late", 60, pause=comes) == "/z1"
    assert "waiting up to 60 s" in capsys.readouterr().err


def test_node_that_does_not_appear_is_an_error_at_the_end_of_the_wait(nodes, monkeypatch, capsys):
    clock, paused = iter((0.0, 59.0, 60.0)), []
    monkeypatch.setattr("rackspan.rack_id.time.monotonic", lambda: next(clock))
    with pytest.raises(RackNotFoundError, match="has no rack for node n3"):
        look_up_within(nodes, "n3", 60, pause=paused.append)
    assert len(paused) == 1
    assert capsys.readouterr().err.count("waiting up to 60 s") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("--node", "n1"),
        ("--nodes-file", "nodes", "--node", ""),
        ("--nodes-file", "nodes", "--node", "n 1"),
        ("--nodes-file", "nodes", "--node", "n1", "--wait", "soon"),
        ("--nodes-file", "nodes", "--node", "n1", "--key", "a=b"),
        ("--nodes-file", "nodes", "--node", "n1", "--format", "yaml"),
    ],
)
def test_invalid_options_exit_with_code_2(arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("redirection", "why"), [(">/dev/full", "No space left on device"), (">&-", "standard output is closed")]
)
def test_rack_id_that_cannot_be_written_is_one_line_and_exit_code_74(nodes, redirection, why):
    command = f"{sys.executable} -m rackspan rack-id --nodes-file {nodes} --node n1 {redirection}"
    done = subprocess.run(command, shell=True, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (74, f"rackspan: the rack id cannot be written: {why}\n")


def test_file_that_is_a_directory_is_reported_without_an_error_number(tmp_path):
    with pytest.raises(RackNotFoundError, match=f"^{tmp_path} cannot be read: Is a directory$"):
        look_up(tmp_path, "n1")


def test_rack_file_has_space_for_5000_nodes_and_rejects_20000():
    name, rack = "ip-10-101-202-{:03}.eu-central-1.compute.internal", "/eu-central-1/eu-central-1a/rack-17"
    assert len(rack_file({name.format(number): rack for number in range(5_000)}, "")) < LARGEST // 2
    with pytest.raises(RackFileError, match="take more than 1,000,000 bytes"):
        rack_file({name.format(number): rack for number in range(20_000)}, "")


def test_entry_point_runs_rack_id_without_large_imports(nodes):
    script = (
        "import sys; sys.argv = ['rackspan', 'rack-id', '--nodes-file', sys.argv[1], '--node', 'n1']\n"
        "from rackspan.__main__ import main\n"
        "try: main()\n"
        "finally: print(*sorted({'numpy', 'typer', 'msgspec', 'kubernetes', 'rich'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(nodes)], capture_output=True, text=True, check=True)
    assert done.stdout == "/eu/eu-1a/r7\n\n"


def test_command_line_lists_and_runs_rack_id(nodes):
    from typer.testing import CliRunner

    from rackspan.cli import app

    assert "rack-id" in CliRunner().invoke(app, ["--help"]).output
    done = CliRunner().invoke(app, ["rack-id", "--nodes-file", str(nodes), "--node", "n2"])
    assert (done.exit_code, done.stdout) == (0, "use1-az1\n")

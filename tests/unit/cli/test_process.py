"""Runs the installed programs as separate processes."""

import inspect
import json
import shlex
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import get_type_hints

import pytest
import typer
from dev.paths import REPOSITORY
from tests.support.command import RACKS, cli, cluster, topic
from typer.main import get_command

from rackspan.cli import actions
from rackspan.cli.app import COMMANDS, app
from rackspan.cli.completion import main

BIN = Path(sys.executable).parent
DOCUMENT = cluster(*(topic(f"topic-{at}", *([0, 1, 2],) * 100) for at in range(100)))


@pytest.mark.parametrize(("program", "shown"), [("rackspan", "rackspan"), ("kubectl-rackspan", "kubectl rackspan")])
def test_usage_of_the_program_and_of_the_kubectl_plugin_shows_the_called_name(program, shown):
    done = subprocess.run([BIN / program, "check"], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: the cluster is missing\n")
    usage = subprocess.run([BIN / program, "check", "--help"], check=True, capture_output=True, text=True)
    assert f"Usage: {shown} check [OPTIONS]" in usage.stdout


def test_operator_ends_on_sigterm_before_it_runs():
    """In a container the operator is process 1, for which Linux ignores signals without a handler."""
    begun = "rackspan.cli.app = lambda: os.kill(os.getpid(), signal.SIGTERM)"
    program = f"import os, signal, rackspan.cli; {begun}; from rackspan.__main__ import main; main()"
    assert subprocess.run([sys.executable, "-c", program, "operator"], check=False).returncode == 128 + signal.SIGTERM


def test_standard_output_contains_only_the_result():
    command = [BIN / "rackspan", "check", "--snapshot", "-", "-o", "json"]
    done = subprocess.run(command, check=False, input=json.dumps(DOCUMENT), capture_output=True, text=True)
    assert json.loads(done.stdout)["summary"]["nonCompliant"] == 10_000
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["check", "--all", "-o", "table"], 1),
        (["check", "-o", "json"], 1),
        (["what-if", "--all", "-o", "json"], 0),
        (["plan", "-o", "json", "--replication-factor", "topic-1=7"], 2),
    ],
)
def test_closed_pipe_is_not_an_error_and_does_not_change_the_exit_code(tmp_path, arguments, code):
    document = cluster(*DOCUMENT["topics"], racks=RACKS | dict.fromkeys(range(6, 3000), "/ap/ap-1a/r1"))
    (tmp_path / "prod.json").write_text(json.dumps(document if arguments[0] == "what-if" else DOCUMENT))
    command = [BIN / "rackspan", *arguments, "--snapshot", tmp_path / "prod.json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline()
        process.stdout.close()
        told = process.stderr.read()
        assert "topic-1: replicationFactor 7" in told if code == 2 else not told
        assert process.wait(600) == code


@pytest.mark.parametrize("arguments", ["--help", "status --help", "report --help", "import cluster --help"])
def test_help_in_a_closed_pipe_ends_with_0_and_without_an_error(arguments):
    done = subprocess.run(
        ["bash", "-c", f"{BIN}/rackspan {arguments} | true; exit ${{PIPESTATUS[0]}}"], check=False, capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    "arguments", [["check", "--snapshot", "-"], ["check", "--snapshot", "-", "-o", "json"], ["--help"]]
)
def test_full_disk_on_standard_output_is_reported_with_exit_code_74(arguments):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [BIN / "rackspan", *arguments],
            check=False,
            input=json.dumps(DOCUMENT),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (done.returncode, done.stderr) == (74, "error: the result cannot be written: No space left on device\n")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("check --snapshot -", "error: standard input: is empty\n"),
        ("import strimzi -", "error: the files hold no topics\n"),
        ("report export - -o json", "error: standard input: is empty\n"),
    ],
)
def test_closed_standard_input_is_treated_as_empty(arguments, error):
    done = subprocess.run(
        f"exec {BIN}/rackspan {arguments} <&-", check=False, shell=True, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(error)


@pytest.mark.parametrize(("command", "code"), [("check", 74), ("plan --detailed-exitcode", 1)])
def test_closed_standard_output_is_reported_as_an_error(command, code):
    command = f"{shlex.quote(str(BIN / 'rackspan'))} {command} --snapshot - >&-"
    done = subprocess.run(command, shell=True, check=False, input="", capture_output=True, text=True)
    assert done.returncode == code
    assert done.stderr.startswith("error: standard output is closed\n")


@pytest.mark.parametrize("lost", ["2>/dev/full", "2>&-", "2>&1 | true; exit ${PIPESTATUS[0]}"])
@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["check"], 2), (["check", "--snapshot", "-"], 1), (["apply", "--bootstrap-server", "127.0.0.1:1"], 3)],
)
def test_exit_code_is_correct_if_standard_error_cannot_be_written(lost, arguments, code):
    command = f"{shlex.join([str(BIN / 'rackspan'), *arguments])} {lost}"
    done = subprocess.run(
        ["bash", "-c", command], check=False, input=json.dumps(DOCUMENT), capture_output=True, text=True
    )
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)


@pytest.mark.parametrize(
    ("words", "offered", "directive"),
    [
        (["pl"], ["plan", "place"], ":4"),
        (["plan", "--dr"], ["--dry-run", "--drain-broker", "--drain-rack"], ":4"),
        (["plan", "-o", "ma"], ["markdown"], ":4"),
        (["import", ""], ["cluster", "strimzi", "topicctl"], ":4"),
        (["import", "topicctl", "--assignment", "un"], ["unfair"], ":4"),
        (["plan", "--command-config", ""], [], ":0"),
    ],
)
def test_completion_for_kubectl_offers_matching_words(words, offered, directive):
    command = [sys.executable, "-c", "from rackspan.cli.completion import main; main()", *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    *lines, last = done.stdout.splitlines()
    assert ([line.partition("\t")[0] for line in lines], last, done.stderr) == (offered, directive, "")


def test_completion_is_installed_under_the_name_that_kubectl_calls():
    scripts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["kubectl_complete-rackspan"] == f"{main.__module__}:{main.__name__}"


HEAVY = {"numpy", "msgspec", "yaml", "asyncio", "aiohttp", "confluent_kafka", "kafka", "kopf", "kubernetes", "botocore"}
HEAVY |= {"pyarrow", "prometheus_client"}


@pytest.mark.parametrize("words", ["--help", "", "pl"])
def test_help_and_completion_of_command_names_do_not_import_heavy_modules(words):
    """`words` is the help option or the text to complete."""
    code = (
        "import sys\n"
        "from rackspan.cli import app, completion\n"
        "try: app(['--help']) if '--help' in sys.argv else completion.main()\n"
        "except SystemExit: pass\n"
        f"sys.exit(' '.join({HEAVY} & sys.modules.keys()) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code, words], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "plan" in done.stdout


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: one.name)
def test_help_of_each_command_shows_flags_without_a_type(command):
    ran = cli(command.name, "--help")
    assert ran.code == 0
    assert f"rackspan {command.name} " in ran.out
    assert "<bool>" not in ran.out


def with_names(command):
    """Return the command with its name, or each command of a group."""
    loaded = command.loaded(typer.Context(get_command(app)))
    inner = getattr(loaded, "commands", None)
    return [(f"{command.name} {name}", one) for name, one in inner.items()] if inner else [(command.name, loaded)]


WHOLE = [pair for command in COMMANDS if command.name != "rack-id" for pair in with_names(command)]


@pytest.mark.parametrize("asked", ["--", "--help"])
def test_help_and_completion_of_every_command_do_not_import_heavy_modules(asked):
    code = (
        "import io, sys\n"
        "from contextlib import redirect_stdout\n"
        "from rackspan.cli import app, completion\n"
        f"for name in {[name for name, _ in WHOLE]}:\n"
        f"    sys.argv = ['rackspan', *name.split(), '{asked}']\n"
        "    with redirect_stdout(io.StringIO()) as shown:\n"
        f"        try: app() if '{asked}' == '--help' else completion.main()\n"
        "        except SystemExit: pass\n"
        "    assert '--help' in shown.getvalue(), name\n"
        f"    assert not {HEAVY} & sys.modules.keys(), (name, {HEAVY} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("name", "command"), WHOLE, ids=[name for name, _ in WHOLE])
def test_action_of_each_command_has_the_parameters_and_types_of_its_options(name, command):
    """A command passes `locals()` to its action; type checkers do not compare these names and types."""
    declared = inspect.unwrap(command.callback)
    used = vars(sys.modules[declared.__module__]).values()
    (module,) = [one for one in used if inspect.ismodule(one) and one.__package__ == actions.__name__]
    assert get_type_hints(getattr(module, declared.__name__)) == get_type_hints(declared)

"""The tutorial and the page for existing clusters: every command runs and prints the documented output."""

import re
import shlex
import sys
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from dev.paths import REPOSITORY
from dev.stack import named_stacks
from dev.stack.nodes import NINE_BROKERS
from dev.stack.processes import Processes
from tests.support.kubernetes import needs_kubernetes
from tests.support.operators import Operator
from tests.support.pages import shell, typed
from tests.support.waiting import until

TUTORIAL, EXISTING = ((REPOSITORY / "docs" / f"{name}.md").read_text() for name in ("tutorial", "existing-cluster"))
SERVERS = "kafka-bootstrap.kafka:9092"
"""The bootstrap servers in the page for existing clusters."""
EXISTING_TOPICS = {"orders": "0:1:2,2:0:1", "payments": "0:3:5,4:6:1"}
TOOL = ".venv/bin/python -m dev kafka --name demo -- "
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PLACEHOLDERS = (
    (re.compile(r"\b[0-9a-f]{32}\b"), "HASH"),
    (re.compile(r"\b(?:\d+d)?(?:\d+h)?(?:\d+m)?\d+s\b|\b\d+m\b"), "AGE"),
    (re.compile(r"[ ]{2,}"), "  "),  # the width of a column depends on its content
)
_PLACED = ("placement.domains", "racktopologies,rst", "plan.samples")
"""Queries with numbers that depend on other topics: only headings and the first words of rows are compared."""
_MORE = "..."
_QUERIES = ("kubectl get ", "rackspan plan ", TOOL + "TopicCommand --list", TOOL + "TopicCommand --describe")
"""Commands that may be repeated, because a user types slower than a test and sees a later state."""


@dataclass(frozen=True)
class Step:
    """A command and its documented output, or None if the page does not show the output."""

    command: str
    printed: str | None


@dataclass(frozen=True)
class File:
    """A file that the reader creates."""

    name: str
    text: str


def steps(page: str) -> Iterator[Step | File]:
    """Yield the steps of a page after the start of the demo."""
    for kind, text in _BLOCK.findall(page):
        if kind == "yaml":
            yield File(f"{yaml.safe_load(text)['metadata']['name']}.yaml", text)
        elif kind == "console":
            yield from (Step(command, printed) for command, printed in typed(text))
        elif kind == "shell" and "make demo" not in text:
            yield from (Step(command, None) for command in text.replace("\\\n", "").splitlines())


def plain(command: str, printed: str) -> list[str]:
    """Return the lines to compare, without ids, ages and column widths."""
    text = textwrap.dedent(printed).strip()
    for pattern, word in _PLACEHOLDERS:
        text = pattern.sub(word, text)
    lines = [line.rstrip() for line in text.splitlines()]
    if any(query in command for query in _PLACED):
        lines = [line if line.startswith("NAME") else line.split()[0] if line else "" for line in lines]
    return lines


def agree(command: str, printed: str, wanted: str) -> bool:
    """Return whether the output agrees with the page in any order of lines. A last line `...` allows any more lines."""
    seen, told = plain(command, printed), plain(command, wanted)
    if told[-1:] == [_MORE]:
        told = told[:-1]
        seen = seen[: len(told)]
    return sorted(seen) == sorted(told)


@pytest.mark.parametrize(("page", "prints"), [(TUTORIAL, 20), (EXISTING, 8)], ids=["tutorial", "existing"])
def test_page_has_only_known_blocks_and_complete_commands(page, prints):
    assert {kind for kind, _ in _BLOCK.findall(page)} == {"shell", "yaml", "console"}
    typed_by_a_reader = [step for step in steps(page) if isinstance(step, Step)]
    assert sum(step.printed is not None for step in typed_by_a_reader) > prints
    assert [step.command for step in typed_by_a_reader if step.command.endswith("\\")] == [], "a command is incomplete"


@pytest.fixture(scope="module")
def stack(tmp_path_factory, kubernetes_binaries, kafka_distribution):
    """A separate stack like that of the demo, with Kubernetes and nine brokers, and its processes."""
    directory = tmp_path_factory.mktemp("demo")
    with Processes.attached(directory) as processes:
        try:
            yield named_stacks.start(directory, processes, NINE_BROKERS), processes
        finally:
            processes.end(grace=0)


def reader(running, directory, *programs):
    """Return a function that runs a command of a page. Kafka's tools use the brokers of this stack."""
    run = shell(running, directory, *programs)

    def run_or_ask_kafka(command: str) -> str:
        if command.startswith(TOOL):
            return running.kafka.tool(*shlex.split(command.removeprefix(TOOL)))
        return run(command)

    return run_or_ask_kafka


def follow(page, run, directory):
    """Carry out all steps of a page and compare their output."""
    for step in steps(page):
        if isinstance(step, File):
            (directory / step.name).write_text(step.text)
            continue
        if step.printed is None:
            run(step.command)
            continue
        printed = [run(step.command)]

        def asked_again(step=step, printed=printed):
            printed.append(run(step.command))
            return agree(step.command, printed[-1], step.printed)

        if not agree(step.command, printed[-1], step.printed) and step.command.startswith(_QUERIES):
            with suppress(TimeoutError):  # the assertion below shows the difference
                until(asked_again)
        assert agree(step.command, printed[-1], step.printed), f"$ {step.command}\n{printed[-1]}"


@pytest.mark.nightly
@pytest.mark.stack
def test_commands_of_the_existing_cluster_page_print_the_documented_output(stack, helm, tmp_path):
    """No kubelet runs here, so the operator starts as a process after the chart is installed."""
    running, processes = stack
    operator = Operator(processes, running.kubeconfig)
    for name, replicas in EXISTING_TOPICS.items():
        running.kafka.tool("TopicCommand", "--create", "--topic", name, "--replica-assignment", replicas)
    (tmp_path / "charts").symlink_to(REPOSITORY / "charts")
    servers = ",".join(running.kafka.bootstrap().split(",")[:3])
    run = reader(running, tmp_path, helm, Path(sys.executable).with_name("rackspan"))

    def run_and_start(command: str) -> str:
        printed = run(command)
        if command.startswith("helm install"):
            operator.start()
        return printed

    follow(EXISTING.replace(SERVERS, servers), run_and_start, tmp_path)
    running.kubectl.in_namespace("kafka")("delete", "kafkatopics,racktopologies", "--all", "--timeout=300s")
    operator.stop()
    for name in (*EXISTING_TOPICS, "first-own"):
        running.kafka.tool("TopicCommand", "--delete", "--topic", name)


# Older versions drop the selectable fields, so the definitions differ from those that helm created here.
@needs_kubernetes(31)
@pytest.mark.nightly
@pytest.mark.stack
def test_commands_of_the_tutorial_print_the_documented_output(stack, tmp_path):
    running, processes = stack
    kubectl, shop = running.kubectl, running.kubectl.in_namespace("shop")
    kubectl.apply(REPOSITORY / "crds", arguments=["--server-side"])
    kubectl.wait_until_served()
    kubectl("create", "namespace", "shop")
    kubectl("label", "namespace", "kafka", "rackspan.dev/broker-pods-for=shop")
    shop("apply", f"--filename={REPOSITORY / 'examples'}")
    servers = ",".join(running.kafka.bootstrap().split(",")[:3])
    shop.json("patch", "racktopology", "main", "--type=merge", f"--patch={_servers(servers)}")
    Operator(processes, running.kubeconfig).start()
    shop("wait", "racktopology/main", "--for=condition=Ready", "--timeout=300s")
    examples = ("orders", "payments", "sessions", "ledger")
    shop("wait", "kafkatopic", *examples, "--for=condition=Ready", "--timeout=300s")
    follow(TUTORIAL, reader(running, tmp_path), tmp_path)


def _servers(servers: str) -> str:
    return f'{{"spec": {{"kafka": {{"bootstrapServers": "{servers}"}}}}}}'

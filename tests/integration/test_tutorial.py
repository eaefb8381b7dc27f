"""docs/tutorial.md to the letter: every command is run, in its order, and prints what the page says."""

import os
import re
import shlex
import subprocess
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest
import yaml
from dev.paths import REPOSITORY
from dev.stack import named_stacks
from dev.stack.nodes import NINE_BROKERS
from dev.stack.processes import Processes
from tests.support.operators import Operator
from tests.support.waiting import until

PAGE = (REPOSITORY / "docs" / "tutorial.md").read_text()
TOOL = ".venv/bin/python -m dev kafka --name demo -- "
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PLACEHOLDERS = (
    (re.compile(r"\b[0-9a-f]{32}\b"), "HASH"),
    (re.compile(r"\b(?:\d+d)?(?:\d+h)?(?:\d+m)?\d+s\b|\b\d+m\b"), "AGE"),
    (re.compile(r"[ ]{2,}"), "  "),  # the width of a column depends on what is in it
)
_PLACED = ("placement.domains", "racktopologies,rst", "plan.samples")
"""Queries whose numbers depend on where other topics lie: headings and what rows begin with are compared."""
_MORE = "..."
_QUERIES = ("kubectl get ", TOOL + "TopicCommand --list", TOOL + "TopicCommand --describe")
"""Commands that may be asked again until they print what a person sees who types slower than a test."""


@dataclass(frozen=True)
class Step:
    """A command, and what the page says that it prints: None where the page does not say."""

    command: str
    printed: str | None


@dataclass(frozen=True)
class File:
    """A file that the reader writes."""

    name: str
    text: str


def steps() -> Iterator[Step | File]:
    """What the page has the reader do, after the demo was started."""
    for kind, text in _BLOCK.findall(PAGE):
        if kind == "yaml":
            yield File(f"{yaml.safe_load(text)['metadata']['name']}.yaml", text)
        elif kind == "console":
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, printed = part.partition("\n")
                yield Step(command, printed)
        elif kind == "shell" and "make demo" not in text:
            yield from (Step(command, None) for command in text.splitlines())


def plain(command: str, printed: str) -> list[str]:
    """Lines to compare: without ids, ages and the widths of columns, in any order."""
    text = textwrap.dedent(printed).strip()
    for pattern, word in _PLACEHOLDERS:
        text = pattern.sub(word, text)
    lines = [line.rstrip() for line in text.splitlines()]
    if any(query in command for query in _PLACED):
        lines = [line if line.startswith("NAME") else line.split()[0] if line else "" for line in lines]
    return lines


def agree(command: str, printed: str, wanted: str) -> bool:
    """Whether what was printed is what the page says; `...` there leaves the rest open."""
    seen, told = plain(command, printed), plain(command, wanted)
    if told[-1:] == [_MORE]:
        told = told[:-1]
        seen = seen[: len(told)]
    return sorted(seen) == sorted(told)


def test_every_block_of_the_page_is_understood():
    assert {kind for kind, _ in _BLOCK.findall(PAGE)} == {"shell", "yaml", "console"}
    assert sum(isinstance(step, Step) and step.printed is not None for step in steps()) > 20


@pytest.fixture
def reader(tmp_path, kubernetes_binaries, kafka_distribution):
    """Runs a command as the reader of the page does, on a stack like the demo's: gives what it printed."""
    directory = tmp_path / "demo"
    with Processes.attached(directory) as processes:
        try:
            running = named_stacks.start(directory, processes, NINE_BROKERS)
            kubectl, shop = running.kubectl, running.kubectl.in_namespace("shop")
            kubectl.apply(REPOSITORY / "crds", arguments=["--server-side"])
            kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")
            kubectl("create", "namespace", "shop")
            kubectl("label", "namespace", "kafka", "rackspan.dev/broker-pods-for=shop")
            shop("apply", f"--filename={REPOSITORY / 'examples'}")
            servers = ",".join(running.kafka.bootstrap().split(",")[:3])
            shop.json("patch", "racktopology", "main", "--type=merge", f"--patch={_servers(servers)}")
            Operator(processes, running.kubeconfig).start()
            shop("wait", "racktopology/main", "--for=condition=Ready", "--timeout=120s")
            examples = ("orders", "payments", "sessions", "ledger")
            shop("wait", "kafkatopic", *examples, "--for=condition=Ready", "--timeout=120s")
            path = f"{kubectl.binary.parent}{os.pathsep}{os.environ['PATH']}"
            environment = {**os.environ, "PATH": path, "KUBECONFIG": str(running.kubeconfig)}

            def run(command: str) -> str:
                if command.startswith(TOOL):
                    return running.kafka.tool(*shlex.split(command.removeprefix(TOOL)))
                done = subprocess.run(
                    ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
                )
                return done.stdout + done.stderr

            yield run
        finally:
            processes.end(grace=0)


def _servers(servers: str) -> str:
    return f'{{"spec": {{"kafka": {{"bootstrapServers": "{servers}"}}}}}}'


@pytest.mark.stack
@pytest.mark.timeout(600)
def test_the_tutorial_prints_what_it_says(reader, tmp_path):
    for step in steps():
        if isinstance(step, File):
            (tmp_path / step.name).write_text(step.text)
            continue
        if step.printed is None:
            reader(step.command)
            continue
        printed = [reader(step.command)]

        def asked_again(step=step, printed=printed):
            printed.append(reader(step.command))
            return agree(step.command, printed[-1], step.printed)

        if not agree(step.command, printed[-1], step.printed) and step.command.startswith(_QUERIES):
            with suppress(TimeoutError):  # the comparison tells more
                until(asked_again)
        assert agree(step.command, printed[-1], step.printed), f"$ {step.command}\n{printed[-1]}"

"""Java programs of this folder that measure the plug-ins of brokers, each run in a new JVM."""

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dev.stack.kafka_distribution import ensure_distribution
from dev.stack.plugins import compile_java, ensure_plugins

_JVM = ("-Xmx1g", "-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:-BackgroundCompilation", "-Dlog4j2.level=OFF")


@contextmanager
def program(name: str) -> Iterator[Callable[..., list[list[str]]]]:
    """Yield a function `ask(argument, ...)` that runs the program and returns the cells of each printed line."""
    distribution = ensure_distribution()
    jar = ensure_plugins(distribution)
    with tempfile.TemporaryDirectory() as scratch:
        classes = Path(scratch) / "classes"
        compile_java(distribution, [Path(__file__).with_name(f"{name}.java")], classes, beside=[jar])
        ready = distribution.with_plugins(jar, classes)

        def ask(*arguments: object) -> list[list[str]]:
            command = ready.command(name, *map(str, arguments), jvm=_JVM)
            told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            return [line.split("|") for line in told.splitlines()]

        yield ask

"""Rackspan's plug-ins for brokers as a jar, compiled against the Kafka of `dev/distributions`, without a download."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from dev.paths import REPOSITORY, cache_root
from dev.progress import exclusive, need, run
from dev.stack.kafka_distribution import KafkaDistribution

_SOURCES = REPOSITORY / "plugins" / "src" / "main" / "java"
_RELEASE = "17"  # the Java that Kafka's own brokers ask for


def ensure_plugins(distribution: KafkaDistribution) -> Path:
    """The jar, after compiling it where the sources or Kafka's version are new. Raises AssetError."""
    sources = sorted(_SOURCES.rglob("*.java"))
    jar = cache_root() / "plugins" / _fingerprint(distribution, sources) / "rackspan-kafka-plugins.jar"
    with exclusive(jar.with_suffix(".lock")):
        if not jar.exists():
            with tempfile.TemporaryDirectory(dir=jar.parent) as scratch:
                classes, packed = Path(scratch) / "classes", Path(scratch) / jar.name
                compile_java(distribution, sources, classes)
                run(
                    [_tool(distribution, "jar"), "--create", f"--file={packed}", "-C", str(classes), "."],
                    "packing the plug-ins",
                    cwd=Path(scratch),
                )
                packed.replace(jar)
    return jar


def compile_java(
    distribution: KafkaDistribution, sources: Iterable[Path], destination: Path, *, beside: Iterable[Path] = ()
) -> None:
    """Compile Java sources against Kafka's jars, and the jars `beside` them. Raises AssetError."""
    class_path = os.pathsep.join(map(str, (*distribution.jars, *beside)))
    command = [_tool(distribution, "javac"), "--release", _RELEASE, "-proc:none", "-Xlint:all,-classfile", "-Werror"]
    files = list(map(str, sources))
    run([*command, "-cp", class_path, "-d", str(destination), *files], "compiling Java", cwd=REPOSITORY)


def has_compiler(distribution: KafkaDistribution) -> bool:
    """Whether this machine can compile Java, which takes a JDK: running Kafka does not."""
    return _beside_java(distribution, "javac") is not None or shutil.which("javac") is not None


def _fingerprint(distribution: KafkaDistribution, sources: Iterable[Path]) -> str:
    told = subprocess.run([distribution.java, "-version"], capture_output=True, text=True, check=True).stderr
    parts = [distribution.version, told, *(f"{path.relative_to(_SOURCES)}\0{path.read_text()}" for path in sources)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _tool(distribution: KafkaDistribution, name: str) -> str:
    found = _beside_java(distribution, name)
    return str(found) if found else need(name, "compile the plug-ins for brokers (a JDK, 17 or newer)")


def _beside_java(distribution: KafkaDistribution, name: str) -> Path | None:
    tool = distribution.java.resolve().with_name(name)
    return tool if os.access(tool, os.X_OK) else None

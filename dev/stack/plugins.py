"""The plug-ins for brokers as a jar, compiled against the Kafka of `dev/distributions`, without a download."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from dev.paths import REPOSITORY, cache_root
from dev.progress import exclusive, need, run
from dev.stack.kafka_distribution import KafkaDistribution

JAR = "rackspan-kafka-plugins.jar"
_RELEASE = "17"  # the Java version that Kafka brokers require
FILE_TIME = datetime(2020, 2, 2, tzinfo=UTC)  # of files in release artefacts: the default of hatchling


def ensure_plugins(distribution: KafkaDistribution) -> Path:
    """Return the jar. Compile it if the sources, Java or Kafka have changed. Raises AssetError."""
    jar = cache_root() / "plugins" / _fingerprint(distribution) / JAR
    with exclusive(jar.with_suffix(".lock")):
        if not jar.exists():
            build_plugins(distribution, jar)
    return jar


def build_plugins(distribution: KafkaDistribution, jar: Path, *, source: Path = REPOSITORY) -> None:
    """Write the jar of the tree at `source`. The same JDK writes identical bytes each time. Raises AssetError."""
    jar = jar.absolute()  # tools run in other folders
    with tempfile.TemporaryDirectory(dir=jar.parent) as scratch:
        classes, packed = Path(scratch) / "classes", Path(scratch) / jar.name
        compile_java(distribution, _sources(source), classes)
        files = [str(path.relative_to(classes)) for path in sorted(classes.rglob("*.class"))]
        date = f"--date={FILE_TIME:%Y-%m-%dT%H:%M:%SZ}"
        command = [_tool(distribution, "jar"), "--create", f"--file={packed}", date, *files]
        run(command, "packing the plug-ins", cwd=classes)
        packed.replace(jar)


def compile_java(
    distribution: KafkaDistribution, sources: Iterable[Path], destination: Path, *, beside: Iterable[Path] = ()
) -> None:
    """Compile Java sources against the jars of Kafka and of `beside`. Raises AssetError."""
    class_path = os.pathsep.join(map(str, (*distribution.jars, *beside)))
    command = [_tool(distribution, "javac"), "--release", _RELEASE, "-proc:none", "-Xlint:all,-classfile", "-Werror"]
    files = list(map(str, sources))
    run([*command, "-cp", class_path, "-d", str(destination), *files], "compiling Java", cwd=REPOSITORY)


def has_compiler(distribution: KafkaDistribution) -> bool:
    """Return whether this machine can compile Java. This needs a JDK, unlike running Kafka."""
    return _beside_java(distribution, "javac") is not None or shutil.which("javac") is not None


def _sources(tree: Path) -> list[Path]:
    return sorted((tree / "plugins" / "src" / "main" / "java").rglob("*.java"))


def _fingerprint(distribution: KafkaDistribution) -> str:
    told = subprocess.run([distribution.java, "-version"], capture_output=True, text=True, check=True).stderr
    sources = (f"{path.relative_to(REPOSITORY)}\0{path.read_text()}" for path in _sources(REPOSITORY))
    parts = [distribution.version, told, *sources]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _tool(distribution: KafkaDistribution, name: str) -> str:
    found = _beside_java(distribution, name)
    return str(found) if found else need(name, "compile the plug-ins for brokers (a JDK, 17 or newer)")


def _beside_java(distribution: KafkaDistribution, name: str) -> Path | None:
    tool = distribution.java.resolve().with_name(name)
    return tool if os.access(tool, os.X_OK) else None

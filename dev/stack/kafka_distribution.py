"""Apache Kafka from its published jars. Brokers, controllers and tools use one folder in the cache."""

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dev.paths import REPOSITORY, cache_root
from dev.progress import AssetError, exclusive, need, run
from dev.stack.versions import chosen
from dev.waiting import PATIENCE

DEFAULT_VERSION = "4.4.0"
_CONFIG_COMMANDS = dict.fromkeys(("4.1.2", "4.2.1", "4.3.1"), "kafka.admin.ConfigCommand")
"""The class of Kafka's config tool before 4.4, by version."""
_HERE = REPOSITORY / "dev" / "distributions" / "kafka"
_BROKER_LOGGING = _HERE / "log4j2.properties"
_TOOL_LOGGING = _HERE / "tools-log4j2.properties"


class KafkaToolError(RuntimeError):
    """A Kafka command-line tool failed. The message is its output."""


@dataclass(frozen=True, slots=True)
class KafkaDistribution:
    """The jars of Kafka, the Java that runs them, and the flags for class-data sharing.

    `plugins` are additional jars that brokers load by their configuration.
    """

    version: str
    jars: tuple[Path, ...]
    java: Path
    sharing: tuple[str, ...] = ("-Xshare:auto",)
    plugins: tuple[Path, ...] = ()

    def command(self, main_class: str, *arguments: str | Path, jvm: tuple[str, ...]) -> list[str]:
        """Return the command line of a broker or controller."""
        return self._java(main_class, arguments, (*jvm, f"-Dlog4j2.configurationFile={_BROKER_LOGGING}"))

    def run_tool(self, main_class: str, *arguments: str | Path, timeout: float = PATIENCE) -> str:
        """Run a command-line tool, such as `org.apache.kafka.tools.TopicCommand`, and return its output.

        Names without a package are in `org.apache.kafka.tools`, except `ConfigCommand` in older versions. Raises
        KafkaToolError if the tool fails.
        """
        if "." not in main_class:
            named = _CONFIG_COMMANDS.get(self.version) if main_class == "ConfigCommand" else None
            main_class = named or f"org.apache.kafka.tools.{main_class}"
        jvm = ("-Xmx256m", "-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={_TOOL_LOGGING}")
        command = self._java(main_class, arguments, jvm)
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        if done.returncode:
            raise KafkaToolError(f"{main_class.rpartition('.')[2]}: {(done.stdout + done.stderr).strip()}")
        return done.stdout

    def sharing_archive(self, archive: Path) -> "KafkaDistribution":
        """Return a copy whose JVMs read an archive of parsed classes. They ignore an archive that does not match."""
        return replace(self, sharing=("-Xshare:auto", f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off"))

    def writing_archive(self, archive: Path) -> "KafkaDistribution":
        """Return a copy whose JVMs write an archive of parsed classes when they end."""
        return replace(self, sharing=(f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"))

    def with_plugins(self, *jars: Path) -> "KafkaDistribution":
        """Return a copy with additional jars on the class path."""
        return replace(self, plugins=jars)

    def fingerprint(self) -> str:
        """Return a hash of everything that an archive depends on: Java, and the names, sizes and times of the jars."""
        facts = [
            str(self.java.resolve()),
            *(f"{jar}:{jar.stat().st_size}:{jar.stat().st_mtime_ns}" for jar in self.jars),
        ]
        facts.append(subprocess.run([self.java, "-version"], capture_output=True, text=True, check=True).stderr)
        return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]

    def _java(self, main_class: str, arguments: tuple[str | Path, ...], jvm: tuple[str, ...]) -> list[str]:
        # List all jars in a fixed order: the JVM rejects an archive for another class path, except for jars at its end.
        class_path = os.pathsep.join(map(str, (*self.jars, *self.plugins)))
        common = ("-Xms32m", "-Xss256k", "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError", "-XX:-UsePerfData")
        flags = (*common, "-Djava.awt.headless=true", *self.sharing, *jvm)
        return [str(self.java), *flags, "-cp", class_path, main_class, *map(str, arguments)]


def kafka_versions() -> list[str]:
    """Return the versions with pinned jars: the folders in dev/distributions/kafka."""
    return sorted(path.name for path in _HERE.iterdir() if path.name[0].isdigit())


def kafka_version() -> str:
    """Return `RACKSPAN_KAFKA`, which `make KAFKA=4.3.1 …` sets, else the default. Raise AssetError if not pinned."""
    return chosen("Kafka", "RACKSPAN_KAFKA", DEFAULT_VERSION, kafka_versions())


def find_distribution() -> KafkaDistribution | None:
    """Return the distribution, or None if its jars are not downloaded."""
    jars = tuple(sorted(_jar_folder().glob("*.jar")))
    return KafkaDistribution(kafka_version(), jars, Path(_java())) if jars else None


def ensure_distribution() -> KafkaDistribution:
    """Return the distribution. Download its jars if they are missing."""
    ensure_jars(_HERE, _jar_folder(), _copied("runtime"), f"Kafka {kafka_version()} (56 MB of jars)", kafka_version())
    found = find_distribution()
    if found is None:
        raise AssetError(f"{_jar_folder()} holds no jars; delete it and try again")
    return found


def find_client_jars() -> tuple[Path, ...]:
    """Return the jars of Kafka Streams for the distribution. Empty if they are missing."""
    return tuple(sorted(_client_folder().glob("*.jar")))


def ensure_client_jars() -> tuple[Path, ...]:
    """Return the jars of Kafka Streams. Download them if they are missing."""
    what = f"Kafka Streams {kafka_version()} (2 MB of jars)"
    ensure_jars(_HERE, _client_folder(), _copied("provided"), what, kafka_version())
    return find_client_jars()


def _copied(scope: str) -> tuple[str, ...]:
    return "dependency:copy-dependencies", f"-DincludeScope={scope}", f"-Dkafka.version={kafka_version()}"


def ensure_jars(pinned: Path, folder: Path, goal: Sequence[str], what: str, version: str = "") -> None:
    """Download jars to `folder`, unless it exists, by a Maven goal for `pinned`/pom.xml.

    Raises AssetError if they do not match the checksums in `pinned`/`version`/`<name of the folder>.sha256`.
    """
    with exclusive(folder.parent / ".lock"):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                jars = Path(scratch) / folder.name
                run(
                    [
                        *(need("mvn", "download Kafka's jars"), "--batch-mode", "-Dstyle.color=never"),
                        *(f"--file={pinned / 'pom.xml'}", *goal, f"-DoutputDirectory={jars}"),
                    ],
                    f"downloading {what}: about half a minute, once per machine",
                    cwd=Path(scratch),
                    tally=lambda line: "Downloaded from" in line and ".jar" in line,
                )
                check_jars(jars, pinned / version / f"{folder.name}.sha256")
                jars.replace(folder)  # atomically


def check_jars(folder: Path, listed: Path) -> None:
    """Raise AssetError unless a folder has exactly the jars of a list by sha256sum."""
    lines = (line.split() for line in listed.read_text().splitlines())
    expected = {name: digest for digest, name in lines}
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.glob("*.jar")}
    wrong = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    if wrong:
        raise AssetError(
            f"not the jars of {listed}: {', '.join(wrong)}; after a change of pom.xml write that file "
            "anew with sha256sum, once you know where the jars come from"
        )


def archive_path(distribution: KafkaDistribution) -> Path:
    """Return the path of the archive of parsed classes for the distribution."""
    return _jar_folder().parent / f"classes-{distribution.fingerprint()}.jsa"


def _jar_folder() -> Path:
    return cache_root() / "kafka" / kafka_version() / "jars"


def _client_folder() -> Path:
    return _jar_folder().with_name("client-jars")


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    if home and os.access(Path(home) / "bin" / "java", os.X_OK):
        return str(Path(home) / "bin" / "java")
    return need("java", "run Kafka (Java 17 or newer)")

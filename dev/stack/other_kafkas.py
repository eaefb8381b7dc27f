"""Jars of other Kafka versions, with which the plug-ins for brokers are tested."""

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from dev.paths import REPOSITORY, cache_root
from dev.stack.kafka_distribution import ensure_jars

_PINNED = REPOSITORY / "dev" / "distributions" / "other-kafkas"


def ensure_other_kafkas() -> Path:
    """Return the folder of the jars. Download them if they are missing. Raises AssetError."""
    ensure_jars(_PINNED, _folder(), ("dependency:copy",), "jars of other versions of Kafka (35 MB)")
    return _folder()


def find_other_kafkas() -> Mapping[str, list[Path]]:
    """Return the jars by Kafka version. Empty if they are not downloaded."""
    found: defaultdict[str, list[Path]] = defaultdict(list)
    for jar in sorted(_folder().glob("*.jar")):
        found[jar.stem.rpartition("-")[2]].append(jar)
    return found


def _folder() -> Path:
    listed = hashlib.sha256((_PINNED / "jars.sha256").read_bytes()).hexdigest()
    return cache_root() / "other-kafkas" / listed[:12] / "jars"

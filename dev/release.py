"""The artefacts of a release: packages, chart, definitions, manifests, plug-ins for brokers, SBOM, notes, checksums.

Each build has the same bytes.
"""

import gzip
import hashlib
import io
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from dev.paths import REPOSITORY
from dev.stack.assets import kubernetes_version
from dev.stack.kafka_distribution import KafkaDistribution
from dev.stack.plugins import FILE_TIME, JAR, build_plugins

EPOCH = int(FILE_TIME.timestamp())
NAMESPACE = "rackspan"
NOTES = "RELEASE-NOTES.md"
SUMS = "SHA256SUMS"
_LOCKED = re.compile(r"^([a-z0-9][a-z0-9._-]*)==([^ ;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


class ReleaseError(Exception):
    """The release cannot be built. The message has the reason."""


def version(source: Path = REPOSITORY) -> str:
    """Return the version of the project from pyproject.toml."""
    found: str = tomllib.loads((source / "pyproject.toml").read_text())["project"]["version"]
    return found


def build(
    folder: Path, helm: Path, kafka: KafkaDistribution, *, source: Path = REPOSITORY, tag: str = ""
) -> list[Path]:
    """Write all artefacts of `source` to `folder`, which must be empty or absent.

    Raises ReleaseError, and AssetError without a JDK.
    """
    number = version(source)
    if tag not in ("", f"v{number}"):
        raise ReleaseError(f"the tag is {tag}, and pyproject.toml has version {number}: tag v{number}, or change it")
    notes = _notes((source / "CHANGELOG.md").read_text(), number if tag else "Unreleased")
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ReleaseError(f"{folder} is not empty: delete it first")
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)}
    _run(sys.executable, "-m", "hatchling", "build", "--directory", folder.resolve(), at=source, env=environment)
    chart = source / "charts" / "rackspan"
    with tempfile.TemporaryDirectory() as scratch:
        copy = shutil.copytree(chart, Path(scratch, "rackspan"))
        _annotate(copy / "Chart.yaml", notes)
        _run(helm, "package", copy, f"--destination={scratch}")
        (package,) = Path(scratch).glob("*.tgz")
        (folder / package.name).write_bytes(_same_times(package))
    definitions = sorted((source / "crds").glob("*.yaml"))
    (folder / "crds.yaml").write_text("".join(f"---\n{path.read_text().strip()}\n" for path in definitions))
    (folder / "install.yaml").write_text(_manifests(helm, chart))
    bom = _bom(number, (source / "requirements" / "operator.lock").read_text())
    (folder / f"rackspan-{number}.cdx.json").write_text(json.dumps(bom, indent=1) + "\n")
    build_plugins(kafka, folder / JAR, source=source)
    (folder / NOTES).write_text(notes)
    write_checksums(folder)
    return sorted(folder.iterdir())


def write_checksums(folder: Path) -> None:
    """Write SHA256SUMS for all other files in the folder."""
    (folder / SUMS).unlink(missing_ok=True)
    files = sorted(folder.iterdir())
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / SUMS).write_text("".join(sums))


def _notes(changelog: str, version: str) -> str:
    """Return the section of a version in the changelog. Raise ReleaseError if there is none."""
    sections = re.split(r"^## \[([^\]]+)\].*\n", changelog, flags=re.MULTILINE)
    found = dict(zip(sections[1::2], sections[2::2], strict=True))
    if version not in found:
        raise ReleaseError(f"CHANGELOG.md has no section [{version}]: rename [Unreleased]")
    return found[version].strip() + "\n"


def _annotate(metadata: Path, notes: str) -> None:
    """Add the changes of a version to the metadata of a chart, in the format of Artifact Hub."""
    chart = yaml.safe_load(metadata.read_text())
    chart["annotations"]["artifacthub.io/changes"] = yaml.safe_dump(list(_changes(notes)), width=math.inf)
    metadata.write_text(yaml.safe_dump(chart, sort_keys=False))


def _changes(notes: str) -> Iterator[Mapping[str, str]]:
    """Yield the list items and table rows in each section of release notes, as plain text."""
    plain = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", notes).replace("`", "").replace("**", "")
    headings = re.split("^### (.+)\n", plain, flags=re.MULTILINE)
    for heading, text in zip(headings[1::2], headings[2::2], strict=True):
        items = re.findall("^- (.+)", text.replace("\n  ", " "), flags=re.MULTILINE)
        rows = re.findall(r"^\| (.+) \| (.+) \| .+ \|$", text, flags=re.MULTILINE)[1:]
        for said in (*items, *(f"before: {before}; now: {now}" for before, now in rows)):
            yield {"kind": heading.lower(), "description": " ".join(said.split())}


def _manifests(helm: Path, chart: Path) -> str:
    """Return the manifests for `kubectl apply --server-side` without Helm."""
    namespace = f"---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: {NAMESPACE}\n"
    options = (f"--namespace={NAMESPACE}", "--no-hooks", f"--kube-version={kubernetes_version()}")
    return namespace + _run(helm, "template", "rackspan", chart, *options)


def _same_times(package: Path) -> bytes:
    """Return the archive of helm with a fixed order and fixed times of its files."""
    packed = io.BytesIO()
    with tarfile.open(package) as old, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new:
        for member in sorted(old.getmembers(), key=lambda one: (one.name != "rackspan/Chart.yaml", one.name)):
            clean = tarfile.TarInfo(member.name)
            clean.size, clean.mtime, clean.mode = member.size, EPOCH, 0o644
            new.addfile(clean, old.extractfile(member))
    return gzip.compress(packed.getvalue(), mtime=EPOCH)


def _bom(number: str, lock: str) -> Mapping[str, object]:
    """Return a CycloneDX document with the packages in the lock of the operator's image."""
    own = {"type": "application", "bom-ref": "rackspan", "name": "rackspan", "version": number}
    purl, licenses = f"pkg:pypi/rackspan@{number}", [{"license": {"id": "Apache-2.0"}}]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**own, "purl": purl, "licenses": licenses}},
        "components": list(_components(lock)),
    }


def _components(lock: str) -> Iterator[Mapping[str, object]]:
    """Yield the packages of the lock. Each has the hashes of all files from which it may be installed."""
    for block in re.split(r"\n(?=[a-z0-9])", lock):
        if found := _LOCKED.match(block):
            name, number = found.groups()
            purl = f"pkg:pypi/{name}@{number}"
            hashes = [{"alg": "SHA-256", "content": one} for one in sorted(_HASH.findall(block))]
            files = {"type": "distribution", "url": purl, "hashes": hashes}
            marker = [{"name": "python:marker", "value": one} for one in re.findall(r" ; (.+?) \\", block)[:1]]
            base = {"type": "library", "bom-ref": purl, "name": name, "version": number, "purl": purl}
            yield {**base, "externalReferences": [files]} | ({"properties": marker} if marker else {})


def _run(*command: str | Path, at: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(list(map(str, command)), cwd=at, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{' '.join(map(str, command))}: {(done.stderr or done.stdout).strip()}")
    return done.stdout

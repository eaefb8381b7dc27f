"""The command as a Krew plug-in: an archive, and the manifest with which Krew installs it.

The archive contains one executable that pex builds from the project's wheel and the wheels of the operator's lock. At
its first start, the executable unpacks itself into the user's cache, as an environment for the Python that it finds.
"""

import gzip
import hashlib
import json
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from packaging import tags

from dev import progress, release
from dev.paths import REPOSITORY, cache_root

NAME = "kubectl-rackspan"
MANIFEST = "rackspan.yaml"
PYTHONS = range(11, 15)
"""The minor versions of CPython 3 whose wheels are in the archive."""
_OLDEST_GLIBC, _GLIBC = 17, 28
"""Wheels for glibc 2.17 to 2.28 are included, so the plug-in needs 2.28."""
_CAVEATS = """\
It needs CPython 3.{oldest} to 3.{newest} on PATH, and glibc 2.{glibc} or newer. The first start takes some seconds, and
unpacks 470 MB into ~/.cache/pex. If that Python is removed later, delete this folder.
"""


def build(folder: Path, *, source: Path = REPOSITORY) -> None:
    """Add the plug-in to the release artefacts in `folder`, which include the wheel. The bytes are the same each time.

    Raises AssetError if a wheel of the lock cannot be downloaded.
    """
    archive = folder / f"{NAME}-{release.version(source)}-linux-amd64.tar.gz"
    with tempfile.TemporaryDirectory() as scratch:
        command = Path(scratch, NAME)
        _write_executable(command, folder.resolve(), (source / "requirements" / "operator.lock").read_text())
        _pack(archive, {command: 0o755, source / "LICENSE": 0o644})
    chart = yaml.safe_load((source / "charts" / "rackspan" / "Chart.yaml").read_text())
    (folder / MANIFEST).write_text(yaml.safe_dump(_manifest(chart, archive), sort_keys=False))
    release.write_checksums(folder)


def _write_executable(path: Path, wheels: Path, lock: str) -> None:
    (own,) = wheels.glob("rackspan-*.whl")
    name, number, *_ = own.name.split("-")
    requirements = path.with_name("requirements.txt")
    requirements.write_text(f"{lock}\n{name}=={number} --hash=sha256:{_sha256(own)}\n")
    progress.run(
        [
            *(sys.executable, "-m", "pex", f"--pex-root={cache_root() / 'pex'}", f"--output-file={path}"),
            *(f"--requirement={requirements}", f"--find-links={wheels}", "--no-build", "--no-pre-install-wheels"),
            *(f"--complete-platform={json.dumps(platform)}" for platform in _platforms()),
            # Keeps the path of this Python out of the file.
            f"--interpreter-constraint=CPython>=3.{PYTHONS[0]},<3.{PYTHONS[-1] + 1}",
            f"--python-path={Path(sys.executable).parent}",
            *("--venv", "--sh-boot", f"--console-script={NAME}"),
        ],
        "packing the command and its wheels for Krew: about one minute",
        cwd=path.parent,
    )


def _platforms() -> Iterator[Mapping[str, object]]:
    """Yield the platform description for pex of each supported Python."""
    glibc = [f"manylinux_2_{minor}_x86_64" for minor in range(_GLIBC, _OLDEST_GLIBC - 1, -1)]
    for minor in PYTHONS:
        interpreter, machine = f"cp3{minor}", [*glibc, "manylinux2014_x86_64", "linux_x86_64"]
        native = tags.cpython_tags((3, minor), [interpreter], machine)
        pure = tags.compatible_tags((3, minor), interpreter, machine)
        yield {
            "compatible_tags": [str(tag) for tag in (*native, *pure)],
            "marker_environment": {
                "implementation_name": "cpython",
                "implementation_version": f"3.{minor}.0",
                "os_name": "posix",
                "platform_machine": "x86_64",
                "platform_python_implementation": "CPython",
                "platform_release": "",
                "platform_system": "Linux",
                "platform_version": "",
                "python_full_version": f"3.{minor}.0",
                "python_version": f"3.{minor}",
                "sys_platform": "linux",
            },
        }


def _pack(archive: Path, modes: Mapping[Path, int]) -> None:
    with (
        archive.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=release.EPOCH) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path, mode in modes.items():
            member = tarfile.TarInfo(path.name)
            member.size, member.mtime, member.mode = path.stat().st_size, release.EPOCH, mode
            with path.open("rb") as content:
                tar.addfile(member, content)


def _manifest(chart: Mapping[str, Any], archive: Path) -> Mapping[str, object]:
    (repository,) = chart["sources"]
    tag = f"v{chart['version']}"
    platform = {
        "selector": {"matchLabels": {"os": "linux", "arch": "amd64"}},
        "uri": f"{repository}/releases/download/{tag}/{archive.name}",
        "sha256": _sha256(archive),
        "bin": NAME,
    }
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "rackspan"},
        "spec": {
            "version": tag,
            "homepage": chart["home"],
            "shortDescription": "Check and plan Kafka topics over racks",
            "description": chart["description"],
            "caveats": _CAVEATS.format(oldest=PYTHONS[0], newest=PYTHONS[-1], glibc=_GLIBC),
            "platforms": [platform],
        },
    }


def _sha256(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()

"""The images of the project and of Kafka, built from Dockerfiles by buildah, on a base image from debootstrap.

A base image from a registry works as well. The image from debootstrap only needs the mirror of the distribution. Layers
are kept between builds. Archives have the OCI layout.
"""

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from dev import release
from dev.paths import REPOSITORY, cache_root
from dev.pods.machine import ensure_programs
from dev.progress import AssetError, exclusive, need, run, say
from dev.stack.plugins import FILE_TIME

BASE = "localhost/rackspan-base:bookworm"
PAUSE = "localhost/rackspan-pause:1"
NAMES = {"operator": "rackspan", "scan": "rackspan-scan"}
"""The images of a release, by the targets of the Dockerfile."""
KAFKA = "kafka"
_RELEASE = "bookworm"
_MIRROR = "http://deb.debian.org/debian"
_PACKAGES = ("ca-certificates", "python3", "python3-venv", "python3-pip", "python-is-python3")
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_KAFKA_SOURCE = REPOSITORY / "dev" / "distributions" / "kafka"
_PAUSE_SOURCE = REPOSITORY / "dev" / "distributions" / "pause"
# Files of the machine that a build needs but the image must not have: CA certificates and the package index.
_OF_THIS_MACHINE = (Path("/etc/ssl/certs/ca-certificates.crt"), Path("/etc/pip.conf"))


@dataclass(frozen=True, slots=True)
class Image:
    """An image by the name that pods use, and the archive from which a node imports it."""

    reference: str
    archive: Path


def find_image(name: str) -> Image | None:
    """Return the image that one of the functions below built last, or None."""
    record = _root() / f"{name}.json"
    if not record.exists():
        return None
    kept = json.loads(record.read_text())
    image = Image(kept["reference"], Path(kept["archive"]))
    return image if image.archive.exists() else None


def reference(target: str) -> str:
    """Return the name of the image of a target for pods."""
    return f"localhost/{NAMES[target]}:{release.version()}"


def ensure_image(target: str, base: str = "") -> Image:
    """Build and return the image of a target of the Dockerfile, for this architecture.

    `base` is an image in a registry. Without it, a base image of Debian is built. Unchanged steps are cached.
    """
    revision = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=REPOSITORY, text=True).strip()
    labels = (f"--build-arg=VERSION={release.version()}", f"--build-arg=REVISION={revision}")
    times = f"--timestamp={int(FILE_TIME.timestamp())}"
    return _ensure_built(target, reference(target), REPOSITORY, base, f"--target={target}", *labels, times)


def ensure_kafka(jars: Path) -> Image:
    """Return the image of Kafka from a folder of its jars. Build it if necessary."""
    return _ensure_built(KAFKA, "localhost/rackspan-kafka:dev", _KAFKA_SOURCE, "", f"--build-context=jars={jars}")


def ensure_pause() -> Image:
    """Return the pause image, whose process holds the namespaces of a pod. Build it if necessary."""
    ensure_programs()
    with exclusive(_root() / ".lock"):
        if (found := find_image("pause")) is not None and found.reference == PAUSE:
            return found
        with tempfile.TemporaryDirectory(dir=_root()) as scratch:
            run(
                [need("go", "build the pause program"), "build", "-trimpath", "-o", f"{scratch}/pause", "."],
                "building the pause image",
                cwd=_PAUSE_SOURCE,
                env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"},
            )
            _image_of(Path(scratch) / "pause", "/pause", PAUSE, '--entrypoint=["/pause"]', "--user=65535:65535")
        return _archived("pause", PAUSE)


def _ensure_built(name: str, wanted: str, source: Path, base: str, *options: str) -> Image:
    """Build an image from the Dockerfile in `source`, and return it."""
    if not base:
        ensure_programs()
    with exclusive(_root() / ".lock"):
        if not base:
            _ensure_base()
        mounts = [f"--volume={path}:{path}:ro" for path in _OF_THIS_MACHINE if path.exists()]
        run(
            [
                *_buildah("build", "--layers", "--format=oci", "--isolation=chroot", "--network=host"),
                *("--pull" if base else "--pull-never", f"--build-arg=BASE_IMAGE={base or BASE}", *mounts),
                *(*options, f"--tag={wanted}", str(source)),
            ],
            f"building the image of {name}: up to five minutes the first time, seconds when little has changed",
            cwd=source,
            tally=lambda line: line.startswith("-->") or "STEP" in line,
        )
        return _archived(name, wanted)


def _ensure_base() -> None:
    """Build the base image, which replaces `python:3-slim`, with the Python of the distribution."""
    if _image_id(BASE) is not None:
        return
    with tempfile.TemporaryDirectory(dir=_root()) as scratch:
        root, archive = Path(scratch) / "root", Path(scratch) / "root.tar"
        run(
            [
                *(need("debootstrap", "build a base image"), "--variant=minbase"),
                *(f"--include={','.join(_PACKAGES)}", _RELEASE, str(root), _MIRROR),
            ],
            f"building a base image of Debian {_RELEASE} with Python: about a minute, once per machine",
            cwd=Path(scratch),
            tally=lambda line: line.startswith("I: "),
        )
        for marker in root.glob("usr/lib/python3.*/EXTERNALLY-MANAGED"):
            marker.unlink()  # pip may install packages next to those of the distribution
        for archived in (root / "var" / "cache" / "apt" / "archives").glob("*.deb"):
            archived.unlink()
        subprocess.run(["tar", "--create", f"--file={archive}", f"--directory={root}", "."], check=True)
        _image_of(archive, "/", BASE, f"--env={_PATH}", "--cmd=python")


def _image_of(content: Path, destination: str, name: str, *configuration: str) -> None:
    """Build an image with one layer: a file, or the content of an archive."""
    container = _call("from", "scratch")
    _call("add", "--quiet", container, str(content), destination)
    _call("config", *configuration, container)
    _call("commit", "--quiet", "--format=oci", "--rm", container, name)


def _archived(name: str, wanted: str) -> Image:
    """Return the image as an archive named after its content, so that an unchanged image is not written again."""
    digest = _image_id(wanted)
    if digest is None:
        raise AssetError(f"buildah has not kept {wanted}")
    archive = _root() / f"{name}-{digest[:12]}.tar"
    if not archive.exists():
        say(f"writing {archive.name}")
        unfinished = archive.with_suffix(".part")
        unfinished.unlink(missing_ok=True)
        _call("push", "--quiet", wanted, f"oci-archive:{unfinished}:{wanted}")
        for outdated in _root().glob(f"{name}-*.tar"):
            outdated.unlink()
        unfinished.replace(archive)
    (_root() / f"{name}.json").write_text(json.dumps({"reference": wanted, "archive": str(archive)}))
    return Image(wanted, archive)


def _image_id(wanted: str) -> str | None:
    command = _buildah("images", "--quiet", "--no-trunc", wanted)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip().removeprefix("sha256:") if done.returncode == 0 else None


def _call(*arguments: str) -> str:
    done = subprocess.run(_buildah(*arguments), capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssetError(f"buildah {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def _buildah(*arguments: str) -> list[str]:
    # Separate storage in the cache: images of the machine do not change, and deleting the cache deletes these images.
    storage = [f"--root={_root() / 'storage'}", f"--runroot={_root() / 'run'}"]
    return [need("buildah", "build images"), *storage, *arguments]


def _root() -> Path:
    root = cache_root() / "images"
    root.mkdir(exist_ok=True)
    return root

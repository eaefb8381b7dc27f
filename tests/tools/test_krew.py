"""The command as a Krew plug-in. Krew installs it from the files of a release, without network."""

import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from dev import krew, release
from dev.paths import REPOSITORY
from dev.stack.assets import ensure_krew

SNAPSHOT = REPOSITORY / "examples" / "snapshots" / "prod.json"
FROM_A_FILE = ("check", "--snapshot", SNAPSHOT, "--levels", "region,zone,rack", "-o", "json")
FROM_NO_BROKER = ("check", "--bootstrap-server", "127.0.0.1:1")
"""The native Kafka client reports why no broker responds."""


@pytest.fixture(scope="module")
def built(helm, kafka_distribution, tmp_path_factory):
    folder = tmp_path_factory.mktemp("release") / "built"
    release.build(folder, helm, kafka_distribution)
    krew.build(folder)
    return folder


@pytest.fixture(scope="module")
def archive(built):
    return built / f"kubectl-rackspan-{release.version()}-linux-amd64.tar.gz"


@pytest.fixture(scope="module")
def installed(built, archive, kubernetes_binaries, tmp_path_factory):
    """Return an environment, without this project's own, in which Krew has installed the plug-in."""
    home = tmp_path_factory.mktemp("home")
    python = Path(os.path.realpath(sys.executable)).parent
    places = (home / "krew" / "bin", kubernetes_binaries["kubectl"].parent, python, "/usr/bin", "/bin")
    environment = {"HOME": home, "KREW_ROOT": home / "krew", "PATH": ":".join(map(str, places))}
    nowhere = dict.fromkeys(("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"), "http://127.0.0.1:1")
    files = (f"--manifest={built / krew.MANIFEST}", f"--archive={archive}")
    done = ran(ensure_krew(), "install", *files, env={**environment, **nowhere})
    assert done.returncode == 0, done.stderr
    return environment


def ran(*command, env):
    return subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False
    )


def test_kubectl_runs_the_plugin_that_krew_installed(installed):
    done = ran("kubectl", "rackspan", "--version", env=installed)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"rackspan {release.version()}\n", "")
    assert "Usage: kubectl rackspan [OPTIONS] COMMAND" in ran("kubectl", "rackspan", "--help", env=installed).stdout


@pytest.mark.parametrize(("arguments", "code"), [(FROM_A_FILE, 1), (FROM_NO_BROKER, 3)])
def test_plugin_prints_the_same_output_as_the_installed_command(installed, arguments, code):
    here = ran(Path(sys.executable).with_name("rackspan"), *arguments, env={"HOME": installed["HOME"]})
    there = ran("kubectl", "rackspan", *arguments, env=installed)
    assert here.returncode == code
    assert here.stdout or here.stderr
    assert (there.returncode, there.stdout, there.stderr) == (code, here.stdout, here.stderr)


def test_archive_contains_the_locked_wheels_for_each_python(built, archive):
    with tarfile.open(archive) as packed:
        assert packed.getnames() == ["kubectl-rackspan", "LICENSE"]
        executable = packed.extractfile("kubectl-rackspan").read()
    with zipfile.ZipFile(io.BytesIO(executable)) as command:
        wheels = {
            Path(name).name: hashlib.sha256(command.read(name)).hexdigest()
            for name in command.namelist()
            if name.endswith(".whl")
        }
    (own,) = built.glob("*.whl")
    assert wheels.pop(own.name) == hashlib.sha256(own.read_bytes()).hexdigest()
    lock = (REPOSITORY / "requirements" / "operator.lock").read_text()
    assert set(wheels.values()) <= set(re.findall(r"--hash=sha256:(\w+)", lock))
    native = re.findall(r"confluent_kafka-\S+?-(cp\d+)-", " ".join(wheels))
    assert sorted(native) == [f"cp3{minor}" for minor in krew.PYTHONS] == ["cp311", "cp312", "cp313", "cp314"]


def test_manifest_has_the_url_and_the_checksum_of_the_archive(built, archive):
    spec = yaml.safe_load((built / "rackspan.yaml").read_text())["spec"]
    (platform,) = spec["platforms"]
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    number = release.version()
    assert spec["version"] == f"v{number}"
    assert platform["selector"] == {"matchLabels": {"os": "linux", "arch": "amd64"}}
    assert platform["uri"] == f"https://github.com/rackspan/rackspan/releases/download/v{number}/{archive.name}"
    assert platform["sha256"] == digest
    assert "needs CPython 3.11 to 3.14" in spec["caveats"]
    sums = (built / "SHA256SUMS").read_text().splitlines()
    assert f"{digest}  {archive.name}" in sums
    assert {line.partition("  ")[2] for line in sums} == {path.name for path in built.iterdir()} - {"SHA256SUMS"}


def test_krew_build_in_another_directory_is_byte_identical(built, archive, tmp_path, monkeypatch):
    (own,) = built.glob("*.whl")
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / own.name).write_bytes(own.read_bytes())
    monkeypatch.setenv("RACKSPAN_CACHE", str(tmp_path / "cache"))  # without files of the first build
    monkeypatch.chdir(tmp_path)
    krew.build(Path("again"))
    for name in (archive.name, krew.MANIFEST):
        again, once = (hashlib.sha256((folder / name).read_bytes()).hexdigest() for folder in (Path("again"), built))
        assert again == once, name

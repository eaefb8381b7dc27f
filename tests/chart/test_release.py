"""The files of a release: two builds are identical, and a release can be installed."""

import hashlib
import json
import re
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from dev import release
from dev.paths import REPOSITORY
from tests.support.helm import Helm


@pytest.fixture(scope="module")
def built(helm, kafka_distribution, tmp_path_factory):
    folder = tmp_path_factory.mktemp("release") / "built"
    release.build(folder, helm, kafka_distribution)
    return folder


def test_release_build_in_another_directory_is_byte_identical(built, helm, kafka_distribution, tmp_path, monkeypatch):
    copy = tmp_path / "clone"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (REPOSITORY / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, copy / name)  # without modification times
    monkeypatch.chdir(tmp_path)
    release.build(Path("again"), helm, kafka_distribution, source=copy)  # a relative path, as in `make release`

    def digests(folder):
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}

    assert digests(tmp_path / "again") == digests(built)


def test_every_artefact_has_a_checksum(built):
    number = release.version()
    sums = dict(reversed(line.split("  ")) for line in (built / "SHA256SUMS").read_text().splitlines())
    assert sums.keys() == {
        "crds.yaml",
        "install.yaml",
        "rackspan-kafka-plugins.jar",
        "RELEASE-NOTES.md",
        f"rackspan-{number}-py3-none-any.whl",
        f"rackspan-{number}.cdx.json",
        f"rackspan-{number}.tar.gz",
        f"rackspan-{number}.tgz",
    }
    for name, digest in sums.items():
        assert hashlib.sha256((built / name).read_bytes()).hexdigest() == digest


def test_packaged_chart_renders_the_same_manifests_as_its_source(built, helm):
    package = built / f"rackspan-{release.version()}.tgz"
    options = ("--namespace=rackspan", "--kube-version=1.36")
    assert Helm(helm)("template", "rackspan", package, *options) == Helm(helm).render()


def test_packaged_chart_lists_the_changes_for_artifact_hub(built):
    with tarfile.open(built / f"rackspan-{release.version()}.tgz") as package:
        metadata = yaml.safe_load(package.extractfile("rackspan/Chart.yaml"))
    changes = yaml.safe_load(metadata["annotations"]["artifacthub.io/changes"])
    notes = (built / "RELEASE-NOTES.md").read_text()
    _, *sections = re.split("^### (.+)\n", notes, flags=re.MULTILINE)
    kinds = [
        heading.lower()
        for heading, text in zip(sections[::2], sections[1::2], strict=True)
        for line in text.splitlines()
        if re.match(r"- |\| (?!before)", line)
    ]
    assert [change["kind"] for change in changes] == kinds
    assert len(kinds) > 40
    assert set(kinds) <= {"added", "changed", "deprecated", "removed", "fixed", "security"}  # Artifact Hub's kinds
    assert {"kind": "added", "description": "A Helm chart, metrics, alerts, a dashboard."} in changes
    now, before = "it has 32", "a plan's hash had 16 digits"
    assert {"kind": "changed", "description": f"before: {before}; now: {now}"} in changes
    assert not any(mark in change["description"] for change in changes for mark in ("`", "**", "]("))


def test_install_yaml_contains_all_objects_of_the_chart_except_hooks(built, offline_helm):
    namespace, *objects = [found for found in yaml.safe_load_all((built / "install.yaml").read_text()) if found]
    assert (namespace["kind"], namespace["metadata"]["name"]) == ("Namespace", "rackspan")
    assert objects == offline_helm.objects()
    definitions = list(yaml.safe_load_all((built / "crds.yaml").read_text()))
    assert {one["metadata"]["name"] for one in definitions} == {
        one["metadata"]["name"] for one in objects if one["kind"] == "CustomResourceDefinition"
    }


def test_bill_of_materials_lists_the_packages_and_hashes_of_the_lock_file(built):
    document = json.loads((built / f"rackspan-{release.version()}.cdx.json").read_text())
    lock = (REPOSITORY / "requirements" / "operator.lock").read_text()
    listed = {one["purl"].removeprefix("pkg:pypi/").replace("@", "==") for one in document["components"]}
    assert listed == set(re.findall(r"^[a-z][^ ;\\]+==[^ ;\\]+", lock, re.MULTILINE))
    hashes = [entry["content"] for one in document["components"] for entry in one["externalReferences"][0]["hashes"]]
    assert sorted(hashes) == sorted(re.findall(r"sha256:([0-9a-f]{64})", lock))


def test_wheel_contains_only_the_rackspan_package(built):
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {"rackspan", f"rackspan-{release.version()}.dist-info"}


@pytest.mark.parametrize("tag", ["0.0.9", "v0.0.9"])
def test_build_rejects_a_tag_of_another_version(helm, kafka_distribution, tmp_path, tag):
    with pytest.raises(release.ReleaseError, match=r"tag v\d"):
        release.build(tmp_path / "out", helm, kafka_distribution, tag=tag)


def test_release_notes_are_the_changelog_section_of_the_version(built, helm, kafka_distribution, tmp_path):
    changelog = (REPOSITORY / "CHANGELOG.md").read_text()
    notes = (built / "RELEASE-NOTES.md").read_text()
    assert notes.startswith("No version is released yet.")
    assert f"## [Unreleased]\n\n{notes}" in changelog
    with pytest.raises(release.ReleaseError, match=r"no section \[0\.1\.0\]: rename \[Unreleased\]"):
        release.build(tmp_path / "out", helm, kafka_distribution, tag=f"v{release.version()}")
    assert not (tmp_path / "out").exists()


def test_plugins_jar_contains_a_class_for_every_source_file(built):
    names = set(zipfile.ZipFile(built / "rackspan-kafka-plugins.jar").namelist())
    sources = (REPOSITORY / "plugins" / "src" / "main" / "java").rglob("*.java")
    assert names >= {f"dev/rackspan/kafka/{path.stem}.class" for path in sources}


def test_build_rejects_an_output_directory_that_is_not_empty(helm, kafka_distribution, tmp_path):
    (tmp_path / "old.whl").touch()
    with pytest.raises(release.ReleaseError, match="not empty"):
        release.build(tmp_path, helm, kafka_distribution)

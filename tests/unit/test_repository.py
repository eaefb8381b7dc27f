"""Checks of the repository as a whole: locks, tracked files, chart, examples and modules."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rackspan.reconcile.scans.scan_manifests import SPARK_VERSION

REPOSITORY = Path(__file__).resolve().parents[2]
LOCKS = ("operator.lock", "scan.lock", "dev.lock", "readers.lock", "msk.lock", "site.lock")


def locked(name: str) -> dict[str, str]:
    """Return the requirements of a lock by package name, each with its continuation lines."""
    text = (REPOSITORY / "requirements" / name).read_text()
    blocks = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)
    return {canonicalize_name(re.match(r"[\w.-]+", block)[0]): block for block in blocks if re.match(r"\w", block)}


def project() -> dict:
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text())


def test_operator_folder_is_not_a_package():
    assert not (REPOSITORY / "operator" / "__init__.py").exists()


def test_import_operator_in_the_repository_root_is_the_standard_library():
    program = "import operator; print(operator.__spec__.origin); print(operator.add(2, 3))"
    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    origin, total = done.stdout.split()
    assert total == "5"
    assert not origin.startswith(str(REPOSITORY / "operator"))


@pytest.mark.parametrize("name", LOCKS)
def test_locked_packages_have_a_version_and_hashes(name):
    packages = locked(name)
    assert packages
    without = [
        package
        for package, block in packages.items()
        if not re.search(r"==\S+", block) or "--hash=sha256:" not in block
    ]
    assert without == []


@pytest.mark.parametrize("name", LOCKS)
def test_locks_do_not_set_a_package_index(name):
    text = (REPOSITORY / "requirements" / name).read_text()
    assert re.findall(r"\S+://\S+|--(?:extra-)?index-url.*|--find-links.*", text) == []


@pytest.mark.parametrize(
    ("name", "requirements"),
    [
        ("operator.lock", project()["project"]["dependencies"]),
        ("dev.lock", project()["project"]["dependencies"] + project()["dependency-groups"]["dev"]),
        ("readers.lock", project()["dependency-groups"]["readers"]),
        ("site.lock", project()["dependency-groups"]["site"]),
        ("msk.lock", project()["project"]["optional-dependencies"]["msk"]),
    ],
)
def test_locks_satisfy_the_requirements_of_pyproject(name, requirements):
    packages = locked(name)
    for requirement in map(Requirement, requirements):
        version = re.search(r"==([^\s;\\]+)", packages[canonicalize_name(requirement.name)])[1]
        assert requirement.specifier.contains(version), f"{requirement}, but {name} has {version}; run `make lock`"


def test_operator_lock_has_no_spark():
    assert "pyspark" not in locked("operator.lock")


def test_operator_and_dev_locks_have_the_same_versions():
    operator, dev = locked("operator.lock"), locked("dev.lock")
    pin = re.compile(r"==([^\s;\\]+)")
    assert {p: pin.search(b)[1] for p, b in operator.items()} == {p: pin.search(dev[p])[1] for p in operator}


@pytest.fixture
def tracked() -> list[Path]:
    if not (REPOSITORY / ".git").exists():
        pytest.skip("not a clone: nothing is tracked")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    files = [REPOSITORY / name for name in listed.stdout.split("\0") if name]
    assert files
    return [file for file in files if file.is_file()]


def test_tracked_files_are_at_most_one_mebibyte(tracked):
    assert [str(file) for file in tracked if file.stat().st_size > 2**20] == []


def test_only_png_files_are_binary(tracked):
    assert {file.suffix for file in tracked if b"\0" in file.read_bytes()} <= {".png"}


def test_chart_has_the_crds_of_the_repository():
    folders = REPOSITORY / "crds", REPOSITORY / "charts" / "rackspan" / "files" / "crds"
    source, copies = ({path.name: path.read_text() for path in folder.iterdir()} for folder in folders)
    assert copies == source, "run: cp crds/*.yaml charts/rackspan/files/crds/"


def test_folder_of_examples_has_only_yaml_files():
    names = sorted(path.name for path in (REPOSITORY / "examples").iterdir() if path.is_file())
    assert names
    assert [name for name in names if not name.endswith(".yaml")] == []


def test_spark_version_of_spark_applications_is_that_of_the_scan_lock():
    assert locked("scan.lock")["pyspark"].startswith(f"pyspark=={SPARK_VERSION} ")


def test_paths_in_contributing_exist():
    named = set(re.findall(r"`([\w.-]+/[\w./-]*|[\w-]+\.py)`", (REPOSITORY / "CONTRIBUTING.md").read_text()))
    roots = (REPOSITORY, *(REPOSITORY / "operator/rackspan" / room for room in ("", "reconcile")))
    made = {path for path in named if path.startswith(("dist/", "build/"))} | {"operator/rackspan"}
    assert [path for path in sorted(named - made) if not any((root / path).exists() for root in roots)] == []
    assert len(named) > 40


def test_file_names_of_modules_are_unique():
    files = [file.name for file in (REPOSITORY / "operator").rglob("*.py") if file.name != "__init__.py"]
    assert {name for name in files if files.count(name) > 1} == set()


MOST_MODULES = {"topics.topics_reconciler": 55, "racks.publish": 12, "plans.approvals": 40, "scans.scan_reconciler": 12}
"""The limit per module of `reconcile` that handles a topic event, a relabelled node, an approval or a due scan."""


@pytest.mark.parametrize(("module", "most"), MOST_MODULES.items())
def test_handlers_of_an_event_import_few_modules(module, most):
    """A developer who wants to understand how an event is handled reads these modules."""
    program = f"import sys, rackspan.reconcile.{module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    rooms = {
        f"rackspan.reconcile.{room}" for room in ("topics", "racks", "plans", "scans", "cluster", "specs", "runtime")
    }
    loaded = {name for name in done.stdout.split() if name.startswith("rackspan.reconcile.")} - rooms
    assert 0 < len(loaded) <= most, sorted(loaded)

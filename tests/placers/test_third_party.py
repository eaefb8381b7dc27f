"""A third-party placer is found by its name after its package is installed."""

import subprocess
import sys
from pathlib import Path

import pytest

from rackspan import placers
from rackspan.core.placement import ClusterView, PlacementSpec
from rackspan.core.topology import Broker, RackTree

SAMPLE = Path(__file__).parent / "sample"
TREE = RackTree(("zone",), tuple(Broker(broker, (f"z{broker}",)) for broker in range(4)))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A directory into which pip has installed the sample."""
    target = tmp_path_factory.mktemp("site")
    source = tmp_path_factory.mktemp("source") / "sample"
    subprocess.run(["cp", "-r", SAMPLE, source], check=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--target", target, source], check=True)
    return target


def test_built_in_placers_are_found_by_name():
    assert set(placers.load_placers()) >= {"MultiLevel", "Rings", "Simple", "Striped"}


def test_installed_placer_is_found_and_returns_placements(site, monkeypatch):
    assert "Widest" not in placers.load_placers()
    monkeypatch.syspath_prepend(site)
    placer = placers.load_placers()["Widest"]
    assert placer.place(PlacementSpec(2, 3), ClusterView(TREE)).partitions == ((3, 2, 1), (3, 2, 1))


def test_placer_may_return_none_to_leave_the_choice_to_kafka(site, monkeypatch):
    monkeypatch.syspath_prepend(site)
    assert placers.load_placers()["Widest"].place(PlacementSpec(2, 1), ClusterView(TREE)) is None


def offer(directory, package, name, target):
    """Write the metadata of an installed package that offers one placer."""
    metadata = directory / f"{package}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[rackspan.placers]\n{name} = {target}\n")


@pytest.mark.parametrize(
    ("name", "target", "complaint"),
    [
        ("Broken", "no_such_module:Placer", 'the placer "Broken" of other cannot be loaded'),
        ("Stranger", "builtins:object", 'the placer "Stranger" of other, builtins:object, has no method place'),
        ("Simple", "builtins:object", 'two packages offer the placer "Simple": other and rackspan'),
    ],
)
def test_error_names_an_entry_point_without_a_usable_placer(tmp_path, monkeypatch, name, target, complaint):
    offer(tmp_path, "other", name, target)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(placers.PlacerLoadError, match=complaint):
        placers.load_placers()

"""The jars of Kafka have the listed checksums."""

import hashlib

import pytest
from dev.progress import AssetError
from dev.stack import kafka_distribution


@pytest.fixture
def listed(tmp_path):
    """A folder for jars, and a list with one jar."""
    (tmp_path / "jars.sha256").write_text(f"{hashlib.sha256(b'good').hexdigest()}  a-1.jar\n")
    (tmp_path / "jars").mkdir()
    return tmp_path / "jars", tmp_path / "jars.sha256"


def test_listed_jars_are_accepted(listed):
    folder, sums = listed
    (folder / "a-1.jar").write_bytes(b"good")
    kafka_distribution.check_jars(folder, sums)


@pytest.mark.parametrize("jars", [{}, {"a-1.jar": b"bad"}, {"a-1.jar": b"good", "b-1.jar": b"good"}])
def test_missing_changed_or_unlisted_jars_are_rejected_by_name(listed, jars):
    folder, sums = listed
    for name, content in jars.items():
        (folder / name).write_bytes(content)
    with pytest.raises(AssetError, match=r"not the jars of .*: [ab]-1\.jar;"):
        kafka_distribution.check_jars(folder, sums)


@pytest.mark.parametrize(("listing", "jar"), [("jars", "kafka-clients"), ("client-jars", "kafka-streams")])
@pytest.mark.parametrize("version", kafka_distribution.kafka_versions())
def test_each_list_has_the_jars_of_its_version(version, listing, jar):
    names = (kafka_distribution._HERE / version / f"{listing}.sha256").read_text()
    assert f"  {jar}-{version}.jar\n" in names


def test_kafka_version_that_is_not_pinned_is_rejected(monkeypatch):
    monkeypatch.setenv("RACKSPAN_KAFKA", "../4.0")
    with pytest.raises(AssetError, match=r"there is no Kafka '\.\./4\.0' here, but 4\.1\.2, 4\.2\.1, 4\.3\.1, 4\.4\.0"):
        kafka_distribution.kafka_version()

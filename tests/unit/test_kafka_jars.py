"""Kafka's jars run on this machine: they are those that were looked at when the list was written."""

import hashlib

import pytest
from dev.progress import AssetError
from dev.stack import kafka_distribution


@pytest.fixture
def listed(tmp_path, monkeypatch):
    """A list of one jar."""
    monkeypatch.setattr(kafka_distribution, "_HERE", tmp_path)
    (tmp_path / "jars.sha256").write_text(f"{hashlib.sha256(b'good').hexdigest()}  a-1.jar\n")
    (tmp_path / "jars").mkdir()
    return tmp_path / "jars"


def test_the_jars_of_the_list_are_taken(listed):
    (listed / "a-1.jar").write_bytes(b"good")
    kafka_distribution.check_jars(listed)


@pytest.mark.parametrize("jars", [{}, {"a-1.jar": b"bad"}, {"a-1.jar": b"good", "b-1.jar": b"good"}])
def test_others_are_refused_by_name(listed, jars):
    for name, content in jars.items():
        (listed / name).write_bytes(content)
    with pytest.raises(AssetError, match=r"not the jars of .*: [ab]-1\.jar;"):
        kafka_distribution.check_jars(listed)


def test_the_list_is_of_the_version_that_is_pinned():
    names = (kafka_distribution._HERE / "jars.sha256").read_text()
    assert f"  kafka-clients-{kafka_distribution.kafka_version()}.jar\n" in names

"""Conversion between snapshot files and columns."""

import gc
import json

import numpy as np
import pytest

from rackspan.snapshots import SnapshotError, parse_snapshot, read_snapshot, snapshot_lines
from rackspan.snapshots.reader import shown_name

BROKERS = [{"id": broker, "rack": rack} for broker, rack in ((7, "/a"), (3, "/b"), (5, None))]


def document(*topics, **more):
    return json.dumps({"brokers": BROKERS, "topics": list(topics), **more}).encode()


def topic(name, *partitions, **more):
    return {"name": name, "partitions": list(partitions), **more}


MIXED = document(
    topic("b", {"partition": 1, "replicas": [3]}, {"partition": 0, "replicas": [7, 3, 5], "isr": [5, 7], "leader": 5}),
    topic("a", {"partition": 0, "replicas": [3, 7], "leader": None, "isr": [], "sizeBytes": 2**62}, config={"x": True}),
    clusterId="one",
)


def test_columns_have_topics_in_the_order_of_the_file_and_partitions_by_number():
    snapshot = parse_snapshot(MIXED)
    found = snapshot.partitions
    assert found.names == ("b", "a")
    assert found.topic.tolist() == [0, 0, 1]
    assert found.number.tolist() == [0, 1, 0]
    assert found.replicas.tolist() == [[7, 3, 5], [3, -1, -1], [3, 7, -1]]
    assert found.in_sync.tolist() == [[True, False, True], [True, False, False], [False, False, False]]
    assert found.leader.tolist() == [5, 3, -1]
    assert found.size_bytes.tolist() == [-1, -1, 2**62]
    assert snapshot.configs == ({}, {"x": "true"})
    assert [broker.reported_rack for broker in snapshot.brokers] == ["/a", "/b", None]


def test_snapshot_lines_have_one_topic_per_line_and_parse_to_the_same_snapshot():
    lines = list(snapshot_lines(parse_snapshot(MIXED)))
    assert sum('"partitions"' in line for line in lines) == 2
    again = parse_snapshot("".join(lines).encode())
    assert list(snapshot_lines(again)) == lines


def test_batches_of_different_widths_are_joined(monkeypatch):
    whole = parse_snapshot(MIXED)
    monkeypatch.setattr("rackspan.snapshots.reader._BATCH", 1)
    parts = parse_snapshot(MIXED)
    for column in ("topic", "number", "replicas", "in_sync", "leader", "size_bytes"):
        assert np.array_equal(getattr(whole.partitions, column), getattr(parts.partitions, column))


def test_error_in_a_later_batch_has_the_right_path(monkeypatch):
    monkeypatch.setattr("rackspan.snapshots.reader._BATCH", 2)
    fine = {"partition": 0, "replicas": [3]}
    topics = [topic(f"t{at}", fine) for at in range(5)]
    bad = topic("bad", fine, {"partition": 1, "replicas": [7, 7]})
    with pytest.raises(SnapshotError, match=r"^f: \$\.topics\[5\]\.partitions\[1\]\.replicas\[1\]: broker 7 is listed"):
        parse_snapshot(document(*topics, bad), "f")


def test_unknown_brokers_are_those_with_replicas_that_are_not_listed():
    text = document(topic("a", {"partition": 0, "replicas": [3, 99]}))
    assert parse_snapshot(text).unknown_brokers == (99,)


@pytest.mark.parametrize(
    ("once", "twice", "sentence"),
    [
        ('"id": 7', '"id": 7, "id": 7', r'f: \$: the key "id"'),
        ('"clusterId": "one"', '"clusterId": "a", "clusterId": "one"', r'f: \$: the key "clusterId"'),
        ('"partition": 1', '"partition": 0, "partition": 1', r'f: \$\.topics\[0\]: the key "partition"'),
        ('"isr": [5, 7]', '"isr": [5], "isr": [5, 7]', r'f: \$\.topics\[0\]: the key "isr"'),
        ('"leader": null', '"leader": 3, "leader": null', r'f: \$\.topics\[1\]: the key "leader"'),
        ('{"x": true}', '{"x": true, "\\u0078": "a:b"}', r'f: \$\.topics\[1\]: the key "x"'),
        ('{"x": true}', '{"x": true, "x": "a\\u003ab"}', r'f: \$\.topics\[1\]: the key "x"'),
        ('{"x": true}', '{"y": "\\u003A", "x": 1, "x": true}', r'f: \$\.topics\[1\]: the key "x"'),
        ('{"x": true}', '{"x": 1, "x": "\\u005cu003a"}', r'f: \$\.topics\[1\]: the key "x"'),
        ('"clusterId": "one"', '"clusterId": "a", "clusterId": "\\u003a"', r'f: \$: the key "clusterId"'),
        ('{"x": true}', '{"\\\\u003a": "\\u003a\\\\\\u003a", "x": 1, "x": true}', r'f: \$\.topics\[1\]: the key "x"'),
    ],
)
def test_repeated_key_is_rejected_with_its_name(once, twice, sentence):
    text = MIXED.decode()
    assert text.count(once) == 1
    with pytest.raises(SnapshotError, match=rf"^{sentence} is given twice in one object$"):
        parse_snapshot(text.replace(once, twice).encode(), "f")


@pytest.mark.parametrize(
    ("partition", "sentence"),
    [
        ({"replicas": [3, 5], "elr": [5]}, r"elr\[0\]: broker 5 is in the ISR"),
        ({"replicas": [3, 5], "isr": [], "elr": [5, 5]}, r"elr\[1\]: broker 5 is listed twice"),
        ({"replicas": [3, 5], "isr": [], "elr": [3, 5, 7]}, r"elr\[2\]: broker 7 is not a replica of this partition"),
    ],
)
def test_eligible_leader_that_is_in_the_isr_repeated_or_no_replica_is_rejected(partition, sentence):
    fine = {"partition": 0, "replicas": [3, 5], "isr": [3], "elr": [5]}
    text = json.dumps({"brokers": [{"id": 3}], "topics": [topic("a", fine, {"partition": 1, **partition})]})
    with pytest.raises(SnapshotError, match=rf"^f: \$\.topics\[0\]\.partitions\[1\]\.{sentence}$"):
        parse_snapshot(text.encode(), "f")


def test_colon_in_a_string_is_not_a_key_separator():
    brokers = [{"id": 3, "rack": "/a:b"}]
    text = json.dumps(
        {"brokers": brokers, "topics": [topic("a", {"partition": 0, "replicas": [3]}, config={"u:v": "w:x"})]}
    )
    assert parse_snapshot(text.replace("w:x", "w\\u003ax").encode()).configs == ({"u:v": "w:x"},)
    assert parse_snapshot(text.replace("w:x", "w\\\\u003Ax").encode()).configs == ({"u:v": "w\\u003Ax"},)


def test_valid_file_is_not_decoded_again_for_repeated_keys(monkeypatch):
    all_fields = {"partition": 0, "replicas": [3, 7], "isr": [3], "elr": [7], "leader": None, "sizeBytes": 5}
    fewest_fields = {"partition": 0, "replicas": [3]}
    topics = [topic("a", all_fields, config={"x": "y:z"}, inherited=["x"]), topic("b", fewest_fields)]
    brokers = [{"id": 3, "rack": None, "cordoned": True}, {"id": 7, "rack": "/a:b"}]
    monkeypatch.setattr("rackspan.snapshots.repeated_keys.json.loads", None)
    text = json.dumps({"clusterId": None, "brokers": brokers, "topics": topics})
    assert parse_snapshot(text.encode()).partitions.names == ("a", "b")


def test_byte_order_mark_is_ignored(tmp_path):
    (tmp_path / "a.json").write_bytes(b"\xef\xbb\xbf" + MIXED)
    assert read_snapshot(tmp_path / "a.json").cluster_id == "one"


def test_parse_snapshot_reports_its_progress():
    told = []
    parse_snapshot(MIXED, advance=lambda done, total: told.append((done, total)))
    assert told == [(2, 2)]


def test_garbage_collection_is_enabled_after_an_error():
    assert gc.isenabled()
    with pytest.raises(SnapshotError):
        parse_snapshot(b"{")
    assert gc.isenabled()


def test_shown_name_of_a_file_has_no_control_characters():
    assert shown_name("-") == "standard input"
    assert shown_name("a\x1b[31m\n.json").isprintable()


def test_partition_with_more_than_256_replicas_is_rejected():
    long = list(range(100_000))
    with pytest.raises(SnapshotError, match=r"\.replicas: names 100,000 brokers; a partition has at most 256 replicas"):
        parse_snapshot(document(topic("a", *({"partition": at, "replicas": long if at else [3]} for at in range(2)))))

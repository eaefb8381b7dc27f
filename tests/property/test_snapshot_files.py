"""Any file gives a snapshot or a one-sentence error, and each snapshot can be written and read again."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property import cases

from rackspan.snapshots import SnapshotError, parse_snapshot, snapshot_lines

NAMES = st.from_regex(r"[a-zA-Z0-9._-]{1,12}", fullmatch=True).filter(lambda name: name not in (".", ".."))
RACKS = st.none() | st.from_regex(r"(/[a-z0-9]{1,3}){1,3}", fullmatch=True)
CONFIGS = st.dictionaries(st.text(max_size=8), st.text(max_size=8) | st.integers() | st.booleans(), max_size=3)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["brokers", "topics", "id", "rack", "name", "partitions", "partition", "replicas", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@st.composite
def documents(draw):
    """Draw valid documents, with and without the optional fields."""
    ids = draw(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=6, unique=True))
    brokers = [
        {"id": broker, **draw(st.fixed_dictionaries({}, optional={"rack": RACKS, "cordoned": st.booleans()}))}
        for broker in ids
    ]
    topics = []
    for name in draw(st.lists(NAMES, max_size=3, unique=True)):
        partitions = []
        for number in draw(st.permutations(range(draw(st.integers(1, 3))))):
            replicas = draw(st.lists(st.sampled_from(ids), min_size=1, unique=True))
            optional = {
                "isr": st.lists(st.sampled_from(replicas), unique=True),
                "leader": st.none() | st.sampled_from(replicas),
                "sizeBytes": st.none() | st.integers(0, 2**63 - 1),
            }
            extra = draw(st.fixed_dictionaries({}, optional=optional))
            others = [broker for broker in replicas if broker not in extra.get("isr", replicas)]
            if others and draw(st.booleans()):
                extra["elr"] = draw(st.lists(st.sampled_from(others), unique=True))
            partitions.append({"partition": number, "replicas": replicas, **extra})
        config = draw(st.fixed_dictionaries({}, optional={"config": CONFIGS}))
        topics.append({"name": name, "partitions": partitions, **config})
    return {"brokers": brokers, "topics": topics, **draw(st.fixed_dictionaries({}, optional={"clusterId": st.text()}))}


def places(value, path=()):
    """Yield the paths of all values in a document."""
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


@st.composite
def damaged(draw):
    """Draw a valid document with one value replaced, removed or doubled, or with its text cut or changed."""
    document = draw(documents())
    *path, last = draw(st.sampled_from([path for path in places(document) if path]))
    inner = document
    for key in path:
        inner = inner[key]
    change = draw(st.sampled_from(["replace", "remove", "double", "cut", "byte"]))
    if change == "replace":
        inner[last] = draw(JSON)
    elif change == "remove":
        del inner[last]
    elif change == "double" and isinstance(inner, list):
        inner.append(inner[last])
    text = json.dumps(document).encode()
    at = draw(st.integers(0, len(text) - 1))
    if change == "cut":
        return text[:at]
    if change == "byte":
        return text[:at] + draw(st.binary(min_size=1, max_size=1)) + text[at + 1 :]
    return text


def alike(one, other):
    columns = ("topic", "number", "replicas", "in_sync", "eligible", "leader", "size_bytes")
    assert (one.cluster_id, one.brokers, one.configs) == (other.cluster_id, other.brokers, other.configs)
    assert one.partitions.names == other.partitions.names
    for column in columns:
        assert np.array_equal(getattr(one.partitions, column), getattr(other.partitions, column)), column


def read(text):
    """Return the snapshot after a round trip through the writer, or None if it is rejected with one sentence."""
    cases.counted()
    try:
        snapshot = parse_snapshot(text, "a.json")
    except SnapshotError as error:
        sentence = str(error)
        assert sentence.startswith("a.json: ")
        assert sentence.isprintable()
        assert len(sentence) < 400
        return None
    alike(parse_snapshot("".join(snapshot_lines(snapshot)).encode()), snapshot)
    return snapshot


@given(documents())
def test_valid_document_is_read_completely(document):
    document["topics"] = [topic for topic in document["topics"] if "min.insync.replicas" not in topic.get("config", {})]
    snapshot = read(json.dumps(document).encode())
    assert [broker.id for broker in snapshot.brokers] == [broker["id"] for broker in document["brokers"]]
    assert [b.cordoned for b in snapshot.brokers] == [b.get("cordoned", False) for b in document["brokers"]]
    assert list(snapshot.partitions.names) == [topic["name"] for topic in document["topics"]]
    given_lists = [
        partition["replicas"]
        for topic in document["topics"]
        for partition in sorted(topic["partitions"], key=lambda partition: partition["partition"])
    ]
    assert [[broker for broker in row if broker >= 0] for row in snapshot.partitions.replicas.tolist()] == given_lists


@given(damaged())
def test_damaged_document_is_read_or_rejected_with_one_sentence(text):
    read(text)


@given(JSON)
def test_other_json_is_read_or_rejected_with_one_sentence(value):
    read(json.dumps(value).encode())


@given(st.binary(max_size=60) | st.text(max_size=40).map(str.encode))
def test_any_bytes_are_read_or_rejected_with_one_sentence(text):
    read(text)


@pytest.mark.parametrize("text", [b"[" * 200_000, b'{"brokers":' * 100_000, b'{"brokers":[{"id":' + b"9" * 10_000])
def test_hostile_json_is_rejected_with_one_sentence(text):
    assert read(text) is None

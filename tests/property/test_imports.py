"""A KafkaTopic round-trips through its YAML, and the import of any cluster changes nothing."""

import json
import random

import yaml
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.random_clusters import random_cluster

from rackspan.api.kafkatopic import (
    BrokerFilter,
    DeletionPolicy,
    KafkaTopicSpec,
    OnTopicLoss,
    TopicPlacement,
    TopicSpread,
    WhenUnsatisfiable,
)
from rackspan.api.policies import Approval, DurabilitySpec, TopicReassignmentSpec
from rackspan.api.references import TopologyRef
from rackspan.core.snapshot import tree_of
from rackspan.imports.cluster_import import cluster_topics
from rackspan.imports.imported_topics import Definition, Imported, Source
from rackspan.imports.kept_assignment import KeptAssignment
from rackspan.imports.manifest_documents import _PLACEHOLDER, read_documents
from rackspan.imports.manifests import manifest, read_topics, yaml_document
from rackspan.imports.names import is_object_name, named, object_name
from rackspan.imports.present import as_present, plan_of_topics
from rackspan.snapshots import parse_snapshot

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    [
        "y",
        "no",
        "null",
        "~",
        "1e3",
        "0x1",
        "0o7",
        "1:30",
        "2026-01-31",
        "- a",
        "a: b",
        "#",
        "'",
        '"',
        "\n",
        "<<",
        "=",
        "%",
    ]
)
TOPICS = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True).filter(lambda name: name not in (".", ".."))
COUNTS = st.dictionaries(TEXTS, st.integers(1, 9), max_size=2)
PLACEMENTS = st.builds(
    TopicPlacement,
    placer=st.none() | TEXTS,
    spread=st.lists(
        st.builds(
            TopicSpread, level=TEXTS, max_skew=st.integers(1, 9), when_unsatisfiable=st.sampled_from(WhenUnsatisfiable)
        ),
        max_size=2,
    ).map(tuple),
    brokers=st.builds(
        BrokerFilter, include=st.lists(TEXTS, max_size=2).map(tuple), exclude=st.lists(TEXTS, max_size=2).map(tuple)
    ),
    leaders=st.lists(TEXTS, max_size=2).map(tuple),
    assignment=st.lists(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=3).map(tuple), max_size=3).map(tuple),
    seed=st.none() | st.integers(0, 2**63 - 1),
    start_index=st.none() | st.integers(0, 9),
    shift=st.none() | st.integers(0, 9),
)
SPECS = st.builds(
    KafkaTopicSpec,
    topology_ref=st.builds(TopologyRef, name=TEXTS, namespace=st.none() | TEXTS),
    partitions=st.integers(1, 10**6),
    replication_factor=st.integers(1, 99),
    topic_name=TOPICS,
    config=st.dictionaries(TEXTS, TEXTS | st.integers(-(2**63), 2**63 - 1), max_size=4),
    placement=PLACEMENTS,
    durability=st.none() | st.builds(DurabilitySpec, min_domains=COUNTS, tolerate=COUNTS),
    reassignment=st.none()
    | st.builds(
        TopicReassignmentSpec,
        approval=st.none() | st.sampled_from(Approval),
        reorders=st.none() | st.sampled_from(Approval),
        approved_plan=st.none() | st.from_regex("[0-9a-f]{32}", fullmatch=True),
    ),
    deletion_policy=st.sampled_from(DeletionPolicy),
    on_topic_loss=st.sampled_from(OnTopicLoss),
)


def definition(spec, **more):
    return Definition(Source("x"), spec.topic_name, spec, **more)


@given(SPECS, st.none() | TEXTS)
def test_manifest_refers_to_the_racktopology_of_its_spec(spec, namespace):
    here = namespace or "of-the-context"
    for one in (spec, replace(spec, topology_ref=TopologyRef(spec.topology_ref.name, namespace))):
        written = manifest("a", definition(one, namespace=namespace))["spec"]["topologyRef"]
        assert TopologyRef(**written).key(here) == one.topology_ref.key(here)


@given(SPECS, st.dictionaries(TEXTS, TEXTS, max_size=2), TEXTS)
def test_spec_round_trips_through_its_manifest(spec, annotations, comment):
    one = definition(spec, annotations=annotations)
    text = yaml_document(manifest(object_name(one.topic), one), [comment])
    assume(not _PLACEHOLDER.search(text))  # a template is rejected
    assert all(letter.isprintable() or letter == "\n" for letter in text)
    read = read_topics(read_documents(text.encode(), "t.yaml"))
    assert read.refused == ()
    (found,) = read.topics
    topic = found.topic
    assert topic.topic_name == spec.topic_name
    assert {key: value for key, value in topic.spec.__rich_repr__() if key != "topic_name"} == {
        key: value for key, value in spec.__rich_repr__() if key != "topic_name"
    }
    assert yaml.safe_load(text)["metadata"].get("annotations", {}) == annotations
    # PyYAML, a reader of YAML 1.1, reads the same.
    assert yaml.safe_load(text)["spec"].get("config", {}) == dict(spec.config)


@given(st.integers(0, 2**32), st.sampled_from(KeptAssignment), st.booleans())
def test_plan_for_an_imported_cluster_is_empty_unless_the_import_announces_a_change(seed, assignment, as_table):
    document = random_cluster(seed, name="prod", levels=random.Random(seed).randint(1, 3))
    snapshot = parse_snapshot(json.dumps(document).encode())
    tree = tree_of(snapshot.brokers)
    every = range(len(snapshot.partitions.names))
    defined = Imported.of(cluster_topics(snapshot, every, TopologyRef("main"), None, Source("prod")))
    imported = as_present(defined, snapshot, tree, assignment)
    definitions = imported.definitions
    if as_table:  # through the text of the manifests, as a user would
        text = "".join(map(yaml_document, map(manifest, named(definitions), definitions)))
        read = read_topics(read_documents(text.encode(), "t.yaml"))
        assert read.refused == ()
        specs = {one.topic.topic_name: one.topic.spec for one in read.topics}
    else:
        specs = {one.topic: one.spec for one in definitions}
    assert len(specs) == len(definitions) == len(every) - len(imported.skipped)
    made = plan_of_topics(specs, snapshot, tree)
    assert made.feasible
    told = any(remark.kind.value == "WouldChange" for one in definitions for remark in one.remarks)
    if assignment is KeptAssignment.NEVER:
        assert not imported.skipped
        assert made.empty != told
    else:
        assert made.empty
        assert not told


@given(
    st.lists(TOPICS | st.sampled_from(["a-b", "a_b", "A_b", "a-b-main", "A-B"]), unique=True, max_size=12), st.randoms()
)
def test_every_topic_gets_a_unique_object_name_in_any_order(topics, chance):
    definitions = [definition(KafkaTopicSpec(TopologyRef("main"), 1, 1, topic)) for topic in topics]
    names = dict(zip(topics, named(definitions), strict=True))
    assert all(map(is_object_name, names.values()))
    assert len(set(names.values())) == len(topics)
    assert all(names[topic] == topic for topic in topics if is_object_name(topic))
    turned = chance.sample(definitions, len(definitions))
    assert dict(zip([one.topic for one in turned], named(turned), strict=True)) == names


@given(
    st.binary(max_size=60)
    | TEXTS.map(str.encode)
    | SPECS.map(lambda spec: yaml_document(manifest("a", definition(spec))).encode()[:80])
)
def test_any_file_is_read_and_unread_documents_have_a_line_number(text):
    found = read_documents(text, "t.yaml")
    assert all(one.source.line >= 1 for one in found.unread)
    read_topics(found)

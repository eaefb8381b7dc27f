"""Responses of the API server to objects that violate the schema itself, without any CEL rule."""

import re

import pytest
from tests.support.manifests import BASES, REASSIGNMENT, REPORT, TOPIC, TOPOLOGY, changed

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(
    ("kind", "patch", "field", "words"),
    [
        ("KafkaTopic", {"replicationFactor": 0}, "spec.replicationFactor", "greater than or equal to 1"),
        ("KafkaTopic", {"replicationFactor": 40_000}, "spec.replicationFactor", "less than or equal to 32767"),
        ("KafkaTopic", {"replicationFactor": "three"}, "spec.replicationFactor", 'must be of type integer: "string"'),
        ("KafkaTopic", {"replicationFactor": None}, "spec.replicationFactor", "Required value"),
        ("KafkaTopic", {"partitions": 0}, "spec.partitions", "greater than or equal to 1"),
        ("KafkaTopic", {"partitions": 2.5}, "spec.partitions", 'must be of type int(32: "float64"|eger: "number")'),
        ("KafkaTopic", {"topologyRef": {"name": None}}, "spec.topologyRef.name", "Required value"),
        ("KafkaTopic", {"topicName": "a" * 250}, "spec.topicName", "may not be (more|longer) than 249"),
        ("KafkaTopic", {"config": {"preallocate": True}}, "spec.config.preallocate", "must be of type integer,string"),
        ("KafkaTopic", {"config": {"a": ["b"]}}, "spec.config.a", "must be of type integer,string"),
        (
            "KafkaTopic",
            {"placement": {"spread": [{"level": "zone", "maxSkew": 0}]}},
            "spec.placement.spread[0].maxSkew",
            "greater than or equal to 1",
        ),
        (
            "KafkaTopic",
            {"placement": {"spread": [{"level": "zone", "whenUnsatisfiable": "Ignore"}]}},
            "spec.placement.spread[0].whenUnsatisfiable",
            'supported values: "Refuse", "Best"',
        ),
        ("KafkaTopic", {"placement": {"startIndex": -1}}, "spec.placement.startIndex", "greater than or equal to 0"),
        ("KafkaTopic", {"placement": {"shift": -1}}, "spec.placement.shift", "greater than or equal to 0"),
        (
            "KafkaTopic",
            {"placement": {"brokers": {"include": []}}},
            "spec.placement.brokers.include",
            "should have at least 1 items",
        ),
        (
            "KafkaTopic",
            {"placement": {"brokers": {"exclude": ["3", "3"]}}},
            "spec.placement.brokers.exclude[1]",
            'Duplicate value: "3"',
        ),
        (
            "KafkaTopic",
            {"partitions": 1, "placement": {"assignment": [[0, 1, -2]]}},
            "spec.placement.assignment[0][2]",
            "greater than or equal to 0",
        ),
        ("KafkaTopic", {"durability": {"tolerate": {"zone": 0}}}, "spec.durability.tolerate.zone", "or equal to 1"),
        ("KafkaTopic", {"durability": {"minDomains": {"zone": 0}}}, "spec.durability.minDomains.zone", "or equal to 1"),
        ("RackTopology", {"reassignment": {"throttle": 0}}, "spec.reassignment.throttle", "greater than or equal to 1"),
        ("KafkaTopic", {"reassignment": {"approval": "Yes"}}, "spec.reassignment.approval", "supported values"),
        ("KafkaTopic", {"deletionPolicy": "delete"}, "spec.deletionPolicy", 'supported values: "Retain", "Delete"'),
        ("KafkaTopic", {"onTopicLoss": "Ignore"}, "spec.onTopicLoss", 'supported values: "Stall", "Recreate"'),
        ("RackTopology", {"kafka": {"bootstrapServers": None}}, "spec.kafka.bootstrapServers", "Required value"),
        ("RackTopology", {"kafka": {"tls": True}}, "spec.kafka.tls", "must be of type object"),
        (
            "RackTopology",
            {"kafka": {"sasl": {"mechanism": "GSSAPI", "secretRef": {"name": "user"}}}},
            "spec.kafka.sasl.mechanism",
            "supported values",
        ),
        (
            "RackTopology",
            {"kafka": {"sasl": {"mechanism": "PLAIN"}}},
            "spec.kafka.sasl.secretRef",
            "Required value",
        ),
        ("RackTopology", {"levels": []}, "spec.levels", "should have at least 1 items"),
        (
            "RackTopology",
            {"levels": [{"name": f"l{index}", "nodeLabel": f"l{index}"} for index in range(9)]},
            "spec.levels",
            "must have at most 8 items",
        ),
        ("RackTopology", {"rackSource": "Zookeeper"}, "spec.rackSource", 'supported values: "Nodes", "Broker"'),
        ("RackTopology", {"drainBrokers": [1, 1]}, "spec.drainBrokers[1]", "Duplicate value: 1"),
        ("RackTopology", {"drainBrokers": [-1]}, "spec.drainBrokers[0]", "greater than or equal to 0"),
        ("RackTopology", {"drainRacks": ["/a", "/a"]}, "spec.drainRacks[1]", 'Duplicate value: "/a"'),
        ("RackTopology", {"compliance": {"retentionDays": 0}}, "spec.compliance.retentionDays", "or equal to 1"),
        ("RackTopology", {"compliance": {"sampleSeconds": 601}}, "spec.compliance.sampleSeconds", "or equal to 600"),
        (
            "RackTopology",
            {"compliance": {"producers": [{"rack": "/a"}, {"rack": "/a", "count": 2}]}},
            "spec.compliance.producers[1]",
            r'Duplicate value: .*\{"rack":"/a"\}',
        ),
        (
            "RackTopology",
            {"compliance": {"producers": [{"rack": "/a", "count": 0}]}},
            "spec.compliance.producers[0].count",
            "or equal to 1",
        ),
        ("ComplianceReport", {"topologyRef": None}, "spec.topologyRef", "Required value"),
        ("Reassignment", {"plan": None}, "spec.plan", "Required value"),
        ("Reassignment", {"plan": "a" * 400_001}, "spec.plan", "may not be (more|longer) than 400000"),
        ("Reassignment", {"throttle": 0}, "spec.throttle", "greater than or equal to 1"),
    ],
)
def test_schema_rejects_an_invalid_value_with_its_field_and_the_reason(api_server, kind, patch, field, words):
    answer = api_server.create("default", changed(BASES[kind], {"spec": patch}), dry_run=True)
    assert answer.code == 422
    told = [sentence for at, sentence in answer.causes if at == field]
    assert any(re.search(words, sentence) for sentence in told), answer.causes


@pytest.mark.parametrize("manifest", [TOPOLOGY, TOPIC, REPORT, REASSIGNMENT], ids=lambda one: one["kind"])
def test_api_server_rejects_an_object_without_a_spec(api_server, manifest):
    without = {key: value for key, value in manifest.items() if key != "spec"}
    assert "spec: Required value" in api_server.create("default", without, dry_run=True).message


@pytest.mark.parametrize(
    ("manifest", "path", "value"),
    [
        (TOPIC, ("spec", "deletionPolicy"), "Retain"),
        (TOPIC, ("spec", "onTopicLoss"), "Stall"),
        (TOPOLOGY, ("spec", "rackSource"), "Nodes"),
        (TOPOLOGY, ("spec", "missingRackPolicy"), "Fail"),
        (
            TOPOLOGY,
            ("spec", "allowedNamespaces"),
            {"from": "Same", "quota": {"topics": 500, "partitions": 2000, "replicas": 6000}},
        ),
        (TOPOLOGY, ("spec", "defaults"), {"placer": "MultiLevel"}),
        (TOPOLOGY, ("spec", "brokers", "brokerId"), {"from": "NameSuffix", "offset": 0}),
    ],
)
def test_api_server_sets_the_default_of_a_missing_field(api_server, manifest, path, value):
    found = api_server.create("default", manifest, dry_run=True).body
    for step in path:
        found = found[step]
    assert found == value

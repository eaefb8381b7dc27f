"""Valid objects of every kind, and a function that changes them."""

import copy
from collections.abc import Mapping
from typing import Any

JsonObject = dict[str, Any]

TOPOLOGY: JsonObject = {
    "apiVersion": "rackspan.dev/v1alpha1",
    "kind": "RackTopology",
    "metadata": {"name": "prod"},
    "spec": {
        "kafka": {"bootstrapServers": "kafka-0.kafka:9092,kafka-1.kafka:9092"},
        "levels": [
            {"name": "region", "nodeLabel": "topology.kubernetes.io/region"},
            {"name": "zone", "nodeLabel": "topology.kubernetes.io/zone"},
        ],
        "brokers": {"podSelector": {"matchLabels": {"app": "kafka"}}},
    },
}

TOPIC: JsonObject = {
    "apiVersion": "rackspan.dev/v1alpha1",
    "kind": "KafkaTopic",
    "metadata": {"name": "orders"},
    "spec": {"topologyRef": {"name": "prod"}, "partitions": 6, "replicationFactor": 3},
}

REPORT: JsonObject = {
    "apiVersion": "rackspan.dev/v1alpha1",
    "kind": "ComplianceReport",
    "metadata": {"name": "prod"},
    "spec": {"topologyRef": {"name": "prod"}},
}

REASSIGNMENT: JsonObject = {
    "apiVersion": "rackspan.dev/v1alpha1",
    "kind": "Reassignment",
    "metadata": {"name": "prod-0123456789abcdef"},
    "spec": {"topologyRef": {"name": "prod"}, "planHash": "0123456789abcdef", "plan": "eJyrrgUAAXUA+Q=="},
}

BASES = {manifest["kind"]: manifest for manifest in (TOPOLOGY, TOPIC, REPORT, REASSIGNMENT)}

FULL_TOPOLOGY: JsonObject = {
    **TOPOLOGY,
    "spec": {
        "kafka": {
            "bootstrapServers": "kafka-0.kafka:9093, [2001:db8::1]:9093",
            "clusterId": "4L6g3nShT-eMCtK--X86sw",
            "tls": {
                "caSecretRef": {"name": "kafka-ca", "key": "ca.pem"},
                "clientCertSecretRef": {"name": "kafka-client", "certKey": "cert.pem", "keyKey": "key.pem"},
                "verifyHostname": False,
            },
            "sasl": {
                "mechanism": "OAUTHBEARER",
                "secretRef": {"name": "kafka-user", "usernameKey": "user", "passwordKey": "pass"},
                "oauth": {
                    "tokenEndpoint": "https://login.example.com/oauth2/token",
                    "scope": "kafka",
                    "caSecretRef": {"name": "login-ca", "key": "ca.pem"},
                    "clientIdKey": "id",
                    "clientSecretKey": "secret",
                },
            },
            "properties": {"socket.timeout.ms": "10000", "ssl.cipher.suites": "HIGH"},
        },
        "levels": [
            {"name": "region", "nodeLabel": "topology.kubernetes.io/region"},
            {"name": "zone", "nodeLabel": "topology.kubernetes.io/zone"},
            {"name": "rack", "nodeLabel": "rack"},
        ],
        "rackSource": "Nodes",
        "brokers": {
            "namespace": "kafka",
            "restart": "OnDrift",
            "topicsWithoutSpareReplica": "Hold",
            "podSelector": {
                "matchLabels": {"app": "kafka"},
                "matchExpressions": [
                    {"key": "role", "operator": "In", "values": ["broker", "mixed"]},
                    {"key": "broken", "operator": "DoesNotExist"},
                ],
            },
            "brokerId": {"from": "Label", "key": "strimzi.io/broker-id", "offset": 100},
        },
        "missingRackPolicy": "Ignore",
        "rackAliases": {"use1-az1": "/us-east-1/use1-az1", "use1-az2": "us-east-1/use1-az2"},
        "drainBrokers": [3, 5],
        "drainRacks": ["/eu/eu-1a"],
        "allowedNamespaces": {
            "from": "Selector",
            "selector": {"matchLabels": {"team": "shop"}},
            "topicPrefixes": ["$(namespace).", "shared-"],
            "quota": {"topics": 100, "partitions": 1000, "replicas": 3000},
        },
        "adoption": "Allowed",
        "internalTopics": ["__consumer_offsets"],
        "sharedWith": ["bank"],
        "defaults": {
            "placer": "Striped",
            "durability": {"minDomains": {"zone": 2}, "tolerate": {"zone": 1}},
            "reassignment": {"approval": "Automatic", "reorders": "Manual"},
        },
        "reassignment": {
            "approvedPlan": "0123456789abcdef" * 2,
            "topicApproval": "Allowed",
            "maxMoves": 200,
            "maxBytes": 2_000_000_000_000,
            "windows": [{"schedule": "0 22 * * SAT", "duration": "6h", "timeZone": "Europe/Paris"}],
            "throttle": 50_000_000,
            "maxConcurrentMoves": 20,
            "maxConcurrentMovesPerBroker": 4,
        },
        "compliance": {
            "schedule": "0 3 * * *",
            "timeZone": "Europe/Paris",
            "suspend": True,
            "afterTopologyChange": True,
            "concurrencyPolicy": "Replace",
            "startingDeadlineSeconds": 600,
            "activeDeadlineSeconds": 1800,
            "backoffLimit": 1,
            "successfulJobsHistoryLimit": 5,
            "failedJobsHistoryLimit": 2,
            "engine": "SparkOnKubernetes",
            "image": "registry.example.com/rackspan-scan:1",
            "resources": {"requests": {"cpu": 1, "memory": "2Gi"}, "limits": {"memory": "3Gi"}},
            "executors": {"instances": 3, "cores": 2, "memory": "2g"},
            "sparkConf": {"spark.sql.shuffle.partitions": "8"},
            "historyLocation": "/var/lib/rackspan",
            "historyVolume": {"claimName": "scans", "subPath": "prod"},
            "retentionDays": 90,
        },
    },
}

FULL_TOPIC: JsonObject = {
    **TOPIC,
    "spec": {
        "topologyRef": {"name": "prod", "namespace": "kafka"},
        "topicName": "shop.Orders_v1",
        "partitions": 6,
        "replicationFactor": 3,
        "config": {"retention.ms": 86_400_000, "cleanup.policy": "compact", "min.insync.replicas": "2"},
        "placement": {
            "placer": "MultiLevel",
            "spread": [
                {"level": "region", "maxSkew": 2, "whenUnsatisfiable": "Best"},
                {"level": "zone"},
            ],
            "brokers": {"include": ["/eu/*/r1", "12"], "exclude": ["7"]},
            "leaders": ["/eu/eu-1a"],
            "seed": 7,
        },
        "durability": {"minDomains": {"zone": 2}, "tolerate": {"zone": 1}},
        "reassignment": {"approval": "Manual", "reorders": "Automatic", "approvedPlan": "0123456789abcdef" * 2},
        "deletionPolicy": "Delete",
        "onTopicLoss": "Recreate",
    },
}

ASSIGNED_TOPIC: JsonObject = {
    **TOPIC,
    "spec": {
        "topologyRef": {"name": "prod"},
        "partitions": 3,
        "replicationFactor": 2,
        "placement": {"assignment": [[0, 1], [1, 2], [2, 0]]},
    },
}

VALID = {
    "topology": TOPOLOGY,
    "full-topology": FULL_TOPOLOGY,
    "topic": TOPIC,
    "full-topic": FULL_TOPIC,
    "assigned-topic": ASSIGNED_TOPIC,
    "reassignment": REASSIGNMENT,
    "report": REPORT,
}


def changed(manifest: Mapping[str, Any], patch: Mapping[str, Any]) -> JsonObject:
    """Return a copy with a JSON merge patch applied (RFC 7386: None removes a key)."""
    result = copy.deepcopy(dict(manifest))
    _merge(result, patch)
    return result


def _merge(target: JsonObject, patch: Mapping[str, Any]) -> None:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, Mapping):
            child = target.setdefault(key, {})
            _merge(child, value)
        else:
            target[key] = copy.deepcopy(value)

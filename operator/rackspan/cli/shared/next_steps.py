"""The next step for a condition of a RackTopology: which field, label or object to change. Pure."""

from collections.abc import Mapping
from typing import Final

from rackspan.api.labels import BROKER_PODS_FOR
from rackspan.api.racktopology import RackSource, RackTopology
from rackspan.api.reasons import Reason

_READY: Final[Mapping[str, str]] = {
    Reason.WAITING: "check that the operator runs: kubectl get pods, and its log",
    Reason.NO_BROKERS: "start the brokers, or correct spec.kafka.bootstrapServers and spec.brokers.podSelector",
    Reason.DUPLICATE_BROKER_ID: (
        "correct spec.brokers.podSelector or spec.brokers.brokerId, or delete the pods that are not this broker"
    ),
    Reason.TOO_LARGE: "shorten the names of racks: the values of the labels in spec.levels, or spec.rackAliases",
    Reason.EMPTY_LEVEL: (
        "correct nodeLabel of this level in spec.levels, set the label on the nodes, or remove the level"
    ),
    Reason.TOPOLOGY_IN_USE: "delete these KafkaTopics, or set their spec.deletionPolicy: Retain",
}
_CONNECTED: Final[Mapping[str, str]] = {
    Reason.KAFKA_UNREACHABLE: (
        "make Kafka reachable for the operator: start its brokers, correct spec.kafka.bootstrapServers, or allow the "
        "connection in NetworkPolicies"
    ),
    Reason.SECRET_NOT_FOUND: (
        "create this Secret with this key, or correct its name in spec.kafka.tls or spec.kafka.sasl"
    ),
    Reason.AUTHENTICATION_FAILED: (
        "correct the user or the password in the Secret of spec.kafka.sasl.secretRef, or spec.kafka.sasl.mechanism"
    ),
    Reason.TLS_FAILED: (
        "correct caSecretRef, clientCertSecretRef or verifyHostname in spec.kafka.tls; for a token, "
        "spec.kafka.sasl.oauth.caSecretRef"
    ),
    Reason.NOT_AUTHORIZED: "let the operator's user do it by an ACL in Kafka: kafka-acls --add --allow-principal",
    Reason.CLUSTER_ID_MISMATCH: (
        "correct spec.kafka.bootstrapServers; or, if the topology is meant to be of the other cluster, set "
        "spec.kafka.clusterId to its id"
    ),
    Reason.INVALID_SPEC: "correct the spec",
    Reason.KAFKA_CLIENT_FAILED: (
        "read the operator's log; if memory is short, raise kafka.trusted.memory or kafka.untrusted.memory of the chart"
    ),
}
_SCANNED: Final[Mapping[str, str]] = {
    Reason.SCAN_TIMED_OUT: "raise spec.compliance.activeDeadlineSeconds or spec.compliance.resources",
    Reason.SCAN_NOT_STARTED: "read the events of the scan's pods: kubectl get events; correct spec.compliance",
}


def ready_step(topology: RackTopology, reason: str) -> str:
    """Return what makes Ready true for a topology whose Kafka responds."""
    if reason == Reason.BROKER_PODS_NOT_SHARED:
        return f"kubectl label namespace {topology.broker_namespace} {BROKER_PODS_FOR}={topology.meta.namespace}"
    if reason in (Reason.MISSING_RACKS, Reason.INVALID_RACK):
        by_label = topology.spec.rack_source == RackSource.NODES
        where = "the labels of spec.levels on the nodes of" if by_label else "broker.rack, or spec.rackAliases, for"
        return f"correct {where} these brokers, or set spec.missingRackPolicy: Ignore"
    return _READY.get(reason) or _described(topology)


def connected_step(topology: RackTopology, reason: str) -> str:
    """Return what lets the operator reach Kafka."""
    return _CONNECTED.get(reason) or _described(topology)


def scan_step(topology: RackTopology, reason: str | None) -> str:
    """Return what lets the next scan succeed."""
    again = (
        f"kubectl annotate --overwrite --namespace {topology.meta.namespace} racktopology {topology.meta.name} "
        'rackspan.dev/scan-now="$(date)"'
    )
    cause = _SCANNED.get(reason or "", "correct the cause, such as a field of spec.compliance")
    return f"{cause}; then scan again: {again}"


def _described(topology: RackTopology) -> str:
    return f"kubectl describe racktopology {topology.meta.name} --namespace {topology.meta.namespace}"

"""Conversion of objects from the API server into types."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace
from tests.support.manifests import (
    ASSIGNED_TOPIC,
    FULL_TOPIC,
    FULL_TOPOLOGY,
    REASSIGNMENT,
    REPORT,
    TOPIC,
    TOPOLOGY,
    changed,
)

from rackspan.api.codec import SpecError
from rackspan.api.compliancereport import (
    ComplianceReport,
    ComplianceReportStatus,
    ReportChanges,
    ReportFinding,
    ReportSummary,
    ScanFailure,
)
from rackspan.api.conditions import Condition, ConditionStatus
from rackspan.api.kafkatopic import (
    ComplianceStatus,
    DeletionPolicy,
    DomainPlacement,
    Finding,
    KafkaTopic,
    KafkaTopicStatus,
    OnTopicLoss,
    PlacementStatus,
    TopicSpread,
    WhenUnsatisfiable,
)
from rackspan.api.labels import APPROVE_PLAN, CONFIRM_DELETIONS, READ_ANNOTATIONS, WHOLE_PLAN
from rackspan.api.meta import Meta, ObjectKey
from rackspan.api.policies import Approval, ReassignmentDefaults, TopicReassignmentSpec
from rackspan.api.racktopology import (
    BrokerCount,
    BrokerIdFrom,
    BrokerStatus,
    DriftedTopics,
    DriftStatus,
    LastScan,
    LevelCount,
    MissingRackPolicy,
    RackSource,
    RackTopology,
    RackTopologyStatus,
    SaslMechanism,
    ScansStatus,
    ScanState,
    ScanTrigger,
    TopicCounts,
    domain_summary,
)
from rackspan.api.reassignment import Reassignment
from rackspan.core.scanning.rules import Severity

METADATA = {
    "name": "orders",
    "namespace": "shop",
    "uid": "f6c1",
    "generation": 4,
    "resourceVersion": "812",
    "creationTimestamp": "2026-01-31T12:00:00Z",
    "annotations": {"rackspan.dev/adopt-topic-id": "gS2mFAbzTyuqdZ1IL10T5w"},
    "labels": {"team": "shop"},
    "finalizers": ["rackspan.dev/finalizer"],
    "managedFields": [{"manager": "kubectl"}],
}
READY = Condition("Ready", ConditionStatus.TRUE, "InSync", "So.", datetime(2026, 1, 31, 12, tzinfo=UTC), 4)


def _topic(manifest=TOPIC, **metadata):
    return KafkaTopic.from_object(changed(manifest, {"metadata": {"namespace": "shop", **metadata}}))


def test_meta_has_the_metadata_of_the_object():
    meta = Meta.from_object({"metadata": METADATA})
    assert meta.key == ObjectKey("shop", "orders")
    assert str(meta.key) == "shop/orders"
    assert (meta.uid, meta.generation, meta.resource_version) == ("f6c1", 4, "812")
    assert meta.creation_timestamp == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert meta.finalizers == ("rackspan.dev/finalizer",)
    assert not meta.is_deleting


@pytest.mark.parametrize(
    ("kind", "manifest", "lists"),
    [
        (KafkaTopic, TOPIC, ()),
        (RackTopology, TOPOLOGY, (APPROVE_PLAN, CONFIRM_DELETIONS)),
        (Reassignment, REASSIGNMENT, (WHOLE_PLAN,)),
    ],
)
def test_annotations_are_kept_whole_if_they_hold_lists_of_the_kind(kind, manifest, lists):
    hashes = ",".join(f"{number:032x}" for number in range(4_000))
    annotated = {"metadata": {"annotations": dict.fromkeys(READ_ANNOTATIONS, hashes)}}
    kept = kind.from_object(changed(manifest, annotated)).meta.annotations
    assert {name for name, value in kept.items() if value == hashes} == {*lists}


def test_object_with_a_deletion_timestamp_is_deleting():
    assert _topic(deletionTimestamp="2026-01-31T12:00:00Z").meta.is_deleting


@pytest.mark.parametrize("value", ["true", "True", "TRUE", "yes", "Yes", "on", "1", "y", "t", "", " true "])
def test_pause_annotation_with_a_true_value_pauses(value):
    meta = _topic(annotations={"rackspan.dev/paused": value}).meta
    assert meta.is_paused
    assert meta.unclear_pause is None


@pytest.mark.parametrize("value", ["false", "False", "no", "NO", "off", "0", "n", "f"])
def test_pause_annotation_with_a_false_value_does_not_pause(value):
    meta = _topic(annotations={"rackspan.dev/paused": value}).meta
    assert not meta.is_paused
    assert meta.unclear_pause is None
    assert not _topic().meta.is_paused


@pytest.mark.parametrize("value", ["maybe", "2", "tru", "null", "until monday", "a\nb\x1b[31m"])
def test_invalid_pause_annotation_pauses_and_has_an_explanation(value):
    meta = _topic(annotations={"rackspan.dev/paused": value}).meta
    assert meta.is_paused
    assert meta.unclear_pause is not None
    assert meta.unclear_pause.isprintable()
    assert "write true" in meta.unclear_pause


def test_explanation_of_a_long_pause_annotation_is_short():
    assert len(_topic(annotations={"rackspan.dev/paused": "x" * 250_000}).meta.unclear_pause) < 300


def test_minimal_topic_has_the_defaults():
    topic = _topic()
    assert topic.key == ObjectKey("shop", "orders")
    assert topic.topic_name == "orders"
    assert topic.topology == ObjectKey("shop", "prod")
    assert topic.adopt_topic_id is None
    assert topic.spec.placement.placer is None
    assert topic.spec.durability is None
    assert topic.spec.reassignment is None
    assert topic.spec.deletion_policy is DeletionPolicy.RETAIN
    assert topic.spec.on_topic_loss is OnTopicLoss.STALL
    assert topic.status == KafkaTopicStatus()


def test_topic_with_all_fields_is_read():
    topic = _topic(FULL_TOPIC, annotations=METADATA["annotations"])
    assert topic.topic_name == "shop.Orders_v1"
    assert topic.topology == ObjectKey("kafka", "prod")
    assert topic.adopt_topic_id == "gS2mFAbzTyuqdZ1IL10T5w"
    assert topic.spec.config_values == {
        "retention.ms": "86400000",
        "cleanup.policy": "compact",
        "min.insync.replicas": "2",
    }
    assert topic.spec.placement.spread == (
        TopicSpread("region", 2, WhenUnsatisfiable.BEST),
        TopicSpread("zone", 1, WhenUnsatisfiable.REFUSE),
    )
    assert topic.spec.placement.brokers.include == ("/eu/*/r1", "12")
    assert topic.spec.placement.leaders == ("/eu/eu-1a",)
    assert topic.spec.durability.min_domains == {"zone": 2}
    assert topic.spec.reassignment.approval is Approval.MANUAL
    assert topic.spec.deletion_policy is DeletionPolicy.DELETE
    assert topic.spec.on_topic_loss is OnTopicLoss.RECREATE


def test_explicit_assignment_of_a_topic_is_read():
    assert _topic(ASSIGNED_TOPIC).spec.placement.assignment == ((0, 1), (1, 2), (2, 0))


@pytest.mark.parametrize(
    ("patch", "path"),
    [
        ({"partitions": None}, "spec.partitions"),
        ({"replicationFactor": "3"}, "spec.replicationFactor"),
        ({"topologyRef": {"name": 7}}, "spec.topologyRef.name"),
        ({"placement": {"spread": [{"maxSkew": 1}]}}, "spec.placement.spread[0].level"),
        ({"deletionPolicy": "Keep"}, "spec.deletionPolicy"),
    ],
)
def test_error_of_an_invalid_topic_has_the_path_of_the_field(patch, path):
    with pytest.raises(SpecError) as caught:
        _topic(changed(TOPIC, {"spec": patch}))
    assert caught.value.path == path


def test_error_of_a_manifest_without_metadata_names_the_field():
    with pytest.raises(SpecError, match=r"metadata\.name is required"):
        KafkaTopic.from_object({"spec": TOPIC["spec"]})


def test_types_are_frozen():
    with pytest.raises(AttributeError, match="immutable"):
        _topic().spec.partitions = 7


TOPIC_STATUS = KafkaTopicStatus(
    observed_generation=4,
    topic_name="orders",
    topic_id="gS2mFAbzTyuqdZ1IL10T5w",
    cluster_id="4L6g3nShT-eMCtK--X86sw",
    partitions=6,
    replication_factor=3,
    min_in_sync_replicas=2,
    placer="MultiLevel",
    compliance=ComplianceStatus(6, 1, 1, (Finding(4, "Uneven", "zone", "/eu/eu-1a", 1),)),
    placement=PlacementStatus((DomainPlacement("/eu", 18, 6),)),
    conditions=(READY,),
)

TOPOLOGY_STATUS = RackTopologyStatus(
    observed_generation=4,
    cluster_id="4L6g3nShT-eMCtK--X86sw",
    broker_count=1,
    domain_summary="1 region",
    brokers=(BrokerStatus(0, "kafka-0", "kafka-0", "node-a", "/eu", "/us", online=True, drift=True),),
    domains=(LevelCount("region", 1),),
    drift=DriftStatus(1, (0,), DriftedTopics(1, ("shop/orders",))),
    missing_racks=BrokerCount(0),
    topics=TopicCounts(2, ready=1, non_compliant=1),
    last_scan=LastScan("prod-1", ScanTrigger.SCHEDULE, ScanState.COMPLETED, datetime(2026, 1, 31, 3, tzinfo=UTC)),
    scans=ScansStatus("0 3 * * * UTC", datetime(2026, 1, 31, 3, tzinfo=UTC), missed=1, handled_request="a"),
    conditions=(READY,),
)

REPORT_STATUS = ComplianceReportStatus(
    scan_time=datetime(2026, 1, 31, 3, tzinfo=UTC),
    scan_id="prod-1",
    summary=ReportSummary(topics=1, by_severity={"high": 1}),
    changes=ReportChanges(1, 0),
    findings=(ReportFinding("a1", "NotCompliant", Severity.HIGH, "uneven", topic="orders", partition=4),),
    failure=ScanFailure("prod-2", "KafkaUnreachable", "no broker answers"),
    conditions=(READY,),
)


@pytest.mark.parametrize("status", [TOPIC_STATUS, TOPOLOGY_STATUS, REPORT_STATUS], ids=lambda one: type(one).__name__)
def test_status_is_equal_after_it_was_written_and_read(status):
    assert type(status).from_dict(status.to_dict()) == status
    assert type(status).from_dict(replace(status, conditions=()).to_dict()) != status


def test_status_is_written_in_camel_case_without_absent_fields():
    written = KafkaTopicStatus(topic_id="x", min_in_sync_replicas=2, conditions=(READY,)).to_dict()
    assert written == {
        "topicId": "x",
        "minInSyncReplicas": 2,
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "InSync",
                "message": "So.",
                "lastTransitionTime": "2026-01-31T12:00:00Z",
                "observedGeneration": 4,
            }
        ],
    }


def test_topic_id_is_read_from_a_status_with_invalid_fields():
    broken = {**TOPIC_STATUS.to_dict(), "compliance": "bad", "conditions": [{"type": "Ready"}]}
    status = KafkaTopic.from_object({**TOPIC, "status": broken}).status
    assert status.topic_id == TOPIC_STATUS.topic_id
    assert status.compliance is None
    assert status.conditions == ()


def test_minimal_topology_has_the_defaults():
    topology = RackTopology.from_object(changed(TOPOLOGY, {"metadata": {"namespace": "kafka"}}))
    assert topology.key == ObjectKey("kafka", "prod")
    assert topology.broker_namespace == "kafka"
    assert topology.spec.level_names == ("region", "zone")
    assert topology.spec.rack_source is RackSource.NODES
    assert topology.spec.missing_rack_policy is MissingRackPolicy.FAIL
    assert topology.spec.brokers.broker_id.from_ is BrokerIdFrom.NAME_SUFFIX
    assert topology.spec.defaults.placer == "MultiLevel"
    assert topology.spec.defaults.reassignment == ReassignmentDefaults(Approval.MANUAL)
    assert topology.spec.kafka.servers == ("kafka-0.kafka:9092", "kafka-1.kafka:9092")
    assert topology.spec.kafka.secret_names == frozenset()


def test_topology_with_all_fields_is_read():
    topology = RackTopology.from_object(changed(FULL_TOPOLOGY, {"metadata": {"namespace": "ops"}}))
    kafka = topology.spec.kafka
    assert kafka.servers == ("kafka-0.kafka:9093", "[2001:db8::1]:9093")
    assert kafka.sasl.mechanism is SaslMechanism.OAUTHBEARER
    assert kafka.sasl.keys == ("id", "secret")
    assert kafka.secret_names == {"kafka-ca", "kafka-client", "kafka-user", "login-ca"}
    assert not kafka.tls.verify_hostname
    assert topology.broker_namespace == "kafka"
    assert topology.spec.brokers.broker_id.offset == 100
    assert topology.spec.rack_aliases["use1-az1"] == "/us-east-1/use1-az1"
    assert topology.spec.drain_brokers == (3, 5)
    assert topology.spec.compliance.retention_days == 90


def test_empty_tls_object_enables_tls_with_host_name_verification():
    topology = RackTopology.from_object(changed(TOPOLOGY, {"spec": {"kafka": {"tls": {}}}}))
    assert topology.spec.kafka.tls is not None
    assert topology.spec.kafka.tls.verify_hostname
    assert RackTopology.from_object(TOPOLOGY).spec.kafka.tls is None


@pytest.mark.parametrize(
    ("allowed", "admitted"),
    [
        ({"from": "Same"}, {"own"}),
        ({"from": "All"}, {"own", "shop", "dev"}),
        ({"from": "Selector", "selector": {"matchLabels": {"team": "shop"}}}, {"own", "shop"}),
        ({"from": "Selector"}, {"own"}),
    ],
)
def test_allowed_namespaces_admit_the_own_and_the_selected_namespaces(allowed, admitted):
    spec = RackTopology.from_object(changed(TOPOLOGY, {"spec": {"allowedNamespaces": allowed}})).spec
    labels = {"own": {}, "shop": {"team": "shop"}, "dev": {"team": "dev"}}
    assert {name for name in labels if spec.allowed_namespaces.admits(name, labels[name], own="own")} == admitted


def test_topic_overrides_the_approval_defaults_of_the_topology():
    automatic, manual = Approval.AUTOMATIC, Approval.MANUAL
    defaults = ReassignmentDefaults(automatic, reorders=manual)
    assert defaults.overridden_by(None) == defaults.overridden_by(TopicReassignmentSpec()) == defaults
    assert [defaults.of(reorders_only=only) for only in (False, True)] == [automatic, manual]
    held = defaults.overridden_by(TopicReassignmentSpec(manual))
    assert [held.of(reorders_only=only) for only in (False, True)] == [manual, manual]
    leaders = ReassignmentDefaults().overridden_by(TopicReassignmentSpec(reorders=automatic))
    assert [leaders.of(reorders_only=only) for only in (False, True)] == [manual, automatic]


def test_broker_count_lists_at_most_100_brokers():
    assert BrokerCount.of((5, 3)) == BrokerCount(2, (3, 5))
    many = BrokerCount.of(tuple(range(1000)))
    assert (many.count, len(many.brokers)) == (1000, 100)


def test_domain_summary_is_one_line():
    assert domain_summary((LevelCount("region", 2), LevelCount("zone", 5))) == "2 regions, 5 zones"


def test_report_and_its_topology_have_the_same_key():
    report = ComplianceReport.from_object(changed(REPORT, {"metadata": {"namespace": "kafka"}}))
    assert report.key == ObjectKey("kafka", "prod")
    assert report.topology == ObjectKey("kafka", "prod")


def test_manager_is_the_last_field_manager_of_the_spec():
    fields = [
        {"manager": "argocd", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {"f:partitions": {}}}},
        {"manager": "kubectl-edit", "time": "2026-01-02T00:00:00Z", "fieldsV1": {"f:spec": {}, "f:metadata": {}}},
        {"manager": "rackspan", "time": "2026-01-03T00:00:00Z", "fieldsV1": {"f:status": {}}},
        {"manager": "kubectl-annotate", "time": "2026-01-03T00:00:00Z", "fieldsV1": {"f:metadata": {}}},
    ]
    assert (
        KafkaTopic.from_object(changed(TOPIC, {"metadata": {"managedFields": fields}})).meta.manager == "kubectl-edit"
    )
    assert KafkaTopic.from_object(TOPIC).meta.manager == ""

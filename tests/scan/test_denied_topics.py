"""Topics that ACLs of a real Kafka hide completely or partly: reported and counted, and their findings stay."""

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from dev.stack.kafka_cluster import PATIENT, Security
from dev.waiting import eventually
from tests.scan.conftest import NOON
from tests.support.progress import Steps
from tests.support.topics import create

from rackspan.jobs.scan.cluster_scan import ScanRun, scan_cluster
from rackspan.jobs.scan.engines import in_process
from rackspan.jobs.sources.scanned_cluster import live

SCANNER = "scanner"
ACLS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",  # brokers, and the tests themselves
}


@pytest.fixture
def guarded(kafka_factory):
    return kafka_factory(
        ["/eu/a", "/eu/b", "/us/a"], properties={**ACLS, **PATIENT}, security=Security(users={SCANNER: "not-a-secret"})
    )


def _acl(topic, operation, permission):
    pattern = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL)
    return AclBinding(*pattern, f"User:{SCANNER}", "*", operation, permission)


def deny(cluster, topic, operation):
    """Deny the scanner this operation on the topic, allow the other one, and wait until every broker applies that."""
    allow = [one for one in (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS) if one is not operation]
    acls = [_acl(topic, one, AclPermissionType.ALLOW) for one in allow]
    acls.append(_acl(topic, operation, AclPermissionType.DENY))
    admin = cluster.admin()
    for answer in admin.create_acls(acls).values():
        answer.result(120)
    eventually(lambda: all(not _may(cluster, broker, topic) for broker in cluster.racks), "the ACL to be known")


def allow_all(cluster, topic):
    anybody = AclBindingFilter(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    admin = cluster.admin()
    for answer in admin.delete_acls([anybody]).values():
        answer.result(120)
    eventually(lambda: all(_may(cluster, broker, topic) for broker in cluster.racks), "the ACL to be gone")


def _may(cluster, broker, topic):
    """Return whether a broker lets the scanner describe the topic and its configs."""
    config = cluster.client_config("SASL_PLAINTEXT", SCANNER)
    servers = config["bootstrap.servers"].split(",")
    admin = AdminClient({**config, "bootstrap.servers": servers[broker], "log_level": 0})
    if topic not in admin.list_topics(timeout=300).topics:
        return False
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    refused = admin.describe_configs([resource])[resource].exception(300)
    return refused is None or refused.args[0].name() != "TOPIC_AUTHORIZATION_FAILED"


@pytest.mark.stack
def test_topics_hidden_by_acls_are_reported_and_their_earlier_findings_stay(history, guarded):
    create(guarded, ("orders", [(0, 1)]), ("payments", [(0, 1)]), ("fine", [(0, 2)]))
    properties = guarded.client_config("SASL_PLAINTEXT", SCANNER)

    def scan(scan_id):
        cluster = live("prod", properties, ("region", "zone"))
        return scan_cluster(in_process, cluster, ScanRun(scan_id, NOON, history), Steps(), print)

    before = scan("a")
    assert {row.topic for row in before.findings} == {"orders", "payments"}
    assert before.summary.unread_topics == 0
    for operation in (AclOperation.DESCRIBE_CONFIGS, AclOperation.DESCRIBE):
        deny(guarded, "orders", operation)
        partly = scan(operation.name)
        assert partly.summary.unread_topics == 1, operation
        assert (partly.changes.new, partly.changes.cleared) == (0, 0)
        kept = [row for row in partly.findings if row.topic == "orders"]
        assert kept == [row for row in before.findings if row.topic == "orders"]
        (told,) = [words for words in partly.warnings if "could not be read" in words]
        assert "1 topic could not be read" in told
        assert "orders" in told
        assert "Topic authorization failed" in told
        allow_all(guarded, "orders")
    after = scan("z")
    assert after.summary.unread_topics == 0
    assert (after.changes.new, after.changes.cleared) == (0, 0)

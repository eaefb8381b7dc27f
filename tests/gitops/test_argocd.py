"""Argo CD applies objects from Git, and its Application follows their health by the check of examples/argocd."""

from tests.support.objects import TOPOLOGY

KAFKA, ORDERS = f"RackTopology/{TOPOLOGY}", "KafkaTopic/orders"


def test_an_application_is_healthy_once_the_operator_has_made_the_topic(application, in_git, objects, operator, topics):
    operator.stop()
    revision = application.commit(*in_git(orders={}))
    assert application.until_synced(revision, "Progressing") == {KAFKA: "Progressing", ORDERS: "Progressing"}
    assert not topics.exists(objects.kafka_name("orders"))
    operator.start()
    assert application.until_synced(revision) == {KAFKA: "Healthy", ORDERS: "Healthy"}
    assert topics.exists(objects.kafka_name("orders"))

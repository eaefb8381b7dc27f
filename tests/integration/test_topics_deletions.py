"""Deletions keep data in case of doubt: bursts, deleted namespaces, and a deleted topology in use."""

import re
import shlex
import subprocess

import pytest
from dev.paths import REPOSITORY
from tests.support.objects import Objects, condition, message
from tests.support.waiting import until

CONFIRM = "rackspan.dev/confirm-deletions"


def by_hand(objects, bootstrap, **spec):
    """Create a topology with racks from Kafka, so that its namespace contains only Rackspan objects."""
    levels = [{"name": name} for name in ("region", "zone", "rack")]
    objects.create_topology(
        bootstrap, rackSource="Broker", brokers=None, levels=levels, maxDeletionsPerMinute=10, **spec
    )
    objects.until_topology()


@pytest.fixture
def estate(objects, kafka, operator) -> Objects:
    """A namespace with a topology that requires confirmation from the eleventh deletion of a minute on."""
    by_hand(objects, kafka.bootstrap(), allowedNamespaces={"from": "All"})
    return objects


def doomed(objects, count):
    names = [f"orders-{number}" for number in range(count)]
    for name in names:
        objects.create_topic(name, partitions=1, deletionPolicy="Delete")
    for name in names:
        objects.until_ready(name)
    return names


def waiting(objects, count):
    """Wait until the topology reports that `count` deletions wait, and return the topology."""

    def says(found):
        held = condition(found, "DeletionsHeld")
        return held is not None and held["message"].startswith(f"{count} deletions wait for a person")

    return objects.until("RackTopology", "kafka", says, f"to say that {count} deletions wait")


def confirm(objects, found):
    """Confirm all deletions that wait in this state of the topology."""
    word = ",".join(one["confirmation"] for one in found["status"]["deletions"]["held"])
    objects.patch("RackTopology", "kafka", {"metadata": {"annotations": {CONFIRM: word}}})


def in_kafka(objects, topics, names):
    return len(topics.existing([objects.kafka_name(name) for name in names]))


def test_burst_of_deletions_waits_for_confirmation(estate, topics, operator):
    names = doomed(estate, 12)
    operator.stop()  # so that the next pass sees all deletions
    for name in names:
        estate.delete("KafkaTopic", name)
    operator.start()
    held = waiting(estate, 12)
    assert condition(held, "Ready")["status"] == "True"
    (told,) = held["status"]["deletions"]["held"]
    assert (told["namespace"], told["count"]) == (estate.namespace, 12)
    assert f"{CONFIRM}={told['confirmation']}. " in message(held, "DeletionsHeld")
    label = {"topology": f"{estate.namespace}/kafka"}
    until(lambda: operator.metric("rackspan_deletions_held", **label) == 12, "the metric")
    topic = estate.until_stalled("orders-3", "DeletionHeld")
    assert "is deleted once a person confirms it on RackTopology" in message(topic, "Stalled")
    assert estate.until_event("kafka", "DeletionHeld")

    estate.change_topic("orders-0", deletionPolicy="Retain")
    estate.until_gone("KafkaTopic", "orders-0")
    waiting(estate, 11)
    operator.stop()
    operator.start()
    until(lambda: operator.metric("rackspan_topics_reconciled_total", **label) >= 11, "a look at all")
    fewer = waiting(estate, 11)
    assert in_kafka(estate, topics, names) == 12

    confirm(estate, held)
    estate.until("RackTopology", "kafka", lambda found: not found["metadata"].get("annotations"), "to be read")
    assert in_kafka(estate, topics, names) == 12
    confirm(estate, fewer)
    until(lambda: not estate.topics(), "all objects to be gone")
    until(lambda: in_kafka(estate, topics, names) == 1, "all but one topic to be gone")
    estate.until_condition("RackTopology", "kafka", "DeletionsHeld", None)
    assert not estate.topology()["metadata"].get("annotations"), "the confirmation was not removed after its use"


def test_deletion_burst_delays_no_other_namespace_and_the_documented_digest_confirms_it(
    estate, namespace_factory, topics, kubectl, operator
):
    loud, calm = estate.elsewhere(namespace_factory()), estate.elsewhere(namespace_factory())
    names, (single,) = doomed(loud, 12), doomed(calm, 1)
    operator.stop()  # so that the next pass sees all deletions
    for name in names:
        loud.delete("KafkaTopic", name)
    calm.delete("KafkaTopic", single)
    operator.start()
    calm.until_gone("KafkaTopic", single)
    found = estate.until_condition("RackTopology", "kafka", "DeletionsHeld", "True")
    assert calm.namespace not in message(found, "DeletionsHeld")

    documented = (REPOSITORY / "docs/operations.md").read_text()
    (recipe,) = re.findall(r"```shell\n(kubectl get rst -n shop .*?)```", documented, re.DOTALL)
    asked, _, digest = recipe.partition(" | ")
    listed = kubectl(*shlex.split(asked.replace("-n shop", f"-n {loud.namespace}"))[1:])
    found = subprocess.run(["bash", "-c", digest], input=listed, capture_output=True, text=True, check=True)
    word = f"{loud.namespace}:{found.stdout.strip()}"
    estate.patch("RackTopology", "kafka", {"metadata": {"annotations": {CONFIRM: word}}})
    until(lambda: in_kafka(loud, topics, names) == 0, "the topics to be gone")
    assert in_kafka(calm, topics, [single]) == 0


def test_deleted_namespace_with_its_topology_keeps_the_topics_in_kafka(
    namespace_factory, api_client, kafka, topics, operator, kubectl
):
    objects = Objects(api_client, namespace_factory())
    by_hand(objects, kafka.bootstrap())
    names = doomed(objects, 2)
    kubectl("delete", "namespace", objects.namespace, "--timeout=300s")
    assert in_kafka(objects, topics, names) == 2


def test_deletion_of_a_namespace_waits_for_confirmation_if_its_topology_remains(
    estate, namespace_factory, topics, kubectl
):
    team = estate.elsewhere(namespace_factory())
    names = doomed(team, 2)
    kubectl("delete", "namespace", team.namespace, "--wait=false")
    held = waiting(estate, 2)
    assert f"2 of namespace {team.namespace} (orders-0, orders-1)" in message(held, "DeletionsHeld")
    assert in_kafka(team, topics, names) == 2
    confirm(estate, held)
    kubectl("wait", "--for=delete", f"namespace/{team.namespace}", "--timeout=300s")
    until(lambda: in_kafka(team, topics, names) == 0, "the topics to be gone")


def test_topology_in_use_is_deleted_after_its_topics(estate, topics):
    (name,) = doomed(estate, 1)
    estate.delete("RackTopology", "kafka")
    told = estate.until_topology("Stalled", "True", "TopologyInUse")
    assert "1 KafkaTopic has deletionPolicy Delete" in message(told, "Stalled")
    estate.create_topic("late", deletionPolicy="Delete")
    assert "is being deleted" in message(estate.until_not_ready("late", "TopologyNotFound"))
    estate.delete("KafkaTopic", name)
    estate.until_gone("KafkaTopic", name)
    estate.until_gone("RackTopology", "kafka")
    until(lambda: in_kafka(estate, topics, [name]) == 0, "the topic to be gone")

"""Flux applies objects from Git, and its Kustomization with `wait: true` follows their conditions."""

import json
from dataclasses import replace

import pytest
import yaml
from dev.paths import REPOSITORY
from tests.support.flux import Flux
from tests.support.objects import TOPOLOGY, Objects, condition

EXAMPLE = REPOSITORY / "examples" / "gitops"
AUTOMATIC = {"defaults": {"reassignment": {"approval": "Automatic"}}}


@pytest.mark.parametrize("created_before", [False, True], ids=["new", "existing"])
def test_kustomization_waits_for_the_operator(flux, in_git, objects, operator, topics, created_before):
    operator.stop()
    manifests = in_git(orders={})
    if created_before:
        for manifest in manifests:
            objects.create(manifest)
    revision = flux.commit(*manifests)
    told = flux.until_failed(revision)
    assert "timeout waiting for" in told
    assert f"KafkaTopic/{objects.namespace}/orders status: 'InProgress'" in told
    assert f"RackTopology/{objects.namespace}/{TOPOLOGY} status: 'InProgress'" in told
    assert not topics.exists(objects.kafka_name("orders"))
    operator.start()
    flux.until_ready(revision)
    assert topics.exists(objects.kafka_name("orders"))


def test_infeasible_topic_fails_the_kustomization_until_it_is_corrected(flux, in_git, objects, operator):
    told = flux.until_failed(flux.commit(*in_git(orders={}, wide={"replicationFactor": 7})))
    assert f"KafkaTopic/{objects.namespace}/wide status: 'Failed'" in told
    assert "orders" not in told
    objects.until_stalled("wide", "Infeasible")
    flux.until_ready(flux.commit(*in_git(orders={}, wide={"replicationFactor": 6})))


def test_waiting_plan_fails_a_kustomization_until_a_commit_approves_it(flux, in_git, objects, operator, topics):
    flux.until_ready(flux.commit(*in_git(orders={"replicationFactor": 2})))
    told = flux.until_failed(flux.commit(*in_git(orders={"replicationFactor": 3})))
    assert f"KafkaTopic/{objects.namespace}/orders status: 'Failed'" in told
    objects.until_stalled("orders", "PlanPending")
    plan = objects.until_topology("Reassigned", "False", "PlanPending")["status"]["plan"]["hash"]
    approval = {"reassignment": {"approvedPlan": plan}}
    flux.until_ready(flux.commit(*in_git(approval, orders={"replicationFactor": 3}), message=f"Approve plan {plan}"))
    assert {len(row) for row in topics.replicas(objects.kafka_name("orders"), 3)} == {3}


def test_pruned_topic_stays_in_kafka(flux, in_git, objects, operator, topics):
    flux.until_ready(flux.commit(*in_git(orders={}, clicks={})))
    known = topics.id(objects.kafka_name("clicks"))
    flux.until_ready(flux.commit(*in_git(orders={})))
    objects.until_gone("KafkaTopic", "clicks")
    assert topics.id(objects.kafka_name("clicks")) == known


def test_prune_of_many_topics_waits_for_confirmation(flux, in_git, objects, operator, topics):
    asks = {"maxDeletionsPerMinute": 2}
    names = ("orders", "clicks", "visits")
    doomed = {name: {"partitions": 1, "deletionPolicy": "Delete"} for name in names}
    flux.until_ready(flux.commit(*in_git(asks, **doomed)))
    operator.stop()  # so that the next pass sees all deletions
    flux.commit(*in_git(asks))
    for name in names:
        objects.until("KafkaTopic", name, lambda found: found["metadata"].get("deletionTimestamp"), "to be pruned")
    operator.start()
    held = objects.until_condition("RackTopology", TOPOLOGY, "DeletionsHeld", "True")
    assert len(topics.existing([objects.kafka_name(name) for name in names])) == len(names)
    word = ",".join(one["confirmation"] for one in held["status"]["deletions"]["held"])
    objects.patch("RackTopology", TOPOLOGY, {"metadata": {"annotations": {"rackspan.dev/confirm-deletions": word}}})
    for name in names:
        objects.until_gone("KafkaTopic", name)
        assert not topics.exists(objects.kafka_name(name))


def test_automatically_approved_change_needs_one_commit_and_so_does_its_revert(flux, in_git, objects, operator, topics):
    before = in_git(AUTOMATIC, orders={"replicationFactor": 2, "config": {"retention.ms": "86400000"}})
    after = in_git(AUTOMATIC, orders={"replicationFactor": 3, "config": {"retention.ms": "1000000"}})
    for manifests, factor, retention in ((before, 2, "86400000"), (after, 3, "1000000"), (before, 2, "86400000")):
        flux.until_ready(flux.commit(*manifests))
        assert {len(row) for row in topics.replicas(objects.kafka_name("orders"), 3)} == {factor}
        topics.until_config(objects.kafka_name("orders"), {"retention.ms": retention})


def test_operator_follows_changes_of_objects_while_flux_is_suspended(flux, in_git, objects, operator, topics):
    flux.until_ready(flux.commit(*in_git(orders={"config": {"retention.ms": "86400000"}})))
    flux.suspend(suspended=True)
    revision = flux.commit(*in_git(orders={"config": {"retention.ms": "1000000"}}, clicks={}))
    objects.change_topic("orders", config={"retention.ms": "5000"})
    topics.until_config(objects.kafka_name("orders"), {"retention.ms": "5000"})
    assert objects.read("KafkaTopic", "clicks") is None
    flux.suspend(suspended=False)
    flux.until_ready(revision)
    topics.until_config(objects.kafka_name("orders"), {"retention.ms": "1000000"})
    assert topics.exists(objects.kafka_name("clicks"))


def test_flux_owns_only_the_fields_in_git(flux, in_git, objects, operator, topics):
    flux.until_ready(flux.commit(*in_git(orders={})))
    objects.change_topic("orders", config={"retention.ms": "86400000"})
    flux.until_ready(flux.commit(*in_git(orders={"partitions": 4})))
    topic = objects.topic("orders")
    assert topic["spec"]["config"] == {"retention.ms": "86400000"}
    owned = {one["manager"]: one for one in topic["metadata"]["managedFields"] if not one.get("subresource")}
    assert owned["kustomize-controller"]["operation"] == "Apply"
    assert "f:config" not in owned["kustomize-controller"]["fieldsV1"]["f:spec"]


@pytest.mark.usefixtures("flux_controllers")
def test_layout_for_teams_applies_the_platform_then_topics_then_applications(
    git, objects, kafka, broker_sites, namespace_factory, kubectl, operator, topics
):
    team = namespace_factory()
    layout = Layout(objects, kafka.bootstrap(), git.repository(team), team)
    flux = Flux(kubectl.in_namespace(objects.namespace), layout.repository)
    operator.stop()
    revision = layout.commit()
    flux.kubectl.apply(*layout.cluster())
    flux.until_waits_for("platform", f"{team}-topics")
    flux.until_waits_for(f"{team}-topics", f"{team}-apps")
    mine = replace(objects, namespace=team)
    assert mine.read("KafkaTopic", "orders") is None
    operator.start()
    for name in ("platform", f"{team}-topics", f"{team}-apps"):
        flux.until_ready(revision, name)
    assert topics.exists(f"{team}.orders")
    topic = mine.topic("orders")
    deployment = kubectl.in_namespace(team).json("get", "deployment", team)
    since = condition(objects.topology("main"), "Ready")["lastTransitionTime"]
    assert since <= topic["metadata"]["creationTimestamp"]
    assert condition(topic, "Ready")["lastTransitionTime"] <= deployment["metadata"]["creationTimestamp"]

    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "stolen"}}
    layout.commit({f"teams/{team}/topics/secret.yaml": secret})
    told = flux.until_refused(f"{team}-topics")
    assert f'system:serviceaccount:{objects.namespace}:{team}" cannot patch resource "secrets"' in told


class Layout:
    """The files of examples/gitops, with the test's namespaces, Kafka, brokers and repository."""

    def __init__(self, objects: Objects, bootstrap: str, repository, team: str) -> None:
        self.repository = repository
        self._words = {"https://git.example.com/kafka.git": repository.url, "shop": team}
        self._namespace = objects.namespace
        stack = objects.topology_manifest(bootstrap)["spec"]
        self._stack = {key: stack[key] for key in ("kafka", "levels", "brokers", "drain")}

    def cluster(self):
        return self._documents(EXAMPLE / "clusters" / "prod.yaml")

    def commit(self, more=()):
        files = {}
        for path in (path for folder in ("platform", "teams") for path in (EXAMPLE / folder).rglob("*.yaml")):
            name = self._replaced(str(path.relative_to(EXAMPLE)))
            files[name] = yaml.safe_dump_all(self._documents(path))
        files |= {name: json.dumps(manifest) for name, manifest in dict(more).items()}
        return f"main@sha1:{self.repository.commit(files, 'Change the layout')}"

    def _documents(self, path):
        found = list(yaml.safe_load_all(self._replaced(path.read_text())))
        for one in found:
            if one["metadata"].get("namespace") == "kafka":
                one["metadata"]["namespace"] = self._namespace
            for subject in one.get("subjects", ()):
                subject["namespace"] = self._namespace
            if one["kind"] == "RackTopology":
                one["spec"] |= self._stack
            if one["kind"] == "KafkaTopic":
                one["spec"]["topologyRef"]["namespace"] = self._namespace
            if one["kind"] == "Kustomization":
                one["spec"]["retryInterval"] = "2s"
            if one["kind"] == "GitRepository":
                one["spec"]["interval"] = "2s"
        return found

    def _replaced(self, text):
        for word, other in self._words.items():
            text = text.replace(word, other)
        return text

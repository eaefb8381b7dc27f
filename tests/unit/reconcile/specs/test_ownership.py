"""Which namespaces may use a topology, and which of several objects owns a topic."""

import pytest
from msgspec.structs import replace
from tests.unit.reconcile.examples import known, topic, topology

from rackspan.reconcile.cache import Cache
from rackspan.reconcile.specs.ownership import cluster_requirements, owner, refusal, rival

SHOP = {"from": "Selector", "selector": {"matchLabels": {"team": "shop"}}}


@pytest.mark.parametrize(
    ("rule", "namespace", "labels", "allowed"),
    [
        ({"from": "Same"}, "kafka", {}, True),
        ({"from": "Same"}, "shop", {}, False),
        ({"from": "All"}, "shop", {}, True),
        (SHOP, "shop", {"team": "shop"}, True),
        (SHOP, "shop", {"team": "bank"}, False),
        (SHOP, "shop", {}, False),
        (SHOP, "kafka", {}, True),
    ],
)
def test_topology_is_open_to_the_namespaces_of_its_rule(rule, namespace, labels, allowed):
    refused = refusal(topic(namespace=namespace), topology(allowedNamespaces=rule), {namespace: labels})
    assert (refused is None) == allowed
    if refused:
        assert refused.reason == "NamespaceNotAllowed"
        assert f"topology kafka/prod is not open to namespace {namespace}" in refused.message


@pytest.mark.parametrize(
    ("prefixes", "name", "reason"),
    [
        (None, "orders", None),
        (["$(namespace)."], "shop.orders", None),
        (["$(namespace)."], "shop2.orders", "TopicNameNotAllowed"),
        (["$(namespace)."], "orders", "TopicNameNotAllowed"),
        (["eu.", "x-$(namespace)_"], "x-shop_orders", None),
        (["eu.", "x-$(namespace)_"], "eu.orders", None),
        (["eu.", "x-$(namespace)_"], "$(namespace).orders", "TopicNameNotAllowed"),
    ],
)
def test_topic_prefixes_apply_to_other_namespaces_only(prefixes, name, reason):
    rule = {"from": "All"} | ({} if prefixes is None else {"topicPrefixes": prefixes})
    where = topology(allowedNamespaces=rule)
    refused = refusal(topic("t", topicName=name), where, {})
    assert (refused and refused.reason) == reason
    assert refusal(topic("t", topicName=name, namespace="kafka"), where, {}) is None


@pytest.mark.parametrize(
    ("prefixes", "listed", "own", "other"),
    [
        (None, [], "InternalTopic", "InternalTopic"),
        (None, ["__consumer_offsets"], None, "TopicNameNotAllowed"),
        (["_"], ["__consumer_offsets"], None, "TopicNameNotAllowed"),
        (["__consumer_"], ["__consumer_offsets"], None, None),
        (["__consumer_"], ["__consumer_"], "InternalTopic", "InternalTopic"),
    ],
)
def test_internal_topic_is_allowed_only_if_listed_and_for_others_if_a_prefix_names_it(prefixes, listed, own, other):
    rule = {"from": "All"} | ({} if prefixes is None else {"topicPrefixes": prefixes})
    where = topology(allowedNamespaces=rule, internalTopics=listed)
    for namespace, reason in (("kafka", own), ("shop", other)):
        refused = refusal(topic("t", topicName="__consumer_offsets", namespace=namespace), where, {})
        assert (refused and refused.reason) == reason


def decides(*claims, **spec):
    where = topology(allowedNamespaces={"from": "All"}, **spec)
    first, again = (owner((claim, where) for claim in order) for order in (claims, claims[::-1]))
    assert first is again
    return first


def test_older_object_owns_the_topic_and_ties_have_a_stable_owner():
    older, younger = topic("a", created="2026-01-01T00:00:00Z"), topic("b", created="2026-01-01T00:00:01Z")
    twin = topic("c", created="2026-01-01T00:00:00Z", uid="0")
    assert decides(younger, older) is older
    assert decides(older, twin) is twin
    assert decides() is None


def test_owner_is_the_holder_then_an_object_that_may_adopt_then_the_oldest():
    early, late = topic("a"), topic("b", created="2026-01-02T00:00:00Z", namespace="kafka")
    assert decides(early, late) is late
    assert decides(early, late, adoption="Allowed") is early
    holder = topic("c", created="2026-01-03T00:00:00Z", status=known())
    assert decides(early, late, holder) is holder


def test_conflict_message_names_the_owner():
    older, younger = topic("a"), topic("b", topicName="a")
    assert rival(older, older) is None
    assert rival(older, None) is None
    refused = rival(younger, older)
    assert refused.reason == "TopicConflict"
    assert "KafkaTopic shop/a already declares topic a" in refused.message


def test_conflict_message_does_not_name_an_owner_in_an_unrelated_namespace():
    other = topic("secret", topicName="a", namespace="bank")
    assert "a KafkaTopic of another namespace already declares topic a" in rival(topic("a"), other).message
    assert "KafkaTopic bank/secret" in rival(topic("a", namespace="kafka"), other).message


def rivals(*, ours=(), theirs=(), cluster="kafka-1", where="bank"):
    """Return how many objects claim a topic that is declared through two topologies. Both topologies see the same."""
    cache = Cache()
    for namespace, name, trusted, leads_to in (
        ("kafka", "prod", ours, "kafka-1"),
        (where, "copy", theirs, cluster),
    ):
        shown = topology(namespace=namespace, sharedWith=list(trusted))
        known_as = replace(shown, meta=replace(shown.meta, name=name))
        cache.topologies[known_as.key] = known_as
        if leads_to:
            cache.set_cluster_id(known_as.key, leads_to)
    one = cache.keep_topic(topic("one", topicName="orders"))
    two = cache.keep_topic(topic("two", topicName="orders", topologyRef={"namespace": where, "name": "copy"}))
    other = cache.keep_topic(topic("three", topicName="payments"))
    assert [claim.key for claim in cache.claims(other)] == [other.key]
    found = len(cache.claims(one))
    assert len(cache.claims(two)) == found, "both objects see the same claims"
    cache.drop_topic(two.key)
    assert [claim.key for claim in cache.claims(one)] == [one.key]
    return found


def test_topologies_of_one_cluster_share_topics_if_both_consent_or_are_in_one_namespace():
    assert rivals(ours=["bank"], theirs=["kafka"]) == 2
    assert rivals(where="kafka") == 2
    assert rivals() == rivals(ours=["bank"]) == rivals(theirs=["kafka"]) == 1
    assert rivals(ours=["bank"], theirs=["kafka"], cluster="kafka-2") == 1
    assert rivals(ours=["bank"], theirs=["kafka"], cluster=None) == 1


@pytest.mark.parametrize("path", ["/eu/\U0001fae8", "/eu/\u0378", "/eu//r1", ""])
def test_an_invalid_rack_path_of_one_topic_does_not_fail_the_requirements_of_others(path):
    odd = topic("odd", placement={"leaders": [path], "brokers": {"include": [path], "exclude": [path]}})
    shop = topology(allowedNamespaces={"from": "All"})
    assert set(cluster_requirements(shop, [topic("orders"), odd]).of_topic) == {"orders", "odd"}

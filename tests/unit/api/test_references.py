"""Label selectors have the semantics of Kubernetes."""

import pytest

from rackspan.api.references import LabelSelector, Requirement, SelectorOperator, TopologyRef

BROKER = {"app": "kafka", "role": "broker"}
IN, NOT_IN = SelectorOperator.IN, SelectorOperator.NOT_IN
EXISTS, DOES_NOT_EXIST = SelectorOperator.EXISTS, SelectorOperator.DOES_NOT_EXIST


@pytest.mark.parametrize(
    ("requirement", "matches"),
    [
        (Requirement("role", IN, ("broker", "mixed")), True),
        (Requirement("role", IN, ("controller",)), False),
        (Requirement("pool", IN, ("a",)), False),
        (Requirement("role", NOT_IN, ("controller",)), True),
        (Requirement("role", NOT_IN, ("broker",)), False),
        (Requirement("pool", NOT_IN, ("a",)), True),
        (Requirement("role", EXISTS), True),
        (Requirement("pool", EXISTS), False),
        (Requirement("pool", DOES_NOT_EXIST), True),
        (Requirement("role", DOES_NOT_EXIST), False),
    ],
)
def test_requirement_matches_labels(requirement, matches):
    assert requirement.matches(BROKER) is matches


def test_selector_matches_only_if_labels_and_expressions_match():
    mixed = LabelSelector({"app": "kafka"}, (Requirement("role", IN, ("broker",)),))
    assert mixed.matches(BROKER)
    assert not mixed.matches({"app": "kafka", "role": "controller"})
    assert not mixed.matches({"role": "broker"})


def test_empty_selector_matches_everything():
    assert LabelSelector().matches({})


def test_topology_reference_defaults_to_the_namespace_of_the_referrer():
    assert str(TopologyRef("prod").key("shop")) == "shop/prod"
    assert str(TopologyRef("prod", "kafka").key("shop")) == "kafka/prod"

"""Label selectors mean what they mean in Kubernetes."""

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
def test_a_requirement(requirement, matches):
    assert requirement.matches(BROKER) is matches


def test_all_parts_of_a_selector_must_hold():
    mixed = LabelSelector({"app": "kafka"}, (Requirement("role", IN, ("broker",)),))
    assert mixed.matches(BROKER)
    assert not mixed.matches({"app": "kafka", "role": "controller"})
    assert not mixed.matches({"role": "broker"})


def test_an_empty_selector_selects_everything():
    assert LabelSelector().matches({})


def test_a_topology_is_looked_for_in_the_referrers_namespace_first():
    assert str(TopologyRef("prod").key("shop")) == "shop/prod"
    assert str(TopologyRef("prod", "kafka").key("shop")) == "kafka/prod"

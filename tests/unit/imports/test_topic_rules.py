"""Files are checked by the same rules as in the API server, with the same test cases."""

import pytest
from tests.crds.cases import TOPIC_CASES
from tests.support.manifests import TOPIC, VALID, changed

from rackspan.api.codec import SpecError
from rackspan.api.kafkatopic import KafkaTopic
from rackspan.imports.topic_rules import broken_rules

OF_STATE = [case for case in TOPIC_CASES if case.before is None]
"""The cases of rules that do not depend on the old object."""


def broken(manifest):
    """Return the errors of a manifest."""
    try:
        return list(broken_rules(manifest, KafkaTopic.from_object(manifest)))
    except SpecError as error:
        return [str(error)]


@pytest.mark.parametrize("case", OF_STATE, ids=lambda case: f"{case.rule.path}:{case.rule.message[:40]}")
def test_broken_rules_agree_with_the_rules_of_the_crd(case):
    for patch in case.accepted:
        assert broken(changed(TOPIC, patch)) == []
    for patch in case.rejected:
        assert len(broken(changed(TOPIC, patch))) == 1, patch


@pytest.mark.parametrize("manifest", [one for one in VALID.values() if one["kind"] == "KafkaTopic"])
def test_valid_topic_breaks_no_rule(manifest):
    assert broken(manifest) == []


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        ({"colour": "red"}, "colour: there is no such field"),
        ({"spec": {"colour": "red"}}, "spec.colour: there is no such field"),
        ({"spec": {"placement": {"spread": [{"l": "a", "level": "b"}]}}}, "spec.placement.spread[0].l: there is"),
        ({"spec": {"durability": {"minDomain": {"zone": 2}}}}, "spec.durability.minDomain: there is no such field"),
        ({"spec": {"partitions": 0}}, "spec.partitions: must be from 1 to 100,000, not 0"),
        ({"spec": {"partitions": 100_001}}, "spec.partitions: must be from 1 to 100,000, not 100,001"),
        ({"spec": {"replicationFactor": 32_768}}, "spec.replicationFactor: must be from 1 to 32,767, not 32,768"),
        ({"spec": {"partitions": "6"}}, "spec.partitions must be a whole number, not '6'."),
        ({"spec": {"config": {"a": True}}}, "spec.config[a] must be a whole number or a string, not True."),
        ({"spec": {"config": {"a": "x" * 4097}}}, "spec.config a: has 4,097 characters, and at most 4,096 are allowed"),
        ({"spec": {"config": {str(at): 1 for at in range(101)}}}, "spec.config: has 101 configs, and at most 100 are"),
        ({"spec": {"placement": {"spread": [{"level": "", "maxSkew": 1}]}}}, "spec.placement.spread[0].level: must"),
        ({"spec": {"placement": {"spread": [{"level": "a", "maxSkew": 0}]}}}, "spec.placement.spread[0].maxSkew: must"),
        ({"spec": {"placement": {"seed": -1}}}, "spec.placement.seed: must be from 0 to"),
        ({"spec": {"placement": {"leaders": []}}}, "spec.placement.leaders: is empty: leave it out, or name one"),
        ({"spec": {"placement": {"leaders": ["/eu", "/eu"]}}}, "spec.placement.leaders: has an entry twice"),
        ({"spec": {"durability": {"tolerate": {"zone": 0}}}}, "spec.durability.tolerate zone: must be from 1"),
        ({"metadata": {"name": "Orders"}}, 'metadata.name: "Orders" is not a valid name of an object'),
        ({"spec": {"deletionPolicy": "Drop"}}, "spec.deletionPolicy must be one of Retain, Delete, not 'Drop'."),
    ],
)  # fmt: skip
def test_violation_of_the_schema_has_its_path(patch, said):
    (sentence,) = broken(changed(TOPIC, patch))
    assert sentence.startswith(said)

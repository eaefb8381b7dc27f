"""A thousand mutated manifests: the API server never fails, and the operator decodes all that it accepts."""

import random
from collections import Counter

import pytest
from tests.support.manifests import VALID
from tests.support.mutations import mutated

from rackspan.api.codec import SpecError
from rackspan.api.compliancereport import ComplianceReport
from rackspan.api.kafkatopic import KafkaTopic
from rackspan.api.racktopology import RackTopology
from rackspan.api.reassignment import Reassignment
from rackspan.core.rack_path import parse_rack
from rackspan.imports.topic_rules import broken_rules

pytestmark = pytest.mark.stack

TYPES = {
    "KafkaTopic": KafkaTopic,
    "RackTopology": RackTopology,
    "ComplianceReport": ComplianceReport,
    "Reassignment": Reassignment,
}
ROUNDS = 1000


def test_mutated_manifest_is_rejected_or_can_be_decoded(api_server):
    chance = random.Random(879)
    codes = []
    for _ in range(ROUNDS):
        manifest = mutated(chance.choice(list(VALID.values())), chance)
        answer = api_server.create("default", manifest, dry_run=True)
        codes.append(answer.code)
        assert answer.accepted or 400 <= answer.code < 500, (manifest, answer)
        if answer.accepted:
            _is_read(answer.body)
        else:
            assert answer.message, manifest
    assert codes.count(201) >= ROUNDS // 10, "too few manifests were accepted, so too few were decoded"
    assert codes.count(422) >= ROUNDS // 10, "too few manifests were rejected"


def _is_read(stored):
    """Decode an accepted object. This raises no SpecError, because schemas and types agree."""
    read = TYPES[stored["kind"]].from_object(stored)
    assert read.meta.name == stored["metadata"]["name"]
    for path in _rack_paths(read):
        assert parse_rack(path)


def _rack_paths(read):
    match read:
        case RackTopology():
            yield from read.spec.drain_racks
            yield from read.spec.rack_aliases.values()
        case KafkaTopic():
            yield from read.spec.placement.leaders
            yield from read.spec.placement.brokers.include
            yield from read.spec.placement.brokers.exclude


def test_file_check_rejects_the_same_mutated_topics_as_the_api_server(api_server):
    chance = random.Random(29)
    topics = [manifest for manifest in VALID.values() if manifest["kind"] == "KafkaTopic"]
    outcomes = Counter()
    for _ in range(ROUNDS):
        manifest = mutated(chance.choice(topics), chance)
        answer = api_server.create("default", manifest, dry_run=True)
        told = _told(manifest)
        outcomes[answer.accepted] += 1
        assert answer.accepted == (not told), (manifest, answer.message, told)
    assert min(outcomes.values()) >= ROUNDS // 10


def _told(manifest):
    try:
        return list(broken_rules(manifest, KafkaTopic.from_object(manifest)))
    except SpecError as error:
        return [str(error)]

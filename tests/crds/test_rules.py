"""Every rule accepts valid objects and rejects invalid ones with its own message only."""

from collections import Counter

import pytest
from tests.crds.cases import CASES, Case
from tests.support.manifests import BASES, VALID, changed
from tests.support.schemas import rules

pytestmark = pytest.mark.stack


def _named(case: Case) -> str:
    return f"{case.rule.kind}:{case.rule.path or '.'}:{' '.join(case.rule.message.split()[:8])}"


@pytest.fixture
def ask(api_server, request):
    """Return a function that creates the patched base manifest, or changes the object of `before` to it."""

    def asked(case: Case, patch):
        base = BASES[case.rule.kind]
        if case.before is None:
            return api_server.create("default", changed(base, patch), dry_run=True)
        namespace = request.getfixturevalue("namespace")
        there = api_server.create(namespace, changed(base, case.before), dry_run=False)
        assert there.accepted or there.code == 409, there.message  # an earlier patch of this case created it
        present = api_server.read(namespace, base)
        return api_server.replace(namespace, changed(present, patch), dry_run=True)

    return asked


@pytest.mark.parametrize("case", CASES, ids=_named)
def test_rule_accepts_valid_objects(ask, case):
    assert case.accepted
    for patch in case.accepted:
        answer = ask(case, patch)
        assert answer.accepted, f"{patch}: {answer.message}"


@pytest.mark.parametrize("case", CASES, ids=_named)
def test_rule_rejects_invalid_objects_with_its_message(ask, case):
    assert case.rejected
    for patch in case.rejected:
        answer = ask(case, patch)
        assert answer.code == 422, f"{patch}: {answer}"
        told = [sentence for _, sentence in answer.causes if "some validation rules were not checked" not in sentence]
        assert told, f"{patch}: {answer}"
        assert all((case.sentence or case.rule.message) in sentence for sentence in told), f"{patch}: {told}"


@pytest.mark.parametrize("manifest", VALID.values(), ids=VALID)
def test_api_server_accepts_a_valid_object(api_server, manifest):
    answer = api_server.create("default", manifest, dry_run=True)
    assert answer.accepted, answer.message


def test_every_rule_has_a_case():
    in_definitions, in_cases = Counter(rules()), Counter(case.rule for case in CASES)
    assert in_definitions == in_cases

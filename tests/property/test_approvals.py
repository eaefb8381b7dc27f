"""Properties of approval: no part starts without approval, and no namespace blocks the parts of another."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.property.cases import counted

from rackspan.core.reassignment import ApprovalHold, Approver, PlanPart, Terms, judge_approval

HASHES = st.sampled_from("abc")
NAMESPACES = st.sampled_from(["own", "shop", "bank", "mail"])
RARELY = st.sampled_from([False, False, False, True])
MOSTLY = RARELY.map(lambda rare: not rare)
PARTS = st.builds(
    PlanPart,
    HASHES,
    st.integers(0, 5),
    st.none() | st.integers(0, 50),
    st.booleans(),
    st.frozensets(HASHES, max_size=2),
    st.sampled_from([None, None, None, ApprovalHold.PAUSED, ApprovalHold.DELETING]),
    NAMESPACES,
    st.frozensets(HASHES, max_size=2),
    MOSTLY,
)
LIMIT = st.none() | st.integers(1, 60)
OF_ALL = (ApprovalHold.TOPOLOGY_DELETING, ApprovalHold.TOPOLOGY_PAUSED, ApprovalHold.WINDOW)
TERMS = st.builds(
    Terms, LIMIT, LIMIT, RARELY, st.sampled_from([None, None, None, None, *OF_ALL]), MOSTLY, st.just("own")
)
PLANS = st.dictionaries(st.integers(0, 7), PARTS, min_size=1)
SAID = st.frozensets(HASHES, max_size=2)


@given(PLANS, SAID, TERMS)
def test_no_part_starts_without_its_approval_above_a_limit_or_outside_a_window(parts, said, terms):
    assessment = judge_approval(parts, said, terms)
    by_itself = []
    for topic, who in assessment.approved.items():
        part = parts[topic]
        assert terms.held is None
        assert terms.steady
        assert not terms.busy
        assert part.held is None
        if who is Approver.PLAN:
            assert part.names & said
        elif who is Approver.TOPIC:
            assert part.hash in part.approved
        else:
            assert part.automatic
            assert part.settled
            by_itself.append(part)
    moving = [part for part in by_itself if part.moves]
    if terms.max_moves is not None:
        assert sum(part.moves for part in moving) <= terms.max_moves
    if terms.max_bytes is not None:
        assert all(part.bytes is not None for part in moving)
        assert sum(part.bytes for part in moving) <= terms.max_bytes
    counted()


@given(PLANS, SAID, TERMS)
def test_every_part_starts_or_reports_why_it_waits(parts, said, terms):
    assessment = judge_approval(parts, said, terms)
    assert assessment.approved.keys() | assessment.holds.keys() == parts.keys()
    assert not assessment.approved.keys() & assessment.holds.keys()
    for topic, hold in assessment.holds.items():
        part = parts[topic]
        asked = bool(part.names & said) or part.hash in part.approved
        assert (
            hold
            is {
                ApprovalHold.PAUSED: part.held,
                ApprovalHold.DELETING: part.held,
                ApprovalHold.BUSY: ApprovalHold.BUSY if terms.busy else None,
                ApprovalHold.STALE: ApprovalHold.STALE if part.approved and not asked and not part.automatic else None,
                ApprovalHold.APPROVAL: ApprovalHold.APPROVAL if not asked and not part.automatic else None,
                ApprovalHold.LIMIT: ApprovalHold.LIMIT if not asked and part.namespace in assessment.above else None,
                **dict.fromkeys(OF_ALL, terms.held),
                ApprovalHold.SETTLING: None if terms.steady and (part.settled or asked) else ApprovalHold.SETTLING,
            }[hold]
        )
    counted()


@given(PLANS, st.booleans())
def test_manual_approval_of_the_whole_plan_approves_each_part_despite_policies_and_limits(parts, settled):
    parts = {topic: replace(part, names=part.names | {"w"}, settled=settled) for topic, part in parts.items()}
    assessment = judge_approval(parts, {"w"}, Terms(max_moves=1, max_bytes=1))
    assert assessment.approved.keys() == {topic for topic, part in parts.items() if part.held is None}
    assert set(assessment.approved.values()) <= {Approver.PLAN}
    assert not assessment.stale
    counted()


@given(PLANS, SAID, TERMS)
def test_other_parts_do_not_block_a_manually_approved_part(parts, said, terms):
    first = next(iter(parts))
    alone = judge_approval({first: parts[first]}, said, terms)
    together = judge_approval(parts, said, terms)
    if alone.approved.get(first) in (Approver.PLAN, Approver.TOPIC):
        assert together.approved.get(first) == alone.approved[first]
    counted()


@given(PLANS, SAID, TERMS)
def test_other_namespaces_do_not_affect_the_parts_in_the_namespace_of_the_topology(parts, said, terms):
    own = {topic: part for topic, part in parts.items() if part.namespace == "own"}
    alone, together = judge_approval(own, said, terms), judge_approval(parts, said, terms)
    assert alone.approved == {topic: who for topic, who in together.approved.items() if topic in own}
    assert alone.holds == {topic: hold for topic, hold in together.holds.items() if topic in own}
    counted()


@given(PLANS, SAID, st.integers(1, 60), PLANS)
def test_namespace_within_an_equal_share_of_the_limit_is_not_blocked_by_others(parts, said, most, others):
    terms = Terms(max_moves=most, first="own")
    parts = {topic: replace(part, namespace=part.namespace.replace("own", "shop")) for topic, part in parts.items()}
    needs = Counter()
    for part in parts.values():
        needs[part.namespace] += part.moves
    share = most // len(needs)
    for name in [name for name, need in needs.items() if need <= share]:
        restless = {
            topic: part if part.namespace == name else replace(others.get(topic, part), namespace=part.namespace)
            for topic, part in parts.items()
        }
        found = judge_approval(restless, said, terms)
        alone = judge_approval({key: part for key, part in parts.items() if part.namespace == name}, said, terms)
        assert alone.approved == {key: who for key, who in found.approved.items() if parts[key].namespace == name}
    counted()

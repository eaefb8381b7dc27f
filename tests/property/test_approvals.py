"""Laws of approval: nothing begins that nobody asked for, and everything that may begin does."""

from hypothesis import given
from hypothesis import strategies as st
from tests.property.cases import counted

from rackspan.core.reassignment import Approver, Hold, PlanPart, Terms, judge_approval

HASHES = st.sampled_from("abc")
RARELY = st.sampled_from([False, False, False, True])
MOSTLY = RARELY.map(lambda rare: not rare)
PARTS = st.builds(
    PlanPart,
    HASHES,
    st.integers(0, 5),
    st.none() | st.integers(0, 50),
    st.booleans(),
    st.frozensets(HASHES, max_size=2),
    RARELY,
)
LIMIT = st.none() | st.integers(1, 60)
TERMS = st.builds(Terms, LIMIT, LIMIT, RARELY, MOSTLY, MOSTLY, MOSTLY)
PLANS = st.dictionaries(st.sampled_from(["t/1", "t/2", "t/3", "t/4"]), PARTS, min_size=1)
SAID = st.frozensets(HASHES, max_size=2)


@given(PLANS, HASHES, SAID, TERMS)
def test_nothing_begins_whose_hash_differs_above_a_limit_or_outside_of_a_window(parts, whole, said, terms):
    verdict = judge_approval(parts, whole, said, terms)
    by_itself = []
    for topic, who in verdict.approved.items():
        part = parts[topic]
        assert terms.open
        assert terms.steady
        assert not terms.busy
        assert not part.paused
        if who is Approver.PLAN:
            assert whole in said
        elif who is Approver.TOPIC:
            assert part.hash in part.approved
        else:
            assert part.automatic
            assert terms.settled
            by_itself.append(part)
    moving = [part for part in by_itself if part.moves]
    if terms.max_moves is not None:
        assert sum(part.moves for part in moving) <= terms.max_moves
    if terms.max_bytes is not None:
        assert all(part.bytes is not None for part in moving)
        assert sum(part.bytes for part in moving) <= terms.max_bytes
    counted()


@given(PLANS, HASHES, SAID, TERMS)
def test_every_part_begins_or_says_what_it_waits_for(parts, whole, said, terms):
    verdict = judge_approval(parts, whole, said, terms)
    assert verdict.approved.keys() | verdict.holds.keys() == parts.keys()
    assert not verdict.approved.keys() & verdict.holds.keys()
    for topic, hold in verdict.holds.items():
        asked = whole in said or parts[topic].hash in parts[topic].approved
        assert (
            hold
            is {
                Hold.PAUSED: Hold.PAUSED if parts[topic].paused else None,
                Hold.BUSY: Hold.BUSY if terms.busy else None,
                Hold.STALE: Hold.STALE if parts[topic].approved and not asked and not parts[topic].automatic else None,
                Hold.APPROVAL: Hold.APPROVAL if not asked and not parts[topic].automatic else None,
                Hold.LIMIT: Hold.LIMIT if not asked and (terms.max_moves or terms.max_bytes) else None,
                Hold.WINDOW: None if terms.open else Hold.WINDOW,
                Hold.SETTLING: None if terms.steady and (terms.settled or asked) else Hold.SETTLING,
            }[hold]
        )
    counted()


@given(PLANS, HASHES, st.booleans())
def test_a_person_s_yes_to_the_whole_is_one_to_each_part_whatever_the_policies_and_limits(parts, whole, automatic):
    verdict = judge_approval(parts, whole, {whole}, Terms(max_moves=1, max_bytes=1, settled=automatic))
    assert verdict.approved.keys() == {topic for topic, part in parts.items() if not part.paused}
    assert set(verdict.approved.values()) <= {Approver.PLAN}
    assert not verdict.stale
    counted()


@given(PLANS, HASHES, SAID, TERMS)
def test_what_others_approve_for_themselves_does_not_hold_up_a_part_that_a_person_approved(parts, whole, said, terms):
    first = next(iter(parts))
    alone = judge_approval({first: parts[first]}, whole, said, terms)
    together = judge_approval(parts, whole, said, terms)
    if alone.approved.get(first) in (Approver.PLAN, Approver.TOPIC):
        assert together.approved.get(first) == alone.approved[first]
    counted()

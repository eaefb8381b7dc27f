import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackspan.api.meta import ObjectKey
from rackspan.api.reasons import Reason
from rackspan.kafka.worker.places import ISOLATION, TURN, Places, WorkerLimits
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.runtime.namespaces import NamespaceSet

FAILURE = Failure(Reason.KAFKA_CLIENT_FAILED, "ended", Remedy.RETRY)
OURS, OTHERS = ObjectKey("rackspan", "main"), ObjectKey("rackspan", "old")


def places(most=2):
    return Places(WorkerLimits(trusted=NamespaceSet(("rackspan",)), most_untrusted=most))


def tenant(name):
    return ObjectKey(name, "own")


def refused(some, boundary, now):
    with pytest.raises(FailureError) as error:
        some.enter(boundary, now)
    return error.value.failure.reason


def test_trusted_namespaces_share_a_worker_and_each_other_namespace_has_its_own():
    some = places()
    assert some.boundary(OURS, 0) == some.boundary(OTHERS, 0)
    assert some.boundary(tenant("a"), 0) == some.boundary(ObjectKey("a", "second"), 0)
    assert len({some.boundary(one, 0) for one in (OURS, tenant("a"), tenant("b"))}) == 3


def test_topology_that_may_have_ended_the_shared_worker_is_isolated_for_a_while():
    some = places()
    shared = some.boundary(OURS, 0)
    some.enter(shared, 0)
    some.fail(shared, FAILURE, [OTHERS], 1)
    assert some.boundary(OURS, 2) == shared
    alone = some.boundary(OTHERS, 2)
    assert alone != shared
    assert alone.trusted
    assert some.boundary(OTHERS, 1 + ISOLATION) == shared


def test_pause_after_a_failure_doubles_up_to_a_minute_and_is_reset():
    some, now, boundary = places(), 0.0, places().boundary(tenant("a"), 0)
    pauses = []
    for _ in range(8):
        some.enter(boundary, now)
        some.fail(boundary, FAILURE, [], now)
        began = now
        while True:
            now += 0.5
            try:
                some.enter(boundary, now)
            except FailureError:
                continue
            some.leave(boundary)
            break
        pauses.append(now - began)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    some.enter(boundary, now)
    some.fail(boundary, FAILURE, [], now + TURN)
    some.enter(boundary, now + TURN + 1)


def test_waiting_namespaces_get_a_place_in_order_of_arrival():
    some = places(most=1)
    a, b, c = (some.boundary(tenant(name), 0) for name in "abc")
    assert some.enter(a, 0) is None
    assert refused(some, b, 1) is Reason.KAFKA_CLIENT_WAITING
    assert refused(some, c, 2) is Reason.KAFKA_CLIENT_WAITING
    assert refused(some, c, 40) is Reason.KAFKA_CLIENT_WAITING
    assert refused(some, b, 41) is Reason.KAFKA_CLIENT_WAITING
    assert refused(some, c, TURN) is Reason.KAFKA_CLIENT_WAITING, "b is first in the queue"
    assert some.enter(b, TURN) == a
    assert refused(some, c, TURN + 1) is Reason.KAFKA_CLIENT_WAITING, "b has just started"
    some.leave(b)
    assert some.enter(c, TURN + 2) is None


def test_failed_worker_frees_its_place():
    some = places(most=1)
    a, b = (some.boundary(tenant(name), 0) for name in "ab")
    some.enter(a, 0)
    assert refused(some, b, 1) is Reason.KAFKA_CLIENT_WAITING
    some.fail(a, FAILURE, [], 2)
    assert some.enter(b, 3) is None


def test_trusted_worker_starts_although_all_places_are_taken():
    some = places(most=1)
    some.enter(some.boundary(tenant("a"), 0), 0)
    assert some.enter(some.boundary(OURS, 0), 0) is None


@given(
    most=st.integers(1, 3),
    steps=st.lists(
        st.tuples(
            st.sampled_from("abcde"), st.sampled_from(("ask", "ask", "ask", "fail", "leave")), st.integers(0, 20)
        ),
        max_size=200,
    ),
)
def test_running_workers_never_exceed_the_number_of_places(most, steps):
    some, now, running = places(most), 0.0, {}
    for name, what, seconds in steps:
        now += seconds
        boundary = some.boundary(tenant(name), now)
        if what == "ask" and boundary not in running:
            try:
                leaving = some.enter(boundary, now)
            except FailureError:
                continue
            if leaving is not None:
                assert now - running.pop(leaving) >= TURN
            running[boundary] = now
        elif what != "ask" and boundary in running:
            del running[boundary]
            some.leave(boundary) if what == "leave" else some.fail(boundary, FAILURE, [], now)
        assert len(running) <= most


@given(most=st.integers(1, 3), names=st.permutations("abcdef"), pause=st.integers(1, 15))
def test_each_namespace_that_keeps_asking_gets_a_place(most, names, pause):
    some, now, served, running = places(most), 0.0, set(), set()
    while now < (len(names) / most + 1) * (TURN + 2 * pause * len(names)):
        for name in names:
            boundary = some.boundary(tenant(name), now)
            if boundary in running:
                continue
            try:
                running.discard(some.enter(boundary, now))
            except FailureError:
                continue
            running.add(boundary)
            served.add(name)
        now += pause
    assert served == set(names)

"""The throttle and the limits that apply to a Reassignment."""

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.reconcile.examples import topology

from rackspan.api.reassignment import Reassignment
from rackspan.core.reassignment import Adaptive
from rackspan.reconcile.plans.turns import rules_of

HASH = "0123456789abcdef"
throttles = st.sampled_from([{}, {"throttle": 7}, {"throttle": 9}, {"adaptiveThrottle": {"floor": 5, "ceiling": 6}}])
limits = st.sampled_from([{}, {"maxConcurrentMoves": 3}, {"maxConcurrentMovesPerBroker": 2}])
settings = st.builds(lambda one, other: one | other, throttles, limits)


def parts(specs, plan=HASH):
    bodies = ({"topologyRef": {"name": "prod"}, "planHash": plan, "plan": "eJw=", **spec} for spec in specs)
    return [
        Reassignment.from_object(
            {"metadata": {"name": f"{plan}-{at}", "namespace": "kafka"}, "spec": {**body, "part": at}}
        )
        for at, body in enumerate(bodies, start=1)
    ]


@given(st.lists(settings, min_size=1, max_size=4), settings, settings, st.data())
def test_each_setting_comes_from_the_latest_part_that_sets_it_else_from_the_topology(specs, policy, other, data):
    plan, at = parts(specs), data.draw(st.integers(1, len(specs)))
    known = topology(reassignment=policy, status={"brokers": [{"id": 1}, {"id": 2, "draining": True}]})
    found = rules_of(plan[at - 1], [*reversed(plan), *parts([other], "another")], known)
    said = [*reversed(specs[:at]), policy]

    def last(*names):
        return next((spec for spec in said if spec.keys() & set(names)), {})

    throttled = last("throttle", "adaptiveThrottle")
    wanted = Adaptive(5, 6) if "adaptiveThrottle" in throttled else throttled.get("throttle")
    assert found.throttle == wanted
    assert found.limits.moves == last("maxConcurrentMoves").get("maxConcurrentMoves", 20)
    per_broker = "maxConcurrentMovesPerBroker"
    assert found.limits.moves_per_broker == last(per_broker).get(per_broker, 5)
    by = said.index(throttled) if throttled else len(said) - 1
    whose = {0: "its spec", len(said) - 1: "its RackTopology"}.get(by, f"the spec of part {at - by}")
    assert found.throttle_by == whose
    assert found.drained == {2}

"""The operator serves the oldest RackTopologies of each namespace, however others are created and deleted."""

from hypothesis import given
from hypothesis import strategies as st

from rackspan.api.racktopology import RackTopology
from rackspan.reconcile.runtime.namespaces import NamespaceQuota

LIMIT = 3
ACTS = st.lists(
    st.tuples(st.sampled_from(["put", "drop"]), st.sampled_from("abcdef"), st.integers(1, 3), st.sampled_from("xy")),
    max_size=30,
)


def topology(name, second=1, uid=None, namespace="shop"):
    return RackTopology.from_object(
        {
            "metadata": {
                "namespace": namespace,
                "name": name,
                "uid": uid or f"uid-{name}",
                "creationTimestamp": f"2026-01-01T00:00:0{second}Z",
            },
            "spec": {"kafka": {"bootstrapServers": "kafka:9092"}, "levels": [{"name": "zone"}]},
        }
    )


@given(ACTS)
def test_quota_admits_the_oldest_topologies_of_each_namespace(acts):
    quota, there = NamespaceQuota(LIMIT), {}
    for act, name, second, namespace in acts:
        one = topology(name, second, namespace=namespace)
        if act == "put":
            quota.put(one)
            there[one.key] = one
        else:
            quota.drop(one.key)
            there.pop(one.key, None)
    for key in there:
        mates = [one for one in there.values() if one.key.namespace == key.namespace]
        mates.sort(key=lambda one: (one.meta.creation_timestamp, one.meta.uid))
        served = key in [one.key for one in mates[:LIMIT]]
        assert (quota.over_quota(key) is None) == served == (key in quota.served(key.namespace))


def test_failure_of_a_topology_over_the_quota_says_how_to_fix_it():
    quota = NamespaceQuota(1)
    quota.put(topology("old", 1))
    quota.put(topology("new", 2))
    found = quota.over_quota(topology("new").key)
    assert found.reason == "TooManyTopologies"
    assert found.message == (
        "1 RackTopology of namespace shop is older, and the operator serves 1 of a namespace: "
        "delete some, or raise topologiesPerNamespace of the chart"
    )
    quota.drop(topology("old").key)
    assert quota.over_quota(topology("new").key) is None

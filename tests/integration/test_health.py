"""How other tools read the conditions of objects: kstatus with its own library, Argo CD with the check in examples/."""

import json
import subprocess
from datetime import UTC, datetime

import pytest
import yaml
from dev.paths import REPOSITORY
from lupa.lua51 import LuaRuntime
from tests.support.objects import condition

from rackspan.api.reassignment import Reassignment, ReassignmentState, ReassignmentStatus
from rackspan.reconcile.plans.reassignment_status import in_state

PATCH = REPOSITORY / "examples" / "argocd" / "health.patch"
KEY = "resource.customizations.health.rackspan.dev_{}"


@pytest.fixture
def health(kstatus):
    """A function that returns the status of kstatus and the health of Argo CD for each object."""
    checks = yaml.safe_load(PATCH.read_text())["data"]

    def argo(obj):
        lua = LuaRuntime(unpack_returned_tuples=True, register_eval=False)
        for library in ("io", "os", "package", "debug", "require", "dofile", "loadfile"):
            lua.globals()[library] = None  # Argo CD does not provide these libraries
        check = lua.eval("function(obj) " + checks[KEY.format(obj["kind"])] + " end")
        found = check(lua.table_from(obj, recursive=True))
        assert found["message"]
        return found["status"]

    def both(*objs):
        told = subprocess.run(
            [kstatus], input="".join(map(json.dumps, objs)), capture_output=True, text=True, check=True
        )
        answers = [json.loads(line)["status"] for line in told.stdout.splitlines()]
        return [(answer, argo(obj)) for answer, obj in zip(answers, objs, strict=True)]

    return both


def test_kstatus_and_argo_cd_show_the_expected_health_for_topic_states(shop, topics, health):
    def there(name, rows, **spec):
        topics.create(shop.kafka_name(name), rows)
        shop.create_topic(name, partitions=len(rows), replicationFactor=2, **spec)

    shop.create_topic("ready")
    there("planned", [[0, 1]])
    there("hopeless", [[0, 1]], placement={"brokers": {"include": ["0", "9"]}})
    there("assigned", [[0, 3]], placement={"assignment": [[3, 1]]})
    there("larger", [[0, 3]])
    shop.change_topic("larger", replicationFactor=3)
    shop.create_topic("wrong", replicationFactor=7)
    shop.create_topic("paused", annotations={"rackspan.dev/paused": "true"})
    expected = {
        "ready": (None, "Current", "Healthy"),
        "planned": ("PlanPending", "Failed", "Suspended"),
        "hopeless": ("NotCompliant", "Failed", "Degraded"),
        "assigned": ("PlanPending", "Failed", "Suspended"),
        "larger": ("PlanPending", "Failed", "Suspended"),
        "wrong": ("Infeasible", "Failed", "Degraded"),
        "paused": ("Paused", "Failed", "Suspended"),
    }
    found = {}
    for name, (reason, _, _) in expected.items():
        found[name] = shop.until_ready(name) if reason is None else shop.until_stalled(name, reason)
        assert condition(found[name], "Reconciling") is None
    told = dict(zip(found, health(*found.values()), strict=True))
    assert told == {name: (kstatus, argo) for name, (_, kstatus, argo) in expected.items()}


def test_kstatus_and_argo_cd_show_waiting_and_unseen_objects_as_in_progress(objects, health, operator):
    objects.create_topic("orders")
    objects.create_topology("127.0.0.1:1")
    topology = objects.until_topology("Reconciling", "True")
    topic = objects.until_not_ready("orders", "TopologyNotReady")
    newer = {**topic, "metadata": {**topic["metadata"], "generation": topic["metadata"]["generation"] + 1}}
    assert health(topology, topic, newer) == [("InProgress", "Progressing")] * 3
    unseen = {**topic, "status": {"observedGeneration": -1}}
    assert health(unseen) == [("InProgress", "Progressing")]


def test_kstatus_and_argo_cd_show_the_expected_health_for_reassignment_states(health):
    seen = {
        "apiVersion": "rackspan.dev/v1alpha1",
        "kind": "Reassignment",
        "metadata": {"name": "main-1", "namespace": "shop", "uid": "u", "generation": 1},
        "spec": {"topologyRef": {"name": "main"}, "planHash": "0" * 32, "plan": "eJw="},
    }

    def status(state):
        at = datetime(2026, 1, 31, tzinfo=UTC)
        return in_state(Reassignment.from_object(seen), ReassignmentStatus(), state, "why", at).to_dict()

    goes_on, failed = ("InProgress", "Progressing"), ("Failed", "Degraded")
    expected = {state: failed if state.ended else goes_on for state in ReassignmentState}
    expected |= {
        ReassignmentState.SUCCEEDED: ("Current", "Healthy"),
        ReassignmentState.PAUSED: ("InProgress", "Suspended"),
    }
    told = health(*({**seen, "status": status(state)} for state in ReassignmentState))
    assert dict(zip(ReassignmentState, told, strict=True)) == expected
    assert health({**seen, "status": {"observedGeneration": -1}}) == [goes_on]

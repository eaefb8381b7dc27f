"""The output of kubectl for the custom resources."""

import json
import subprocess

import pytest
from dev.stack.kubectl import KubectlError
from tests.support.kubernetes import MINOR, needs_kubernetes
from tests.support.manifests import BASES, FULL_TOPIC, FULL_TOPOLOGY, REASSIGNMENT, REPORT, TOPIC, TOPOLOGY, changed
from tests.support.schemas import DIRECTORY, definitions, fields, version
from tests.support.waiting import until

pytestmark = pytest.mark.stack

NOW = "2026-01-31T12:00:00Z"


def _condition(condition_type, status, reason, message="It is so."):
    return {
        "type": condition_type,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": NOW,
        "observedGeneration": 1,
    }


def _table(printed):
    """Return the rows of the output of `kubectl get`, split into words."""
    return [line.split() for line in printed.splitlines()]


def _stored(kubectl, api_server, namespace, manifest, status):
    kubectl.in_namespace(namespace).apply(manifest)
    present = api_server.read(namespace, manifest)
    answer = api_server.replace_status(namespace, {**present, "status": status})
    assert answer.accepted, answer.message


@pytest.mark.parametrize("kind", definitions())
def test_kubectl_explains_every_field(kubectl, crds, kind):
    explained = set(_explained_paths(kubectl("explain", kind.lower(), "--recursive")))
    paths = {field.path.replace("[]", "").replace("{}", "") for field in fields() if field.kind == kind and field.path}
    assert paths - explained == set()


def _explained_paths(printed):
    """Yield the paths, such as spec.kafka.tls, of the indented list after FIELDS."""
    parents = []
    for line in printed.split("FIELDS:", 1)[1].splitlines():
        if not line.strip() or "\t" not in line:
            continue  # a separate line lists the values of an enum
        depth = (len(line) - len(line.lstrip())) // 2 - 1
        parents[depth:] = [line.split("\t")[0].strip()]
        yield ".".join(parents)


def test_kubectl_explain_shows_a_description(kubectl, crds):
    printed = kubectl("explain", "kafkatopics.rackspan.dev.spec.deletionPolicy")
    assert "Retain (default) keeps it, Delete deletes it and its data." in " ".join(printed.split())
    assert "ENUM: Retain Delete" in " ".join(printed.split())


def test_kubectl_get_shows_the_columns_of_a_topology(kubectl, api_server, namespace):
    _stored(
        kubectl,
        api_server,
        namespace,
        TOPOLOGY,
        {
            "brokerCount": 9,
            "domainSummary": "2 regions, 5 zones",
            "drift": {"count": 1, "brokers": [4]},
            "drainSummary": "0 of 1 drained",
            "state": "BrokerOffline",
            "offline": {"count": 2, "brokers": [1, 7]},
            "offlineSummary": "2",
            "topics": {"total": 12, "ready": 10, "nonCompliant": 2, "stalled": 0, "pinned": 4},
            "planSummary": "1f, 7 moves",
            "plan": {"hash": "1f", "topics": 2, "moves": 7, "lowerBound": 7, "reorders": 0, "partitions": 7},
            "conditions": [_condition("Ready", "True", "Connected")],
        },
    )
    head, row = _table(kubectl.in_namespace(namespace)("get", "rt"))
    heads = "NAME STATE BROKERS OFFLINE DOMAINS DRIFT DRAINS TOPICS NONCOMPLIANT PINNED PLAN READY AGE"
    assert " ".join(head) == heads
    assert " ".join(row[:-1]) == "prod BrokerOffline 9 2 2 regions, 5 zones 1 0 of 1 drained 12 2 4 1f, 7 moves True"


def test_kubectl_get_shows_the_columns_of_a_topic(kubectl, api_server, namespace):
    _stored(
        kubectl,
        api_server,
        namespace,
        TOPIC,
        {
            "topicName": "orders",
            "partitions": 6,
            "replicationFactor": 3,
            "minInSyncReplicas": 2,
            "compliance": {"partitions": 6, "nonCompliant": 1, "samples": [{"partition": 4, "reason": "uneven"}]},
            "plan": {
                "hash": "89abcdef",
                "moves": 1,
                "lowerBound": 1,
                "reorders": 0,
                "partitions": 1,
                "samples": [{"partition": 4, "from": [0, 1, 3], "replicas": [0, 1, 2]}],
            },
            "conditions": [
                _condition("Ready", "False", "PlanPending", "1 of 6 partitions is not spread as asked."),
                _condition("Compliant", "False", "NotCompliant"),
            ],
        },
    )
    get = kubectl.in_namespace(namespace)
    head, row = _table(get("get", "rst"))
    assert head == ["NAME", "TOPOLOGY", "PARTITIONS", "RF", "MINISR", "COMPLIANT", "MOVES", "READY", "REASON", "AGE"]
    assert row[:-1] == ["orders", "prod", "6", "3", "2", "False", "1", "False", "PlanPending"]
    assert "89abcdef" in get("get", "rst", "--output=wide")
    assert "1 of 6 partitions is not spread as asked." in get("get", "rst", "--output=wide")


def test_kubectl_get_shows_the_columns_of_a_report(kubectl, api_server, namespace):
    _stored(
        kubectl,
        api_server,
        namespace,
        REPORT,
        {
            "scanTime": NOW,
            "summary": {
                "topics": 3,
                "partitions": 18,
                "nonCompliant": 1,
                "bySeverity": {"critical": 2, "high": 4},
                "offline": 5,
            },
            "changes": {"new": 6, "cleared": 7},
            "conditions": [_condition("Ready", "True", "ScanCompleted")],
        },
    )
    get = kubectl.in_namespace(namespace)
    head, row = _table(get("get", "rcr"))
    counts = ["TOPICS", "PARTITIONS", "NONCOMPLIANT", "CRITICAL", "HIGH", "NEW", "CLEARED"]
    assert head == ["NAME", "TOPOLOGY", *counts, "SCANNED", "READY", "AGE"]
    assert row[:9] == ["prod", "prod", "3", "18", "1", "2", "4", "6", "7"]
    assert row[10:-1] == ["True"]
    assert "ScanCompleted" in get("get", "rcr", "--output=wide")


def test_kubectl_get_shows_the_progress_of_a_reassignment(kubectl, api_server, namespace):
    _stored(
        kubectl,
        api_server,
        namespace,
        REASSIGNMENT,
        {
            "state": "Running",
            "progress": {"moves": "12/40", "bytes": "1.5 GiB/5.0 GiB", "rate": "50.0 MiB/s"},
            "estimatedEnd": "2026-01-31T12:00:00Z",
            "throttles": 8,
            "waiting": {"partitions": 28, "summary": "28 BrokerOffline"},
        },
    )
    get = kubectl.in_namespace(namespace)
    head, row = _table(get("get", "rra"))
    assert head == ["NAME", "TOPOLOGY", "STATE", "MOVES", "BYTES", "RATE", "ESTIMATED-END", "WAITING", "AGE"]
    told = "prod Running 12/40 1.5 GiB/5.0 GiB 50.0 MiB/s 2026-01-31T12:00:00Z 28 BrokerOffline"
    assert " ".join(row[1:-1]) == told
    assert {"8", "0123456789abcdef"} <= set(get("get", "rra", "--output=wide").split())


def test_kubectl_get_rackspan_lists_objects_of_all_kinds(kubectl, crds, namespace):
    get = kubectl.in_namespace(namespace)
    get.apply(TOPOLOGY, TOPIC, REPORT, REASSIGNMENT)
    names = get("get", "rackspan", "--output=name").split()
    assert names == [
        "compliancereport.rackspan.dev/prod",
        "kafkatopic.rackspan.dev/orders",
        "racktopology.rackspan.dev/prod",
        "reassignment.rackspan.dev/prod-0123456789abcdef",
    ]


@needs_kubernetes(31)
def test_field_selector_selects_topics_by_topology(kubectl, crds, namespace):
    get = kubectl.in_namespace(namespace)
    other = changed(TOPIC, {"metadata": {"name": "other"}, "spec": {"topologyRef": {"name": "test"}}})
    get.apply(TOPIC, other)
    names = get("get", "rst", "--field-selector=spec.topologyRef.name=test", "--output=name").split()
    assert names == ["kafkatopic.rackspan.dev/other"]


def test_kubectl_prints_the_message_of_a_violated_rule(kubectl, crds, namespace):
    topics = kubectl.in_namespace(namespace)
    topics.apply(TOPIC)
    with pytest.raises(KubectlError, match="partitions cannot shrink from 6 to 4, because Kafka cannot"):
        topics.apply(changed(TOPIC, {"spec": {"partitions": 4}}))


def test_kubectl_reports_an_unknown_field(kubectl, crds, namespace):
    with pytest.raises(KubectlError, match=r'unknown field "spec\.replicas"'):
        kubectl.in_namespace(namespace).apply(changed(TOPIC, {"spec": {"replicas": 3}}))


@needs_kubernetes(31)  # older versions drop the selectable fields at each apply
def test_applying_the_definitions_again_changes_nothing(kubectl, crds):
    before = _versions(kubectl, *(f"crd/{name}" for name in crds))
    kubectl.apply(DIRECTORY, arguments=["--server-side"])
    assert _versions(kubectl, *(f"crd/{name}" for name in crds)) == before
    assert len(before) == len(definitions())


@pytest.mark.parametrize("manifest", [TOPOLOGY, FULL_TOPOLOGY, TOPIC, FULL_TOPIC, REPORT], ids=lambda one: one["kind"])
def test_applying_an_object_again_changes_nothing(kubectl, crds, namespace, manifest):
    apply = kubectl.in_namespace(namespace)
    name = f"{manifest['kind']}/{manifest['metadata']['name']}"
    apply.apply(manifest, arguments=["--server-side"])
    apply.apply(manifest, arguments=["--server-side"])  # the second apply stores the default status
    before = _versions(apply, name)
    apply.apply(manifest, arguments=["--server-side"])
    if manifest is FULL_TOPIC and MINOR < 31:  # these versions update a timestamp if a list item has a default
        assert apply.json("get", *name.split("/"))["metadata"]["generation"] == 1
    else:
        assert _versions(apply, name) == before


@pytest.mark.parametrize("manifest", BASES.values(), ids=BASES)
def test_kstatus_of_a_new_object_is_in_progress(kubectl, crds, namespace, kstatus, manifest):
    here = kubectl.in_namespace(namespace)
    for name, command in {"a": ("create",), "b": ("apply",), "c": ("apply", "--server-side")}.items():
        made = changed(manifest, {"metadata": {"name": name}})
        here(*command, "--filename=-", stdin=json.dumps(made))
        found = here.json("get", manifest["kind"], name)
        assert (found["status"], _by_kstatus(kstatus, found)) == ({"observedGeneration": -1}, "InProgress")
        here("apply", *command[1:], "--filename=-", stdin=json.dumps(made))
        assert here.json("get", manifest["kind"], name)["status"] == {"observedGeneration": -1}


@pytest.mark.parametrize("kind", BASES)
def test_kstatus_of_an_object_older_than_the_status_default_is_in_progress(
    kubectl, api_server, namespace, kstatus, kind
):
    group = f"{kind.lower()}.example.com"
    definition = definitions()[kind]
    definition["metadata"] = {"name": f"{definition['spec']['names']['plural']}.{group}"}
    definition["spec"]["group"] = group
    status = version(definition)["schema"]["openAPIV3Schema"]["properties"]["status"]
    default = status.pop("default")
    seen, unseen = (changed(BASES[kind], {"apiVersion": f"{group}/v1alpha1", "metadata": {"name": n}}) for n in "ab")
    here = kubectl.in_namespace(namespace)
    try:
        kubectl.apply(definition)
        kubectl.wait_until_served(definition["metadata"]["name"])
        here.apply(seen, unseen)
        answer = api_server.replace_status(
            namespace, {**api_server.read(namespace, seen), "status": {"observedGeneration": 1}}
        )
        assert answer.accepted, answer.message
        assert "status" not in api_server.read(namespace, unseen)
        status["default"] = default
        kubectl.apply(definition)
        until(lambda: "status" in api_server.read(namespace, unseen), "the default to be served")
        found = [api_server.read(namespace, one) for one in (seen, unseen)]
        assert [_by_kstatus(kstatus, one) for one in found] == ["Current", "InProgress"]
    finally:
        kubectl("delete", "crd", definition["metadata"]["name"], "--ignore-not-found", "--wait=false")


def _by_kstatus(program, found):
    ran = subprocess.run([program], input=json.dumps(found), capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)["status"]


def _versions(kubectl, *names):
    printed = json.loads(kubectl("get", *names, "--output=json"))
    objects = printed.get("items", [printed])
    return {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in objects}

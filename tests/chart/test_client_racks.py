"""Pods with a label get the rack of their node from a MutatingAdmissionPolicy, on a real API server."""

import json

import pytest
from dev.stack.kubectl import KubectlError
from dev.waiting import eventually
from tests.support.kubernetes import needs_kubernetes

pytestmark = needs_kubernetes(36)
ASKS = {"rackspan.dev/client-rack": "main"}
KINDS = {"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"}


def pod(labels=ASKS, **spec):
    containers = [{"name": "app", "image": "app"}, {"name": "beside", "image": "beside"}]
    metadata = {"name": "client", "labels": dict(labels)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


@pytest.fixture(scope="module")
def create(plane):
    """Return a function that creates a pod by a server-side dry run, where racks are published by default."""
    objects = plane.helm.objects({"racks": {"clients": {"enabled": True, "wait": "90s"}}}, release="clients")
    policy = [one for one in objects if one["kind"] in KINDS]
    assert len(policy) == 2
    plane.kubectl.apply(*policy)
    for name, labels in {"with-racks": ["rackspan.dev/publish-racks=kafka.main"], "without-racks": ["a=b"]}.items():
        plane.kubectl("create", "namespace", name)
        plane.kubectl("label", "namespace", name, *labels)

    def made(body, namespace="with-racks"):
        kubectl = plane.kubectl.in_namespace(namespace)
        return json.loads(kubectl.apply(body, arguments=["--dry-run=server", "--output=json"]))["spec"]

    eventually(lambda: "initContainers" in made(pod()), "the policy to be in force", retry_on=KubectlError)
    yield made
    for one in policy:
        plane.kubectl("delete", one["kind"], one["metadata"]["name"])


def unchanged(spec):
    names = {volume["name"] for volume in spec["volumes"]}
    return "initContainers" not in spec and not {"rackspan-nodes", "rackspan-rack"} <= names


def test_pod_with_the_label_gets_its_rack_as_a_variable_and_as_files(create):
    spec = create(pod(securityContext={"runAsUser": 1000}))
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert volumes["rackspan-nodes"]["configMap"]["name"] == "main-racks"
    assert volumes["rackspan-nodes"]["configMap"]["optional"] is True
    assert volumes["rackspan-rack"]["emptyDir"] == {}
    (init,) = spec["initContainers"]
    assert init["image"].startswith("rackspan:")
    assert "--wait 90s --format env --key CLIENT_RACK > /rackspan/rack/client.env" in init["args"][0]
    assert "--format properties --key client.rack > /rackspan/rack/client.properties" in init["args"][0]
    assert init["env"] == [
        {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}}
    ]
    assert init["securityContext"]["runAsNonRoot"] is True
    assert init["resources"] == {}
    assert "runAsUser" not in init["securityContext"]
    for container in spec["containers"]:
        assert {"mountPath": "/etc/rackspan", "name": "rackspan-rack", "readOnly": True} in container["volumeMounts"]
        (variable,) = container["env"]
        key = {"volumeName": "rackspan-rack", "path": "client.env", "key": "CLIENT_RACK", "optional": True}
        assert variable == {"name": "CLIENT_RACK", "valueFrom": {"fileKeyRef": key}}


def test_policy_keeps_the_containers_variables_and_volumes_of_the_pod(create):
    mounts = [{"name": "data", "mountPath": "/data"}]
    variables = [{"name": "A", "value": "b"}]
    containers = [{"name": "app", "image": "app", "env": variables, "volumeMounts": mounts}]
    first = {"name": "first", "image": "first"}
    spec = create(pod(containers=containers, initContainers=[first], volumes=[{"name": "data", "emptyDir": {}}]))
    assert [one["name"] for one in spec["initContainers"]] == ["first", "rackspan-rack"]
    (container,) = spec["containers"]
    assert (container["env"][1], container["volumeMounts"][0]) == (variables[0], mounts[0])
    assert [one["name"] for one in container["env"]] == ["CLIENT_RACK", "A"]  # so that A may refer to it
    assert {"data", "rackspan-nodes", "rackspan-rack"} <= {volume["name"] for volume in spec["volumes"]}


def test_container_with_the_same_mount_path_and_variable_keeps_its_own(create):
    mounts = [{"name": "mine", "mountPath": "/etc/rackspan"}]
    variables = [{"name": "CLIENT_RACK", "value": "/my/own"}]
    containers = [{"name": "app", "image": "app", "env": variables, "volumeMounts": mounts}]
    (container,) = create(pod(containers=containers, volumes=[{"name": "mine", "emptyDir": {}}]))["containers"]
    assert container["env"] == variables
    assert mounts[0] in container["volumeMounts"]
    assert "rackspan-rack" not in {mount["name"] for mount in container["volumeMounts"]}


def test_pod_without_the_label_or_in_another_namespace_is_unchanged(create):
    assert unchanged(create(pod({})))
    assert unchanged(create(pod({"rackspan.dev/client-rack": ""})))
    assert unchanged(create(pod(), namespace="without-racks"))


@pytest.mark.parametrize("name", ["rackspan-nodes", "rackspan-rack"])
def test_pod_with_a_volume_of_the_same_name_is_unchanged(create, name):
    spec = create(pod(volumes=[{"name": name, "emptyDir": {}}]))
    assert unchanged(spec)
    assert {"name": name, "emptyDir": {}} in spec["volumes"]


def test_pod_with_an_init_container_of_the_same_name_is_unchanged(create):
    spec = create(pod(initContainers=[{"name": "rackspan-rack", "image": "mine"}]))
    assert [one["image"] for one in spec["initContainers"]] == ["mine"]
    assert "CLIENT_RACK" not in json.dumps(spec)


@pytest.mark.parametrize(
    "resources",
    [
        {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
        {"requests": {"cpu": "250m"}},
        {"limits": {"memory": "64Mi"}, "requests": {"memory": "64Mi"}},
    ],
)
def test_init_container_has_the_resources_of_the_first_container(create, resources):
    """So the pod keeps its QoS class, and a quota that needs resources of each container admits it."""
    spec = create(pod(containers=[{"name": "app", "image": "app", "resources": resources}]))
    assert [one["resources"] for one in spec["initContainers"]] == [resources]


def test_quota_that_needs_resources_admits_a_pod_that_has_them(create, plane):
    amounts = {"cpu": "1", "memory": "1Gi"}
    container = {"name": "app", "image": "app", "resources": {"requests": amounts, "limits": amounts}}
    hard = {"requests.cpu": "8", "limits.cpu": "8", "requests.memory": "8Gi", "limits.memory": "8Gi"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "all"}, "spec": {"hard": hard}}
    kubectl = plane.kubectl.in_namespace("with-racks")
    kubectl.apply(quota)
    try:
        eventually(lambda: "hard" in kubectl.json("get", "resourcequota", "all").get("status", {}), "the quota")
        with pytest.raises(KubectlError, match=r"must specify limits\.cpu"):
            create(pod())
        assert create(pod(containers=[container]))["initContainers"]
    finally:
        kubectl("delete", "resourcequota", "all")


def test_init_container_of_a_pod_that_runs_as_root_does_not(create):
    """The kubelet starts no container with runAsNonRoot and the user 0, and so not the pod."""
    (init,) = create(pod(securityContext={"runAsUser": 0}))["initContainers"]
    assert init["securityContext"]["runAsUser"] == 10001


def test_releases_of_one_name_in_two_namespaces_have_policies_of_their_own(offline_helm):
    values = {"racks": {"clients": {"enabled": True}}}
    names = {
        one["metadata"]["name"]
        for namespace in ("a", "b")
        for one in offline_helm.objects(values, namespace=namespace)
        if one["kind"] in KINDS
    }
    assert names == {"a.rackspan-client-racks", "b.rackspan-client-racks"}

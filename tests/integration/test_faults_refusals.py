"""The API server refuses writes of the operator to one object, as a webhook may. Other objects are not affected."""

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from tests.support.objects import GROUP, VERSION, condition, message
from tests.support.waiting import until

FINALIZER = "rackspan.dev/finalizer"


@pytest.fixture
def policies(kubectl, namespace):
    """Refuse the finalizer of KafkaTopic `guarded` and the status of `mute`. Yield a function that allows both."""
    rules = {
        f"{namespace}-guarded": (
            "guarded",
            "kafkatopics",
            f"!('{FINALIZER}' in object.metadata.?finalizers.orValue([]))",
        ),
        f"{namespace}-mute": ("mute", "kafkatopics/status", "false"),
    }
    for policy, (name, resource, expression) in rules.items():
        rule = {
            "apiGroups": ["rackspan.dev"],
            "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE"],
            "resources": [resource],
        }
        meant = f"request.namespace == '{namespace}' && object.metadata.name == '{name}'"
        kubectl.apply(
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingAdmissionPolicy",
                "metadata": {"name": policy},
                "spec": {
                    "matchConstraints": {"resourceRules": [rule]},
                    "matchConditions": [{"name": "meant", "expression": meant}],
                    "validations": [{"expression": expression, "message": f"{name} stays as it is"}],
                },
            },
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingAdmissionPolicyBinding",
                "metadata": {"name": policy},
                "spec": {"policyName": policy, "validationActions": ["Deny"]},
            },
        )

    def lift():
        for policy in rules:
            kubectl(
                "delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", policy, "--ignore-not-found"
            )

    yield lift
    lift()


def _is_refused(write):
    try:
        write()
    except ApiException as error:
        return error.status in (403, 422)
    return False


def _write_status(shop, name):
    client.CustomObjectsApi(shop.api).patch_namespaced_custom_object_status(
        GROUP, VERSION, shop.namespace, "kafkatopics", name, {"status": {"partitions": 1}}
    )


def _try_guarded(shop):
    manifest = shop.topic_manifest("guarded")
    manifest["metadata"]["finalizers"] = [FINALIZER]
    client.CustomObjectsApi(shop.api).create_namespaced_custom_object(
        GROUP, VERSION, shop.namespace, "kafkatopics", manifest, dry_run="All"
    )


def test_refused_writes_to_one_object_do_not_delay_others(policies, shop, topics):
    shop.create_topic("mute", annotations={"rackspan.dev/paused": "true"})
    until(lambda: _is_refused(lambda: _try_guarded(shop)), "the policy about finalizers to hold")
    until(lambda: _is_refused(lambda: _write_status(shop, "mute")), "the policy about statuses to hold")

    shop.annotate_topic("mute", {"rackspan.dev/paused": None})
    shop.create_topic("guarded")
    others = [f"other-{number}" for number in range(20)]
    for name in others:
        shop.create_topic(name, deletionPolicy="Delete")
    for name in others:
        shop.until_ready(name)

    def tells_why(obj):
        return condition(obj, "Ready") is not None and "guarded stays as it is" in message(obj)

    told = shop.until("KafkaTopic", "guarded", tells_why, "to tell why")
    assert told["status"]["conditions"], "the status has no conditions about the refused finalizer"
    until(lambda: topics.exists(shop.kafka_name("mute")), "the topic of the object that gets no status")
    for name in others[:3]:
        shop.change_topic(name, partitions=4)
        shop.until_ready(name)

    policies()
    for name in ("guarded", "mute"):
        shop.annotate_topic(name, {"team": "shop"})
        shop.until_ready(name)

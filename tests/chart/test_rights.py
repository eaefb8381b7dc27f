"""The operator has only the rights that it needs, as reported by a real API server."""

import pytest
from dev.stack.kubectl import KubectlError
from dev.waiting import eventually
from tests.chart.conftest import SCANNED, SECRET, SHOP

KINDS = ("kafkatopics", "racktopologies", "compliancereports", "reassignments")
CLUSTER = {
    *((verb, "", resource, "*") for verb in ("list", "watch") for resource in ("nodes", "namespaces")),
    ("get", "", "namespaces", "*"),
    *(
        ("get", "apiextensions.k8s.io", "customresourcedefinitions", f"{plural}.rackspan.dev")
        for plural in ("kafkatopics", "racktopologies")
    ),
}


def namespaced(secret):
    return {
        *((verb, "rackspan.dev", "kafkatopics", "*") for verb in ("list", "watch", "patch")),
        *((verb, "rackspan.dev", "racktopologies", "*") for verb in ("list", "watch", "patch")),
        *((verb, "rackspan.dev", "compliancereports", "*") for verb in ("list", "watch")),
        *((verb, "rackspan.dev", "reassignments", "*") for verb in ("list", "watch", "create", "patch", "delete")),
        ("patch", "rackspan.dev", "kafkatopics/status", "*"),
        ("patch", "rackspan.dev", "reassignments/status", "*"),
        ("patch", "rackspan.dev", "racktopologies/status", "*"),
        *((verb, "", "pods", "*") for verb in ("list", "watch")),
        ("get", "", "secrets", secret),
        *((verb, "", "events", "*") for verb in ("create", "patch")),
    }


def lease(release):
    """Return the rights for the Lease of the active operator, by name, in the namespace of the release."""
    return {
        ("create", "coordination.k8s.io", "leases", "*"),
        *((verb, "coordination.k8s.io", "leases", release.name) for verb in ("get", "patch")),
    }


def test_operator_has_its_rights_in_every_namespace_by_default(wide):
    for namespace in (SHOP, "elsewhere", "kube-system"):
        assert wide.rights(namespace) == CLUSTER | namespaced("*")


def test_operator_has_rights_only_in_watched_namespaces_if_these_are_set(narrow):
    racks = {(verb, "", "configmaps", "*") for verb in ("list", "create", "patch", "delete")}
    restarts = {("get", "", "pods", "*"), ("create", "", "pods/eviction", "*")}
    annotations = {("patch", "", "pods/status", "*")}
    assert narrow.rights(SHOP) == CLUSTER | namespaced(SECRET) | racks | restarts | annotations
    for namespace in ("elsewhere", "kube-system"):
        assert narrow.rights(namespace) == CLUSTER
    assert narrow.rights(narrow.namespace) == CLUSTER | lease(narrow)


def test_operator_with_scans_may_manage_jobs_in_its_own_namespace(scanning):
    jobs = {(verb, "batch", "jobs", "*") for verb in ("list", "create", "delete")} | {("list", "", "pods", "*")}
    assert scanning.rights(SCANNED) == CLUSTER | namespaced("*")
    assert scanning.rights(scanning.namespace) == CLUSTER | jobs | lease(scanning)


def scans_rights(secret):
    return {
        ("get", "rackspan.dev", "racktopologies", "*"),
        *((verb, "rackspan.dev", "compliancereports", "*") for verb in ("create", "patch")),
        ("patch", "rackspan.dev", "compliancereports/status", "*"),
        *((verb, "openreports.io", "reports", "*") for verb in ("create", "patch")),
        ("get", "", "secrets", secret),
    }


def test_scan_may_only_read_its_inputs_and_write_its_reports(scanning, tmp_path):
    everywhere = {
        ("list", "", "nodes", "*"),
        ("list", "", "namespaces", "*"),
        ("list", "rackspan.dev", "kafkatopics", "*"),
    }
    scan = scanning.of_scans(tmp_path / "kubeconfig")
    assert scan.rights(SCANNED) == everywhere | scans_rights("*")
    assert scan.rights(SHOP) == everywhere
    spark = {
        (verb, "", resource, "*")
        for verb in ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
        for resource in ("pods", "configmaps", "services")
    }
    assert scan.rights(scanning.namespace) == everywhere | spark


@pytest.mark.parametrize(
    "command",
    [
        ["get", "secrets", "--namespace=shop"],
        ["get", "secrets", "--all-namespaces"],
        ["create", "secret", "generic", "mine", "--namespace=shop"],
        ["delete", "kafkatopic", "any", "--namespace=shop"],
        ["delete", "racktopology", "any", "--namespace=shop"],
        ["label", "nodes", "any", "a=b"],
        ["delete", "pods", "any", "--namespace=shop"],
        ["get", "leases", "--namespace=kube-system"],
        ["label", "namespace", "shop", "a=b"],
        ["get", "configmaps", "--all-namespaces"],
        ["get", "customresourcedefinitions"],
        ["create", "clusterrolebinding", "mine", "--clusterrole=cluster-admin", "--user=me"],
    ],
    ids=" ".join,
)
def test_api_server_denies_requests_that_the_operator_does_not_need(release, command):
    with pytest.raises(KubectlError, match="orbidden"):
        release.kubectl(*command)


def test_operator_reads_only_the_listed_secrets_if_secret_names_are_set(wide, narrow, plane):
    plane.kubectl("create", "secret", "generic", "other", f"--namespace={SHOP}")
    for release in (wide, narrow):
        assert (
            release.kubectl("get", "secret", SECRET, f"--namespace={SHOP}", "--output=name").strip()
            == f"secret/{SECRET}"
        )
    wide.kubectl("get", "secret", "other", f"--namespace={SHOP}")
    with pytest.raises(KubectlError, match="orbidden"):
        narrow.kubectl("get", "secret", "other", f"--namespace={SHOP}")


@pytest.mark.parametrize(
    ("role", "readable", "writable"),
    [("view", KINDS, ()), ("edit", KINDS, ("kafkatopics",)), ("admin", KINDS, KINDS)],
)
def test_default_cluster_roles_include_the_kinds_of_rackspan(wide, plane, role, readable, writable):
    user = f"a-{role}"
    plane.kubectl("create", "rolebinding", user, f"--clusterrole={role}", f"--user={user}", f"--namespace={SHOP}")

    def allowed(verb):
        found = set()
        for plural in KINDS:
            try:
                plane.kubectl("auth", "can-i", verb, f"{plural}.rackspan.dev", f"--as={user}", f"--namespace={SHOP}")
            except KubectlError:
                continue
            found.add(plural)
        return found

    for verb, plurals in {
        "get": readable,
        "list": readable,
        "create": writable,
        "patch": writable,
        "delete": writable,
    }.items():
        eventually(lambda: allowed(verb) == set(plurals), f"{role} to {verb} {plurals}")  # noqa: B023
    for plural in KINDS:  # the status of a KafkaTopic records which topic it owns
        with pytest.raises(KubectlError):
            plane.kubectl(
                "auth",
                "can-i",
                "patch",
                f"{plural}.rackspan.dev",
                "--subresource=status",
                f"--as={user}",
                f"--namespace={SHOP}",
            )

"""The operator may do what it does, and nothing else: as the API server sees it."""

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
    """What the operator that acts is known by: in the release's namespace only, and by its name."""
    return {
        ("create", "coordination.k8s.io", "leases", "*"),
        *((verb, "coordination.k8s.io", "leases", release.name) for verb in ("get", "patch")),
    }


def test_by_default_the_rights_hold_in_every_namespace(wide):
    for namespace in (SHOP, "elsewhere", "kube-system"):
        assert wide.rights(namespace) == CLUSTER | namespaced("*")


def test_with_watched_namespaces_the_rights_end_there(narrow):
    racks = {(verb, "", "configmaps", "*") for verb in ("list", "create", "patch", "delete")}
    restarts = {("get", "", "pods", "*"), ("create", "", "pods/eviction", "*")}
    annotations = {("patch", "", "pods/status", "*")}
    assert narrow.rights(SHOP) == CLUSTER | namespaced(SECRET) | racks | restarts | annotations
    for namespace in ("elsewhere", "kube-system"):
        assert narrow.rights(namespace) == CLUSTER
    assert narrow.rights(narrow.namespace) == CLUSTER | lease(narrow)


def test_with_scans_the_operator_also_starts_jobs_where_it_runs(scanning):
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


def test_a_scan_may_read_what_it_judges_and_write_its_reports(scanning, tmp_path):
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
def test_the_operator_is_turned_away(release, command):
    with pytest.raises(KubectlError, match="orbidden"):
        release.kubectl(*command)


def test_a_secret_is_read_by_its_name(wide, narrow, plane):
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
def test_the_clusters_own_roles_reach_rackspans_kinds(wide, plane, role, readable, writable):
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
    for plural in KINDS:  # whose a topic is stands in its object's status
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

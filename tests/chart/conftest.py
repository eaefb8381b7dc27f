"""A control plane for the tests of the chart, which installs cluster-wide objects: definitions and rights."""

import dataclasses
import json
import secrets
from dataclasses import dataclass

import pytest
from dev.stack.control_plane import Cluster, ControlPlane
from dev.stack.kubectl import Kubectl
from dev.stack.processes import free_ports
from kubernetes import client, config
from tests.support.helm import CHART, Helm

AUDIT_POLICY = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}
SHOP, SECRET, SCANNED = "shop", "kafka-login", "scanned"


@pytest.fixture(scope="session")
def offline_helm(helm):
    """Return helm without a cluster."""
    return Helm(helm)


@dataclass(frozen=True)
class Request:
    """One line of the API server's audit log. `code` is None before the response."""

    verb: str
    group: str
    resource: str
    namespace: str | None
    code: int | None


@dataclass(frozen=True)
class Plane:
    """A control plane and the audit log of its API server, which records every request."""

    cluster: Cluster
    helm: Helm
    audit: object

    @property
    def kubectl(self):
        return self.cluster.kubectl

    def requests(self, user):
        """Yield the requests of `user` for objects, except those of the tests: by kubectl, and reviews of rights."""
        for line in self.audit.read_text().rpartition("\n")[0].splitlines():  # the last line may be incomplete
            event = json.loads(line)
            target = event.get("objectRef", {})
            # A request that ended before authentication has no user name.
            own = event["user"].get("username") == user and not event.get("userAgent", "").startswith("kubectl")
            if own and "resource" in target and not target.get("apiGroup", "").startswith("auth"):
                resource = "/".join(filter(None, [target["resource"], target.get("subresource")]))
                code = event.get("responseStatus", {}).get("code")
                yield Request(event["verb"], target.get("apiGroup", ""), resource, target.get("namespace"), code)


@pytest.fixture(scope="session")
def plane(endings, processes, kubernetes_binaries, helm):
    directory = processes.directory / "chart-kubernetes"
    directory.mkdir()
    policy, audit = directory / "audit-policy.json", directory / "audit.log"
    policy.write_text(json.dumps(AUDIT_POLICY))
    flags = [f"--audit-policy-file={policy}", f"--audit-log-path={audit}", "--audit-log-maxsize=1000"]
    started = ControlPlane.start(directory, processes, kubernetes_binaries, apiserver_flags=flags)
    endings.after("chart").callback(started.destroy)
    for name in (SHOP, SCANNED, "elsewhere"):
        started.kubectl("create", "namespace", name)
    for name in (SHOP, SCANNED):
        started.kubectl(
            "create",
            "secret",
            "generic",
            SECRET,
            f"--namespace={name}",
            "--from-literal=username=rackspan",
            f"--from-literal=password={secrets.token_hex()}",
        )
    return Plane(started.cluster, Helm(helm, started.kubeconfig), audit)


@dataclass(frozen=True)
class Release:
    """An installed chart. `path` is a kubeconfig with the rights of its ServiceAccount."""

    plane: Plane
    name: str
    namespace: str
    port: int
    path: object
    watched: str = SHOP

    def of_scans(self, path):
        """Return this release with a kubeconfig for the ServiceAccount of its scans."""
        self.plane.cluster.kubeconfig_for_service_account(self.namespace, f"{self.name}-scan", path)
        return dataclasses.replace(self, path=path)

    @property
    def user(self):
        return f"system:serviceaccount:{self.namespace}:{self.name}"

    @property
    def kubectl(self):
        """kubectl with the rights of the operator only."""
        return Kubectl(self.plane.kubectl.binary, self.path)

    def rights(self, namespace):
        """Return the granted (verb, group, resource, object name or *) in a namespace, except those of every user."""
        with config.new_client_from_config(str(self.path)) as api:
            body = client.V1SelfSubjectRulesReview(spec=client.V1SelfSubjectRulesReviewSpec(namespace=namespace))
            answer = client.AuthorizationV1Api(api).create_self_subject_rules_review(body).status
        assert not answer.incomplete
        return {
            (verb, group, resource, name)
            for rule in answer.resource_rules
            for verb in rule.verbs
            for group in rule.api_groups
            for resource in rule.resources
            for name in rule.resource_names or ["*"]
            if group not in ("authorization.k8s.io", "authentication.k8s.io")  # reviews that every user may create
        }


def install(plane, name, namespace, tmp_path_factory, values):
    port = free_ports(1)[0]
    plane.helm(
        "install",
        name,
        CHART,
        f"--namespace={namespace}",
        "--create-namespace",
        values={"listenPort": port, "fullnameOverride": name, **values},
    )
    path = tmp_path_factory.mktemp(name) / "kubeconfig"
    plane.cluster.kubeconfig_for_service_account(namespace, name, path)
    return Release(plane, name, namespace, port, path)


@pytest.fixture(scope="session")
def wide(plane, tmp_path_factory):
    """Return the chart installed with its defaults."""
    release = install(plane, "wide", "rackspan-wide", tmp_path_factory, {})
    plane.kubectl.wait_until_served()
    return release


@pytest.fixture(scope="session")
def narrow(plane, wide, tmp_path_factory):
    """Return the chart installed for one namespace and one Secret. The other release installed the definitions."""
    racks = {"namespaces": [SHOP], "restart": [SHOP], "annotate": [SHOP]}
    values = {"watchNamespaces": [SHOP], "secretNames": [SECRET], "racks": racks, "crds": {"install": False}}
    return install(plane, "narrow", "rackspan-narrow", tmp_path_factory, values)


@pytest.fixture(scope="session")
def scanning(plane, wide, tmp_path_factory):
    """Return the chart installed with scans, for a separate namespace."""
    scan = {"enabled": True, "sparkOnKubernetes": True}
    values = {"watchNamespaces": [SCANNED], "scan": scan, "crds": {"install": False}}
    release = install(plane, "scanning", "rackspan-scanning", tmp_path_factory, values)
    return dataclasses.replace(release, watched=SCANNED)


@pytest.fixture(scope="session")
def without_applications(plane, wide, tmp_path_factory):
    """Return the chart installed with scans as Jobs, without SparkApplications, for a separate namespace."""
    watched = "jobs-only"
    plane.kubectl("create", "namespace", watched)
    values = {"watchNamespaces": [watched], "scan": {"enabled": True}, "crds": {"install": False}}
    release = install(plane, watched, f"rackspan-{watched}", tmp_path_factory, values)
    return dataclasses.replace(release, watched=watched)


@pytest.fixture(params=["wide", "narrow", "scanning"])
def release(request):
    return request.getfixturevalue(request.param)

"""Objects that the chart renders, values that it rejects, and their validation by a real API server."""

import asyncio
import json
import re
import sys
import tomllib

import pytest
import yaml
from dev.paths import REPOSITORY
from dev.pods.images import NAMES
from dev.stack.assets import kubernetes_versions
from tests.chart.conftest import SHOP
from tests.support.helm import CHART, HelmError, only
from tests.support.kubernetes import MINOR

from rackspan.health import HealthServer
from rackspan.reconcile.scans.scan_manifests import SELECTOR
from rackspan.reconcile.scans.scan_setup import Allowance, ScanLimits

EVERYTHING = {
    "image": {
        "repository": "registry.example.com:5000/data/rackspan",
        "digest": "sha256:" + "a" * 64,
        "pullPolicy": "Always",
    },
    "imagePullSecrets": [{"name": "pull"}],
    "crds": {"keep": False},
    "watchNamespaces": [SHOP, "elsewhere"],
    "secretNames": ["kafka-login", "kafka-ca"],
    "racks": {
        "namespaces": [SHOP, "elsewhere"],
        "restart": [SHOP],
        "annotate": ["elsewhere"],
        "clients": {"enabled": MINOR >= 36},
    },
    "resyncSeconds": 7.5,
    "topologiesPerNamespace": 3,
    "kafka": {"trustedNamespaces": [SHOP], "trusted": {"memory": 512}, "untrusted": {"max": 2, "memory": 96}},
    "listenPort": 9100,
    "log": {"format": "text", "level": "debug"},
    "serviceAccount": {"annotations": {"example.com/role": "kafka"}},
    "metrics": {"service": {"port": 80, "labels": {"scrape": "yes"}, "annotations": {"prometheus.io/scrape": "true"}}},
    "scan": {
        "enabled": True,
        "image": {"repository": "registry.example.com/rackspan-scan", "tag": "1"},
        "trustedNamespaces": [SHOP],
        "allowedLocations": ["s3a://audit/{namespace}", "/data", "abfss://audit@acme.dfs.core.windows.net/{namespace}"],
        "allowedClaims": ["scans"],
        "limits": {"cpu": "2", "historyDays": 365},
        "maxRunning": 9,
        "tmpSize": "1Gi",
        "storeSecret": "audit-store",
        "sparkOnKubernetes": True,
        "sparkApplications": True,
        "pod": {"nodeSelector": {"scans": "yes"}},
    },
    "networkPolicy": {
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        "egress": [{"ports": [{"port": 443}]}],
        "scanEgress": [{"ports": [{"port": 9092}]}],
    },
    "resources": {"limits": {"cpu": "2", "memory": "1Gi"}},
    "probes": {"liveness": {"periodSeconds": 60}},
    "terminationGracePeriodSeconds": 5,
    "priorityClassName": "system-cluster-critical",
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "infra", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "infra", "operator": "Exists"}]}]
            }
        }
    },
    "podLabels": {"team": "data"},
    "podAnnotations": {"example.com/note": "operator"},
    "replicas": 2,
    "podDisruptionBudget": {"enabled": True},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
    "extraObjects": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-extra"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "second"}, "stringData": {"note": "plain"}},
    ],
    "extraEnv": [
        {"name": "RACKSPAN_LISTEN_HOST", "value": "::"},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ],
}


def test_chart_passes_helm_lint(offline_helm):
    assert "0 chart(s) failed" in offline_helm("lint", "--strict", CHART)


@pytest.mark.parametrize(
    "values", [{}, EVERYTHING, {"crds": {"install": False}, "rbac": {"create": False, "aggregate": False}}]
)
def test_api_server_accepts_every_rendered_object(offline_helm, plane, wide, values):
    rendered = offline_helm.render(values, release="tried", namespace="elsewhere")
    printed = plane.kubectl.apply(rendered, arguments=["--dry-run=server", "--validate=strict"])
    objects = [found for found in yaml.safe_load_all(rendered) if found]
    assert len(re.findall(r"\(server dry run\)$", printed, re.MULTILINE)) == len(objects)


def texts(value, key=""):
    """Yield the values below keys for which the API server accepts only strings."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from texts(inner, key if key in ("labels", "matchLabels") else name)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner, key)
    elif key in ("name", "namespace", "labels", "matchLabels", "serviceAccountName", "priorityClassName"):
        yield value


def test_names_that_look_like_numbers_and_booleans_stay_strings(offline_helm):
    values = {
        "crds": {"install": False},
        "nameOverride": "1e3",
        "priorityClassName": "true",
        "watchNamespaces": ["123", "0x1"],
        "racks": {"namespaces": ["007"], "restart": ["null"], "annotate": ["yes"], "clients": {"enabled": MINOR >= 36}},
        "serviceAccount": {"name": "123"},
        "scan": {**EVERYTHING["scan"], "serviceAccount": {"name": "456"}, "trustedNamespaces": ["123"]},
        "metrics": {"podMonitor": {"enabled": True}, "rules": {"enabled": True}, "dashboard": {"enabled": True}},
        "podDisruptionBudget": {"enabled": True},
    }
    rendered = offline_helm.render(values, release="42", namespace="7")
    found = [text for item in yaml.safe_load_all(rendered) for text in texts(item)]
    assert {"42", "7", "123", "007", "null", "yes", "true", "456", "1e3"} <= {*found}
    assert [text for text in found if not isinstance(text, str)] == []


def test_all_values_reach_the_deployment(offline_helm):
    deployment = only(offline_helm.objects(EVERYTHING), "Deployment")
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    environment = {entry["name"]: entry.get("value") for entry in container["env"]}
    limits = Allowance.read((), (), json.loads(environment.pop("RACKSPAN_SCAN_LIMITS"))).limits
    assert limits == ScanLimits(cpu="2", history_days=365), "defaults of chart and operator differ"
    assert environment == {
        "RACKSPAN_NAMESPACES": f"{SHOP} elsewhere",
        "RACKSPAN_RESYNC_SECONDS": "7.5",
        "RACKSPAN_PUBLISH_RACKS_TO": f"{SHOP} elsewhere",
        "RACKSPAN_RESTART_PODS_IN": SHOP,
        "RACKSPAN_ANNOTATE_PODS_IN": "elsewhere",
        "RACKSPAN_TOPOLOGIES_PER_NAMESPACE": "3",
        "RACKSPAN_KAFKA_TRUSTED_NAMESPACES": SHOP,
        "RACKSPAN_KAFKA_TRUSTED_MEMORY_MIB": "512",
        "RACKSPAN_KAFKA_UNTRUSTED_MAX": "2",
        "RACKSPAN_KAFKA_UNTRUSTED_MEMORY_MIB": "96",
        "RACKSPAN_LISTEN_PORT": "9100",
        "RACKSPAN_LOG_FORMAT": "text",
        "RACKSPAN_LOG_LEVEL": "debug",
        "RACKSPAN_LEASE_NAMESPACE": "rackspan",
        "RACKSPAN_LEASE_NAME": "rackspan",
        "RACKSPAN_LEASE_IDENTITY": None,
        "RACKSPAN_SCAN_IMAGE": "registry.example.com/rackspan-scan:1",
        "RACKSPAN_SCAN_NAMESPACE": "rackspan",
        "RACKSPAN_SCAN_SERVICE_ACCOUNT": "rackspan-scan",
        "RACKSPAN_SCAN_PULL_POLICY": "IfNotPresent",
        "RACKSPAN_SCAN_TRUSTED_NAMESPACES": SHOP,
        "RACKSPAN_SCAN_ALLOWED_LOCATIONS": (
            "s3a://audit/{namespace} /data abfss://audit@acme.dfs.core.windows.net/{namespace}"
        ),
        "RACKSPAN_SCAN_ALLOWED_CLAIMS": "scans",
        "RACKSPAN_SCAN_MAX_RUNNING": "9",
        "RACKSPAN_SCAN_TMP_SIZE": "1Gi",
        "RACKSPAN_SCAN_STORE_SECRET": "audit-store",
        "RACKSPAN_SCAN_POD": '{"imagePullSecrets":[{"name":"pull"}],"nodeSelector":{"scans":"yes"}}',
        "RACKSPAN_LISTEN_HOST": "::",
        "POD": None,
    }
    assert container["image"] == f"registry.example.com:5000/data/rackspan@sha256:{'a' * 64}"
    assert container["imagePullPolicy"] == "Always"
    assert container["ports"] == [{"name": "http", "containerPort": 9100}]
    assert container["livenessProbe"]["periodSeconds"] == 60
    assert container["resources"]["limits"] == {"cpu": "2", "memory": "1Gi"}
    for key in (
        "terminationGracePeriodSeconds",
        "priorityClassName",
        "nodeSelector",
        "tolerations",
        "affinity",
        "imagePullSecrets",
    ):
        assert pod["spec"][key] == EVERYTHING[key]
    assert pod["metadata"]["labels"].items() >= {("team", "data")}
    assert pod["metadata"]["annotations"]["example.com/note"] == "operator"


def test_large_number_in_a_file_of_values_reaches_the_operator_in_digits(offline_helm):
    values = {
        "topologiesPerNamespace": 1_000_000,
        "kafka": {"trusted": {"memory": 2**20}, "untrusted": {"max": 1_000_000, "memory": 2**20}},
        "scan": {"enabled": True, "maxRunning": 1_000_000},
    }
    (container,) = only(offline_helm.objects(values), "Deployment")["spec"]["template"]["spec"]["containers"]
    environment = {entry["name"]: entry.get("value") for entry in container["env"]}
    found = {name: environment[f"RACKSPAN_{name}"] for name in ("TOPOLOGIES_PER_NAMESPACE", "SCAN_MAX_RUNNING")}
    assert found == dict.fromkeys(found, "1000000")
    found = {key: value for key, value in environment.items() if key.startswith("RACKSPAN_KAFKA_") and value}
    assert set(found.values()) == {"1000000", "1048576"}


def test_annotation_of_the_chart_gives_way_to_that_of_the_values(offline_helm):
    own = {"podAnnotations": {"kubectl.kubernetes.io/default-container": "sidecar"}}
    (deployment,) = [text for text in offline_helm.render(own).split("\n---\n") if "kind: Deployment" in text]
    assert re.findall("default-container: (.*)", deployment) == ["sidecar"]


@pytest.mark.parametrize(
    ("release", "values"), [("r" * 53, {}), ("r" * 53, {"nameOverride": "n" * 63}), ("kafka.eu", {})]
)
def test_names_of_services_and_jobs_are_labels_of_dns_for_any_release(offline_helm, release, values):
    found = [*offline_helm.objects(values, release=release), *offline_helm.hooks(values, release=release)]
    names = {one["kind"]: one["metadata"]["name"] for one in found if one["kind"] in ("Service", "Job", "Deployment")}
    assert len(names) == 3
    assert [name for name in names.values() if not re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", name)] == []
    command = only(found, "Job")["spec"]["template"]["spec"]["containers"][0]["args"]
    assert command == ["release", f"--operator=rackspan/{names['Deployment']}"]


def policies(objects):
    return {item["metadata"]["name"]: item["spec"] for item in objects if item["kind"] == "NetworkPolicy"}


def selects(selector, labels):
    """Return whether a selector of a NetworkPolicy selects a pod with these labels."""
    listed = all(labels.get(one["key"]) in one["values"] for one in selector.get("matchExpressions", ()))
    return listed and selector["matchLabels"].items() <= labels.items()


def test_network_policy_allows_only_the_metrics_port_of_the_operator(offline_helm):
    objects = offline_helm.objects()
    (spec,) = policies(objects).values()
    (container,) = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    (rule,) = spec["ingress"]
    assert [one["port"] for one in rule["ports"]] == [one["containerPort"] for one in container["ports"]]
    ours = [only(objects, "Deployment"), only(offline_helm.hooks(), "Job")]
    assert all(selects(spec["podSelector"], one["spec"]["template"]["metadata"]["labels"]) for one in ours)
    scans = only(offline_helm.objects(EVERYTHING), "Deployment")["spec"]["selector"]["matchLabels"]
    assert not selects(spec["podSelector"], {**scans, "app.kubernetes.io/name": "rackspan-scan"})
    assert policies(offline_helm.objects({"networkPolicy": {"enabled": False}})) == {}


def test_network_policy_allows_only_spark_pods_to_reach_each_other(offline_helm):
    spec = policies(offline_helm.objects(EVERYTHING))["rackspan-scans"]
    (rule,) = spec["ingress"]
    (source,) = rule["from"]
    assert source["podSelector"] == spec["podSelector"]
    chosen = {f"{key}={value}" for key, value in spec["podSelector"]["matchLabels"].items()}
    assert chosen >= set(SELECTOR.split(",")), "the policy must select the labels of scans and executors"
    assert [one["port"] for one in rule["ports"]] == [7078, 7079]
    assert {"to": [{"podSelector": spec["podSelector"]}]} in spec["egress"]


@pytest.mark.parametrize(("values", "replicas"), [({}, 1), ({"replicas": 2}, 2)])
def test_update_starts_a_new_pod_before_it_stops_an_old_one(offline_helm, values, replicas):
    """Pods that wait for the Lease are ready. Only one acts, and the next one acts soon after the old one ends."""
    spec = only(offline_helm.objects(values), "Deployment")["spec"]
    assert spec["replicas"] == replicas
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}


def test_disruption_budget_selects_only_the_pods_of_the_operator(offline_helm):
    assert "PodDisruptionBudget" not in {item["kind"] for item in offline_helm.objects()}
    objects = offline_helm.objects(EVERYTHING)
    spec = only(objects, "PodDisruptionBudget")["spec"]
    assert spec == {"maxUnavailable": 1, "selector": only(objects, "Deployment")["spec"]["selector"]}


def test_spread_constraint_without_a_selector_gets_that_of_the_operator(offline_helm):
    own = {"matchLabels": {"app": "other"}}
    (given,) = EVERYTHING["topologySpreadConstraints"]
    objects = offline_helm.objects({"topologySpreadConstraints": [given, {**given, "labelSelector": own}]})
    spec = only(objects, "Deployment")["spec"]
    selectors = [one["labelSelector"] for one in spec["template"]["spec"]["topologySpreadConstraints"]]
    assert selectors == [spec["selector"], own]


def test_extra_objects_are_rendered_as_templates(offline_helm):
    names = {item["kind"]: item["metadata"]["name"] for item in offline_helm.objects(EVERYTHING)}
    assert (names["ConfigMap"], names["Secret"]) == ("rackspan-extra", "second")


def test_job_of_the_uninstall_has_the_environment_labels_and_annotations_of_the_operator(offline_helm):
    pod = only(offline_helm.hooks(EVERYTHING), "Job")["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert container["env"][-2:] == EVERYTHING["extraEnv"]
    assert pod["metadata"]["annotations"] == EVERYTHING["podAnnotations"]
    assert pod["metadata"]["labels"].items() >= {("team", "data"), ("app.kubernetes.io/name", "rackspan-release")}
    own = {"podLabels": {"app.kubernetes.io/name": "mine"}}
    pod = only(offline_helm.hooks(own), "Job")["spec"]["template"]
    assert pod["metadata"]["labels"]["app.kubernetes.io/name"] == "rackspan-release"


class Answers:
    """Health of an operator whose /readyz returns `ok`."""

    def __init__(self, ok):
        self.ok = ok

    def alive(self):
        return {"ok": True}

    def ready(self):
        return {"ok": self.ok}


@pytest.mark.parametrize("ok", [True, False])
async def test_helm_test_succeeds_only_if_the_operator_is_ready(offline_helm, ok):
    (pod,) = [hook for hook in offline_helm.hooks() if hook["metadata"]["annotations"]["helm.sh/hook"] == "test"]
    (container,) = pod["spec"]["containers"]
    program, *arguments, url = [*container["command"], *container["args"]]
    assert (program, url) == ("python", "http://rackspan-metrics:8080/readyz")
    server = HealthServer(Answers(ok), "127.0.0.1", 0)
    await server.start()
    try:
        local = f"http://127.0.0.1:{server.port}/readyz"
        done = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, local, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        output, _ = await done.communicate()
    finally:
        await server.stop()
    assert (done.returncode == 0) is ok
    assert f'"ok": {str(ok).lower()}'.encode() in output


def test_helm_test_requires_the_service_and_passes_the_network_policy(offline_helm):
    def tests(values):
        return [one for one in offline_helm.hooks(values) if one["metadata"]["annotations"]["helm.sh/hook"] == "test"]

    assert tests({"metrics": {"service": {"enabled": False}}}) == []
    values = {"networkPolicy": {"metricsFrom": [{"namespaceSelector": {}}]}}
    (pod,), (spec,) = tests(values), policies(offline_helm.objects(values)).values()
    *_, allowed = spec["ingress"][0]["from"]
    assert allowed["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert only(offline_helm.objects(), "Service")["spec"]["selector"].items() - pod["metadata"]["labels"].items()


def test_restricted_pod_security_admits_the_operator(offline_helm, plane):
    kubectl = plane.kubectl
    kubectl("create", "namespace", "restricted")
    kubectl("label", "namespace", "restricted", "pod-security.kubernetes.io/enforce=restricted")
    kubectl("create", "serviceaccount", "rackspan", "--namespace=restricted")
    template = only(offline_helm.objects(namespace="restricted"), "Deployment")["spec"]["template"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "tried", "namespace": "restricted"},
        "spec": template["spec"],
    }
    assert "tried created (server dry run)" in kubectl.apply(pod, arguments=["--dry-run=server"])
    (container,) = template["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_operator_pod_has_no_service_links(offline_helm):
    # With links, a Service named rackspan would set RACKSPAN_PORT and similar variables in the pods of its namespace.
    assert only(offline_helm.objects(), "Deployment")["spec"]["template"]["spec"]["enableServiceLinks"] is False


@pytest.mark.parametrize(("kind", "value"), [("PodMonitor", "podMonitor"), ("ServiceMonitor", "serviceMonitor")])
def test_monitors_select_the_metrics_endpoint_of_the_chart(offline_helm, kind, value):
    assert kind not in {item["kind"] for item in offline_helm.objects()}
    objects = offline_helm.objects(
        {"metrics": {value: {"enabled": True, "interval": "1m", "labels": {"release": "prometheus"}}}}
    )
    monitor = only(objects, kind)
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    (endpoint,) = monitor["spec"].get("podMetricsEndpoints") or monitor["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["path"], endpoint["interval"]) == ("http", "/metrics", "1m")
    scraped = (
        only(objects, "Service")["metadata"]
        if value == "serviceMonitor"
        else only(objects, "Deployment")["spec"]["template"]["metadata"]
    )
    assert monitor["spec"]["selector"]["matchLabels"].items() <= scraped["labels"].items()


# -- resource definitions --------------------------------------------------------------------------------------------


def definitions(documents):
    return {item["metadata"]["name"]: item for item in documents if item["kind"] == "CustomResourceDefinition"}


def test_definitions_of_the_chart_equal_those_of_the_repository(offline_helm):
    source = definitions(yaml.safe_load(path.read_text()) for path in (REPOSITORY / "crds").glob("*.yaml"))
    rendered = definitions(offline_helm.objects())
    assert source
    remedy = "copy them: cp crds/*.yaml charts/rackspan/files/crds/"
    assert {name: item["spec"] for name, item in rendered.items()} == {n: item["spec"] for n, item in source.items()}, (
        remedy
    )


def test_definitions_are_kept_on_uninstall_unless_keep_is_false(offline_helm):
    policy = "helm.sh/resource-policy"
    kept = definitions(offline_helm.objects()).values()
    assert {item["metadata"]["annotations"][policy] for item in kept} == {"keep"}
    given_up = definitions(offline_helm.objects({"crds": {"keep": False}})).values()
    assert not any(policy in item["metadata"].get("annotations", {}) for item in given_up)
    assert definitions(offline_helm.objects({"crds": {"install": False}})) == {}


def test_all_files_have_the_version_of_the_project():
    """pyproject.toml defines the version. Other files have copies."""
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    copies = {"Chart.yaml version": chart["version"], "Chart.yaml appVersion": chart["appVersion"]}
    copies["plugins/pom.xml"] = re.search(r"<version>(.+?)</version>", (REPOSITORY / "plugins/pom.xml").read_text())[1]
    places = [REPOSITORY / "Dockerfile", CHART / "Chart.yaml"]
    for folder in ("docs", "examples", "images"):
        places += [path for path in (REPOSITORY / folder).rglob("*") if path.suffix in (".md", ".yaml", ".sh")]
    for path in [*places, REPOSITORY / "README.md"]:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for found in re.findall(r"(?:\brackspan(?:-scan)?:|ARG VERSION=)v?(\d+\.[\w.-]*)", line):
                copies[f"{path.relative_to(REPOSITORY)}:{number}"] = found
    assert sum(name.startswith("Dockerfile") for name in copies) == 4
    assert sum(name.startswith("examples") for name in copies) >= 6
    assert {name: copy for name, copy in copies.items() if copy != version} == {}


def test_annotations_list_definitions_examples_and_images_for_artifact_hub():
    """https://artifacthub.io/docs/topics/annotations/helm/"""
    annotations = yaml.safe_load((CHART / "Chart.yaml").read_text())["annotations"]
    listed = {item["name"]: item for item in yaml.safe_load(annotations["artifacthub.io/crds"])}
    for path in (REPOSITORY / "crds").glob("*.yaml"):
        definition = yaml.safe_load(path.read_text())
        (version,) = definition["spec"]["versions"]
        assert (
            listed.pop(definition["metadata"]["name"]).items()
            >= {
                "kind": definition["spec"]["names"]["kind"],
                "version": version["name"],
                "description": version["schema"]["openAPIV3Schema"]["description"],
            }.items()
        )
    assert listed == {}
    examples = REPOSITORY / "examples"
    applied = [yaml.safe_load(path.read_text()) for path in (examples / "racktopology.yaml", examples / "archive.yaml")]
    assert yaml.safe_load(annotations["artifacthub.io/crdsExamples"]) == applied
    images = [item["image"] for item in yaml.safe_load(annotations["artifacthub.io/images"])]
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert images == [f"ghcr.io/rackspan/{name}:{version}" for name in NAMES.values()]


def test_chart_has_a_home_an_icon_sources_and_maintainers():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart.keys() >= {"home", "icon", "sources", "maintainers"}
    assert (REPOSITORY / "docs" / "img" / chart["icon"].rpartition("/img/")[2]).is_file()


def test_chart_rejects_a_kubernetes_version_that_is_too_old(offline_helm):
    arguments = ("template", "rackspan", CHART, "--kube-version")
    with pytest.raises(HelmError, match=r"incompatible with Kubernetes v1\.29\.9"):
        offline_helm(*arguments, "1.29.9")
    assert offline_helm(*arguments, "v1.30.0-eks-1a2b3c")
    with pytest.raises(HelmError, match=r"racks\.clients\.enabled needs Kubernetes 1\.36 or newer: this is v1\.35\.9"):
        offline_helm(*arguments, "v1.35.9", "--set=racks.clients.enabled=true")
    oldest = re.search(r"Kubernetes (\d+\.\d+) or newer", (REPOSITORY / "docs" / "install.md").read_text())[1]
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"] == f">={oldest}.0-0"
    assert kubernetes_versions()[0].startswith(f"{oldest}."), "tests must also run on the oldest version"


# -- values ----------------------------------------------------------------------------------------------------------

REFUSED = [
    ({"replicaCount": 2}, "additional properties 'replicaCount' not allowed"),
    ({"replicas": 0}, "at '/replicas': minimum: got 0, want 1"),
    ({"podDisruptionBudget": {"maxUnavailable": True}}, "at '/podDisruptionBudget/maxUnavailable'"),
    ({"topologySpreadConstraints": [{"maxSkew": 1}]}, "at '/topologySpreadConstraints/0': missing properties"),
    ({"extraObjects": [{"kind": "ConfigMap"}]}, "at '/extraObjects/0': missing properties 'apiVersion', 'metadata'"),
    ({"replicas": None}, "at '': missing property 'replicas'"),
    ({"kafka": {"trusted": None}}, "at '/kafka': missing property 'trusted'"),
    ({"probes": {"liveness": None}}, "at '/probes': missing property 'liveness'"),
    ({"image": {"repository": ""}}, "at '/image/repository'"),
    ({"image": {"repository": "registry.example.com/rackspan:0.1.0"}}, "at '/image/repository'"),
    ({"image": {"repository": "rackspan:0.1.0"}}, "at '/image/repository'"),
    ({"image": {"tag": 1.1}}, "at '/image/tag': got number, want string"),
    ({"image": {"digest": "latest"}}, "at '/image/digest'"),
    ({"image": {"pullPolicy": "Sometimes"}}, "value must be one of 'Always', 'IfNotPresent', 'Never'"),
    ({"imagePullSecrets": ["pull"]}, "at '/imagePullSecrets/0': got string, want object"),
    ({"watchNamespaces": "shop"}, "at '/watchNamespaces': got string, want array"),
    ({"watchNamespaces": ["shop-*"]}, "at '/watchNamespaces/0'"),
    ({"watchNamespaces": ["shop", "shop"]}, "items at 0 and 1 are equal"),
    ({"secretNames": ["Kafka"]}, "at '/secretNames/0'"),
    ({"racks": {"namespaces": ["kafka-*"]}}, "at '/racks/namespaces/0'"),
    ({"extraEnv": [{"name": "RACKSPAN_PUBLISH_RACKS_TO", "value": "a"}]}, "extraEnv: set racks.namespaces instead"),
    ({"resyncSeconds": 0}, "at '/resyncSeconds': minimum: got 0, want 1"),
    ({"kafka": {"untrusted": {"memory": 63}}}, "at '/kafka/untrusted/memory': minimum: got 63, want 64"),
    ({"topologiesPerNamespace": 0}, "at '/topologiesPerNamespace': minimum: got 0, want 1"),
    ({"listenPort": 80}, "at '/listenPort': minimum: got 80, want 1,024"),
    ({"log": {"level": "verbose"}}, "value must be one of 'debug', 'info', 'warning'"),
    ({"log": {"format": "xml"}}, "value must be one of 'json', 'text'"),
    ({"crds": {"install": "no"}}, "at '/crds/install': got string, want boolean"),
    ({"metrics": {"podMonitor": {"interval": "30"}}}, "at '/metrics/podMonitor/interval'"),
    ({"probes": {"liveness": {"path": "/"}}}, "additional properties 'path' not allowed"),
    ({"nodeSelector": {"ssd": True}}, "at '/nodeSelector/ssd': got boolean, want string"),
    ({"extraEnv": [{"name": "A", "value": 1}]}, "at '/extraEnv/0/value': got number, want string"),
    ({"extraEnv": [{"name": "RACKSPAN_NAMESPACES", "value": "a"}]}, "extraEnv: set watchNamespaces instead"),
    ({"extraEnv": [{"name": "RACKSPAN_SCAN_IMAGE", "value": "a"}]}, "extraEnv: set scan.image instead"),
    ({"extraEnv": [{"name": "RACKSPAN_LEASE_IDENTITY"}]}, "extraEnv: the chart sets RACKSPAN_LEASE_IDENTITY from"),
    ({"extraEnv": [{"name": "RACKSPAN_LEASE_NAMESPACE"}]}, "extraEnv: the chart sets RACKSPAN_LEASE_NAMESPACE from"),
    ({"nameOverride": "My_Name"}, "at '/nameOverride'"),
    ({"fullnameOverride": "123"}, "at '/fullnameOverride'"),
    ({"probes": {"liveness": {"successThreshold": 2}}}, "at '/probes/liveness/successThreshold': value must be 1"),
    ({"scan": {"trustedNamespaces": ["kafka-*"]}}, "at '/scan/trustedNamespaces/0'"),
    ({"scan": {"allowedLocations": ["s3a://b/x?scheme=http"]}}, "at '/scan/allowedLocations/0'"),
    ({"scan": {"allowedLocations": ["s3a://me:secret@b/x"]}}, "at '/scan/allowedLocations/0'"),
    ({"scan": {"allowedLocations": ["abfss://me:secret@b/x"]}}, "at '/scan/allowedLocations/0'"),
    ({"scan": {"limits": {"cpu": 4}}}, "at '/scan/limits/cpu': got number, want string"),
    ({"scan": {"limits": {"gpu": "4"}}}, "additional properties 'gpu' not allowed"),
    ({"scan": {"pod": {"containers": []}}}, "scan.pod: containers is the operator's to set"),
    (
        {"scan": {"enabled": True, "serviceAccount": {"create": False}}},
        "name the ServiceAccount to use in scan.serviceAccount.name",
    ),
    ({"serviceAccount": {"create": False}}, "name the ServiceAccount to use in serviceAccount.name"),
    ({"metrics": {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}}}, "enable one of them"),
    (
        {"metrics": {"serviceMonitor": {"enabled": True}, "service": {"enabled": False}}},
        "needs metrics.service.enabled",
    ),
]


@pytest.mark.parametrize(("values", "sentence"), REFUSED, ids=[json.dumps(values) for values, _ in REFUSED])
def test_invalid_value_is_rejected_with_its_name(offline_helm, values, sentence):
    with pytest.raises(HelmError) as refusal:
        offline_helm.render(values)
    assert sentence in str(refusal.value)


OPEN = ("resources", "podSecurityContext", "securityContext", "labels")
PROBES = ("startup", "liveness", "readiness")


def test_empty_value_may_be_null_and_any_other_is_required(offline_helm):
    """A null removes a default, as does a key of a file with nothing below it."""
    schema = json.loads((CHART / "values.schema.json").read_text())

    def nulls(values, found):
        """Check what is required of these values, and return null for each empty one."""
        found = schema["definitions"][found["$ref"].rpartition("/")[2]] if "$ref" in found else found
        empty = {key for key, value in values.items() if value in ("", [], {})}
        required = {key for key in values.keys() - empty - {*OPEN} if values[key] is not None}
        assert set(found.get("required", ())) == required
        inner = {key: values[key] for key in required - {*PROBES} if isinstance(values[key], dict)}
        return dict.fromkeys(empty) | {key: nulls(value, found["properties"][key]) for key, value in inner.items()}

    def rendered(values):
        values.setdefault("scan", {})["enabled"] = True
        for name in ("rules", "podMonitor"):
            values.setdefault("metrics", {}).setdefault(name, {})["enabled"] = True
        return json.dumps(offline_helm.objects(values)).replace('"value": null', '"value": ""')

    assert rendered(nulls(yaml.safe_load((CHART / "values.yaml").read_text()), schema)) == rendered({})


def flattened(values, prefix=""):
    """Yield values by their dotted path, down to maps with free keys."""
    for key, value in values.items():
        if isinstance(value, dict) and value and key not in OPEN:
            yield from flattened(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def test_documented_values_and_defaults_equal_those_of_the_chart():
    values = dict(flattened(yaml.safe_load((CHART / "values.yaml").read_text())))
    table = (REPOSITORY / "docs" / "reference" / "values.md").read_text()
    rows = re.findall(r"^\| `([\w.]+)` \| (.*?) \|", table, re.MULTILINE)
    documented = {name: yaml.safe_load(default.strip("`")) for name, default in rows}
    assert documented == values

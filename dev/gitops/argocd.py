"""The two components of Argo CD that apply Git to a cluster, its API server, and their Redis, on loopback."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from dev.gitops import own_network
from dev.stack.assets import definitions_of
from dev.stack.control_plane import Cluster
from dev.stack.kubectl import Manifest
from dev.stack.processes import Processes, accepts_connections, free_ports
from dev.waiting import eventually

NAMESPACE = "argocd"
"""The namespace of Applications and of the settings of Argo CD."""
_HOST = "127.0.0.1"


def start_argocd(processes: Processes, programs: Mapping[str, Path], cluster: Cluster) -> str:
    """Apply Argo CD's definitions and empty settings, and start its components. Return the address of its API."""
    cluster.kubectl.apply(definitions_of(programs["argocd"]), arguments=["--server-side"])
    cluster.kubectl.wait_until_served("applications.argoproj.io", "appprojects.argoproj.io")
    cluster.kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    cluster.kubectl.in_namespace(NAMESPACE).apply(*_settings())
    redis, manifests, metrics, server, server_metrics, api = *free_ports(5), _api_port(cluster)
    environment = {
        "ARGOCD_RECONCILIATION_TIMEOUT": "5s",  # the interval for new commits
        "ARGOCD_RECONCILIATION_JITTER": "0",
        "ARGOCD_GPG_ENABLED": "false",
        "ARGOCD_ASK_PASS_SOCK": str(processes.directory / "ask-pass.sock"),
        "ARGOCD_FAKE_IN_CLUSTER": "true",
        "KUBECONFIG": str(cluster.kubeconfig),
        "TMPDIR": str(processes.directory),
    }

    def start(component: str, *flags: str, within: Sequence[int] = ()) -> None:
        command = [str(programs["argocd"]), f"--redis={_HOST}:{redis}", *flags]
        command = own_network.command(within, command) if within else command
        processes.start(component, command, env={**environment, "ARGOCD_BINARY_NAME": component})

    processes.start("argocd-redis", [str(programs["redis"]), f"{_HOST}:{redis}"])
    eventually(lambda: accepts_connections(redis), "Redis to listen")
    start("argocd-repo-server", "--disable-tls", *_listening(manifests, metrics))
    eventually(lambda: accepts_connections(manifests), "Argo CD's repo-server to listen")
    source = [f"--repo-server={_HOST}:{manifests}", "--repo-server-plaintext"]
    control = [f"--namespace={NAMESPACE}", "--persist-resource-health", *source]
    start("argocd-application-controller", *control, within=[redis, manifests, api])
    served = _listening(server, server_metrics)
    start("argocd-server", f"--namespace={NAMESPACE}", "--insecure", "--disable-auth", *served, *source)
    eventually(lambda: accepts_connections(server), "Argo CD's API to listen")
    return f"{_HOST}:{server}"


def _listening(port: int, metrics: int) -> list[str]:
    return [f"--port={port}", f"--metrics-port={metrics}", f"--address={_HOST}", f"--metrics-address={_HOST}"]


def _settings() -> list[Manifest]:
    labels = {"app.kubernetes.io/part-of": "argocd"}
    settings = [("ConfigMap", "argocd-cm"), ("Secret", "argocd-secret")]
    project = {"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}]}
    return [
        *({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": labels}} for kind, name in settings),
        {"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "default"}, "spec": project},
    ]


def _api_port(cluster: Cluster) -> int:
    (shown,) = cluster.kubectl.json("config", "view", "--minify")["clusters"]
    return urlsplit(str(shown["cluster"]["server"])).port or 443

"""A real Kubernetes control plane: etcd, kube-apiserver with RBAC, kube-controller-manager, optionally a scheduler."""

import base64
import json
import os
import signal
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kubernetes import client, config

from dev.progress import need
from dev.stack import assets
from dev.stack.certificates import LOOPBACK_NAMES, Certificate, CertificateAuthority, write_service_account_key
from dev.stack.kubectl import Kubectl
from dev.stack.processes import Processes, free_ports
from dev.waiting import eventually

_RECORD = "controlplane.json"
_LOOPBACK = "127.0.0.1"
_SERVICE_CIDR = "10.96.0.0/16"
_SERVICE_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "10.96.0.1")
# No kubelet renews the leases of nodes without a kubelet. With these controllers, such nodes would become NotReady
# and their pods would be evicted.
_NOT_FOR_HAND_MADE_NODES = ("node-lifecycle-controller", "taint-eviction-controller")


@dataclass(frozen=True, slots=True)
class Cluster:
    """Access to a Kubernetes cluster, from a kubeconfig or a ControlPlane."""

    kubeconfig: Path
    kubectl: Kubectl

    @classmethod
    def named_by_user(cls) -> Self | None:
        """Return the cluster of `$RACKSPAN_KUBECONFIG` with the first kubectl found, or None if it is not set."""
        if not (named := os.environ.get("RACKSPAN_KUBECONFIG")):
            return None
        kubeconfig = Path(named).expanduser().absolute()
        kubectl = assets.find_kubernetes(["kubectl"]).get("kubectl") or Path(need("kubectl", "talk to the cluster"))
        return cls(kubeconfig, Kubectl(kubectl, kubeconfig))

    def api_client(self) -> client.ApiClient:
        """Return a new client of the official library. The caller closes it."""
        api: client.ApiClient = config.new_client_from_config(str(self.kubeconfig))  # type: ignore[no-untyped-call]
        return api

    def kubeconfig_for_service_account(self, namespace: str, name: str, path: Path) -> Path:
        """Write a kubeconfig with a token of a service account to `path`, like the token in its pods."""
        view = json.loads(self.kubectl("config", "view", "--raw", "--minify", "--output=json"))
        server = view["clusters"][0]["cluster"]
        token = self.kubectl("create", "token", name, f"--namespace={namespace}", "--duration=12h").strip()
        return _write_kubeconfig(path, server, f"{namespace}.{name}", {"token": token})


class ControlPlane:
    """A control plane in a directory, run by the Processes of its stack. etcd does not fsync, so data may be lost."""

    def __init__(self, directory: Path, processes: Processes, binaries: dict[str, Path]) -> None:
        self.directory = directory
        self.processes = processes
        self._binaries = binaries
        self._pki = directory / "pki"
        self._etcd_pki = self._pki / "etcd"
        self.kubeconfig = directory / "admin.kubeconfig"
        self.cluster = Cluster(self.kubeconfig, Kubectl(binaries["kubectl"], self.kubeconfig))
        self.kubectl = self.cluster.kubectl
        self._name = directory.name

    @classmethod
    def start(
        cls,
        directory: Path,
        processes: Processes,
        binaries: dict[str, Path],
        *,
        apiserver_flags: Sequence[str] = (),
        scheduler: bool = False,
        address: str = _LOOPBACK,
        kubelets: bool = False,
    ) -> Self:
        """Start an empty control plane in a new directory and wait until it serves. Takes about ten seconds.

        The API server listens at `address`, which must not be loopback if pods have to reach it. With `kubelets`,
        nodes are real and their lifecycle is managed. Otherwise nodes are created without a kubelet.
        """
        plane = cls(directory, processes, binaries)
        directory.mkdir(parents=True, exist_ok=True)
        etcd, peer, secure = free_ports(3)
        plane._issue_certificates(address)
        commands = plane._commands(etcd, peer, secure, list(apiserver_flags), address, kubelets=kubelets)
        plane._write_kubeconfigs(f"https://{address}:{secure}")
        record = {
            "url": f"https://{address}:{secure}",
            "etcd": f"https://127.0.0.1:{etcd}",
            "commands": commands,
            "binaries": {name: str(path) for name, path in binaries.items()},
        }
        (directory / _RECORD).write_text(json.dumps(record, indent=1))
        plane.start_component("etcd")
        plane.start_component("kube-apiserver")
        plane.start_component("kube-controller-manager")
        if scheduler:
            plane.start_component("kube-scheduler")
        return plane

    @classmethod
    def running(cls, directory: Path, processes: Processes) -> Self:
        """Return the running control plane that another process started in `directory`."""
        record = json.loads((directory / _RECORD).read_text())
        return cls(directory, processes, {name: Path(path) for name, path in record["binaries"].items()})

    @property
    def url(self) -> str:
        """The URL of the API server."""
        url: str = json.loads((self.directory / _RECORD).read_text())["url"]
        return url

    def api_client(self) -> client.ApiClient:
        """Return a new client of the official library with all rights. The caller closes it."""
        return self.cluster.api_client()

    @property
    def client_ca(self) -> Path:
        """The CA certificate for the certificates of clients, kubelets and the API server."""
        return self._pki / "ca.crt"

    def kubeconfig_for_component(self, name: str, user: str, groups: Sequence[str] = ()) -> Path:
        """Write a kubeconfig with a new certificate for a component outside of the control plane."""
        return self._write_kubeconfig(name, CertificateAuthority(self._pki).client(name, user, groups), self.url)

    def start_component(self, name: str) -> None:
        """Start one component, also after it was stopped, and wait until it works."""
        record = json.loads((self.directory / _RECORD).read_text())
        self.processes.start(self.process(name), record["commands"][name], cwd=self.directory)
        ready, what = self._probes(record)[name]

        def alive_and_ready() -> bool:
            self.processes.check(self.process(name))
            return ready()

        eventually(alive_and_ready, what, interval=0.05, retry_on=(OSError, urllib.error.URLError))

    def stop_component(self, name: str) -> None:
        """Stop one component, for example the API server, to test clients without it."""
        # The API server would wait half a minute for its watches to end.
        self.processes.stop(self.process(name), grace=1 if name == "kube-apiserver" else 3)

    def freeze_component(self, name: str) -> None:
        """Stop one component by SIGSTOP: its connections stay open, but it does not respond."""
        self.processes.signal(self.process(name), signal.SIGSTOP)

    def thaw_component(self, name: str) -> None:
        self.processes.signal(self.process(name), signal.SIGCONT)

    def stop(self) -> None:
        """Stop all components in the reverse order of their start. Data and ports are kept."""
        for name in reversed(self._started()):
            self.stop_component(name)

    def resume(self) -> None:
        """Start the components that were stopped or have died."""
        for name in self._started():
            if self.processes.pid(self.process(name)) is None:
                self.start_component(name)

    def destroy(self) -> None:
        """Kill all components at once. Their data may be damaged."""
        for name in reversed(self._started()):
            self.processes.kill(self.process(name))

    def process(self, component: str) -> str:
        """Return the name of a component among the processes of the stack."""
        return f"{self._name}.{component}"

    def _started(self) -> list[str]:
        """Return the components that were started, in the order of their first start."""
        prefix = self.process("")
        return [name.removeprefix(prefix) for name in self.processes.names() if name.startswith(prefix)]

    def _issue_certificates(self, address: str) -> None:
        ca = CertificateAuthority(self._pki)
        ca.server("apiserver", tuple(dict.fromkeys((*LOOPBACK_NAMES, *_SERVICE_NAMES, address))))
        ca.client("admin", "rackspan-dev-admin", ["system:masters"])
        ca.client("controller-manager", "system:kube-controller-manager")
        ca.client("scheduler", "system:kube-scheduler")
        ca.client("kubelet-client", "kube-apiserver-kubelet-client", ["system:masters"])
        write_service_account_key(self._pki / "service-account.key")
        # A separate certificate authority, so that clients of the API server cannot connect to etcd.
        etcd = CertificateAuthority(self._etcd_pki)
        etcd.server("etcd")
        etcd.client("client", "kube-apiserver-etcd-client")

    def _write_kubeconfigs(self, url: str) -> None:
        for user in ("admin", "controller-manager", "scheduler"):
            files = Certificate(*(self._pki / f"{user}.{suffix}" for suffix in ("crt", "key", "pem")))
            self._write_kubeconfig(user, files, url)

    def _write_kubeconfig(self, user: str, files: Certificate, url: str) -> Path:
        credentials = {"client-certificate-data": _base64(files.cert), "client-key-data": _base64(files.key)}
        server = {"server": url, "certificate-authority-data": _base64(self._pki / "ca.crt")}
        return _write_kubeconfig(self.directory / f"{user}.kubeconfig", server, user, credentials)

    def _commands(
        self, etcd: int, peer: int, secure: int, apiserver_flags: list[str], address: str, *, kubelets: bool
    ) -> dict[str, list[str]]:
        pki, etcd_pki = self._pki, self._etcd_pki
        switched_off = () if kubelets else _NOT_FOR_HAND_MADE_NODES
        etcd_url, peer_url = f"https://127.0.0.1:{etcd}", f"https://127.0.0.1:{peer}"
        flags = {
            "etcd": [
                "--name=dev",
                f"--data-dir={self.directory / 'etcd'}",
                f"--listen-client-urls={etcd_url}",
                f"--advertise-client-urls={etcd_url}",
                f"--listen-peer-urls={peer_url}",
                f"--initial-advertise-peer-urls={peer_url}",
                f"--initial-cluster=dev={peer_url}",
                "--quota-backend-bytes=8589934592",  # 8 GiB, the maximum that etcd recommends
                *(
                    f"--{who}{flag}={etcd_pki / file}"
                    for who in ("", "peer-")
                    for flag, file in (
                        ("cert-file", "etcd.crt"),
                        ("key-file", "etcd.key"),
                        ("trusted-ca-file", "ca.crt"),
                    )
                ),
                *("--client-cert-auth", "--peer-client-cert-auth"),
                "--unsafe-no-fsync",
                "--log-level=warn",
            ],
            "kube-apiserver": [
                f"--etcd-servers={etcd_url}",
                f"--etcd-cafile={etcd_pki / 'ca.crt'}",
                f"--etcd-certfile={etcd_pki / 'client.crt'}",
                f"--etcd-keyfile={etcd_pki / 'client.key'}",
                f"--bind-address={address}",
                f"--advertise-address={address}",
                # The default reconciler rejects a loopback address.
                *(["--endpoint-reconciler-type=none"] if address == _LOOPBACK else []),
                f"--secure-port={secure}",
                f"--tls-cert-file={pki / 'apiserver.crt'}",
                f"--tls-private-key-file={pki / 'apiserver.key'}",
                f"--client-ca-file={pki / 'ca.crt'}",
                "--authorization-mode=Node,RBAC",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={pki / 'service-account.key'}",
                f"--service-account-signing-key-file={pki / 'service-account.key'}",
                f"--service-cluster-ip-range={_SERVICE_CIDR}",
                f"--kubelet-client-certificate={pki / 'kubelet-client.crt'}",
                f"--kubelet-client-key={pki / 'kubelet-client.key'}",
                "--kubelet-preferred-address-types=InternalIP",
                "--allow-privileged=true",
                *apiserver_flags,
            ],
            "kube-controller-manager": [
                f"--kubeconfig={self.directory / 'controller-manager.kubeconfig'}",
                f"--controllers={','.join(['*', *(f'-{name}' for name in switched_off)])}",
                f"--service-account-private-key-file={pki / 'service-account.key'}",
                f"--root-ca-file={pki / 'ca.crt'}",
                f"--cluster-signing-cert-file={pki / 'ca.crt'}",
                f"--cluster-signing-key-file={pki / 'ca.key'}",
                "--use-service-account-credentials=true",
                "--leader-elect=false",
                "--secure-port=0",
            ],
            "kube-scheduler": [
                f"--kubeconfig={self.directory / 'scheduler.kubeconfig'}",
                "--leader-elect=false",
                "--secure-port=0",
            ],
        }
        return {name: [str(self._binaries[name]), *flags[name]] for name in flags if name in self._binaries}

    def _probes(self, record: dict[str, str]) -> dict[str, tuple[Callable[[], bool], str]]:
        """Return for each component a probe, and what the probe waits for."""
        trust = _trust(self._pki, "admin")

        def answers(url: str, trust: ssl.SSLContext = trust) -> bool:
            with urllib.request.urlopen(url, timeout=5, context=trust) as response:
                return bool(response.status == 200)

        url, etcd = record["url"], record["etcd"]
        return {
            "etcd": (lambda: answers(f"{etcd}/health", _trust(self._etcd_pki, "client")), "etcd to be healthy"),
            "kube-apiserver": (lambda: answers(f"{url}/readyz"), "the API server to be ready"),
            "kube-controller-manager": (
                lambda: answers(f"{url}/api/v1/namespaces/default/serviceaccounts/default"),
                "the controller manager to create the default service account",
            ),
            "kube-scheduler": (lambda: True, "the scheduler"),
        }


def components(extra: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the programs of a control plane and those of `extra` ('scheduler', 'kubelet', 'proxy')."""
    return (*assets.CONTROL_PLANE, *(name if name.startswith("kube") else f"kube-{name}" for name in extra))


def _write_kubeconfig(path: Path, server: dict[str, str], user: str, credentials: dict[str, str]) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "rackspan-dev",
        "clusters": [{"name": "rackspan-dev", "cluster": server}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "rackspan-dev", "context": {"cluster": "rackspan-dev", "user": user}}],
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(document, indent=1))  # JSON is YAML
    return path


def _trust(pki: Path, name: str) -> ssl.SSLContext:
    """Return a TLS context that trusts the CA in `pki` and uses the client certificate `name`."""
    context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    context.load_cert_chain(pki / f"{name}.crt", pki / f"{name}.key")
    return context


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()

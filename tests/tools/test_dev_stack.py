"""The development stack: it starts what is requested, and no process outlives its owner."""

import json
import os
import signal
import ssl
import subprocess
import sys
import textwrap
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from dev.paths import REPOSITORY
from dev.stack import assets
from dev.stack.certificates import CertificateAuthority
from dev.stack.kafka_distribution import KafkaToolError
from dev.stack.kubectl import KubectlError
from dev.stack.nodes import SIX_BROKERS, relabel_node, set_node_ready
from dev.stack.processes import ProcessDiedError, Processes, accepts_connections, free_ports
from dev.waiting import eventually
from kubernetes import client

# -- where programs come from ----------------------------------------------------------------------------------------


@pytest.fixture
def nothing_installed(monkeypatch, tmp_path):
    """Set up a machine without any of the programs. All their directories are below `tmp_path`."""
    for name in ("KUBEBUILDER_ASSETS", "RACKSPAN_KUBERNETES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("RACKSPAN_CACHE", str(tmp_path / "cache"))
    return tmp_path


def install(directory, *names):
    directory.mkdir(parents=True)
    for name in names:
        (directory / name).write_text("#!/bin/sh\n")
        (directory / name).chmod(0o755)
    return directory


ENVTEST = ("etcd", "kube-apiserver", "kubectl")


def test_programs_are_taken_from_the_first_directory_that_has_them(nothing_installed, monkeypatch):
    assert assets.find_kubernetes() == {}
    built = install(nothing_installed / "cache/kubernetes" / assets.kubernetes_version(), *assets.CONTROL_PLANE)
    assert assets.find_kubernetes()["etcd"] == built / "etcd"
    install(nothing_installed / "data/kubebuilder-envtest/k8s/1.9.0-linux-amd64", *ENVTEST)
    newest = install(nothing_installed / "data/kubebuilder-envtest/k8s/1.34.1-linux-amd64", *ENVTEST)
    assert assets.find_kubernetes()["etcd"] == newest / "etcd"
    named = install(nothing_installed / "named", *ENVTEST)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(named))
    assert assets.find_kubernetes()["etcd"] == named / "etcd"


def test_selected_version_is_only_taken_from_its_own_build(nothing_installed, monkeypatch):
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(install(nothing_installed / "named", *ENVTEST)))
    monkeypatch.setenv("RACKSPAN_KUBERNETES", "1.30.14")
    assert assets.find_kubernetes() == {}
    built = install(nothing_installed / "cache/kubernetes/v1.30.14", *ENVTEST)
    assert assets.find_kubernetes(ENVTEST) == {name: built / name for name in ENVTEST}


def test_kubernetes_version_that_is_not_pinned_is_rejected(monkeypatch):
    monkeypatch.setenv("RACKSPAN_KUBERNETES", "../1.36.3")
    with pytest.raises(assets.AssetError, match=r"no Kubernetes '\.\./1\.36\.3' here, but 1\.30\.14, 1\.36\.3"):
        assets.kubernetes_version()


@pytest.mark.parametrize("version", assets.kubernetes_versions())
def test_go_module_of_each_kubernetes_version_uses_its_own_components(version):
    module = (assets._KUBERNETES_MODULES / version / "go.mod").read_text()
    assert f"k8s.io/kubernetes v{version}" in module
    assert f"k8s.io/apiserver => k8s.io/apiserver v0.{version.partition('.')[2]}\n" in module


def test_program_missing_from_envtest_is_taken_from_a_later_directory(nothing_installed, monkeypatch):
    named = install(nothing_installed / "named", *ENVTEST)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(named))
    assert "kube-controller-manager" not in assets.find_kubernetes()
    built = install(nothing_installed / "cache/kubernetes" / assets.kubernetes_version(), *assets.CONTROL_PLANE)
    found = assets.find_kubernetes()
    assert found["kube-apiserver"] == named / "kube-apiserver"
    assert found["kube-controller-manager"] == built / "kube-controller-manager"


def test_build_of_kubernetes_without_go_raises_an_error(nothing_installed, monkeypatch):
    monkeypatch.setenv("PATH", str(nothing_installed))
    with pytest.raises(assets.AssetError, match="`go` is not on PATH; it is needed to build Kubernetes"):
        assets.ensure_kubernetes()


# -- Kubernetes ------------------------------------------------------------------------------------------------------


def test_the_api_server_enforces_rbac(control_plane, kubectl, namespace, tmp_path):
    own = kubectl.in_namespace(namespace)
    own("create", "serviceaccount", "reader")
    own("create", "role", "reader", "--verb=get,list", "--resource=configmaps")
    own("create", "rolebinding", "reader", "--role=reader", f"--serviceaccount={namespace}:reader")
    kubeconfig = control_plane.kubeconfig_for_service_account(namespace, "reader", tmp_path / "reader.kubeconfig")
    reader = type(kubectl)(kubectl.binary, kubeconfig, namespace)
    eventually(lambda: "kube-root-ca.crt" in reader("get", "configmaps"), "the grant", retry_on=KubectlError)
    with pytest.raises(KubectlError, match="is forbidden: User"):
        reader("create", "configmap", "mine")


def test_etcd_requires_a_client_certificate(control_plane):
    pki = control_plane.kubeconfig.parent / "pki" / "etcd"
    url = json.loads((control_plane.kubeconfig.parent / "controlplane.json").read_text())["etcd"]
    trust = ssl.create_default_context(cafile=pki / "ca.crt")
    with pytest.raises(OSError):
        urllib.request.urlopen(f"{url}/health", timeout=10, context=trust).read()
    trust.load_cert_chain(pki / "client.crt", pki / "client.key")
    assert b"true" in urllib.request.urlopen(f"{url}/health", timeout=10, context=trust).read()


def test_garbage_collector_deletes_an_object_after_its_owner(kubectl, namespace):
    own = kubectl.in_namespace(namespace)
    own("create", "configmap", "owner")
    uid = own.json("get", "configmap", "owner")["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    own.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owned", "ownerReferences": [reference]}})
    own("delete", "configmap", "owner")
    own("wait", "--for=delete", "configmap/owned", "--timeout=300s")


def test_broker_pods_run_on_ready_nodes_with_labels(kubectl, namespace, broker_sites):
    pods = {pod["metadata"]["name"]: pod for pod in kubectl.in_namespace(namespace).json("get", "pods")["items"]}
    assert set(pods) == {site.pod for site in broker_sites}
    for site in broker_sites:
        assert pods[site.pod]["status"]["phase"] == "Running"
        node = kubectl.json("get", "node", pods[site.pod]["spec"]["nodeName"])
        assert site.labels.items() <= node["metadata"]["labels"].items()
        assert [c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready"] == ["True"]
        assert "taints" not in node["spec"]


def test_node_can_change_its_rack_and_become_not_ready(api_client, kubectl, namespace, broker_sites):
    core = client.CoreV1Api(api_client)
    node = f"{namespace}-{broker_sites[0].node}"
    relabel_node(core, node, {"topology.kubernetes.io/zone": "eu-1z", "topology.rackspan.dev/rack": None})
    set_node_ready(core, node, "False")
    seen = kubectl.json("get", "node", node)
    assert seen["metadata"]["labels"]["topology.kubernetes.io/zone"] == "eu-1z"
    assert "topology.rackspan.dev/rack" not in seen["metadata"]["labels"]
    assert [c["status"] for c in seen["status"]["conditions"] if c["type"] == "Ready"] == ["False"]


def test_namespace_with_a_broker_pod_can_be_deleted(kubectl, namespace, broker_sites):
    kubectl("create", "namespace", f"{namespace}-gone")
    core_pod = kubectl.in_namespace(namespace).json("get", "pod", broker_sites[0].pod)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "kafka-0", "namespace": f"{namespace}-gone"},
        "spec": {key: core_pod["spec"][key] for key in ("nodeName", "terminationGracePeriodSeconds", "containers")},
    }
    eventually(lambda: kubectl.apply(pod), "the namespace's service account", retry_on=KubectlError)
    kubectl("delete", "namespace", f"{namespace}-gone", "--timeout=300s")


def test_api_server_can_be_stopped_and_started_again(control_plane_factory):
    plane = control_plane_factory()
    plane.kubectl("create", "namespace", "kept")
    plane.stop_component("kube-apiserver")
    with pytest.raises(KubectlError):
        plane.kubectl("get", "namespaces")
    plane.start_component("kube-apiserver")
    assert "kept" in plane.kubectl("get", "namespaces")


# -- Kafka -----------------------------------------------------------------------------------------------------------


def create_topic(cluster, name, assignment):
    admin = cluster.admin()
    topic = NewTopic(name, num_partitions=len(assignment), replica_assignment=assignment)
    admin.create_topics([topic])[name].result(120)


def test_brokers_register_in_the_requested_racks(kafka):
    assert kafka.registered_racks() == {site.broker: site.path for site in SIX_BROKERS}


def test_kafkas_own_tool_describes_topics(kafka, namespace):
    create_topic(kafka, namespace, [[0, 3], [5, 1]])
    described = kafka.describe(namespace)
    assert "Replicas: 0,3" in described
    assert "Replicas: 5,1" in described
    with pytest.raises(KafkaToolError, match="does not exist"):
        kafka.describe(f"{namespace}-unknown")


def test_brokers_can_crash_move_join_and_keep_their_topics_and_ports(kafka_factory):
    cluster = kafka_factory({1: "/eu/a", 2: None}, cluster_id="ThisClusterIdIsChosenAB")
    admin = cluster.admin()
    assert admin.describe_cluster().result(120).cluster_id == "ThisClusterIdIsChosenAB"
    create_topic(cluster, "kept", [[1, 2]])
    cluster.move_broker(1, "/us/b")
    cluster.kill_broker(2)
    with pytest.raises(ProcessDiedError, match="broker-2 exited with -9"):
        cluster.wait_until_registered()
    cluster.start_broker(2)
    cluster.add_broker(7, "/us/c")
    assert cluster.registered_racks() == {1: "/us/b", 2: None, 7: "/us/c"}
    ports = cluster.bootstrap()
    cluster.stop()
    cluster.resume()
    assert cluster.bootstrap() == ports
    assert "Replicas: 1,2" in cluster.describe("kept")


def connects(config):
    return len(AdminClient({**config, "log_level": 0}).list_topics(timeout=15).brokers)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("listener", ["SASL_SSL", "SASL_PLAINTEXT"])
def test_clients_log_in_with_a_password(secure_kafka, listener, mechanism):
    config = secure_kafka.client_config(listener, mechanism=mechanism)
    assert connects(config) == 3
    refusals = []
    wrong = AdminClient({**config, "sasl.password": "wrong", "error_cb": refusals.append, "log_level": 0})
    with pytest.raises(KafkaException):
        wrong.list_topics(timeout=3)
    eventually(lambda: wrong.poll(0) or refusals, "the refusal")
    assert any("uthentication failed" in error.str() for error in refusals)


def test_clients_log_in_with_a_certificate(secure_kafka):
    config = secure_kafka.client_config("SSL")
    assert connects(config) == 3
    without = {key: value for key, value in config.items() if "certificate" not in key and "key" not in key}
    with pytest.raises(KafkaException):
        AdminClient({**without, "log_level": 0}).list_topics(timeout=3)


def test_clients_reject_a_broker_with_an_untrusted_certificate(secure_kafka, tmp_path):
    stranger = CertificateAuthority(tmp_path)
    config = secure_kafka.client_config("SASL_SSL") | {"ssl.ca.location": str(stranger.cert)}
    with pytest.raises(KafkaException):
        AdminClient({**config, "log_level": 0}).list_topics(timeout=3)


def test_password_can_be_changed_while_brokers_run(secure_kafka):
    secure_kafka.set_password("rotated", "first")
    old = secure_kafka.client_config("SASL_SSL", user="rotated")
    eventually(lambda: connects(old), "the new user", retry_on=KafkaException)
    secure_kafka.set_password("rotated", "second")
    new = secure_kafka.client_config("SASL_SSL", user="rotated")
    assert old != new
    eventually(lambda: connects(new), "the new password", retry_on=KafkaException)


# -- nothing is left behind ------------------------------------------------------------------------------------------

OWNER = """
import json, sys, time
from pathlib import Path
from dev.stack.processes import Processes

processes = Processes.attached(Path(sys.argv[1]))
for number in range(3):
    processes.start(f"server-{number}", ["sleep", "986"])
# One that does not end when it is asked to, and a child that forks and leaves its process group, as a daemon does.
processes.start("stubborn", ["sh", "-c", "trap '' TERM; while :; do sleep 985; done"])
processes.start("daemon", ["sh", "-c", "setsid sleep 987 & sleep 987"])
print(json.dumps(processes.pids()), flush=True)
time.sleep(600)
"""


def _descendants(pid, many):
    """Return the descendants of the process if there are at least `many`, else None."""
    found = psutil.Process(pid).children(recursive=True)
    return found if len(found) >= many else None


@pytest.fixture
def owner(tmp_path):
    """Yield a process that has started servers and a daemon, and all its descendants.

    A test below covers real programs: it kills a stack while the stack starts.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(OWNER), str(tmp_path / "stack")],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        text=True,
    )
    started = json.loads(process.stdout.readline())
    # The supervisor, its five children, and the descendants of two of them.
    everything = eventually(
        lambda: _descendants(process.pid, 9), "all of the owner's processes", retry_on=psutil.NoSuchProcess
    )
    assert set(started.values()) < {descendant.pid for descendant in everything}
    yield process, everything
    for left in [psutil.Process(process.pid), *everything] if process.poll() is None else everything:
        if left.is_running():
            left.kill()
    process.wait()
    process.stdout.close()


REUSED = """
import os, subprocess, sys
from pathlib import Path
from dev.stack.supervisor import Supervisor

supervisor = Supervisor(Path(sys.argv[1]), os.pipe()[0])
ended = subprocess.Popen(["true"])
ended.wait()
orphan = os.posix_spawn("/bin/true", ["true"], {})
ended.pid = orphan
supervisor._children["ended"] = ended
while os.waitid(os.P_PID, orphan, os.WEXITED | os.WNOWAIT) is None:
    pass
supervisor._reap()
try:
    os.waitpid(orphan, os.WNOHANG)
except ChildProcessError:
    print("reaped")
"""


def test_supervisor_reaps_an_orphan_with_the_process_id_of_an_ended_child(tmp_path):
    command = [sys.executable, "-c", REUSED, str(tmp_path)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout == "reaped\n"


def test_killed_owner_leaves_no_process_running(owner):
    process, everything = owner
    process.send_signal(signal.SIGKILL)
    process.wait()
    _, alive = psutil.wait_procs(everything, timeout=300)
    assert alive == []


def test_children_of_a_killed_supervisor_end(owner):
    _, everything = owner
    supervisor = next(p for p in everything if "dev.stack.supervisor" in p.cmdline())
    children = supervisor.children()
    assert len(children) >= 5
    supervisor.kill()
    _, alive = psutil.wait_procs(children, timeout=300)
    assert alive == []


# -- by name ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def dev(monkeypatch, tmp_path, kubernetes_binaries, kafka_distribution):
    """Yield a function that runs `python -m dev` with a separate state directory."""
    environment = {**os.environ, "RACKSPAN_STATE": str(tmp_path / "state")}

    def call(*arguments):
        command = [sys.executable, "-m", "dev", *arguments]
        return subprocess.run(
            command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False, timeout=600
        )

    call.environment = environment
    call.stacks = tmp_path / "state" / "stacks"
    yield call
    call("down", "--all")


def processes_in(status):
    return sorted(line.split("(")[1].rstrip(")") for line in status.splitlines() if line.startswith("process "))


def test_up_rejects_racks_with_a_wrong_number_of_levels(dev):
    done = dev("up", "--racks", "/eu/eu-1a/r1,/eu/eu-1b")
    assert done.returncode == 2
    assert done.stderr.endswith("argument --racks: '/eu/eu-1b' is no rack of three levels, such as /eu/eu-1a/r1\n")


def test_stack_survives_up_is_repaired_by_a_second_up_and_ends_with_down(dev):
    first = dev("up", "--racks", "/eu/eu-1a/r1,/eu/eu-1b/r1")
    assert first.returncode == 0, first.stderr
    pids = processes_in(first.stdout)
    assert len(pids) == 3 + 1 + 2  # etcd, API server, controller manager; controller; brokers
    assert all(psutil.pid_exists(int(pid)) for pid in pids)  # although the `up` command has ended

    second = dev("up")
    assert "is running already" in second.stderr
    assert processes_in(second.stdout) == pids

    broker = next(line for line in first.stdout.splitlines() if "broker-1 (" in line)
    os.kill(int(broker.split("(")[1].rstrip(")")), signal.SIGKILL)
    healed = dev("up")
    assert len(set(processes_in(healed.stdout)) & set(pids)) == len(pids) - 1
    assert len(processes_in(healed.stdout)) == len(pids)

    environment = dev("kubectl-env").stdout
    nodes = subprocess.run(
        ["sh", "-c", f"{environment} kubectl get nodes -o name"], capture_output=True, text=True, check=True
    )
    assert nodes.stdout.split() == ["node/node-0", "node/node-1"]
    assert dev("kafka", "--", "TopicCommand", "--list").returncode == 0

    everything = processes_in(healed.stdout)
    assert dev("down").returncode == 0
    assert [pid for pid in everything if psutil.pid_exists(int(pid))] == []
    assert not (dev.stacks / "dev").exists()
    gone = dev("status")
    assert gone.returncode == 1
    assert "is not running; start it with" in gone.stderr


def test_killed_up_leaves_no_process_running(dev):
    process = subprocess.Popen([sys.executable, "-m", "dev", "up"], cwd=REPOSITORY, env=dev.environment)

    def half_way():
        return {"java", "etcd"} <= {p.name() for p in psutil.Process(process.pid).children(recursive=True)}

    eventually(half_way, "some processes", retry_on=psutil.NoSuchProcess)
    everything = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(everything, timeout=300)
    assert alive == []
    assert dev("status").returncode == 1


def test_down_does_not_kill_another_process_with_a_reused_process_id(dev):
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        (dev.stacks / "dev").mkdir(parents=True)
        (dev.stacks / "dev" / "supervisor.json").write_text(json.dumps({"pid": stranger.pid, "started": "1@a-boot"}))
        assert dev("down").returncode == 0
        assert not (dev.stacks / "dev").exists()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_error_of_an_ended_process_contains_its_exit_code_and_log(tmp_path):
    with Processes.attached(tmp_path / "stack") as processes:
        processes.start("failing", ["sh", "-c", "echo 'no such rack' >&2; exit 3"])

        def dead():
            return processes.pid("failing") is None

        eventually(dead, "its end")
        with pytest.raises(ProcessDiedError, match=r"failing exited with 3(.|\n)*no such rack"):
            processes.check("failing")


def test_two_threads_do_not_get_the_same_port():
    with ThreadPoolExecutor(8) as threads:
        ports = [port for found in threads.map(free_ports, [100] * 8) for port in found]
    assert len(set(ports)) == 800


ASKING = """
import random, sys
from dev.stack.processes import free_ports

random.seed(7)
print(*free_ports(20), flush=True)
sys.stdin.readline()
"""


def test_two_processes_do_not_get_the_same_port():
    """Both processes draw the same random numbers and have not bound the ports yet."""
    command = [sys.executable, "-c", ASKING]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": REPOSITORY}
    with subprocess.Popen(command, **pipes) as one, subprocess.Popen(command, **pipes) as other:
        ports = [*one.stdout.readline().split(), *other.stdout.readline().split()]
        one.stdin.close()
        other.stdin.close()
    assert len(set(ports)) == 40


def test_broker_ports_are_below_the_ephemeral_range(kafka):
    ephemeral_from = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for address in kafka.bootstrap().split(","):
        port = int(address.rpartition(":")[2])
        assert accepts_connections(port)
        assert port < ephemeral_from

"""The scan's image in pods that nobody but this test asked for: one by itself, and one that is Spark's driver."""

import json

import pytest
from tests.e2e.conftest import CLAIM, HISTORY, NAMESPACE, ZONES

PARTITIONS = 2_000
ACCOUNT = "by-hand"


@pytest.fixture(scope="session")
def rights(pods):
    """The cluster, with an account that may do what Spark's driver does, and no more."""
    verbs = "--verb=get,list,watch,create,update,patch,delete,deletecollection"
    pods.kubectl("create", "serviceaccount", ACCOUNT)
    pods.kubectl("create", "role", ACCOUNT, verbs, "--resource=pods,configmaps,services,persistentvolumeclaims")
    pods.kubectl("create", "rolebinding", ACCOUNT, f"--role={ACCOUNT}", f"--serviceaccount={NAMESPACE}:{ACCOUNT}")
    return pods


def job(pods, name, *arguments, conf=()):
    """A Job as safe as the operator's: its user is nobody, its root is read-only."""
    submit = " ".join(f"--conf {setting}" for setting in conf)
    fields = {"POD_NAME": "metadata.name", "POD_IP": "status.podIP"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "backoffLimit": 0,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "serviceAccountName": ACCOUNT,
                    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
                    "containers": [
                        {
                            "name": "scan",
                            "image": pods.scan_image,
                            "imagePullPolicy": "Never",
                            "args": ["scan", "--synthetic", str(PARTITIONS), *arguments],
                            "env": [
                                *({"name": n, "valueFrom": {"fieldRef": {"fieldPath": p}}} for n, p in fields.items()),
                                {"name": "PYSPARK_SUBMIT_ARGS", "value": f"{submit} pyspark-shell"},
                            ],
                            "securityContext": {
                                "allowPrivilegeEscalation": False,
                                "readOnlyRootFilesystem": True,
                                "capabilities": {"drop": ["ALL"]},
                            },
                            "volumeMounts": [
                                {"name": "tmp", "mountPath": "/tmp"},
                                {"name": "history", "mountPath": HISTORY, "subPath": "by-hand"},
                            ],
                        }
                    ],
                    "volumes": [
                        {"name": "tmp", "emptyDir": {}},
                        {"name": "history", "persistentVolumeClaim": {"claimName": CLAIM}},
                    ],
                }
            },
        },
    }


def test_a_scan_runs_as_a_pod_and_keeps_its_history_on_a_volume(rights):
    rights.kubectl.apply(job(rights, "alone", "--history", HISTORY, "--scan-id=first", "--exit-zero"))
    (pod,) = rights.wait_for_job("alone")
    assert pod["spec"]["nodeName"] in ZONES
    assert pod["status"]["podIP"].startswith("10.244.")
    (state,) = pod["status"]["containerStatuses"]
    assert state["state"]["terminated"]["exitCode"] == 0
    kept = [path.relative_to(rights.volume / "by-hand") for path in (rights.volume / "by-hand").rglob("*.parquet")]
    assert {path.parts[0] for path in kept} >= {"findings", "topics"}
    (manifest,) = (rights.volume / "by-hand" / "manifests").rglob("*-first.json")
    assert [scan["scanId"] for scan in json.loads(manifest.read_text())["scans"]] == ["first"]


def test_findings_are_an_exit_code_of_the_pod(rights):
    rights.kubectl.apply(job(rights, "findings"))
    rights.kubectl("wait", "--for=condition=Failed", "--timeout=240s", "job/findings", timeout=260)
    (pod,) = rights.kubectl.json("get", "pods", "--selector=job-name=findings")["items"]
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 1


def test_spark_on_kubernetes_works_in_executor_pods_on_both_nodes(rights):
    conf = {
        "spark.driver.host": "$(POD_IP)",
        "spark.driver.bindAddress": "0.0.0.0",
        "spark.kubernetes.namespace": NAMESPACE,
        "spark.kubernetes.container.image": rights.scan_image,
        "spark.kubernetes.container.image.pullPolicy": "Never",
        "spark.kubernetes.driver.pod.name": "$(POD_NAME)",
        "spark.kubernetes.executor.podNamePrefix": "by-hand",
        "spark.executor.instances": "2",
        "spark.executor.memory": "512m",
        "spark.kubernetes.executor.request.cores": "100m",
        "spark.kubernetes.executor.volumes.persistentVolumeClaim.history.options.claimName": CLAIM,
        "spark.kubernetes.executor.volumes.persistentVolumeClaim.history.mount.path": HISTORY,
        "spark.kubernetes.executor.volumes.persistentVolumeClaim.history.mount.subPath": "by-hand",
    }
    arguments = ("--master=k8s://https://kubernetes.default.svc", "--history", HISTORY, "--scan-id=second")
    settings = [f"{name}={value}" for name, value in conf.items()]
    rights.kubectl.apply(job(rights, "driver", *arguments, "--exit-zero", conf=settings))
    (driver,) = rights.wait_for_job("driver")
    executors = rights.started("by-hand-exec-")
    assert len(executors) >= 2
    assert set(executors.values()) | {driver["spec"]["nodeName"]} == set(ZONES)
    (manifest,) = (rights.volume / "by-hand" / "manifests").rglob("*-second.json")
    tables = json.loads(manifest.read_text())["tables"]
    assert all((rights.volume / "by-hand" / path).stat().st_size > 0 for paths in tables.values() for path in paths)
    left = rights.kubectl.json("get", "pods", "--selector=spark-role=executor")["items"]
    assert [pod for pod in left if pod["status"]["phase"] == "Running"] == []

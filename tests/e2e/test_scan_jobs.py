"""The scan image in pods that the tests create without the operator."""

from tests.e2e.conftest import CLAIM, HISTORY, NAMESPACE, NODES

from rackspan.jobs.history.scan_history import History

PARTITIONS = 2_000


def job(image, name, *arguments):
    """Return a Job with the security settings of the operator's Jobs: no root user, read-only root file system."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "backoffLimit": 0,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "automountServiceAccountToken": False,
                    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
                    "containers": [
                        {
                            "name": "scan",
                            "image": image,
                            "imagePullPolicy": "Never",
                            "args": ["scan", "--synthetic", str(PARTITIONS), *arguments],
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


def test_scan_runs_as_a_pod_and_stores_its_history_on_a_volume(pods, scan_image):
    pods.kubectl.apply(job(scan_image, "alone", "--history", HISTORY, "--scan-id=first", "--exit-zero"))
    (pod,) = pods.wait_for_job("alone")
    assert pod["spec"]["nodeName"] in NODES
    assert pod["status"]["podIP"].startswith("10.244.")
    (state,) = pod["status"]["containerStatuses"]
    assert state["state"]["terminated"]["exitCode"] == 0
    kept = [path.relative_to(pods.volume / "by-hand") for path in (pods.volume / "by-hand").rglob("*.parquet")]
    assert {path.parts[0] for path in kept} >= {"findings", "topics"}
    history = History(str(pods.volume / "by-hand"))
    assert [scan.scan_id for name in history.clusters() for scan in history.scans(name)] == ["first"]


def test_scan_pod_with_findings_exits_with_code_1(pods, scan_image):
    pods.kubectl.apply(job(scan_image, "findings"))
    pods.kubectl("wait", "--for=condition=Failed", "--timeout=240s", "job/findings", timeout=260)
    (pod,) = pods.kubectl.json("get", "pods", "--selector=job-name=findings")["items"]
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 1

"""The Kubernetes objects that run scans, for each engine."""

import json
import shlex
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.support.scan_setups import allowance, scan_setup
from tests.unit.reconcile.scans.examples import UID, topology

from rackspan.api.labels import SCAN_CAUSE, SCAN_DEADLINE
from rackspan.api.racktopology import ScanEngine, ScanTrigger
from rackspan.reconcile.scans.job_status import RunKind, read_run, why_unstarted
from rackspan.reconcile.scans.scan_decision import ScanStart
from rackspan.reconcile.scans.scan_manifests import SELECTOR, scan_manifest

SETUP = scan_setup(image="rackspan-scan:1", service_account="r-scan")
START = ScanStart("scan-prod-abc-1", ScanTrigger.SCHEDULE, "2026-01-31T03:00:00Z")


def body(setup=SETUP, *, name="prod", **compliance):
    return scan_manifest(topology(name=name, **compliance), START, setup)


def pod(made):
    return made["spec"]["template"]["spec"]


def container(made):
    (only,) = pod(made)["containers"]
    return only


def spark_settings(made):
    """Return the settings that Spark's launcher reads from the environment, split as the launcher does."""
    environment = {entry["name"]: entry.get("value") for entry in container(made)["env"]}
    words = shlex.split(environment["PYSPARK_SUBMIT_ARGS"])
    assert words[-1] == "pyspark-shell"
    assert words[:-1:2] == ["--conf"] * (len(words) // 2)
    return dict(word.split("=", 1) for word in words[1::2])


def test_job_scans_in_one_pod_without_root():
    made = body(activeDeadlineSeconds=600, backoffLimit=4)
    assert (made["apiVersion"], made["kind"]) == ("batch/v1", "Job")
    assert made["metadata"]["namespace"] == "rackspan"
    assert made["spec"]["activeDeadlineSeconds"] == 600
    assert made["spec"]["backoffLimit"] == 4
    assert pod(made)["securityContext"]["runAsNonRoot"]
    assert pod(made)["serviceAccountName"] == "r-scan"
    assert container(made)["securityContext"]["readOnlyRootFilesystem"]
    assert container(made)["volumeMounts"] == [{"name": "tmp", "mountPath": "/tmp"}]
    assert pod(made)["volumes"] == [{"name": "tmp", "emptyDir": {"sizeLimit": "10Gi"}}]
    args = ["scan", "--topology", "kafka/prod", "--scan-id", START.name, "--publish", "--exit-zero"]
    assert container(made)["args"] == args, "the scan chooses its master by the size of the cluster"
    assert container(body(engine="Job"))["args"] == [*args, "--master", "local[*]"]


def test_history_volume_is_mounted_with_a_sub_path_per_topology():
    made = body(historyVolume={"claimName": "scans"}, retentionDays=30)
    assert container(made)["volumeMounts"][1] == {
        "name": "history",
        "mountPath": "/var/lib/rackspan",
        "subPath": "kafka/prod",
    }
    assert pod(made)["volumes"][1] == {"name": "history", "persistentVolumeClaim": {"claimName": "scans"}}
    args = container(made)["args"]
    assert args[args.index("--history") + 1] == "/var/lib/rackspan"
    assert args[args.index("--retention-days") + 1] == "30"


def test_history_in_an_object_store_needs_no_volume():
    made = body(historyLocation="s3a://bucket/x")
    assert [volume["name"] for volume in pod(made)["volumes"]] == ["tmp"]
    assert "s3a://bucket/x" in container(made)["args"]


@pytest.mark.parametrize("engine", ["Auto", "SparkOnKubernetes", "SparkApplication"])
def test_store_secret_is_given_only_to_the_container_that_writes_the_history(engine):
    given = [{"secretRef": {"name": "audit-store"}}]
    made = body(replace(SETUP, store_secret="audit-store"), engine=engine, historyLocation="s3://audit/x")
    writer = made["spec"]["driver"] if engine == "SparkApplication" else container(made)
    assert writer["envFrom"] == given
    assert json.dumps(made).count("audit-store") == 1
    assert "envFrom" not in json.dumps(body(engine=engine))


def test_spark_settings_are_passed_unchanged():
    conf = {"spark.driver.extraJavaOptions": "-Da='b c' -Dd=\"e\"", "spark.x": "$HOME;rm -rf /"}
    assert spark_settings(body(sparkConf=conf)) == conf


def test_spark_on_kubernetes_uses_the_pod_as_driver():
    made = body(
        scan_setup(pod={"nodeSelector": {"scans": "yes"}}),
        engine="SparkOnKubernetes",
        executors={"instances": 3, "memory": "2g"},
        historyVolume={"claimName": "scans"},
        sparkConf={"spark.sql.shuffle.partitions": "8"},
    )
    settings = spark_settings(made)
    assert made["kind"] == "Job"
    assert container(made)["args"][-1] == "k8s://https://kubernetes.default.svc"
    assert settings["spark.driver.host"] == "$(POD_IP)"
    assert settings["spark.kubernetes.driver.pod.name"] == "$(POD_NAME)"
    assert settings["spark.executor.instances"] == "3"
    assert settings["spark.executor.memory"] == "2g"
    assert settings["spark.kubernetes.namespace"] == "rackspan"
    assert settings["spark.kubernetes.executor.volumes.persistentVolumeClaim.history.options.claimName"] == "scans"
    assert settings["spark.sql.shuffle.partitions"] == "8"
    assert pod(made)["nodeSelector"] == {"scans": "yes"}
    names = [entry["name"] for entry in container(made)["env"]]
    assert names.index("POD_IP") < names.index("PYSPARK_SUBMIT_ARGS"), (
        "a value can only use variables defined before it"
    )


def test_executors_have_the_security_context_and_scheduling_of_their_driver():
    there = {
        "nodeSelector": {"scans": "yes"},
        "tolerations": [{"operator": "Exists"}],
        "imagePullSecrets": [{"name": "x"}],
    }
    made = body(scan_setup(pod=there), engine="SparkOnKubernetes")
    annotations = made["spec"]["template"]["metadata"]["annotations"]
    executor = json.loads(annotations["rackspan.dev/executor-pod"])["spec"]
    assert {key: executor[key] for key in there} == there
    assert executor["securityContext"] == pod(made)["securityContext"]
    assert executor["containers"][0]["securityContext"] == container(made)["securityContext"]
    assert executor["automountServiceAccountToken"] is False
    (volume,) = [volume for volume in pod(made)["volumes"] if "downwardAPI" in volume]
    (item,) = volume["downwardAPI"]["items"]
    assert item["fieldRef"]["fieldPath"] == "metadata.annotations['rackspan.dev/executor-pod']"
    (mount,) = [mount for mount in container(made)["volumeMounts"] if mount["name"] == volume["name"]]
    file = f"{mount['mountPath']}/{item['path']}"
    assert spark_settings(made)["spark.kubernetes.executor.podTemplateFile"] == file


def test_spark_application_leaves_the_master_to_spark_submit():
    made = body(engine="SparkApplication", backoffLimit=0)
    assert made["spec"]["arguments"][-1] == "--exit-zero"
    assert made["spec"]["mainApplicationFile"].startswith("local:///")
    assert made["spec"]["restartPolicy"] == {"type": "Never"}


def test_driver_and_executors_of_a_spark_application_follow_the_pod_of_the_chart():
    there = {
        "nodeSelector": {"scans": "yes"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "low",
        "schedulerName": "volcano",
        "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
    }
    given = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    spec = body(scan_setup(pod={**there, "securityContext": given}), engine="SparkApplication")["spec"]
    for made in (spec["driver"], spec["executor"]):
        assert {key: made[key] for key in there} == there
        assert made["podSecurityContext"] == given


def test_executor_pods_have_the_label_of_their_topology():
    settings = spark_settings(body(engine="SparkOnKubernetes"))
    prefix = "spark.kubernetes.executor.label."
    labels = {key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)}
    assert labels["rackspan.dev/topology"] == "prod"


@pytest.mark.parametrize("name", ["prod", "p" * 253, "a." * 120 + "b"])
def test_scan_of_a_created_job_is_read_with_its_topology_trigger_and_cause(name):
    made = body(name=name)
    labels = made["metadata"]["labels"]
    assert all(len(value) <= 63 for value in labels.values())
    assert all(labels[key] == value for key, value in (pair.split("=") for pair in SELECTOR.split(",")))
    made["metadata"] |= {"creationTimestamp": "2026-01-31T03:00:05Z", "uid": "job-1"}
    run = read_run(RunKind.JOB, made)
    assert (run.topology.namespace, run.topology.name, run.topology_uid) == ("kafka", name, UID)
    assert (run.trigger, run.cause, run.active) == (START.trigger, START.cause, True)


@pytest.mark.parametrize(
    ("condition", "finished", "succeeded"),
    [
        ({"type": "Complete", "status": "True"}, True, True),
        ({"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}, True, False),
        ({"type": "FailureTarget", "status": "True"}, False, False),
        ({"type": "Complete", "status": "False"}, False, False),
    ],
)
def test_end_of_a_job_is_read_from_its_conditions(condition, finished, succeeded):
    made = body()
    made["metadata"] |= {"creationTimestamp": "2026-01-31T03:00:05Z", "uid": "job-1"}
    run = read_run(RunKind.JOB, {**made, "status": {"conditions": [condition]}})
    assert (run.finished is not None, run.succeeded) == (finished, succeeded)


@pytest.mark.parametrize(
    ("state", "finished", "succeeded"),
    [
        ("", False, False),
        ("RUNNING", False, False),
        ("SUBMISSION_FAILED", False, False),
        ("COMPLETED", True, True),
        ("FAILED", True, False),
    ],
)
def test_end_of_a_spark_application_is_read_from_its_state(state, finished, succeeded):
    made = body(engine="SparkApplication")
    made["metadata"] |= {"creationTimestamp": "2026-01-31T03:00:05Z", "uid": "app-1"}
    status = {"applicationState": {"state": state, "errorMessage": "no"}, "terminationTime": "2026-01-31T03:05:00Z"}
    run = read_run(RunKind.SPARK_APPLICATION, {**made, "status": status})
    assert (run.finished is not None, run.succeeded) == (finished, succeeded)


@pytest.mark.parametrize("engine", ScanEngine)
def test_deadline_of_a_created_scan_is_read_for_every_engine(engine):
    made = body(engine=engine.value, activeDeadlineSeconds=600)
    made["metadata"] |= {"creationTimestamp": "2026-01-31T03:00:05Z", "uid": "job-1"}
    assert read_run(RunKind(made["kind"]), made).deadline == timedelta(minutes=10)


@pytest.mark.parametrize("seconds", [None, "", "soon", "-1", "0", str(10**30), "1e9999"])
def test_invalid_deadline_is_read_as_none(seconds):
    made = body(engine="SparkApplication")
    made["metadata"] |= {"creationTimestamp": "2026-01-31T03:00:05Z", "uid": "app-1"}
    made["metadata"]["annotations"][SCAN_DEADLINE] = seconds
    assert read_run(RunKind.SPARK_APPLICATION, made).deadline is None


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "soon", "2026-01-31"])
def test_invalid_times_in_an_object_are_ignored(moment):
    made = body(engine="SparkApplication")
    made["metadata"] |= {"creationTimestamp": "2026-01-31T03:00:05Z", "uid": "app-1"}
    made["metadata"]["annotations"][SCAN_CAUSE] = moment
    status = {"applicationState": {"state": "COMPLETED"}, "terminationTime": moment}
    run = read_run(RunKind.SPARK_APPLICATION, {**made, "status": status})
    assert run.trigger is ScanTrigger.SCHEDULE
    known = moment == "2026-01-31"
    assert (run.finished != run.created) == known


def waiting(reason):
    return {"phase": "Pending", "containerStatuses": [{"image": "i:1", "state": {"waiting": {"reason": reason}}}]}


@pytest.mark.parametrize(
    ("statuses", "why"),
    [
        ([], "a quota or an admission rule"),
        ([waiting("ErrImagePull")], "ImagePullBackOff: image i:1"),
        ([waiting("ImagePullBackOff")], "ImagePullBackOff: image i:1"),
        ([waiting("CreateContainerConfigError")], "CreateContainerConfigError"),
        (
            [
                {
                    "phase": "Pending",
                    "conditions": [
                        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3\nnodes"}
                    ],
                }
            ],
            "Unschedulable: 0/3 nodes",
        ),
        ([{}], "its pod is pending"),
        ([{"phase": "Running"}], None),
        ([{"phase": "Succeeded"}], None),
        ([{"phase": "Failed"}, waiting("ErrImagePull")], None),
    ],
)
def test_reason_why_a_pod_does_not_start_is_read_from_its_status(statuses, why):
    found = why_unstarted(RunKind.JOB, [{"status": status} for status in statuses])
    assert found == why if why is None else why in found


def test_running_scan_with_a_trigger_that_only_a_newer_version_knows_is_read():
    made = body()
    made["metadata"] |= {"creationTimestamp": "2026-01-31T03:00:05Z", "uid": "job-1"}
    made["metadata"]["labels"]["rackspan.dev/scan-trigger"] = "TriggerOfLater"
    run = read_run(RunKind.JOB, made)
    assert (run.trigger, run.name, run.active) == (None, START.name, True)


def test_job_without_the_labels_of_a_scan_is_ignored():
    made = body()
    made["metadata"] |= {"creationTimestamp": "2026-01-31T03:00:05Z", "uid": "job-1"}
    made["metadata"]["labels"] = {"app.kubernetes.io/component": "scan"}
    assert read_run(RunKind.JOB, made) is None


@pytest.mark.parametrize(
    ("compliance", "word"),
    [
        ({"image": "evil"}, "image"),
        ({"sparkConf": {"spark.jars": "evil"}}, "sparkConf"),
        ({"historyVolume": {"claimName": "scans", "subPath": "other"}}, "historyVolume.subPath"),
        ({"historyLocation": "gs://b/x"}, "historyLocation"),
    ],
)
def test_only_trusted_namespaces_may_choose_image_spark_settings_and_history(compliance, word):
    of = topology(**compliance)
    assert word in SETUP.failure(of).message
    for setup in (
        scan_setup(trusted=("kafka",)),
        scan_setup(trusted=("*",)),
        scan_setup("kafka"),
    ):
        assert setup.failure(of) is None


@pytest.mark.parametrize(
    ("asked", "got"),
    [
        (None, {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"cpu": "2", "memory": "3Gi"}}),
        ({"requests": {"cpu": "500m"}}, {"requests": {"cpu": "500m"}, "limits": {"cpu": "2", "memory": "3Gi"}}),
        ({"limits": {"cpu": 1, "memory": "1Gi"}}, {"requests": {}, "limits": {"cpu": 1, "memory": "1Gi"}}),
    ],
)
def test_resources_of_an_untrusted_scan_are_limited_even_if_not_specified(asked, got):
    bounded = scan_setup(allowance=allowance(cpu="2", memory="3Gi"))
    compliance = {"schedule": "@daily", **({"resources": asked} if asked else {})}
    assert container(body(bounded, **compliance))["resources"] == got


@pytest.mark.parametrize("engine", ["SparkOnKubernetes", "SparkApplication"])
def test_driver_and_executors_use_authentication_encryption_and_fixed_ports(engine):
    made = body(engine=engine)
    settings = made["spec"]["sparkConf"] if engine == "SparkApplication" else spark_settings(made)
    assert settings["spark.authenticate"] == settings["spark.network.crypto.enabled"] == "true"
    assert settings["spark.network.crypto.saslFallback"] == "false"
    assert not [key for key in settings if "secret" in key], "Spark creates a secret for each run"
    assert "0.0.0.0" not in settings.values()
    ports = (settings["spark.driver.port"], settings["spark.blockManager.port"])
    assert ports == ("7078", "7079"), "the ports that the chart's NetworkPolicy allows"
    off = {"sparkConf": {"spark.authenticate": "false"}}
    assert "sparkConf" in SETUP.failure(topology(engine=engine, **off)).message


def test_local_storage_of_executors_is_limited():
    volume = "spark.kubernetes.executor.volumes.emptyDir.spark-local-dir-1.options.sizeLimit"
    assert spark_settings(body(engine="SparkOnKubernetes"))[volume] == "10Gi"
    application = body(engine="SparkApplication")["spec"]["sparkConf"]
    assert application[volume] == application[volume.replace("executor", "driver")] == "10Gi"


def test_missing_image_or_namespace_for_scans_is_a_failure():
    assert "RACKSPAN_SCAN_IMAGE" in scan_setup(image=None).failure(topology()).message
    assert "RACKSPAN_SCAN_NAMESPACE" in scan_setup(None).failure(topology()).message
    assert SETUP.failure(topology(schedule="@daily", retentionDays=30)) is None

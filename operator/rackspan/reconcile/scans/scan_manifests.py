"""Builds the Kubernetes object that runs a scan: a Job, or a SparkApplication. Pure.

All engines run the same command in the same image. They differ in where Spark's tasks run:

    Auto                in the scan's pod, and only if the cluster is large
    Job                 in the scan's pod
    SparkOnKubernetes   in executor pods that the scan's pod creates (Spark's client mode)
    SparkApplication    in the driver and executor pods that the Kubeflow Spark operator creates
"""

from __future__ import annotations

import json
import shlex
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from rackspan.api.labels import (
    EXECUTOR_POD,
    SCAN_CAUSE,
    SCAN_DEADLINE,
    SCAN_TOPOLOGY,
    SCAN_TOPOLOGY_NAMESPACE,
    SCAN_TRIGGER,
    TOPOLOGY_UID,
)
from rackspan.api.racktopology import ComplianceScanSpec, ExecutorsSpec, ScanEngine
from rackspan.reconcile.scans.job_status import RunKind
from rackspan.reconcile.scans.scan_setup import capped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.api.racktopology import HistoryVolume, RackTopology
    from rackspan.reconcile.ports import JsonObject
    from rackspan.reconcile.scans.scan_decision import ScanStart
    from rackspan.reconcile.scans.scan_setup import ScanSetup

SPARK_VERSION: Final = "4.3.0"
"""Spark's version in the scan's image."""
SELECTOR: Final = "app.kubernetes.io/managed-by=rackspan,app.kubernetes.io/component=scan"
"""The label selector of the objects that run scans."""

_USER: Final = 10001
_BAD_INPUT_EXIT_CODE = 2
"""A scan that exits with this code would fail again, so the Job does not retry it."""
_MASTERS: Final = {
    ScanEngine.AUTO: None,
    ScanEngine.JOB: "local[*]",
    ScanEngine.SPARK_ON_KUBERNETES: "k8s://https://kubernetes.default.svc",
}
"""The Spark master of each engine that runs as a Job."""
_DRIVER_PORT = 7078
_BLOCK_MANAGER_PORT = 7079
_NO_VOLUME_CLAIMS: Final = {
    "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
    "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
}
"""Executors never own PersistentVolumeClaims, so Spark does not need the right to delete them. One has the history."""
_TMP_MOUNT: Final = {"name": "tmp", "mountPath": "/tmp"}  # noqa: S108 - an emptyDir of the pod
SPARK_SECURITY: Final = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.authEngineVersion": "2",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.saslFallback": "false",
    "spark.io.encryption.enabled": "true",
    "spark.io.encryption.keySizeBits": "256",
}
"""Settings that authenticate and encrypt the traffic between driver and executors, and encrypt spilled files.

On Kubernetes the driver creates a secret for each run and passes the secret to its executors' pods, in both modes
(https://spark.apache.org/docs/latest/security.html#kubernetes).
"""
_LOCAL_DIR = "/var/data/rackspan-spark"
"""Spark's local directory, for data that does not fit into memory."""
_TEMPLATE_DIR = "/etc/rackspan"
_EXECUTOR_TEMPLATE_FILE = "executor-pod.json"
_EXECUTOR_TEMPLATE_VOLUME: Final = {
    "name": "executor-pod",
    "downwardAPI": {
        "items": [
            {"path": _EXECUTOR_TEMPLATE_FILE, "fieldRef": {"fieldPath": f"metadata.annotations['{EXECUTOR_POD}']"}}
        ]
    },
}
_POD_SECURITY: Final = {
    "runAsNonRoot": True,
    "runAsUser": _USER,
    "runAsGroup": _USER,
    "fsGroup": _USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}
_CONTAINER_SECURITY: Final = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
_APPLICATION_POD_FIELDS: Final = (
    "nodeSelector",
    "tolerations",
    "affinity",
    "priorityClassName",
    "schedulerName",
    "dnsConfig",
    "hostAliases",
)
"""The fields of a PodSpec that a SparkApplication's driver and executor have under the same name."""
_DEFAULT_REQUESTS: Final[Mapping[str, int | str]] = {"cpu": "1", "memory": "2Gi"}
_DEFAULT_LIMITS: Final[Mapping[str, int | str]] = {"memory": "4Gi"}


def scan_manifest(topology: RackTopology, start: ScanStart, setup: ScanSetup) -> JsonObject:
    """Return the Job or SparkApplication of a scan. Call it only if `setup.failure` of the topology is None."""
    spec = topology.spec.scan
    if spec.engine is ScanEngine.SPARK_APPLICATION:
        return _spark_application(topology, spec, start, setup)
    return _job(topology, spec, start, setup)


def arguments(topology: RackTopology, spec: ComplianceScanSpec, start: ScanStart, master: str | None) -> list[str]:
    """Return the arguments of `rackspan` in the scan's pod. If `master` is None, spark-submit or the scan chooses it.

    Findings do not fail the pod, because with `--exit-zero` the exit code is 0.
    """
    args = ["scan", "--topology", str(topology.key), "--scan-id", start.name, "--publish", "--exit-zero"]
    if spec.history is not None:
        args += ["--history", spec.history]
        if spec.retention_days is not None:
            args += ["--retention-days", str(spec.retention_days)]
    return args if master is None else [*args, "--master", master]


def _job(topology: RackTopology, spec: ComplianceScanSpec, start: ScanStart, setup: ScanSetup) -> JsonObject:
    distributed = spec.engine is ScanEngine.SPARK_ON_KUBERNETES
    metadata = _metadata(topology, start, setup)
    annotations, volumes, mounts = metadata["annotations"], _volumes(spec, setup), _mounts(topology, spec)
    if distributed:
        annotations = {**annotations, EXECUTOR_POD: json.dumps(_executor_pod(setup))}
        volumes = [*volumes, _EXECUTOR_TEMPLATE_VOLUME]
        mounts = [*mounts, {"name": "executor-pod", "mountPath": _TEMPLATE_DIR, "readOnly": True}]
    conf = {**_client_mode(topology, spec, start, setup), **spec.spark_conf} if distributed else spec.spark_conf
    container = {
        "name": "scan",
        "image": spec.image or setup.image,
        "imagePullPolicy": setup.pull_policy,
        "args": arguments(topology, spec, start, _MASTERS[spec.engine]),
        "env": _environment(conf),
        **_store(setup),
        "resources": _resources(spec, _bounds(topology, setup)),
        "securityContext": _CONTAINER_SECURITY,
        "volumeMounts": mounts,
        **({"ports": [{"containerPort": _DRIVER_PORT}, {"containerPort": _BLOCK_MANAGER_PORT}]} if distributed else {}),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": RunKind.JOB.value,
        "metadata": metadata,
        "spec": {
            "backoffLimit": spec.backoff_limit,
            "activeDeadlineSeconds": spec.active_deadline_seconds,
            "podFailurePolicy": {
                "rules": [
                    {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [_BAD_INPUT_EXIT_CODE]}},
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                ]
            },
            "template": {
                "metadata": {"labels": metadata["labels"], "annotations": annotations},
                "spec": {
                    "restartPolicy": "Never",
                    "serviceAccountName": setup.service_account,
                    "automountServiceAccountToken": True,
                    "enableServiceLinks": False,
                    "securityContext": _POD_SECURITY,
                    **setup.pod,
                    "containers": [container],
                    "volumes": volumes,
                },
            },
        },
    }


def _executor_pod(setup: ScanSetup) -> JsonObject:
    """Return the pod template of executors, with the driver's security contexts and placement.

    Spark has no settings for most of these fields and reads them from a file. The driver mounts the file from an
    annotation of its own pod (downward API). Executors need no access to the Kubernetes API.
    """
    container = {
        "name": "executor",
        "securityContext": _CONTAINER_SECURITY,
        "volumeMounts": [_TMP_MOUNT],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": _POD_SECURITY,
            **setup.pod,
            "containers": [container],
            "volumes": [_tmp_volume(setup)],
        },
    }


def _spark_application(
    topology: RackTopology, spec: ComplianceScanSpec, start: ScanStart, setup: ScanSetup
) -> JsonObject:
    metadata, executors = _metadata(topology, start, setup), spec.executors or ExecutorsSpec()
    metadata["annotations"][SCAN_DEADLINE] = str(spec.active_deadline_seconds)
    resources = _resources(spec, _bounds(topology, setup))
    pod: JsonObject = {
        "securityContext": _CONTAINER_SECURITY,
        "podSecurityContext": setup.pod.get("securityContext", _POD_SECURITY),
        "labels": metadata["labels"],
        "volumeMounts": _mounts(topology, spec),
        **{key: setup.pod[key] for key in _APPLICATION_POD_FIELDS if key in setup.pod},
    }
    secrets = [item["name"] for item in setup.pod.get("imagePullSecrets", ())]
    # Spark sets the driver's resources from its own settings. Resources without such a setting are left out.
    cpu = {"coreRequest": str(resources["requests"]["cpu"])} if "cpu" in resources["requests"] else {}
    limit = {"coreLimit": str(resources["limits"]["cpu"])} if "cpu" in resources["limits"] else {}
    return {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": RunKind.SPARK_APPLICATION.value,
        "metadata": metadata,
        "spec": {
            "type": "Python",
            "pythonVersion": "3",
            "mode": "cluster",
            "sparkVersion": SPARK_VERSION,
            "image": spec.image or setup.image,
            "imagePullPolicy": setup.pull_policy,
            **({"imagePullSecrets": secrets} if secrets else {}),
            "mainApplicationFile": setup.application,
            "arguments": arguments(topology, spec, start, None),
            "restartPolicy": _restart_policy(spec),
            "sparkConf": {
                **SPARK_SECURITY,
                **_NO_VOLUME_CLAIMS,
                "spark.driver.port": str(_DRIVER_PORT),
                "spark.blockManager.port": str(_BLOCK_MANAGER_PORT),
                **_local_dir("driver", setup),
                **_local_dir("executor", setup),
                **spec.spark_conf,
            },
            "driver": {
                **pod,
                **cpu,
                **limit,
                **_store(setup),
                "serviceAccount": setup.service_account,
                "memory": spec.spark_conf.get("spark.driver.memory", "1g"),
            },
            "executor": {
                **pod,
                "instances": executors.instances,
                "cores": executors.cores,
                "memory": executors.memory,
                "deleteOnTermination": True,
            },
            "volumes": _volumes(spec, setup),
        },
    }


def _restart_policy(spec: ComplianceScanSpec) -> JsonObject:
    if spec.backoff_limit == 0:
        return {"type": "Never"}
    return {
        "type": "OnFailure",
        "onFailureRetries": spec.backoff_limit,
        "onFailureRetryInterval": 10,
        "onSubmissionFailureRetries": spec.backoff_limit,
        "onSubmissionFailureRetryInterval": 10,
    }


def _client_mode(
    topology: RackTopology, spec: ComplianceScanSpec, start: ScanStart, setup: ScanSetup
) -> dict[str, str]:
    """Return Spark's settings for client mode, in which the scan's pod is the driver.

    Executors connect to the pod's IP, so no Service is needed. The pod owns the executors, so Kubernetes garbage
    collects them with the pod. The kubelet expands `$(NAME)` from the container's environment.
    """
    executors = spec.executors or ExecutorsSpec()
    conf = {
        "spark.driver.host": "$(POD_IP)",
        "spark.driver.bindAddress": "$(POD_IP)",
        "spark.driver.port": str(_DRIVER_PORT),
        "spark.blockManager.port": str(_BLOCK_MANAGER_PORT),
        "spark.kubernetes.namespace": setup.namespace or "",
        "spark.kubernetes.container.image": spec.image or setup.image or "",
        "spark.kubernetes.container.image.pullPolicy": setup.pull_policy,
        "spark.kubernetes.driver.pod.name": "$(POD_NAME)",
        "spark.kubernetes.executor.podNamePrefix": start.name,
        "spark.kubernetes.authenticate.serviceAccountName": setup.service_account,
        "spark.executor.instances": str(executors.instances),
        "spark.executor.cores": str(executors.cores),
        "spark.executor.memory": executors.memory,
        "spark.kubernetes.executor.deleteOnTermination": "true",
        "spark.kubernetes.executor.podTemplateFile": f"{_TEMPLATE_DIR}/{_EXECUTOR_TEMPLATE_FILE}",
        **SPARK_SECURITY,
        **_NO_VOLUME_CLAIMS,
        **_local_dir("executor", setup),
    }
    conf |= {f"spark.kubernetes.executor.label.{key}": value for key, value in _labels(topology, start).items()}
    if spec.history_volume is not None and spec.history is not None:
        volume = "spark.kubernetes.executor.volumes.persistentVolumeClaim.history"
        conf[f"{volume}.options.claimName"] = spec.history_volume.claim_name
        conf[f"{volume}.mount.path"] = spec.history
        conf[f"{volume}.mount.subPath"] = _sub_path(topology, spec.history_volume)
    return conf


def _environment(conf: Mapping[str, str]) -> list[JsonObject]:
    """Return the container's environment. PySpark passes PYSPARK_SUBMIT_ARGS to the JVM."""
    fields = {"POD_NAME": "metadata.name", "POD_IP": "status.podIP"}
    options = [option for key, value in conf.items() for option in ("--conf", f"{key}={value}")]
    submit = " ".join(shlex.quote(option) for option in [*options, "pyspark-shell"])
    return [
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
        {"name": "PYSPARK_SUBMIT_ARGS", "value": submit},
    ]


def _store(setup: ScanSetup) -> JsonObject:
    """Return the container's field for environment variables from the object store's Secret."""
    return {"envFrom": [{"secretRef": {"name": setup.store_secret}}]} if setup.store_secret else {}


def _metadata(topology: RackTopology, start: ScanStart, setup: ScanSetup) -> JsonObject:
    return {
        "namespace": setup.namespace,
        "name": start.name,
        "labels": _labels(topology, start),
        "annotations": {
            SCAN_TOPOLOGY_NAMESPACE: topology.key.namespace,
            SCAN_TOPOLOGY: topology.key.name,
            SCAN_CAUSE: start.cause,
        },
    }


def _labels(topology: RackTopology, start: ScanStart) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "rackspan-scan",
        "app.kubernetes.io/component": "scan",
        "app.kubernetes.io/part-of": "rackspan",
        "app.kubernetes.io/managed-by": "rackspan",
        SCAN_TOPOLOGY_NAMESPACE: topology.key.namespace,
        SCAN_TOPOLOGY: _label(topology.key.name),
        TOPOLOGY_UID: topology.meta.uid,
        SCAN_TRIGGER: start.trigger.value,
    }


def _label(name: str) -> str:
    """Return a name as a label value of at most 63 characters. A longer name is truncated and gets a hash."""
    most = 63
    return name if len(name) <= most else f"{name[: most - 9].rstrip('.-')}-{sha256(name.encode()).hexdigest()[:8]}"


def _bounds(topology: RackTopology, setup: ScanSetup) -> Mapping[str, str]:
    """Return upper bounds of the pod's resources, by name. Empty if the topology's namespace is trusted."""
    limits = setup.allowance.limits
    return {} if setup.trusts(topology.key.namespace) else {"cpu": limits.cpu, "memory": limits.memory}


def _resources(spec: ComplianceScanSpec, bounds: Mapping[str, str]) -> JsonObject:
    """Return the container's resources, capped at the bounds. A resource without a limit gets its bound as limit."""
    requests, limits = _DEFAULT_REQUESTS, _DEFAULT_LIMITS
    if spec.resources is not None:
        requests, limits = dict(spec.resources.requests), dict(spec.resources.limits)
    return {"requests": _bounded(requests, bounds), "limits": _bounded({**bounds, **limits}, bounds)}


def _bounded(amounts: Mapping[str, int | str], bounds: Mapping[str, str]) -> dict[str, int | str]:
    return {name: capped(amount, bounds[name]) if name in bounds else amount for name, amount in amounts.items()}


def _tmp_volume(setup: ScanSetup) -> JsonObject:
    return {"name": "tmp", "emptyDir": {"sizeLimit": setup.tmp_size}}


def _local_dir(pods: str, setup: ScanSetup) -> dict[str, str]:
    """Return settings that replace Spark's default emptyDir for local files, which has no size limit."""
    volume = f"spark.kubernetes.{pods}.volumes.emptyDir.spark-local-dir-1"
    return {f"{volume}.mount.path": _LOCAL_DIR, f"{volume}.options.sizeLimit": setup.tmp_size}


def _mounts(topology: RackTopology, spec: ComplianceScanSpec) -> list[JsonObject]:
    mounts: list[JsonObject] = [_TMP_MOUNT]
    if spec.history_volume is not None:
        mounts.append(
            {"name": "history", "mountPath": spec.history, "subPath": _sub_path(topology, spec.history_volume)}
        )
    return mounts


def _volumes(spec: ComplianceScanSpec, setup: ScanSetup) -> list[JsonObject]:
    volumes: list[JsonObject] = [_tmp_volume(setup)]
    if spec.history_volume is not None:
        claim = {"claimName": spec.history_volume.claim_name}
        volumes.append({"name": "history", "persistentVolumeClaim": claim})
    return volumes


def _sub_path(topology: RackTopology, volume: HistoryVolume) -> str:
    return volume.sub_path or f"{topology.key.namespace}/{topology.key.name}"

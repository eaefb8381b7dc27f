"""`rackspan operator`: the operator's process."""

import asyncio
import hashlib
import json
import logging
import secrets
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from rackspan.api.meta import ObjectKey
from rackspan.cli.shared import options
from rackspan.cli.shared.later_command import command_app
from rackspan.cli.shared.options import LogFormat, LogLevel
from rackspan.kafka.worker.places import WorkerLimits
from rackspan.logs import escape_lines
from rackspan.reconcile.audit_log import LOGGER as AUDIT
from rackspan.reconcile.runtime.lease_timing import LEASE_SECONDS, Timing
from rackspan.reconcile.runtime.namespaces import DEFAULT_TOPOLOGIES_PER_NAMESPACE, NamespaceSet
from rackspan.reconcile.scans import DEFAULT_APPLICATION
from rackspan.reconcile.scans.scan_setup import Allowance, ScanSetup
from rackspan.settings import LeaseSetup, Settings

app = command_app()
EPILOG = (
    "Examples:\n\n$ rackspan operator\n\n$ rackspan operator --kubeconfig ~/.kube/config --log-format text -n kafka"
)


_LIMITS = WorkerLimits()
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@app.command(epilog=EPILOG)
def operator(
    kubeconfig: options.OperatorKubeconfig = None,
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace", "-n", envvar="RACKSPAN_NAMESPACES", help="Watch only these (repeat it). Default: all."
        ),
    ] = None,
    resync: Annotated[
        float,
        typer.Option(
            envvar="RACKSPAN_RESYNC_SECONDS", min=1, help="Seconds between comparisons of a whole Kafka cluster."
        ),
    ] = 60.0,
    topologies_per_namespace: Annotated[
        int,
        typer.Option(
            envvar="RACKSPAN_TOPOLOGIES_PER_NAMESPACE",
            min=1,
            help="RackTopologies of one namespace that are served, the oldest: each may connect to Kafka.",
        ),
    ] = DEFAULT_TOPOLOGIES_PER_NAMESPACE,
    kafka_trusted_namespace: Annotated[
        list[str] | None,
        typer.Option(
            envvar="RACKSPAN_KAFKA_TRUSTED_NAMESPACES",
            help="Namespaces whose Kafka clients share a process, with the operator's own (repeat it; * for all).",
        ),
    ] = None,
    kafka_trusted_memory: Annotated[
        int,
        typer.Option(
            envvar="RACKSPAN_KAFKA_TRUSTED_MEMORY_MIB", min=64, help="MiB of memory that this process may use."
        ),
    ] = _LIMITS.trusted_memory >> 20,
    kafka_untrusted_max: Annotated[
        int,
        typer.Option(
            envvar="RACKSPAN_KAFKA_UNTRUSTED_MAX",
            min=1,
            help="Other namespaces whose Kafka clients run at a time, in a process each; more of them take turns.",
        ),
    ] = _LIMITS.most_untrusted,
    kafka_untrusted_memory: Annotated[
        int,
        typer.Option(
            envvar="RACKSPAN_KAFKA_UNTRUSTED_MEMORY_MIB", min=64, help="MiB of memory that each of them may use."
        ),
    ] = _LIMITS.untrusted_memory >> 20,
    listen_host: Annotated[
        str, typer.Option(envvar="RACKSPAN_LISTEN_HOST", help="Address of /metrics, /healthz and /readyz.")
    ] = "0.0.0.0",  # noqa: S104 - probes and Prometheus come from outside the Pod
    listen_port: Annotated[
        int, typer.Option(envvar="RACKSPAN_LISTEN_PORT", min=0, max=65535, help="Port of the same; 0 for any.")
    ] = 8080,
    lease_namespace: Annotated[
        str | None,
        typer.Option(
            envvar="RACKSPAN_LEASE_NAMESPACE", help="Where the Lease is. Default: the Pod's namespace, else default."
        ),
    ] = None,
    lease_name: Annotated[
        str | None,
        typer.Option(
            envvar="RACKSPAN_LEASE_NAME",
            help="Of operators with the same Lease one acts. Default: rackspan, and what stands for the namespaces.",
        ),
    ] = None,
    lease_identity: Annotated[
        str | None,
        typer.Option(
            envvar="RACKSPAN_LEASE_IDENTITY",
            help="As whom to hold it; no two at a time may have the same. Default: the host's name, and chance.",
        ),
    ] = None,
    lease_seconds: Annotated[
        int,
        typer.Option(
            envvar="RACKSPAN_LEASE_SECONDS",
            min=6,
            help="How long a Lease that is not renewed stays its holder's, who stops changing things after half of it.",
        ),
    ] = LEASE_SECONDS,
    scan_image: Annotated[
        str | None, typer.Option(envvar="RACKSPAN_SCAN_IMAGE", help="The image of compliance scans. Default: no scans.")
    ] = None,
    scan_namespace: Annotated[
        str | None,
        typer.Option(envvar="RACKSPAN_SCAN_NAMESPACE", help="The namespace where scans run. Default: the Pod's own."),
    ] = None,
    scan_service_account: Annotated[
        str, typer.Option(envvar="RACKSPAN_SCAN_SERVICE_ACCOUNT", help="What scans run as.")
    ] = "rackspan-scan",
    scan_pull_policy: Annotated[
        str, typer.Option(envvar="RACKSPAN_SCAN_PULL_POLICY", help="Always, IfNotPresent or Never.")
    ] = "IfNotPresent",
    scan_application: Annotated[
        str,
        typer.Option(envvar="RACKSPAN_SCAN_APPLICATION", help="What SparkApplications submit: a file of that image."),
    ] = DEFAULT_APPLICATION,
    scan_pod: Annotated[
        str,
        typer.Option(envvar="RACKSPAN_SCAN_POD", help="JSON that is merged into the spec of Pods that scan."),
    ] = "{}",
    scan_trusted_namespace: Annotated[
        list[str] | None,
        typer.Option(
            envvar="RACKSPAN_SCAN_TRUSTED_NAMESPACES",
            help="Whose RackTopologies may ask for anything of their scans (repeat it; * for all).",
        ),
    ] = None,
    scan_allowed_location: Annotated[
        list[str] | None,
        typer.Option(
            envvar="RACKSPAN_SCAN_ALLOWED_LOCATIONS",
            help="Where the others' histories may lie: URIs or paths, and what is below ({namespace}: their own).",
        ),
    ] = None,
    scan_allowed_claim: Annotated[
        list[str] | None,
        typer.Option(envvar="RACKSPAN_SCAN_ALLOWED_CLAIMS", help="PersistentVolumeClaims that the others may name."),
    ] = None,
    scan_limits: Annotated[
        str,
        typer.Option(envvar="RACKSPAN_SCAN_LIMITS", help="JSON of what the others' scans may spend: scan.limits."),
    ] = "{}",
    scan_max_running: Annotated[
        int,
        typer.Option(envvar="RACKSPAN_SCAN_MAX_RUNNING", min=1, help="Scans at a time, of all topologies."),
    ] = 4,
    scan_tmp_size: Annotated[
        str, typer.Option(envvar="RACKSPAN_SCAN_TMP_SIZE", help="The most temporary files of a pod that scans.")
    ] = "10Gi",
    scan_store_secret: Annotated[
        str | None,
        typer.Option(
            envvar="RACKSPAN_SCAN_STORE_SECRET",
            help="A Secret whose entries are environment variables of scans: credentials of an object store.",
        ),
    ] = None,
    publish_racks_to: Annotated[
        list[str] | None,
        typer.Option(
            envvar="RACKSPAN_PUBLISH_RACKS_TO",
            help="Namespaces for ConfigMaps with the rack of every node (repeat it; * for all). Default: none.",
        ),
    ] = None,
    restart_pods_in: Annotated[
        list[str] | None,
        typer.Option(
            envvar="RACKSPAN_RESTART_PODS_IN",
            help="Namespaces where brokers' pods may be evicted (repeat it; * for all). Default: none.",
        ),
    ] = None,
    annotate_pods_in: Annotated[
        list[str] | None,
        typer.Option(
            envvar="RACKSPAN_ANNOTATE_PODS_IN",
            help="Namespaces where brokers' pods are annotated with their rack (repeat it; * for all). Default: none.",
        ),
    ] = None,
    log_format: Annotated[
        LogFormat, typer.Option(envvar="RACKSPAN_LOG_FORMAT", help="How log lines look.")
    ] = LogFormat.JSON,
    log_level: Annotated[LogLevel, typer.Option(envvar="RACKSPAN_LOG_LEVEL", help="Least severity.")] = LogLevel.INFO,
) -> None:
    """Run the operator: reconcile RackTopologies and KafkaTopics until stopped."""
    import kopf  # noqa: PLC0415 - other subcommands need neither kopf nor Kafka

    from rackspan.main import LeaseLostError, run  # noqa: PLC0415

    kopf.configure(
        debug=log_level is LogLevel.DEBUG,
        quiet=log_level is LogLevel.WARNING,
        log_format=kopf.LogFormat.JSON if log_format is LogFormat.JSON else kopf.LogFormat.FULL,
    )
    if log_format is LogFormat.TEXT:
        escape_lines()
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    logging.getLogger(AUDIT).setLevel(logging.INFO)  # whatever else is silenced
    settings = Settings(
        lease=LeaseSetup(
            identity=lease_identity or f"{socket.gethostname()}-{secrets.token_hex(4)}",
            key=ObjectKey(lease_namespace or _own_namespace() or "default", lease_name or _lease_name(namespace or ())),
            timing=Timing(lease_seconds),
        ),
        kubeconfig=kubeconfig,
        namespaces=tuple(namespace or ()),
        resync_seconds=resync,
        topologies_per_namespace=topologies_per_namespace,
        kafka_clients=WorkerLimits(
            trusted=NamespaceSet((lease_namespace or _own_namespace() or "default", *(kafka_trusted_namespace or ()))),
            trusted_memory=kafka_trusted_memory << 20,
            untrusted_memory=kafka_untrusted_memory << 20,
            most_untrusted=kafka_untrusted_max,
        ),
        listen_host=listen_host,
        listen_port=listen_port,
        scans=ScanSetup(
            namespace=scan_namespace or _own_namespace(),
            image=scan_image,
            service_account=scan_service_account,
            pull_policy=scan_pull_policy,
            application=scan_application,
            pod=_json(scan_pod, "--scan-pod"),
            trusted=tuple(scan_trusted_namespace or ()),
            allowance=_allowance(scan_allowed_location or (), scan_allowed_claim or (), scan_limits),
            max_running=scan_max_running,
            tmp_size=scan_tmp_size,
            store_secret=scan_store_secret or None,
        ),
        publish_racks_to=NamespaceSet(tuple(publish_racks_to or ())),
        restart_pods_in=NamespaceSet(tuple(restart_pods_in or ())),
        annotate_pods_in=NamespaceSet(tuple(annotate_pods_in or ())),
    )
    try:
        asyncio.run(run(settings))
    except LeaseLostError as error:  # another operator may have acted since: Kubernetes starts this one again
        raise typer.Exit(1) from error


def _lease_name(namespaces: Sequence[str]) -> str:
    """Name of the Lease: operators that watch other namespaces have another one."""
    if not namespaces:
        return "rackspan"
    return f"rackspan-{hashlib.sha256(' '.join(sorted(set(namespaces))).encode()).hexdigest()[:10]}"


def _own_namespace() -> str | None:
    """The Pod's namespace; None outside a cluster."""
    return _NAMESPACE_FILE.read_text().strip() or None if _NAMESPACE_FILE.exists() else None


def _allowance(locations: Sequence[str], claims: Sequence[str], limits: str) -> Allowance:
    try:
        return Allowance.read(locations, claims, _json(limits, "--scan-limits"))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--scan-allowed-location or --scan-limits") from error


def _json(text: str, flag: str) -> dict[str, object]:
    try:
        found = json.loads(text or "{}")
    except ValueError as error:
        raise typer.BadParameter(f"not JSON: {error}", param_hint=flag) from error
    if not isinstance(found, dict):
        raise typer.BadParameter("must be a JSON object", param_hint=flag)
    return found

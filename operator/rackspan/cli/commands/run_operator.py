"""The options of `rackspan operator`."""

from typing import Annotated

import typer

from rackspan.cli.actions import running_operator
from rackspan.cli.shared import options
from rackspan.cli.shared.later_command import command_app
from rackspan.cli.shared.options import LogFormat, LogLevel
from rackspan.kafka.worker.places import WorkerLimits
from rackspan.reconcile.runtime.lease_timing import LEASE_SECONDS
from rackspan.reconcile.runtime.namespaces import DEFAULT_TOPOLOGIES_PER_NAMESPACE
from rackspan.reconcile.scans import DEFAULT_APPLICATION

app = command_app()
EPILOG = (
    "Examples:\n\n$ rackspan operator\n\n$ rackspan operator --kubeconfig ~/.kube/config --log-format text -n kafka"
)


_LIMITS = WorkerLimits()


@app.command(epilog=EPILOG)
def operator(
    kubeconfig: options.OperatorKubeconfig = None,
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace",
            "-n",
            envvar="RACKSPAN_NAMESPACES",
            help="Watch only these namespaces (repeat it). Default: all.",
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
            help="The most RackTopologies of a namespace that are reconciled, the oldest ones.",
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
            help="The most other namespaces with running Kafka clients, one process each; the rest take turns.",
        ),
    ] = _LIMITS.most_untrusted,
    kafka_untrusted_memory: Annotated[
        int,
        typer.Option(
            envvar="RACKSPAN_KAFKA_UNTRUSTED_MEMORY_MIB",
            min=64,
            help="MiB of memory that each of these processes may use.",
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
            envvar="RACKSPAN_LEASE_NAMESPACE",
            help="The namespace of the Lease. Default: the Pod's namespace, else default.",
        ),
    ] = None,
    lease_name: Annotated[
        str | None,
        typer.Option(
            envvar="RACKSPAN_LEASE_NAME",
            help="Operators with the same Lease elect one leader. Default: rackspan, with a suffix for the namespaces.",
        ),
    ] = None,
    lease_identity: Annotated[
        str | None,
        typer.Option(
            envvar="RACKSPAN_LEASE_IDENTITY",
            help="The holder's identity, unique among running operators. Default: the host name and a random suffix.",
        ),
    ] = None,
    lease_seconds: Annotated[
        int,
        typer.Option(
            envvar="RACKSPAN_LEASE_SECONDS",
            min=6,
            help="How long a Lease is valid without a renewal. Its holder stops changes after half of this time.",
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
        typer.Option(envvar="RACKSPAN_SCAN_APPLICATION", help="The file in the image that SparkApplications submit."),
    ] = DEFAULT_APPLICATION,
    scan_pod: Annotated[
        str,
        typer.Option(envvar="RACKSPAN_SCAN_POD", help="JSON that is merged into the spec of scan Pods."),
    ] = "{}",
    scan_trusted_namespace: Annotated[
        list[str] | None,
        typer.Option(
            envvar="RACKSPAN_SCAN_TRUSTED_NAMESPACES",
            help="Namespaces whose RackTopologies may set everything of their scans (repeat it; * for all).",
        ),
    ] = None,
    scan_allowed_location: Annotated[
        list[str] | None,
        typer.Option(
            envvar="RACKSPAN_SCAN_ALLOWED_LOCATIONS",
            help="Locations, and all below them, that the others may use for histories ({namespace}: their own).",
        ),
    ] = None,
    scan_allowed_claim: Annotated[
        list[str] | None,
        typer.Option(envvar="RACKSPAN_SCAN_ALLOWED_CLAIMS", help="PersistentVolumeClaims that the others may use."),
    ] = None,
    scan_limits: Annotated[
        str,
        typer.Option(envvar="RACKSPAN_SCAN_LIMITS", help="JSON of the limits of the others' scans: scan.limits."),
    ] = "{}",
    scan_max_running: Annotated[
        int,
        typer.Option(
            envvar="RACKSPAN_SCAN_MAX_RUNNING", min=1, help="The most scans at the same time, of all topologies."
        ),
    ] = 4,
    scan_tmp_size: Annotated[
        str, typer.Option(envvar="RACKSPAN_SCAN_TMP_SIZE", help="The size limit of temporary files of a scan Pod.")
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
            help="Namespaces that get a ConfigMap with the rack of every node (repeat it; * for all). Default: none.",
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
    running_operator.operator(**locals())

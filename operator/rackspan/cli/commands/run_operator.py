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
            help="Of the operators with the same Lease, one acts. Default: rackspan, and a suffix for the namespaces.",
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
    running_operator.operator(**locals())

"""`rackspan operator`: the operator's process."""

import asyncio
import hashlib
import json
import logging
import secrets
import socket
from collections.abc import Sequence
from pathlib import Path

import kopf
import typer

from rackspan.api.meta import ObjectKey
from rackspan.cli.shared.options import LogFormat, LogLevel
from rackspan.kafka.worker.places import WorkerLimits
from rackspan.logs import escape_lines
from rackspan.main import LeaseLostError, run
from rackspan.reconcile.audit_log import LOGGER as AUDIT
from rackspan.reconcile.runtime.lease_timing import Timing
from rackspan.reconcile.runtime.namespaces import NamespaceSet
from rackspan.reconcile.scans.scan_setup import Allowance, ScanSetup
from rackspan.settings import LeaseSetup, Settings

_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def operator(
    *,
    kubeconfig: Path | None,
    namespace: list[str] | None,
    resync: float,
    topologies_per_namespace: int,
    kafka_trusted_namespace: list[str] | None,
    kafka_trusted_memory: int,
    kafka_untrusted_max: int,
    kafka_untrusted_memory: int,
    listen_host: str,
    listen_port: int,
    lease_namespace: str | None,
    lease_name: str | None,
    lease_identity: str | None,
    lease_seconds: int,
    scan_image: str | None,
    scan_namespace: str | None,
    scan_service_account: str,
    scan_pull_policy: str,
    scan_application: str,
    scan_pod: str,
    scan_trusted_namespace: list[str] | None,
    scan_allowed_location: list[str] | None,
    scan_allowed_claim: list[str] | None,
    scan_limits: str,
    scan_max_running: int,
    scan_tmp_size: str,
    scan_store_secret: str | None,
    publish_racks_to: list[str] | None,
    restart_pods_in: list[str] | None,
    annotate_pods_in: list[str] | None,
    log_format: LogFormat,
    log_level: LogLevel,
) -> None:
    """Carry out `rackspan operator` with these options. Raises typer.BadParameter and typer.Exit."""
    kopf.configure(
        debug=log_level is LogLevel.DEBUG,
        quiet=log_level is LogLevel.WARNING,
        log_format=kopf.LogFormat.JSON if log_format is LogFormat.JSON else kopf.LogFormat.FULL,
    )
    if log_format is LogFormat.TEXT:
        escape_lines()
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    logging.getLogger(AUDIT).setLevel(logging.INFO)  # at every --log-level
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
    except LeaseLostError as error:  # another operator may have acted since: exit, so that Kubernetes restarts this one
        raise typer.Exit(1) from error


def _lease_name(namespaces: Sequence[str]) -> str:
    """Return the name of the Lease. Operators that watch different namespaces have different Leases."""
    if not namespaces:
        return "rackspan"
    return f"rackspan-{hashlib.sha256(' '.join(sorted(set(namespaces))).encode()).hexdigest()[:10]}"


def _own_namespace() -> str | None:
    """Return the Pod's namespace, None outside a cluster."""
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

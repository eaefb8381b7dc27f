"""`rackspan scan` on Spark, cluster by cluster. The only module of the command line that imports Spark."""

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import cache

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rackspan.cli.rendering.progress import step
from rackspan.cli.shared.command_errors import CommandError, warn
from rackspan.cli.shared.scan_request import ScanRequest
from rackspan.jobs.history.scan_history import History, HistoryError
from rackspan.jobs.scan.cluster_scan import Order, failed, scan_cluster
from rackspan.jobs.sources import scanned_cluster
from rackspan.jobs.sources.scanned_cluster import ClusterError, ScannedCluster
from rackspan.jobs.sources.synthetic_cluster import SyntheticCluster
from rackspan.jobs.sources.topology_cluster import from_topology
from rackspan.jobs.spark.spark_session import spark_session
from rackspan.kafka.command_config import CommandConfigError, read_command_config
from rackspan.kube.publishing import publish_scan
from rackspan.kube.reading import read_topology
from rackspan.kube.rest import NotFoundError
from rackspan.reconcile.failures import FailureError
from rackspan.reports.document import ScanDocument
from rackspan.snapshots import SnapshotError

_STEPS = 5


def scans(request: ScanRequest) -> Iterator[ScanDocument]:
    """
    Scan every cluster that is asked for; one that cannot be read is told as a failed scan.

    Raises CommandError where that is true of all of them: no history, no Spark, nothing to read.
    """
    now = datetime.now(UTC)
    try:
        history = None if request.history is None else History(request.history)
    except HistoryError as error:
        raise CommandError(str(error)) from error
    scan_id = request.scan_id or f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
    order = Order(scan_id, now, history, request.retention_days)
    ready = list(_clusters(request, order))
    with ExitStack() as until_the_end:
        session = cache(lambda: until_the_end.enter_context(_spark(request)))  # only where there is anything to scan
        for one in ready:
            document = one if isinstance(one, ScanDocument) else _scanned(session(), one, order)
            if request.publish:
                _publish(document, request)
            yield document


@contextmanager
def _spark(request: ScanRequest) -> Iterator[SparkSession]:
    try:
        with step("starting Spark"):
            session = spark_session(request.master, request.driver_memory)
    except (PySparkException, Py4JError, OSError) as error:
        hint = "see that `java -version` says 17 or newer and that --master can be reached, or use rackspan check"
        raise CommandError(f"Spark did not start: {str(error).strip().splitlines()[0]}", hint) from error
    try:
        yield session
    finally:
        session.stop()


def _scanned(spark: SparkSession, cluster: ScannedCluster, order: Order) -> ScanDocument:
    done = 0
    with step(f"scanning {cluster.name}") as progress:

        def told(what: str) -> None:
            nonlocal done
            if what.startswith("warning: "):
                warn(what.removeprefix("warning: "))
                return
            progress.describe(f"{cluster.name}: {what}")
            progress.advance(done, _STEPS)
            done += 1

        try:
            return scan_cluster(spark, cluster, order, told)
        except ClusterError as error:
            return failed(cluster.name, order, error.reason, str(error))
        except HistoryError as error:
            return failed(cluster.name, order, "HistoryUnavailable", str(error))


def _clusters(request: ScanRequest, order: Order) -> Iterator[ScannedCluster | ScanDocument]:
    """Clusters that can be scanned, and the documents of those that cannot."""
    if request.synthetic is not None:
        yield scanned_cluster.synthetic(SyntheticCluster(request.synthetic), request.slices)
        return
    try:
        files = scanned_cluster.snapshot_files(request.snapshot) if request.snapshot is not None else []
    except ClusterError as error:
        raise CommandError(str(error)) from error
    for file in files:
        try:
            yield scanned_cluster.from_file(file, request.levels)
        except SnapshotError as error:
            yield failed(file.stem, order, "SnapshotUnreadable", str(error))
        except ClusterError as error:
            yield failed(file.stem, order, error.reason, str(error))
    name = request.topology or request.bootstrap_server
    if name is None:
        return
    try:
        yield _of_topology(request) if request.topology else _live(request, name)
    except FailureError as error:
        yield failed(name, order, str(error.failure.reason), error.failure.message)
    except ClusterError as error:
        yield failed(name, order, error.reason, str(error))


def _live(request: ScanRequest, servers: str) -> ScannedCluster:
    try:
        properties = {} if request.command_config is None else read_command_config(request.command_config)
        return scanned_cluster.live(servers, servers, properties, request.slices, request.levels)
    except CommandConfigError as error:
        raise CommandError(str(error)) from error


def _of_topology(request: ScanRequest) -> ScannedCluster:
    seen = asyncio.run(read_topology(request.topology_key, request.kubeconfig))
    return from_topology(seen, request.slices)


def _publish(document: ScanDocument, request: ScanRequest) -> None:
    try:
        asyncio.run(publish_scan(document, request.topology_key, request.kubeconfig))
    except (FailureError, NotFoundError) as error:
        raise CommandError(f"the ComplianceReport was not written: {error}") from error

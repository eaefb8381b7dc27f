"""The entry point of the scan job: scans all clusters of one request, one after the other.

`rackspan scan` calls this module, both on a user's machine and in the pods that the operator starts.
"""

import asyncio
import importlib.util
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial

from rackspan.jobs.history.scan_history import History, HistoryError
from rackspan.jobs.scan.cluster_scan import ScanRun, StepProgress, failed, scan_cluster
from rackspan.jobs.scan.engine_choice import EngineChoice
from rackspan.jobs.scan.engines import Engine, in_process
from rackspan.jobs.scan.scan_request import SUBMITTED, ScanRequest
from rackspan.jobs.sources import scanned_cluster
from rackspan.jobs.sources.scanned_cluster import ClusterError, ScannedCluster
from rackspan.jobs.sources.synthetic_cluster import SyntheticCluster
from rackspan.jobs.sources.topology_cluster import from_topology
from rackspan.kafka.command_config import SETTINGS, CommandConfigError, command_properties
from rackspan.kube.rest import NoKubeconfigError
from rackspan.kube.topology_inputs import read_scan_inputs
from rackspan.reconcile.failures import FailureError
from rackspan.reports.document import ScanDocument

_LARGE = 200_000
"""From this number of partitions on, Spark is faster than one process, because it uses all cores and disks."""


class ScanJobError(Exception):
    """An error that ends the whole job, not only the scan of one cluster. `hint` says what the user can do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


Step = Callable[[str], AbstractContextManager[StepProgress]]
"""Return a context that shows a step with this description until the context exits."""


def scan_clusters(request: ScanRequest, step: Step, warn: Callable[[str], None]) -> Iterator[ScanDocument]:
    """Scan every cluster of the request and yield its document. For an unreadable cluster, yield that of a failed scan.

    `step` is called when a step begins, `warn` with every warning.

    Raises ScanJobError for errors that concern all clusters: no history, no Spark, no snapshot files, no kubeconfig.
    """
    now = datetime.now(UTC)
    try:
        history = None if request.history is None else History(request.history)
    except HistoryError as error:
        raise ScanJobError(str(error)) from error
    scan_id = request.scan_id or f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
    run = ScanRun(scan_id, now, history, request.retention_days)
    ready = _writable(list(_clusters(request, run)), run)
    with ExitStack() as until_the_end:
        # Start the engine only if there is a cluster to scan.
        engine = cache(lambda: until_the_end.enter_context(_engine(ready, request, step)))
        for one in ready:
            yield one if isinstance(one, ScanDocument) else _scanned(engine(), one, run, step, warn)


def _writable(ready: list[ScannedCluster | ScanDocument], run: ScanRun) -> list[ScannedCluster | ScanDocument]:
    """Return `ready`, or failed scans if the history cannot be written. Checked before any cluster is scanned."""
    try:
        if run.history is not None:
            run.history.try_writing()
    except HistoryError as error:
        message = str(error)
        return [one if isinstance(one, ScanDocument) else _without_history(one, run, message) for one in ready]
    return ready


def _without_history(cluster: ScannedCluster, run: ScanRun, message: str) -> ScanDocument:
    return failed(cluster.name, run, "HistoryUnavailable", message)


@contextmanager
def _engine(ready: list[ScannedCluster | ScanDocument], request: ScanRequest, step: Step) -> Iterator[Engine]:
    clusters = [one for one in ready if isinstance(one, ScannedCluster)]
    chosen = request.master is not None or SUBMITTED in os.environ
    small = not chosen and len(clusters) == 1 and clusters[0].partitions < _LARGE
    if request.engine is EngineChoice.LOCAL or (request.engine is EngineChoice.AUTO and small):
        yield in_process
        return
    with _spark(request, step) as engine:
        yield engine


@contextmanager
def _spark(request: ScanRequest, step: Step) -> Iterator[Engine]:
    if importlib.util.find_spec("pyspark") is None:
        raise ScanJobError("Spark is not installed", "pip install 'rackspan[spark]', or use --engine local")
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        raise ScanJobError("there is no Java, which Spark needs", "install Java 17 or newer, or use --engine local")
    from rackspan.jobs.spark.spark_engine import on_spark  # noqa: PLC0415 - the other engine works without Spark
    from rackspan.jobs.spark.spark_session import SparkStartError, spark_session  # noqa: PLC0415

    try:
        with step("starting Spark"):
            session = spark_session(request.master, request.driver_memory)
    except SparkStartError as error:
        hint = "check that `java -version` says 17 or newer and that --master can be reached, or use --engine local"
        raise ScanJobError(f"Spark did not start: {error}", hint) from error
    try:
        yield on_spark(session, request.slices)
    finally:
        session.stop()


def _scanned(
    engine: Engine, cluster: ScannedCluster, run: ScanRun, step: Step, warn: Callable[[str], None]
) -> ScanDocument:
    with step(f"scanning {cluster.name}") as progress:
        try:
            return scan_cluster(engine, cluster, replace(run, observed_at=datetime.now(UTC)), progress, warn)
        except ClusterError as error:
            return failed(cluster.name, run, error.reason, str(error))
        except HistoryError as error:
            return _without_history(cluster, run, str(error))


def _clusters(request: ScanRequest, run: ScanRun) -> Iterator[ScannedCluster | ScanDocument]:
    """Yield the clusters that can be scanned, and failed documents for the other clusters."""
    for name, made_ready in _sources(request):
        try:
            cluster = made_ready()
        except NoKubeconfigError as error:
            raise ScanJobError(str(error), error.hint) from error
        except FailureError as error:
            settings = SETTINGS if request.topology is None else {}
            yield failed(name, run, str(error.failure.reason), error.failure.message_with(settings))
        except ClusterError as error:
            yield failed(name, run, error.reason, str(error))
        except CommandConfigError as error:
            raise ScanJobError(str(error)) from error
        else:
            criteria = cluster.criteria
            yield replace(cluster, criteria=replace(criteria, producers=request.producers or criteria.producers))


def _sources(request: ScanRequest) -> Iterator[tuple[str, Callable[[], ScannedCluster]]]:
    """Yield each cluster's name and a function that prepares its scan. Raises ScanJobError if no snapshot is found."""
    levels = request.levels
    if request.synthetic is not None:
        made_up = SyntheticCluster(request.synthetic)
        yield "synthetic", lambda: scanned_cluster.synthetic(made_up)
    elif request.snapshot is not None:
        try:
            files = scanned_cluster.snapshot_files(request.snapshot)
        except ClusterError as error:
            raise ScanJobError(str(error)) from error
        for file in files:
            yield file.stem, partial(scanned_cluster.from_file, file, levels)
    elif (key := request.topology) is not None:
        yield str(key), lambda: from_topology(asyncio.run(read_scan_inputs(key, request.kubeconfig)))
    elif (servers := request.bootstrap_server) is not None:
        config = request.command_config
        yield servers, lambda: scanned_cluster.live(servers, command_properties(servers, config), levels)

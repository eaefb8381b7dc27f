"""`rackspan scan`: look at all partitions of one cluster or of many, with Spark, and keep what was found."""

import asyncio
import importlib.util
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import to_builtins

from rackspan.api.meta import ObjectKey
from rackspan.cli import options
from rackspan.cli.errors import CommandError, ExitCode, tell, warn
from rackspan.cli.output import Format, console, emit
from rackspan.cli.progress import step
from rackspan.cli.report import page_of, write
from rackspan.cli.scan_for_people import print_scan
from rackspan.cli.scan_watched import watch_scan
from rackspan.cli.selection import level_names
from rackspan.core.scanning.rules import ALARMING
from rackspan.reports.document import ScanDocument, State, encode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rackspan.jobs.clusters import ScannedCluster
    from rackspan.jobs.scan import Order

EPILOG = options.epilog(
    "$ rackspan scan --snapshot prod.json --levels region,zone,rack",
    "$ rackspan scan --snapshot snapshots/ --history /var/lib/rackspan --retention-days 365",
    "$ rackspan scan --bootstrap-server kafka:9092 --history s3a://audit/rackspan --page scan.html",
    "$ rackspan scan --topology kafka/prod --publish",
    "$ rackspan scan --topology kafka/prod --watch",
)
_STEPS = 5
_CLUSTER, _SPARK, _RESULTS = "The cluster", "Spark", "Results"
_REASONS_OF_KAFKA = frozenset({"KafkaUnavailable", "KafkaUnreachable", "AuthenticationFailed"})


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Where clusters come from."""

    snapshot: Path | None
    bootstrap_server: str | None
    command_config: Path | None
    topology: str | None
    kubeconfig: Path | None
    synthetic: int | None
    levels: Sequence[str]
    slices: int


def scan(
    snapshot: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            rich_help_panel=_CLUSTER,
            help="What `rackspan snapshot` wrote, or a folder of such files, one per cluster.",
        ),
    ] = None,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    topology: Annotated[
        str | None,
        typer.Option(
            metavar="NAMESPACE/NAME",
            rich_help_panel=_CLUSTER,
            help="A RackTopology: its brokers' racks and its KafkaTopics are what the cluster is held against.",
        ),
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            envvar="RACKSPAN_KUBECONFIG",
            exists=True,
            dir_okay=False,
            rich_help_panel=_CLUSTER,
            help="For --topology. Default: the Pod's service account, else KUBECONFIG, else ~/.kube/config.",
        ),
    ] = None,
    synthetic: Annotated[
        int | None,
        typer.Option(metavar="PARTITIONS", min=1, rich_help_panel=_CLUSTER, help="Make a cluster up, for load tests."),
    ] = None,
    levels: options.Levels = "",
    history: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            rich_help_panel=_RESULTS,
            help="Keep what is found there, and compare with the scan before: a folder, or a URI such as s3a://…",
        ),
    ] = None,
    retention_days: Annotated[
        int | None,
        typer.Option(min=1, rich_help_panel=_RESULTS, help="Forget older days. Default: the history is kept for ever."),
    ] = None,
    scan_id: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_RESULTS,
            help="A name for this scan; one that the history has already is not run again. Default: the time.",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=_RESULTS, help="Write the scan document there (JSON)."),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE", rich_help_panel=_RESULTS, help="Write the page there (HTML).")
    ] = None,
    publish: Annotated[
        bool,
        typer.Option(
            "--publish", rich_help_panel=_RESULTS, help="With --topology: write its ComplianceReport in Kubernetes."
        ),
    ] = False,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            rich_help_panel=_CLUSTER,
            help="With --topology: let the operator scan it, where and as its spec says, and wait for the report.",
        ),
    ] = False,
    timeout: Annotated[
        float, typer.Option(min=1, rich_help_panel=_CLUSTER, help="With --watch: seconds to wait at most.")
    ] = 900,
    master: Annotated[
        str | None,
        typer.Option(rich_help_panel=_SPARK, help="Spark's master. Default: spark-submit's, else local[*]."),
    ] = None,
    driver_memory: Annotated[str, typer.Option(rich_help_panel=_SPARK, help="Memory of Spark's driver.")] = "2g",
    slices: Annotated[
        int, typer.Option(min=1, rich_help_panel=_SPARK, help="Parts in which a cluster is read, at least.")
    ] = max(2, os.cpu_count() or 1),
    exit_zero: Annotated[
        bool,
        typer.Option("--exit-zero", rich_help_panel=_RESULTS, help="Exit with 0 even where something bad was found."),
    ] = False,
    output: options.Output = Format.TABLE,
) -> None:
    """Scan whole clusters with Spark: findings, what each loss would do, and how it was before.

    The exit code is 1 when something of severity high or critical was found. A cluster that cannot be read is told as a
    failed scan, and the others go on. For one small cluster `rackspan check` finds the same without Spark.
    """
    wanted = _Wanted(
        snapshot, bootstrap_server, command_config, topology, kubeconfig, synthetic, level_names(levels), slices
    )
    _refuse_contradictions(wanted, publish=publish, retention=retention_days, history=history)
    if watch:
        if topology is None:
            raise CommandError("--watch is for --topology: the operator knows no other clusters")
        code = watch_scan(_key(wanted), kubeconfig, timeout, output)
        raise typer.Exit(ExitCode.FINE if exit_zero else code)
    _need_spark()
    found = list(_scans(wanted, master, driver_memory, history, scan_id, retention_days, publish=publish))
    for document in found:
        for sentence in document.warnings:
            warn(f"{document.cluster}: {sentence}")
    _write(found, report, page)
    _print(found, output)
    code = _exit_code(found)
    if code is ExitCode.OUT_OF_COMPLIANCE and exit_zero:
        code = ExitCode.FINE
    if code is not ExitCode.FINE:
        raise typer.Exit(code)


def _refuse_contradictions(wanted: _Wanted, *, publish: bool, retention: int | None, history: str | None) -> None:
    given = [
        name
        for name, value in (
            ("--snapshot", wanted.snapshot),
            ("--bootstrap-server", wanted.bootstrap_server),
            ("--topology", wanted.topology),
            ("--synthetic", wanted.synthetic),
        )
        if value is not None
    ]
    if len(given) != 1:
        raise CommandError(
            f"only one of {', '.join(given)} can be used" if given else "the cluster is missing",
            "pass --snapshot PATH, --bootstrap-server HOST:PORT, --topology NAMESPACE/NAME or --synthetic PARTITIONS",
        )
    if wanted.command_config is not None and wanted.bootstrap_server is None:
        raise CommandError("--command-config is for --bootstrap-server")
    if publish and wanted.topology is None:
        raise CommandError("--publish is for --topology: without one there is no object to write")
    if retention is not None and history is None:
        raise CommandError("--retention-days is for --history")
    if wanted.topology is not None and wanted.topology.count("/") != 1:
        raise CommandError(f'--topology "{wanted.topology}" is not NAMESPACE/NAME')
    if wanted.topology is not None and wanted.levels:
        raise CommandError("--levels is not for --topology: the RackTopology names them")


def _need_spark() -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise CommandError("Spark is not installed", "pip install 'rackspan[spark]', or use rackspan check")
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        raise CommandError("there is no Java, which Spark needs", "install Java 17 or newer, or use rackspan check")


# --- scanning ---------------------------------------------------------------------------------------------------------


def _scans(
    wanted: _Wanted,
    master: str | None,
    memory: str,
    location: str | None,
    scan_id: str | None,
    retention_days: int | None,
    *,
    publish: bool,
) -> Iterator[ScanDocument]:
    # Only this command needs Spark, and only these lines import it.
    from rackspan.jobs.history import History, HistoryError  # noqa: PLC0415
    from rackspan.jobs.scan import Order  # noqa: PLC0415

    now = datetime.now(UTC)
    try:
        history = None if location is None else History(location)
    except HistoryError as error:
        raise CommandError(str(error)) from error
    order = Order(scan_id or f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}", now, history, retention_days)
    ready = list(_clusters(wanted, order))
    with step("starting Spark"):
        spark = _spark(master, memory) if any(not isinstance(one, ScanDocument) for one in ready) else None
    try:
        for one in ready:
            document = one if isinstance(one, ScanDocument) or spark is None else _scanned(spark, one, order)
            if not isinstance(document, ScanDocument):
                continue
            if publish:
                _publish(document, wanted)
            yield document
    finally:
        if spark is not None:
            spark.stop()


def _spark(master: str | None, memory: str) -> "SparkSession":
    from py4j.protocol import Py4JError  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415

    from rackspan.jobs.session import spark_session  # noqa: PLC0415

    try:
        return spark_session(master, memory)
    except (PySparkException, Py4JError, OSError) as error:
        hint = "see that `java -version` says 17 or newer and that --master can be reached, or use rackspan check"
        raise CommandError(f"Spark did not start: {str(error).strip().splitlines()[0]}", hint) from error


def _scanned(spark: "SparkSession", cluster: "ScannedCluster", order: "Order") -> ScanDocument:
    from rackspan.jobs.clusters import ClusterError  # noqa: PLC0415
    from rackspan.jobs.history import HistoryError  # noqa: PLC0415
    from rackspan.jobs.scan import failed, scan_cluster  # noqa: PLC0415

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


def _clusters(wanted: _Wanted, order: "Order") -> "Iterator[ScannedCluster | ScanDocument]":
    """Clusters that can be scanned, and the documents of those that cannot."""
    from rackspan.jobs import clusters  # noqa: PLC0415
    from rackspan.jobs.scan import failed  # noqa: PLC0415
    from rackspan.jobs.synthetic import SyntheticCluster  # noqa: PLC0415
    from rackspan.reconcile.failures import FailureError  # noqa: PLC0415
    from rackspan.snapshots import SnapshotError  # noqa: PLC0415

    if wanted.synthetic is not None:
        yield clusters.synthetic(SyntheticCluster(wanted.synthetic), wanted.slices)
        return
    try:
        files = clusters.snapshot_files(wanted.snapshot) if wanted.snapshot is not None else []
    except clusters.ClusterError as error:
        raise CommandError(str(error)) from error
    for file in files:
        try:
            yield clusters.from_file(file, wanted.levels)
        except SnapshotError as error:
            yield failed(file.stem, order, "SnapshotUnreadable", str(error))
        except clusters.ClusterError as error:
            yield failed(file.stem, order, error.reason, str(error))
    name = wanted.topology or wanted.bootstrap_server
    if name is None:
        return
    try:
        yield _of_topology(wanted) if wanted.topology else _live(wanted)
    except FailureError as error:
        yield failed(name, order, str(error.failure.reason), error.failure.message)
    except clusters.ClusterError as error:
        yield failed(name, order, error.reason, str(error))


def _live(wanted: _Wanted) -> "ScannedCluster":
    from rackspan.jobs import clusters  # noqa: PLC0415
    from rackspan.kafka.command_config import CommandConfigError, read_command_config  # noqa: PLC0415

    servers = wanted.bootstrap_server or ""
    try:
        properties = {} if wanted.command_config is None else read_command_config(wanted.command_config)
        return clusters.live(servers, servers, properties, wanted.slices, wanted.levels)
    except CommandConfigError as error:
        raise CommandError(str(error)) from error


def _of_topology(wanted: _Wanted) -> "ScannedCluster":
    from rackspan.jobs.topologies import from_topology  # noqa: PLC0415
    from rackspan.kube.reading import read_topology  # noqa: PLC0415

    seen = asyncio.run(read_topology(_key(wanted), wanted.kubeconfig))
    return from_topology(seen, wanted.slices)


def _key(wanted: _Wanted) -> ObjectKey:
    namespace, _, name = (wanted.topology or "").partition("/")
    return ObjectKey(namespace, name)


def _publish(document: ScanDocument, wanted: _Wanted) -> None:
    from rackspan.kube.publishing import publish_scan  # noqa: PLC0415
    from rackspan.kube.rest import NotFoundError  # noqa: PLC0415
    from rackspan.reconcile.failures import FailureError  # noqa: PLC0415

    try:
        asyncio.run(publish_scan(document, _key(wanted), wanted.kubeconfig))
    except (FailureError, NotFoundError) as error:
        raise CommandError(f"the ComplianceReport was not written: {error}") from error


# --- telling ----------------------------------------------------------------------------------------------------------


def _write(found: Sequence[ScanDocument], report: Path | None, page: Path | None) -> None:
    many = len(found) > 1
    for document in found:
        if report is not None:
            write(_named(report, document, many=many), encode(document).decode() + "\n")
        if page is not None:
            write(_named(page, document, many=many), page_of(document))


def _named(path: Path, document: ScanDocument, *, many: bool) -> Path:
    """Give each of several clusters a file of its own."""
    return path.with_stem(f"{path.stem}-{document.cluster.replace('/', '-')}") if many else path


def _print(found: Sequence[ScanDocument], output: Format) -> None:
    if output is Format.TABLE:
        screen = console()
        for document in found:
            print_scan(screen, document)
        return
    documents: list[dict[str, Any]] = [to_builtins(document) for document in found]
    emit(documents[0] if len(documents) == 1 else {"scans": documents}, output)


def _exit_code(found: Sequence[ScanDocument]) -> ExitCode:
    lost = [document for document in found if document.state is State.FAILED]
    for document in lost:
        tell(f"{document.cluster}: {document.message}")
    if lost:
        kafka = all(document.reason in _REASONS_OF_KAFKA for document in lost)
        return ExitCode.KAFKA if kafka else ExitCode.BAD_INPUT
    alarming = any(document.summary.by_severity.get(severity, 0) for document in found for severity in ALARMING)
    return ExitCode.OUT_OF_COMPLIANCE if alarming else ExitCode.FINE

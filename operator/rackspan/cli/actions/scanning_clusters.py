"""`rackspan scan`: judge all partitions of one or more clusters, and store the results."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer
from msgspec import to_builtins

from rackspan.api.meta import ObjectKey
from rackspan.api.racktopology import ScanState
from rackspan.api.reasons import Reason
from rackspan.cli.rendering.output_formats import Format
from rackspan.cli.rendering.printed_documents import print_document
from rackspan.cli.rendering.progress import step
from rackspan.cli.rendering.scan_text import print_report, print_scan
from rackspan.cli.rendering.stderr_lines import print_error, warn
from rackspan.cli.rendering.tables import console
from rackspan.cli.shared.command_errors import CommandError, ExitCode, ending_with
from rackspan.cli.shared.kept_scans import scan_packages
from rackspan.cli.shared.options import refuse_alone, typed_options
from rackspan.cli.shared.quantities import producers_of, seconds_of
from rackspan.cli.shared.scan_files import page_of, write_file
from rackspan.cli.shared.selection import first_of, level_names
from rackspan.cli.shared.topology_access import topology_key
from rackspan.core.scanning.rules import ALARMING
from rackspan.jobs.scan.engine_choice import EngineChoice
from rackspan.jobs.scan.scan_request import ScanRequest
from rackspan.reconcile.failures import FailureError
from rackspan.reports.document import WORKER_CRASHED, ScanDocument, ScanOutcome, encode
from rackspan.snapshots.reader import STDIN, shown_name

_REASONS_OF_SERVERS = frozenset(
    {
        "KafkaUnavailable",
        Reason.KAFKA_UNREACHABLE,
        Reason.AUTHENTICATION_FAILED,
        Reason.API_SERVER_UNREACHABLE,
        Reason.NOT_AUTHORIZED,
    }
)
_CLUSTERS = ("--snapshot", "--bootstrap-server", "--topology", "--synthetic")
_IS_FOR = (
    ("--command-config", "--bootstrap-server"),
    ("--publish", "--topology: without one there is no object to write"),
    ("--retention-days", "--history"),
    ("--watch", "--topology: the operator knows no other clusters"),
    ("--timeout", "--watch"),
)
_IS_NOT_FOR = (
    ("--levels", "--topology", ": the RackTopology names them"),
    ("--levels", "--synthetic", ": its levels have names"),
)
_OF_WATCHING = frozenset({"--topology", "--kubeconfig", "--publish", "--watch", "--timeout", "--exit-zero", "--output"})
_OF_SPARK = frozenset({"--master", "--driver-memory", "--slices"})


def scan(
    *,
    context: typer.Context,
    snapshot: str | None,
    bootstrap_server: str | None,
    command_config: Path | None,
    topology: str | None,
    kubeconfig: Path | None,
    synthetic: int | None,
    levels: str,
    producers: list[str] | None,
    history: str | None,
    retention_days: int | None,
    scan_id: str | None,
    report: Path | None,
    page: Path | None,
    publish: bool,
    watch: bool,
    timeout: str,
    engine: EngineChoice,
    master: str | None,
    driver_memory: str,
    slices: int,
    exit_zero: bool,
    output: Format,
) -> None:
    """Carry out `rackspan scan` with these options. Raises CommandError."""
    names = level_names(levels)
    _refuse_contradictions(typed_options(context), snapshot, engine)
    _refuse_files(report, page)
    patience = seconds_of("--timeout", timeout)
    key = None if topology is None else topology_key(topology)
    if watch and key is not None:
        code = _watched(key, kubeconfig, patience, output)
        raise typer.Exit(ExitCode.FINE if exit_zero else code)
    request = ScanRequest(
        snapshot=None if snapshot is None else Path(snapshot),
        bootstrap_server=bootstrap_server,
        topology=key,
        synthetic=synthetic,
        command_config=command_config,
        kubeconfig=kubeconfig,
        levels=names,
        engine=engine,
        master=master,
        driver_memory=driver_memory,
        slices=slices,
        history=history,
        retention_days=retention_days,
        scan_id=scan_id,
        producers=producers_of(producers or ()),
    )
    found = _scanned(request)
    for document in found:
        for sentence in document.warnings:
            warn(f"{document.cluster}: {sentence}")
    code = _exit_code(found)
    if exit_zero and not any(document.state is ScanOutcome.FAILED for document in found):
        code = ExitCode.FINE
    with ending_with(code):
        try:
            _write(found, report, page)
            _print(found, output)
        finally:
            if publish and key is not None:
                _publish(found[0], key, kubeconfig)


def _watched(topology: ObjectKey, kubeconfig: Path | None, patience: float, output: Format) -> ExitCode:
    """Ask the operator for a scan, wait at most `patience` seconds, print the report, and return the exit code.

    Raises CommandError if the scan failed or there is no report of it, FailureError if the scan cannot be requested or
    does not end in time, and typer.Exit if the report has no summary.
    """
    from rackspan.kube.topology_edits import request_scan  # noqa: PLC0415 - a client takes long to import

    with step(f"scanning {topology}") as progress:
        followed = asyncio.run(request_scan(topology, progress.describe, patience, kubeconfig))
    scan, report = followed.scan, followed.report
    if scan.state is ScanState.FAILED:
        raise CommandError(f"scan {scan.scan_id} failed: {scan.reason}: {scan.message}")
    if report is None:
        raise CommandError(f"scan {scan.scan_id} ended, and there is no report of it", "ask again")
    counted = report.status.summary
    if output is not Format.TABLE:
        print_document(report.status.to_dict(), output)
    elif counted is None:
        raise typer.Exit(ExitCode.BAD_INPUT)
    else:
        print_report(console(), topology, counted, report.status)
    return _code_of(counted.by_severity, counted.unread_topics or 0) if counted else ExitCode.FINE


def _refuse_contradictions(typed: Sequence[str], snapshot: str | None, engine: EngineChoice) -> None:
    """Raise CommandError unless the options name exactly one cluster and every option has an effect."""
    clusters = [option for option in _CLUSTERS if option in typed]
    if len(clusters) != 1:
        raise CommandError(
            f"only one of {', '.join(clusters)} can be used" if clusters else "the cluster is missing",
            "pass --snapshot PATH, --bootstrap-server HOST:PORT, --topology NAMESPACE/NAME or --synthetic PARTITIONS",
        )
    if snapshot == "":  # as a path, it means the working directory
        raise CommandError(f"{shown_name(snapshot)}: there is no such file")
    if snapshot == STDIN:  # Spark's workers cannot read it, and a history needs a stable name
        raise CommandError(
            "--snapshot -: a scan reads files, and calls a cluster by the name of its file",
            "write standard input to a file such as prod.json, and scan that",
        )
    refuse_alone(typed, *_IS_FOR)
    for option, other, why in _IS_NOT_FOR:
        if option in typed and other in typed:
            raise CommandError(f"{option} is not for {other}{why}")
    for option in typed:
        if "--watch" in typed and option not in _OF_WATCHING:
            raise CommandError(
                f"{option} is not for --watch",
                "the operator scans, as the RackTopology says; without --watch this command does",
            )
        if engine is EngineChoice.LOCAL and option in _OF_SPARK:
            raise CommandError(f"{option} is not for --engine local", "leave one of them out")


def _refuse_files(report: Path | None, page: Path | None) -> None:
    """Raise CommandError for files that cannot be written, before a scan that may take long."""
    for path in filter(None, (report, page)):
        if not path.parent.is_dir():
            raise CommandError(f"{path}: there is no folder {path.parent}")
    if report is not None and report == page:
        raise CommandError("--report and --page name the same file", "give each a file of its own")


def _scanned(request: ScanRequest) -> list[ScanDocument]:
    with scan_packages():
        from rackspan.jobs.scan_job import ScanJobError, scan_clusters  # noqa: PLC0415 - needs pyarrow
    try:
        return list(scan_clusters(request, step, warn))
    except ScanJobError as error:
        raise CommandError(str(error), error.hint) from error


def _publish(document: ScanDocument, topology: ObjectKey, kubeconfig: Path | None) -> None:
    """Write the ComplianceReport. Raises FailureError, and CommandError if the topology has been deleted."""
    from rackspan.kube.rest import NotFoundError  # noqa: PLC0415 - a client takes long to import
    from rackspan.kube.scan_reports import publish_scan  # noqa: PLC0415

    what = "the ComplianceReport was not written"
    try:
        asyncio.run(publish_scan(document, topology, kubeconfig))
    except FailureError as error:
        failure = error.failure
        raise FailureError(replace(failure, what=f"{what}: {failure.what}")) from error
    except NotFoundError as error:
        raise CommandError(f"{what}: RackTopology {topology} is gone") from error


def _write(found: Sequence[ScanDocument], report: Path | None, page: Path | None) -> None:
    many = len(found) > 1
    for document in found:
        if report is not None:
            write_file(_named(report, document, many=many), encode(document).decode() + "\n")
        if page is not None:
            write_file(_named(page, document, many=many), page_of(document))


def _named(path: Path, document: ScanDocument, *, many: bool) -> Path:
    """Return the path for a cluster. Each of several clusters has a file of its own."""
    return path.with_stem(f"{path.stem}-{document.cluster.replace('/', '-')}") if many else path


def _print(found: Sequence[ScanDocument], output: Format) -> None:
    if output is Format.TABLE:
        screen = console()
        for document in found:
            print_scan(screen, document)
        return
    documents: list[dict[str, Any]] = [to_builtins(document) for document in found]
    print_document(documents[0] if len(documents) == 1 else {"scans": documents}, output)


def _exit_code(found: Sequence[ScanDocument]) -> ExitCode:
    lost = [document for document in found if document.state is ScanOutcome.FAILED]
    for message in dict.fromkeys(document.message for document in lost):  # clusters share an error of the history
        print_error(f"{first_of([one.cluster for one in lost if one.message == message], 5)}: {message}")
    if lost:
        reasons = {document.reason for document in lost}
        if WORKER_CRASHED in reasons:
            return ExitCode.CRASHED
        return ExitCode.KAFKA if reasons <= _REASONS_OF_SERVERS else ExitCode.BAD_INPUT
    codes = {_code_of(document.summary.by_severity, document.summary.unread_topics) for document in found}
    worst_first = (ExitCode.OUT_OF_COMPLIANCE, ExitCode.KAFKA)
    return next((code for code in worst_first if code in codes), ExitCode.FINE)


def _code_of(by_severity: Mapping[str, int], unread_topics: int) -> ExitCode:
    """Return the exit code of a scan that has judged the cluster, without the topics that could not be read."""
    if any(by_severity.get(severity, 0) for severity in ALARMING):
        return ExitCode.OUT_OF_COMPLIANCE
    return ExitCode.KAFKA if unread_topics else ExitCode.FINE

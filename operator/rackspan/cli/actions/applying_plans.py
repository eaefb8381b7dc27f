"""`rackspan apply`: carry out an approved plan within limits. The process can be killed at any time."""

import json
import math
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rackspan.cli.rendering import plan_text
from rackspan.cli.rendering.output_formats import Format, ProgressFormat
from rackspan.cli.rendering.plan_document import document
from rackspan.cli.rendering.printed_documents import printed_json
from rackspan.cli.rendering.reassignment_progress import ReassignmentProgress, progress_shown
from rackspan.cli.rendering.stderr_lines import note
from rackspan.cli.shared.cluster_source import ClusterSource
from rackspan.cli.shared.command_errors import CommandError, ExitCode, ending_with, printing_first
from rackspan.cli.shared.connection import Connection
from rackspan.cli.shared.driving import Ended, Signals, drive, heard, paused, take_back
from rackspan.cli.shared.journal_file import JournalFile
from rackspan.cli.shared.live_topology import LiveTopology, refuse_options_of_topology
from rackspan.cli.shared.manifest_requirements import JudgedFiles
from rackspan.cli.shared.options import MissingRackPolicy
from rackspan.cli.shared.partition_sizes import measured
from rackspan.cli.shared.plan_request import plan_requested, request_by_options
from rackspan.cli.shared.quantities import bytes_of, seconds_of, throttle_of
from rackspan.cli.shared.selection import TopologyOptions
from rackspan.core.copy_costs import bytes_to_copy, bytes_to_remove, removed, to_copy
from rackspan.core.planning import Change, Plan
from rackspan.core.reassignment import Adaptive, Limits, SettingKind, WaitReason
from rackspan.core.text import be, few, plural, size
from rackspan.core.topology import RackTree
from rackspan.reconcile.failures import FailureError, Remedy
from rackspan.reconcile.plans.executor import Executor, Pass, StoppedError
from rackspan.reconcile.ports import ClusterDescription, Record

if TYPE_CHECKING:
    from rackspan.kafka.kafka_reassignments import KafkaReassignments


@dataclass(frozen=True, slots=True)
class _Ceiling:
    """The maximum moves and bytes of a plan. None means no limit."""

    moves: int | None
    bytes: int | None


def apply(
    *,
    context: typer.Context,
    bootstrap_server: str | None,
    command_config: Path | None,
    topology: str | None,
    kubeconfig: Path | None,
    filename: list[str] | None,
    topic: str | None,
    replication_factor: list[str] | None,
    rebalance_too: bool,
    levels: str,
    missing_rack_policy: MissingRackPolicy,
    drain_broker: list[str] | None,
    drain_rack: list[str] | None,
    approve: str | None,
    dry_run: bool,
    cancel: bool,
    throttle: str | None,
    max_concurrent_moves: int,
    max_concurrent_moves_per_broker: int,
    max_moves: int | None,
    max_bytes: str | None,
    patience: str,
    journal: Path | None,
    output: ProgressFormat,
) -> None:
    """Carry out `rackspan apply` with these options. Raises CommandError."""
    _refuse_dry_cancel(dry_run=dry_run, cancel=cancel)
    rate = None if throttle is None else throttle_of("--throttle", throttle)
    ceiling = _Ceiling(max_moves, None if max_bytes is None else bytes_of("--max-bytes", max_bytes))
    limits = Limits(max_concurrent_moves, max_concurrent_moves_per_broker)
    seconds = math.inf if patience == "inf" else seconds_of("--patience", patience)
    form = Format(output.value)
    live = None
    if topology is not None:
        refuse_options_of_topology(context, "--filename", "--topic", "--replication-factor", "--rebalance")
        live = LiveTopology.at(topology, kubeconfig)
    connection = Connection.by_options(bootstrap_server, command_config) if live is None else live.connection
    cluster = connection.cluster()

    def planned() -> tuple[Plan, RackTree]:
        made, tree = judged()
        return measured(connection, _feasible(made)), tree

    def judged() -> tuple[Plan, RackTree]:
        if live is not None:
            made = live.plan()
            return made.whole, made.request.tree
        selected = TopologyOptions.of(levels, missing_rack_policy, drain_broker, drain_rack)
        source = ClusterSource(None, bootstrap_server, command_config)
        found = source.read_topics("to move")
        request, files = request_by_options(source, found, selected, topic, replication_factor, None, filename)
        _note_created(files)
        return plan_requested(request, rebalance_too=rebalance_too), request.tree

    kept = JournalFile.of_cluster(cluster.cluster_id, journal)
    if dry_run:  # all of it is here, so that nothing is changed whatever ends meanwhile
        record = kept.read(cluster.cluster_id)
        if record is not None and record.changes:
            _note_under_way(record)
            return
        with ending_with(ExitCode.FINE):
            _print_plan(planned()[0], rate, form)
        return
    with kept.locked():
        record = kept.read(cluster.cluster_id)
        if cancel:
            _cancel(connection, kept, _to_cancel(kept, record, approve, topic or filename), seconds, form)
            return
        if record is None or not record.changes:  # after a plan's end, only throttles on offline brokers are recorded
            left = {} if record is None else record.throttles
            made, tree = planned()
            record = _new_record(connection, cluster, made, tree, ceiling, approve, rate, form)
            if not (record.changes or left):
                return
            record = replace(record, throttles=left)
        else:
            _note_under_way(record)
            _refuse_too_much(record.changes, ceiling)
            _refuse_unapproved(record.plan_hash, approve)
        _carry_out(connection, kept, record, limits, rate, seconds, form)


def _refuse_dry_cancel(*, dry_run: bool, cancel: bool) -> None:
    if dry_run and cancel:
        raise CommandError(
            "--dry-run shows a plan, and --cancel makes none", "rackspan watch --once shows how far the plan is"
        )


def _note_under_way(record: Record) -> None:
    note(
        f"plan {record.plan_hash} ({_cost(record.changes)}) is already under way and continues; "
        "make another plan after it ends"
    )


def _note_created(files: JudgedFiles) -> None:
    for one in files.created:
        note(f"topic {one.topic.name} is not there: applying its KafkaTopic creates it")


def _feasible(made: Plan) -> Plan:
    if made.problems:
        first = made.problems[0]
        more = f"; and {len(made.problems) - 1:,} more like that" if len(made.problems) > 1 else ""
        raise CommandError(
            f"{str(first).removesuffix(f': {first.smallest_change}')}{more}",
            f"{first.smallest_change}; rackspan moves nothing until all of it is possible",
        )
    return made


def _print_plan(made: Plan, rate: int | Adaptive | None, form: Format) -> None:
    if form is Format.TABLE:
        plan_text.print_table(made, None if isinstance(rate, Adaptive) else rate, show_all=False)
    else:
        print(printed_json(json.dumps({"event": "plan", **document(made)}, ensure_ascii=False)))


def _new_record(
    connection: Connection,
    cluster: ClusterDescription,
    made: Plan,
    tree: RackTree,
    ceiling: _Ceiling,
    approve: str | None,
    rate: int | Adaptive | None,
    form: Format,
) -> Record:
    """Return the record of a plan that is approved or has nothing to do. Raises CommandError."""
    changes = list(made.changes.existing)
    topics = sorted({change.topic for change in changes})
    seen = connection.ask(lambda admin: admin.partitions(topics)) if topics else {}
    created = len(made.changes) - len(changes)
    if created:
        note(f"{plural(created, 'new partition')} of the plan are not created by this command")
    if form is Format.TABLE:
        with printing_first():
            _print_plan(made, rate, form)
    if changes:
        _refuse_too_much(changes, ceiling)
        _refuse_unapproved(made.hash, approve)
    elif form is not Format.TABLE:
        _print_plan(made, rate, form)
    return Record(
        cluster.cluster_id,
        made.hash,
        changes,
        {broker.id: broker.rack for broker in tree.brokers},
        {broker.id: broker.rack for broker in cluster.brokers},
        topic_ids={at.topic: one.topic_id for at, one in seen.items() if one.topic_id is not None},
    )


def _cost(changes: Sequence[Change]) -> str:
    moves = plural(sum(change.copied for change in changes), "move")
    taken = sum(change.removed for change in changes)
    less = f"; {removed(taken, bytes_to_remove(changes))}" if taken else ""
    return f"{moves}, {to_copy(bytes_to_copy(changes), None)}{less}"


def _refuse_too_much(changes: Sequence[Change], ceiling: _Ceiling) -> None:
    moves = sum(change.copied for change in changes)
    if ceiling.moves is not None and moves > ceiling.moves:
        raise CommandError(f"the plan has {plural(moves, 'move')}, and --max-moves allows {ceiling.moves:,}")
    if ceiling.bytes is None:
        return
    copied = bytes_to_copy(changes)
    if copied is None:
        unknown = sum(1 for change in changes if change.copied and change.size_bytes is None)
        raise CommandError(f"the size of {plural(unknown, 'partition')} is not known, so --max-bytes cannot be kept")
    if copied > ceiling.bytes:
        raise CommandError(f"the plan copies {size(copied)}, and --max-bytes allows {size(ceiling.bytes)}")


def _refuse_unapproved(plan_hash: str, approve: str | None) -> None:
    if approve == plan_hash:
        return
    if approve is not None:
        raise CommandError(
            f"--approve {approve}: the plan is {plan_hash} now", "look at it again: --dry-run; then approve that one"
        )
    if sys.stdin is None or not sys.stdin.isatty():
        raise CommandError(f"plan {plan_hash} is not approved", f"look at it, then pass --approve {plan_hash}")
    if not typer.confirm(f"Carry out plan {plan_hash}?", err=True):
        raise CommandError("not approved, nothing was changed")


def _carry_out(
    connection: Connection,
    kept: JournalFile,
    record: Record,
    limits: Limits,
    rate: int | Adaptive | None,
    patience: float,
    form: Format,
) -> None:
    async def work(executor: Executor, shown: ReassignmentProgress, signals: Signals) -> tuple[Ended, Pass | None]:
        await kept.write(executor.record)
        return await drive(executor, shown, patience, signals)

    ended, last, left, lost = _worked(connection, kept, record, limits, rate, form, work)
    again = f"rackspan apply --approve {record.plan_hash} and the same options go on"
    if ended is Ended.FINISHED and last is not None:
        _conclude(kept, left, last, lost)
        note(f"plan {record.plan_hash} is carried out")
        return
    _tell(last)
    still = _still_set(left)
    if ended is Ended.STUCK:
        why, code = f"nothing could be moved for {patience:g} s: {_waits(last)}", ExitCode.UNFINISHED
    elif lost is not None:
        why, code = f"standard output: {lost.strerror}; paused", ExitCode.OUTPUT
    elif still:
        why, code = "paused", ExitCode.UNFINISHED
    else:
        note(f"paused: {again}")
        raise typer.Exit(ExitCode.INTERRUPTED)
    raise CommandError(f"{why}{still}", again, ExitCode.UNFINISHED if still else code)


def _conclude(kept: JournalFile, left: Record, last: Pass, lost: OSError | None) -> None:
    """Remove the plan from the journal, and delete the journal if no throttle is left.

    Raises CommandError if the plan is not complete or throttles are left, and `lost`, the error of standard output.
    """
    _tell(last)
    kept.conclude(left)
    wrong = f"not all was moved: {_waits(last)}" if last.waiting else ""
    if left.throttles:
        brokers = _brokers(left)
        raise CommandError(
            f"{wrong}{'; ' if wrong else ''}throttles are still set, without effect, on broker "
            f"{few([*map(str, brokers)])}, which {be(len(brokers))} away",
            f"any rackspan apply clears them once they are back; if they never come back, delete {kept.path}",
            ExitCode.UNFINISHED,
        )
    if wrong:
        raise CommandError(wrong, "rackspan apply makes a new plan for what is left", ExitCode.UNFINISHED)
    if lost is not None:
        raise lost


def _to_cancel(kept: JournalFile, record: Record | None, approve: str | None, selected: object) -> Record:
    """Return the record of the plan to cancel, and print a note if some of its topics are `selected`.

    Raises CommandError if there is no plan, or if `approve` is the hash of another one.
    """
    if record is None:
        raise CommandError("nothing is under way here that could be cancelled", f"the journal would be {kept.path}")
    if approve not in (None, record.plan_hash):
        raise CommandError(
            f"--approve {approve}: --cancel would cancel plan {record.plan_hash}", "leave out --approve to cancel it"
        )
    if selected:
        note(f"--cancel is for all topics of plan {record.plan_hash}, also with --topic or --filename")
    return record


def _cancel(connection: Connection, kept: JournalFile, record: Record, patience: float, form: Format) -> None:
    async def work(executor: Executor, shown: ReassignmentProgress, signals: Signals) -> tuple[Ended, Pass | None]:
        return await take_back(executor, shown, patience, signals)

    ended, last, left, lost = _worked(connection, kept, record, Limits(), None, form, work)
    if ended is not Ended.FINISHED or last is None:
        _tell(last)
        still = _still_set(left)
        if ended is Ended.INTERRUPTED and not still:
            note("interrupted: rackspan apply --cancel goes on")
            raise typer.Exit(ExitCode.INTERRUPTED)
        why = "interrupted" if ended is Ended.INTERRUPTED else f"not all moves could be cancelled: {_waits(last)}"
        raise CommandError(f"{why}{still}", "run it again", ExitCode.UNFINISHED)
    _conclude(kept, left, replace(last, waiting=()), lost)
    note(f"plan {record.plan_hash} is cancelled{f'; {_waits(last)}' if last.waiting else ''}")


def _worked(
    connection: Connection,
    kept: JournalFile,
    record: Record,
    limits: Limits,
    rate: int | Adaptive | None,
    form: Format,
    work: Callable[[Executor, ReassignmentProgress, Signals], Awaitable[tuple[Ended, Pass | None]]],
) -> tuple[Ended, Pass | None, Record, OSError | None]:
    """Run `work` with an executor. Return its result, the record afterwards, and the error that ended standard output.

    Raises CommandError if the executor has to stop, after an attempt to clear all throttles.
    """

    async def worked(admin: "KafkaReassignments") -> tuple[Ended, Pass | None, Record]:
        executor = Executor(admin, kept, record, limits, rate)
        with heard(shown) as signals:
            try:
                return *await work(executor, shown, signals), executor.record
            except BaseException as error:
                clearing = Executor(admin, kept.where_possible(), executor.record, limits)
                _tell(await paused(clearing, shown) or shown.last)
                cleared = "; throttles are cleared" if executor.record.throttles else ""
                outcome = _still_set(clearing.record) or cleared
                if (known := _stopped(error, outcome)) is not None:
                    raise known from error
                if outcome:
                    note(outcome.removeprefix("; "))
                raise

    with progress_shown(record.plan_hash, form) as shown:
        return *connection.ask(worked), shown.lost


def _stopped(error: BaseException, outcome: str) -> CommandError | None:
    """Return an error that says what stopped the executor and what happened to throttles, or None for a defect."""
    if isinstance(error, StoppedError):
        return CommandError(f"stopped: {error}{outcome}", "--cancel, then make a new plan", ExitCode.UNFINISHED)
    if isinstance(error, FailureError):
        says = "Kafka refuses" if error.failure.remedy is Remedy.ACCESS else "Kafka is unavailable"
        return CommandError(f"{says}: {error.failure.message}{outcome}", "run it again", ExitCode.KAFKA)
    if isinstance(error, CommandError):
        return CommandError(f"{error}{outcome}", error.hint, error.code)
    return None


def _tell(last: Pass | None) -> None:
    """Print what remains in Kafka: throttles that other clients have set, and reassignments under way."""
    if last is None:
        return
    if last.others:
        note(last.others)
    if last.under_way:
        go, them = ("goes", "it") if last.under_way == 1 else ("go", "them")
        note(f"{plural(last.under_way, 'reassignment')} under way {go} on in Kafka; --cancel takes {them} back")


def _brokers(record: Record) -> list[int]:
    """Return the brokers that may have throttles set by this command."""
    return sorted({int(one.name) for one in record.throttles if one.kind is SettingKind.BROKER})


def _still_set(record: Record) -> str:
    """Return a clause that says where throttles of this command may be left, or an empty text if none are."""
    brokers, topics = _brokers(record), sorted({one.name for one in record.throttles if one.kind is SettingKind.TOPIC})
    where = f"broker {few([*map(str, brokers)])}" if brokers else f"topic {few(topics)}"
    return f"; throttles may still be set on {where}" if record.throttles else ""


def _waits(last: Pass | None) -> str:
    if last is None:
        return "Kafka did not answer"
    if last.failures:  # first, because a broker that refuses its throttle is reported as offline below
        return last.failures[0]
    # Partitions that wait for the limits wait for other partitions, whose reasons say more.
    waiting = [one for one in last.waiting if one.reason is not WaitReason.LIMIT]
    if waiting:
        more = f", and {len(waiting) - 1:,} more" if len(waiting) > 1 else ""
        how = "is given up" if waiting[0].reason.final else "waits"
        return f"{waiting[0].partition} {how}: {waiting[0].reason.value}{waiting[0].details}{more}"
    if last.copying:
        makes = "makes" if last.copying == 1 else "make"
        return f"{plural(last.copying, 'copy', 'copies')} under way {makes} no progress"
    return "no reason is known"

"""`rackspan watch`: show the progress of a plan that the operator or `rackspan apply` carries out. Changes nothing."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rackspan.api.conditions import REASSIGNED, ConditionStatus, find_condition
from rackspan.api.reassignment import Reassignment, ReassignmentState
from rackspan.cli.rendering.event_lines import EventLines
from rackspan.cli.rendering.output_formats import Format, ProgressFormat
from rackspan.cli.rendering.progress import step
from rackspan.cli.rendering.reassignment_line import advance, document, sentence
from rackspan.cli.rendering.reassignment_progress import ReassignmentProgress, progress_shown
from rackspan.cli.rendering.stderr_lines import note
from rackspan.cli.shared.command_errors import CommandError, ExitCode
from rackspan.cli.shared.connection import Connection
from rackspan.cli.shared.journal_file import JournalFile
from rackspan.cli.shared.live_topology import LiveTopology, refuse_options_of_topology
from rackspan.cli.shared.looking import until
from rackspan.cli.shared.topology_access import ask_topology
from rackspan.core.reassignment import Limits
from rackspan.reconcile.failures import FailureError, Remedy
from rackspan.reconcile.plans.executor import Executor, Pass, StoppedError
from rackspan.reconcile.ports import Record

if TYPE_CHECKING:
    from rackspan.kafka.kafka_reassignments import KafkaReassignments
    from rackspan.kube.topology_edits import TopologyEdits

_SECONDS = 1.0


def watch(
    *,
    context: typer.Context,
    bootstrap_server: str | None,
    command_config: Path | None,
    topology: str | None,
    kubeconfig: Path | None,
    once: bool,
    journal: Path | None,
    output: ProgressFormat,
) -> None:
    """Carry out `rackspan watch` with these options. Raises CommandError."""
    if topology is not None:
        refuse_options_of_topology(context)
    lines = EventLines(Format(output.value))
    if topology is not None and ask_topology(
        topology, kubeconfig, lambda edits: _follow_reassignments(edits, lines, once=once)
    ):
        return
    live = None if topology is None else LiveTopology.at(topology, kubeconfig)
    connection = Connection.by_options(bootstrap_server, command_config) if live is None else live.connection
    cluster = connection.cluster()
    kept = JournalFile.of_cluster(cluster.cluster_id, journal)
    record = kept.read(cluster.cluster_id)
    if record is None or not record.changes:
        raise _nothing_to_watch(live)
    _follow_apply(connection, kept, record, Format(output.value), once=once)


def _nothing_to_watch(live: LiveTopology | None) -> CommandError:
    if live is None:
        return CommandError(
            "rackspan apply carries out no plan on this cluster from this machine",
            "rackspan plan --bootstrap-server shows what there is to do",
            ExitCode.UNFINISHED,
        )
    topology = live.inputs.scan.topology
    planned = find_condition(topology.status.conditions, REASSIGNED)
    waits = "" if planned is None or planned.status is ConditionStatus.TRUE else f": {planned.message}"
    return CommandError(
        f"no Reassignment of RackTopology {topology.key} is carried out now{waits}",
        f"rackspan status --topology {topology.key} shows its state",
        ExitCode.UNFINISHED,
    )


async def _follow_reassignments(edits: "TopologyEdits", lines: EventLines, *, once: bool) -> bool:
    """Show the Reassignment that is under way, and those after it, until all have ended. Return False if there is none.

    Raises CommandError if one of them has not succeeded or was deleted.
    """
    followed: dict[str, Reassignment] = {}
    with step("Reassignment") as bar:

        async def look() -> Sequence[Reassignment]:
            found = await edits.reassignments()
            going = [one for one in found if not one.ended]
            followed.update({one.meta.uid: one for one in found if not one.ended or one.meta.uid in followed})
            if going:
                advance(bar, going[0])
                (lines.report if once else lines.repeat)("progress", sentence(going[0]), document(going[0]))
            return found

        await until(look, lambda found: once or all(one.ended for one in found), None)
    if once:
        return bool(followed)
    ended = [one for one in followed.values() if one.ended]
    for one in ended:
        lines.report("ended", f"{sentence(one)}: {one.status.message or 'no reason is known'}", document(one))
    for one in followed.values():
        if not one.ended:
            raise CommandError(
                f"Reassignment {one.key} was deleted before its end was seen",
                f"rackspan status --topology {one.topology} shows what is left to do",
                ExitCode.UNFINISHED,
            )
    wrong = [one for one in ended if one.status.state is not ReassignmentState.SUCCEEDED]
    if wrong:
        last = wrong[-1]
        raise CommandError(f"Reassignment {last.key} has ended as {last.state_name}", code=ExitCode.UNFINISHED)
    return bool(followed)


class _Unwritten:
    """A journal that writes nothing, because only `rackspan apply` may write it. Implements `Journal`."""

    async def write(self, record: Record) -> None:
        pass


def _follow_apply(connection: Connection, kept: JournalFile, record: Record, form: Format, *, once: bool) -> None:
    async def followed(admin: "KafkaReassignments") -> None:
        now: Record | None = record
        at_work = True
        while now is not None and now.changes and now.plan_hash == record.plan_hash:
            last = now
            if at_work and not (at_work := kept.is_at_work):
                note("no rackspan apply is running here; run it again to go on, or with --cancel")
            await _look(admin, last, shown, once=once)
            if once:
                return
            await asyncio.sleep(_SECONDS)
            now = kept.read(record.cluster_id)
        ended = f"plan {record.plan_hash} has ended"
        # The last look may be older than the last change. The throttles in this record have been cleared since.
        seen = await _look(admin, last, shown, once=False)
        if not seen.finished or seen.waiting or (now is not None and now.throttles):
            raise CommandError(f"{ended}, and not all is as planned", code=ExitCode.UNFINISHED)
        shown.report("ended", ended)

    with progress_shown(record.plan_hash, form) as shown:
        try:
            connection.ask(followed)
        except StoppedError as error:
            raise CommandError(str(error), code=ExitCode.UNFINISHED) from error


async def _look(admin: "KafkaReassignments", record: Record, shown: ReassignmentProgress, *, once: bool) -> Pass:
    """Look at a plan, and show it. Retry while Kafka does not respond, except with `once`. Raises FailureError."""
    while True:
        try:
            # A new executor for each look, because the journal has the latest requests.
            seen = await Executor(admin, _Unwritten(), record, Limits()).look()
        except FailureError as error:
            if once or error.failure.remedy is not Remedy.RETRY:
                raise
            shown.report("waiting", f"Kafka: {error.failure.message}")
            await asyncio.sleep(_SECONDS)
        else:
            break
    shown.show(seen)
    if shown.lost is not None:
        raise shown.lost
    return seen

"""`rackspan drain` and `rackspan uncordon`: choose the brokers and racks to empty, as kubectl does with nodes."""

import asyncio
import shlex
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rackspan.api.drains import Drains, brokers_of, draining
from rackspan.api.labels import API_VERSION
from rackspan.api.meta import ObjectKey
from rackspan.api.policies import TopologyReassignment
from rackspan.api.racktopology import KIND, DrainStatus, RackTopology
from rackspan.cli.rendering.event_lines import EventLines, lasting_lines
from rackspan.cli.rendering.output_formats import Format
from rackspan.cli.rendering.printed_documents import print_document
from rackspan.cli.rendering.stderr_lines import note, warn
from rackspan.cli.shared import options
from rackspan.cli.shared.command_errors import CommandError, ExitCode, ending_with, failures_reported, printing_first
from rackspan.cli.shared.connection import Connection
from rackspan.cli.shared.drain_progress import in_words, never_moved, staying, ways_out
from rackspan.cli.shared.drain_waiting import STILL_ASKED, approve_plan, nothing_moves, remaining_on, wait_for_drain
from rackspan.cli.shared.live_topology import LiveTopology
from rackspan.cli.shared.options import DryRun
from rackspan.cli.shared.partition_sizes import measured
from rackspan.cli.shared.quantities import seconds_of
from rackspan.cli.shared.selection import broker_ids, first_of, its_brokers, nearest
from rackspan.cli.shared.topology_access import ask_topology
from rackspan.core.copy_costs import removed, to_copy
from rackspan.core.rack_path import RackPathError, domain_name, parse_rack
from rackspan.core.text import every, plural
from rackspan.reconcile.dry_run import drains_of
from rackspan.reconcile.failures import FailureError

if TYPE_CHECKING:
    from rackspan.kube.topology_edits import TopologyEdits


@dataclass(frozen=True, slots=True)
class _Planned:
    """The plan that follows from a drain, and its size. Of the `there` replicas on the brokers, `leave` move elsewhere.

    `left` is the future status of each target. `limit` says why not all of the plan begins without approval, if so.
    """

    hash: str
    moves: int
    bytes: int | None
    removals: int
    removed_bytes: int | None
    empty: bool
    there: int
    leave: int
    throttle: int | None
    left: tuple[DrainStatus, ...]
    limit: str | None

    @property
    def sentence(self) -> str:
        there = f"{plural(self.there, 'replica')} there now"
        if self.empty:
            return f"{there}; no plan moves any"
        cost = f"{plural(self.moves, 'move')}, {to_copy(self.bytes, self.throttle)}"
        cost += f"; {removed(self.removals, self.removed_bytes)}" if self.removals else ""
        stay = f", {self.there - self.leave:,} cannot" if self.there > self.leave else ""
        return f"{there}: {self.leave:,} can leave by plan {self.hash} ({cost}){stay}"


def drain(
    *,
    context: typer.Context,
    broker: list[str] | None,
    rack: list[str] | None,
    topology: str | None,
    kubeconfig: Path | None,
    dry_run: DryRun,
    approve: bool,
    wait: bool,
    timeout: str | None,
    bootstrap_server: str | None,
    command_config: Path | None,
    output: Format,
) -> None:
    """Carry out `rackspan drain` with these options. Raises CommandError."""
    deadline = None if timeout is None else time.monotonic() + seconds_of("--timeout", timeout)
    _refuse_options(dry_run, output, acts=approve or wait)
    for_others = (("--timeout", "--wait or --approve"), ("--command-config", "--bootstrap-server"))
    options.refuse_alone(options.typed_options(context), *for_others)
    if bootstrap_server is not None and not wait:
        raise CommandError(
            "--bootstrap-server is for --wait", "the plan is made with the RackTopology's own connection"
        )
    more = _given(broker, rack)
    connection = None if bootstrap_server is None else Connection.by_options(bootstrap_server, command_config)
    before = ask_topology(topology, kubeconfig, lambda edits: edits.read())
    _refuse_unknown(before, more)

    def added(drains: Drains) -> Drains:
        """Return the drains to write. Raises CommandError if they are those of all brokers that `before` has."""
        wanted = drains.with_added(more)
        _refuse_nothing_left(before, wanted)
        return wanted

    wanted = added(Drains.of(before.spec))
    if dry_run is DryRun.CLIENT and output is not Format.TABLE:
        _print_manifest(before.key, wanted, output)
        return
    planned = _planned(topology or "", kubeconfig, wanted, more, brokers_of(before, more))
    if planned is None and approve:
        raise CommandError("the plan is not known, so it cannot be approved; nothing was changed")
    if planned is not None:
        first = EventLines(output)
        with printing_first():
            first.report("plan", planned.sentence, _plan_document(planned))
            for entry in planned.left:
                first.report("left", in_words(entry), _left_document(entry))
    with ending_with(ExitCode.FINE), lasting_lines(output) as lines:
        changed = _change(topology, kubeconfig, lines, added, dry_run, before)
        if dry_run is not DryRun.NONE:
            return
        with _still_asked():
            if approve and planned is not None and not planned.empty:
                ask_topology(topology, kubeconfig, lambda edits: approve_plan(edits, planned.hash, lines, deadline))
            if wait:
                ask_topology(
                    topology,
                    kubeconfig,
                    lambda edits: wait_for_drain(edits, changed, more, lines, deadline, connection),
                )
            else:
                _report_next(planned, changed, more, approved=approve)


@contextmanager
def _still_asked() -> Iterator[None]:
    """On an error or interrupt within this context, tell the user that the drain is still in the RackTopology."""
    try:
        yield
    except CommandError as error:
        raise CommandError(str(error), error.hint or STILL_ASKED, error.code) from error
    except KeyboardInterrupt:
        note(STILL_ASKED)
        raise


def _report_next(planned: _Planned | None, changed: RackTopology, more: Drains, *, approved: bool) -> None:
    """Print what to do next. Raises CommandError if only replicas are left that no plan moves."""
    if planned is None:
        note(f"this command moves no replica; rackspan status --topology {changed.key} shows what is planned")
        return
    waiting = [entry for entry in planned.left if entry.drained is not True]
    if planned.empty and waiting and staying(waiting, changed.spec):
        raise nothing_moves(waiting)
    if ways := ways_out(never_moved(waiting, changed.spec)):
        note(f"no plan moves the rest: {ways}")
    if planned.limit is not None:
        note(f"{planned.limit}: not all of it begins without approval")
    if planned.empty:
        note(f"there is no plan to approve; rackspan status --topology {changed.key} shows the state of the drain")
    elif not approved:
        again = shlex.join(["rackspan", "drain", *more.arguments, "--topology", str(changed.key)])
        note(f"this command moves no replica; to approve the plan and wait for its end: {again} --approve --wait")


def uncordon(
    *,
    broker: list[str] | None,
    rack: list[str] | None,
    topology: str | None,
    kubeconfig: Path | None,
    dry_run: DryRun,
    output: Format,
) -> None:
    """Carry out `rackspan uncordon` with these options. Raises CommandError."""
    _refuse_options(dry_run, output)
    fewer = _given(broker, rack)
    before = ask_topology(topology, kubeconfig, lambda edits: edits.read())
    known = Drains.of(before.spec)
    wanted = known.without(fewer)
    still = sorted(brokers_of(before, wanted).intersection(fewer.brokers))
    if still:
        brokers, stay, their = ("broker", "stays", "its") if len(still) == 1 else ("brokers", "stay", "their")
        raise CommandError(
            f"{brokers} {first_of(still, 10)} {stay} drained by {their} rack: {', '.join(wanted.racks)}",
            f"uncordon the rack: --rack {wanted.racks[0]}",
        )
    if dry_run is DryRun.CLIENT and output is not Format.TABLE:
        _print_manifest(before.key, wanted, output)
        return
    for target in fewer.targets:
        if target not in known.targets:
            note(f"{target} is not drained")
    with ending_with(ExitCode.FINE):
        _change(topology, kubeconfig, EventLines(output), lambda drains: drains.without(fewer), dry_run, before)


def _refuse_options(dry_run: DryRun, output: Format, *, acts: bool = False) -> None:
    if dry_run is not DryRun.NONE and acts:
        raise CommandError(f"--dry-run={dry_run} changes nothing, so there is nothing to approve or to wait for")
    if output is Format.YAML and dry_run is not DryRun.CLIENT:
        raise CommandError("-o yaml is for --dry-run=client", "-o json prints an object per line")


def _given(brokers: Sequence[str] | None, racks: Sequence[str] | None) -> Drains:
    """Return the brokers and racks that the arguments name. Raises CommandError."""
    if not brokers and not racks:
        raise CommandError("nothing is named", "name broker ids, such as 4, or racks: --rack /eu/eu-1a")
    for rack in racks or ():
        try:
            parse_rack(rack)
        except RackPathError as error:
            raise CommandError(f"--rack: {error}") from error
        if not {"*", "?"}.isdisjoint(rack):
            raise CommandError(f"--rack {rack}: wildcards are not for drains", "name each rack")
    return Drains().with_added(Drains(broker_ids("BROKER", brokers or ()), tuple(racks or ())))


def _refuse_unknown(topology: RackTopology, more: Drains) -> None:
    """Raise CommandError for brokers and racks that are not in the status of the RackTopology."""
    known = {broker.id for broker in topology.status.brokers}
    if not known:
        raise CommandError(
            f"the status of RackTopology {topology.key} names no brokers yet",
            "check that the operator runs: kubectl get pods",
        )
    for broker in more.brokers:
        if broker not in known and topology.status.lists_all_brokers:
            raise CommandError(f"the cluster has no broker {broker}", its_brokers(known))
    for rack in more.racks:
        if not brokers_of(topology, Drains(racks=(rack,))):
            paths = [parse_rack(broker.rack) for broker in topology.status.brokers if broker.rack]
            domains = {domain_name(path[:depth]) for path in paths for depth in range(1, len(path) + 1)}
            raise CommandError(f"--rack {rack}: the cluster has no such rack", nearest(rack, sorted(domains)))


def _refuse_nothing_left(topology: RackTopology, wanted: Drains) -> None:
    known = {broker.id for broker in topology.status.brokers}
    if known <= brokers_of(topology, wanted):
        raise CommandError(
            f"{every(len(known), 'broker')} drained then, none is left to hold replicas", "drain fewer brokers"
        )


def _planned(
    topology: str, kubeconfig: Path | None, wanted: Drains, asked: Drains, brokers: Collection[int]
) -> _Planned | None:
    """Return the plan that follows, with the number of replicas on `brokers`.

    Print a warning and return None if this user cannot read or reach what the plan needs.
    """
    try:
        live = LiveTopology.at(topology, kubeconfig, lambda found: draining(found, wanted))
        whole = live.plan()
        connection = live.connection
        made = measured(connection, whole.whole)
        with failures_reported():
            remaining = asyncio.run(remaining_on(brokers, connection))
    except CommandError as error:
        warn(f"how much has to move is not known here: {error}")
        return None
    for problem in made.problems[:1]:
        more = f", and {len(made.problems) - 1:,} more like that" if len(made.problems) > 1 else ""
        warn(f"not all can move: {problem}{more}")
    there = sum(live.stands.state.load.replicas[broker] for broker in brokers)
    leave = sum(len(set(one.before or ()).intersection(brokers).difference(one.replicas)) for one in made.changes)
    drains = drains_of(live.stands, whole, remaining)
    left = tuple(entry for entry in drains if entry.target in asked.targets)
    return _Planned(
        hash=made.hash,
        moves=made.moves,
        bytes=made.bytes,
        removals=made.removals,
        removed_bytes=made.removed_bytes,
        empty=made.empty,
        there=there,
        leave=leave,
        throttle=live.throttle,
        left=left,
        limit=_limit_reached(live.inputs.scan.topology.spec.reassignment, made.moves, made.bytes),
    )


def _limit_reached(limits: TopologyReassignment, moves: int, size: int | None) -> str | None:
    """Return why not all of a plan begins without approval. As in `judge_approval`, unknown sizes exceed `maxBytes`."""
    if limits.max_moves is not None and moves > limits.max_moves:
        return f"the plan is above maxMoves ({limits.max_moves:,})"
    if limits.max_bytes is None or not moves:
        return None
    if size is None:
        return f"not all sizes are known, and maxBytes is {limits.max_bytes:,}"
    return f"the plan is above maxBytes ({limits.max_bytes:,})" if size > limits.max_bytes else None


def _plan_document(planned: _Planned) -> dict[str, Any]:
    sizes = {
        "moves": planned.moves,
        "bytes": planned.bytes,
        "removals": planned.removals,
        "removedBytes": planned.removed_bytes,
    }
    return {"plan": planned.hash, **sizes, "there": planned.there, "leave": planned.leave}


def _left_document(entry: DrainStatus) -> dict[str, Any]:
    blocks = [
        {"reason": one.reason, "topics": one.topics, "replicas": one.replicas, "samples": list(one.samples)}
        for one in entry.blocks
    ]
    return {
        "target": entry.target,
        "replicas": None if entry.replicas is None else entry.replicas.total,
        "message": entry.message,
        "blocks": blocks,
    }


def _change(
    topology: str | None,
    kubeconfig: Path | None,
    lines: EventLines,
    change: Callable[[Drains], Drains],
    dry_run: DryRun,
    before: RackTopology,
) -> RackTopology:
    """Change the object, except in a client dry run, and print the drains. Print a note if another client owns them.

    `change` is called for each attempt, with the drains of the object at that time.
    """
    known = Drains.of(before.spec)
    if dry_run is DryRun.CLIENT:
        _report_drains(lines, before.key, change(known), known, dry_run)
        return before

    async def changed(edits: "TopologyEdits") -> tuple[RackTopology, tuple[str, ...]]:
        written = await edits.change_drains(change, dry_run=dry_run is DryRun.SERVER)
        try:
            return written, await edits.field_managers()
        except FailureError as error:  # the change itself has succeeded
            warn(f"whether another client manages the drains is not known: {error}")
            return written, ()

    written, managers = ask_topology(topology, kubeconfig, changed)
    _report_drains(lines, written.key, Drains.of(written.spec), known, dry_run)
    if managers:
        note(
            f"what is drained is applied by {', '.join(managers)}, which may put it back: change it there too, "
            "--dry-run=client -o yaml prints it"
        )
    return written


def _report_drains(lines: EventLines, key: ObjectKey, now: Drains, before: Drains, dry_run: DryRun) -> None:
    what = ", ".join(now.targets) or "none"
    dry = "" if dry_run is DryRun.NONE else f" ({dry_run} dry run)"
    same = " (as before)" if set(now.targets) == set(before.targets) else ""
    sentence = f"RackTopology {key}: brokers and racks to drain: {what}{same}{dry}"
    lines.report("drains", sentence, {"topology": str(key), "dryRun": dry_run, **now.fields()})


def _print_manifest(key: ObjectKey, wanted: Drains, output: Format) -> None:
    with ending_with(ExitCode.FINE):
        print_document(
            {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "metadata": {"name": key.name, "namespace": key.namespace},
                "spec": dict(wanted.fields()),
            },
            output,
        )

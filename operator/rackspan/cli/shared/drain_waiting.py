"""Waits until the operator has carried out a requested drain."""

import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from rackspan.api.drains import Drains, brokers_of
from rackspan.api.racktopology import DrainStatus, RackTopology
from rackspan.cli.rendering.event_lines import EventLines
from rackspan.cli.rendering.progress import step
from rackspan.cli.rendering.reassignment_line import advance, document, sentence
from rackspan.cli.rendering.stderr_lines import warn
from rackspan.cli.rendering.times import utc_time
from rackspan.cli.shared.command_errors import CommandError, ExitCode
from rackspan.cli.shared.connection import Connection
from rackspan.cli.shared.drain_progress import DrainProgress, drain_progress, in_words, left_in_words, ways_out
from rackspan.cli.shared.looking import until
from rackspan.cli.shared.operator_lease import operator_of
from rackspan.core.text import plural
from rackspan.reconcile.failures import FailureError, Remedy

if TYPE_CHECKING:
    from rackspan.kube.topology_edits import TopologyEdits
    from rackspan.reconcile.ports import RemainingReplicas

STILL_ASKED = "the drain is still in the RackTopology; rackspan uncordon ends it"
_PLAN_SECONDS = 120.0
"""How long the operator may take to make the plan that was shown."""
_OUTDATED = timedelta(minutes=5)
"""How long before the last renewal of its Lease the operator may have asked Kafka for the counts of a drain."""


async def approve_plan(edits: "TopologyEdits", plan_hash: str, lines: EventLines, deadline: float | None) -> None:
    """Approve the plan with this hash as soon as the operator has made the same plan.

    `deadline` is in seconds of `time.monotonic`; without one, the operator has two minutes. Retry while the API server
    is unreachable. Raises CommandError at the deadline, FailureError if the API server refuses or stays unreachable.
    """
    wrong: FailureError | None = None

    async def look() -> str | None:
        nonlocal wrong
        wrong = None
        try:
            plan = (await edits.read()).status.plan
            if plan is not None and plan.hash == plan_hash:
                await edits.approve(plan_hash)
        except FailureError as error:
            if error.failure.remedy is not Remedy.RETRY:
                raise
            wrong = error
            return None
        return None if plan is None else plan.hash

    with step(f"waiting for plan {plan_hash}"):
        seconds = _PLAN_SECONDS if deadline is None else _left(deadline)
        found = await until(look, lambda known: known == plan_hash, seconds)
    if wrong is not None:
        raise wrong
    if found != plan_hash:
        raise CommandError(
            f"plan {plan_hash} was shown, and the operator's is {found or 'not made yet'}: it is not approved",
            "look at it with rackspan plan --topology, then run the same command again",
            ExitCode.UNFINISHED,
        )
    lines.report("approved", f"plan {plan_hash} is approved", {"plan": plan_hash})


async def wait_for_drain(
    edits: "TopologyEdits",
    asked: RackTopology,
    drains: Drains,
    lines: EventLines,
    deadline: float | None,
    connection: Connection | None,
) -> None:
    """Show the progress of drains until no replica is left, by the status and, with a connection, also by Kafka itself.

    `asked` is the topology whose spec has these drains. Retry while Kafka or the API server is unreachable. Raises
    CommandError if the drain cannot continue or was withdrawn, if only replicas are left that no plan moves, and at
    `deadline`, in seconds of `time.monotonic`. Raises FailureError if Kafka or the API server refuses.
    """
    followed: set[str] = set()
    brokers = brokers_of(asked, drains)
    last = DrainProgress(False, None, "not reconciled yet")
    with step("draining") as bar:

        async def look() -> DrainProgress:
            nonlocal last
            try:
                last = await seen_now()
            except FailureError as error:
                if error.failure.remedy is not Remedy.RETRY:
                    raise
                last = replace(last, drained=False, sentence=f"not seen now: {error}")
            left = left_in_words(last.left)
            if last.running is not None:
                advance(bar, last.running)
                lines.repeat(
                    "progress", f"{left}; {sentence(last.running)}", {"left": last.left, **document(last.running)}
                )
            else:
                bar.describe(last.sentence)
                lines.repeat("waiting", f"{left}; {last.sentence}", {"left": last.left, "message": last.sentence})
            return last

        async def seen_now() -> DrainProgress:
            topology, reassignments = await edits.read(), await edits.reassignments()
            _refuse_withdrawn(topology, asked, drains)
            followed.update(one.meta.uid for one in reassignments if not one.ended)
            seen = drain_progress(topology, asked.meta.generation, drains.targets, reassignments, followed)
            if not seen.drained:
                return seen
            if connection is None:
                return await _seen_by_operator(seen, edits, topology)
            return await _seen_by_kafka(seen, connection, brokers, topology.status.cluster_id)

        seen = await until(look, lambda one: one.is_over, None if deadline is None else _left(deadline))
    if seen.drained:
        proof = "by the operator's word" if connection is None else "by the operator's word and by Kafka's own"
        what = ", ".join(drains.targets)
        names = {"targets": list(drains.targets), "brokers": sorted(brokers)}
        lines.report("drained", f"{what}: no replica is left, {proof}", names)
        return
    if seen.stays:
        raise nothing_moves(seen.stays)
    why = seen.failed or f"not drained in time: {left_in_words(seen.left)}; {seen.sentence}"
    raise CommandError(why, STILL_ASKED, ExitCode.UNFINISHED)


def _refuse_withdrawn(topology: RackTopology, asked: RackTopology, drains: Drains) -> None:
    """Raise CommandError if the status of the topology may never report these drains."""
    targets = Drains.of(topology.spec).targets
    missing = [target for target in drains.targets if target not in targets]
    if topology.meta.uid != asked.meta.uid:
        why = f"RackTopology {topology.key} was deleted and created again"
    elif missing:
        why = f"RackTopology {topology.key} does not drain {', '.join(missing)} any more"
    else:
        return
    raise CommandError(
        why,
        "to drain all the same, run the same command again; if Argo CD or Flux has changed it, change it in Git first",
        ExitCode.UNFINISHED,
    )


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


def nothing_moves(entries: Sequence[DrainStatus]) -> CommandError:
    """Return an error that says that only replicas are left that no plan moves, and what makes them leave."""
    what = "; ".join(map(in_words, entries))
    ways = ways_out([block for entry in entries for block in entry.blocks])
    return CommandError(f"no plan moves what is left: {what}", ways, ExitCode.STAYS)


async def remaining_on(brokers: Collection[int], connection: Connection) -> "RemainingReplicas":
    """Return the replicas that Kafka itself shows on these brokers. Raises FailureError."""
    from rackspan.kafka.admin import ConfluentAdmin  # noqa: PLC0415 - a client takes long to import

    return await ConfluentAdmin.ask_new_client(connection.properties, lambda admin: admin.remaining_replicas(brokers))


async def _seen_by_operator(seen: DrainProgress, edits: "TopologyEdits", topology: RackTopology) -> DrainProgress:
    """Return the progress, changed to not drained if the operator does not run, or does not update the status.

    Print a warning if its Lease may not be read. Raises FailureError if the API server is unreachable.
    """
    try:
        lease = await operator_of(edits, topology)
    except FailureError as error:
        if error.failure.remedy is Remedy.RETRY:
            raise
        warn(f"whether the operator runs cannot be seen, so its word may be out of date: {error}")
        return seen
    if lease is None:
        return seen
    times = [one.observed_at for one in topology.status.drains if one.observed_at is not None]
    # Both times are by the operator's clock.
    outdated = [at for at in times if lease.renewed_at is not None and lease.renewed_at - at > _OUTDATED]
    if lease.holder is not None and not outdated:
        return seen
    why = (
        lease.absence
        if lease.holder is None
        else f"the operator has not updated the status since {utc_time(min(outdated))}"
    )
    return replace(seen, drained=False, left=None, sentence=why)


async def _seen_by_kafka(
    seen: DrainProgress, connection: Connection, brokers: frozenset[int], cluster_id: str | None
) -> DrainProgress:
    """Return the progress, changed to not drained if Kafka itself shows replicas there.

    Raises FailureError, and CommandError if the connection is to another cluster than the topology's.
    """
    from rackspan.kafka.admin import ConfluentAdmin  # noqa: PLC0415 - a client takes long to import

    async def asked(admin: ConfluentAdmin) -> tuple[str, "RemainingReplicas"]:
        return (await admin.cluster()).cluster_id, await admin.remaining_replicas(brokers)

    reached, remaining = await ConfluentAdmin.ask_new_client(connection.properties, asked)
    if reached != cluster_id:
        raise CommandError(
            f"{connection.servers} reaches Kafka cluster {reached}, and the RackTopology is of {cluster_id}",
            "name brokers of that cluster with --bootstrap-server",
        )
    left = sum(sum(held.values()) for held in remaining.replicas.values())
    if not left:
        return seen
    return replace(seen, drained=False, left=left, sentence=f"Kafka shows {plural(left, 'replica')} there")

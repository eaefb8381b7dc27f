"""`rackspan plan`: the fewest moves for compliance and the requested changes, with a lower bound as proof."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from rackspan.api.meta import ObjectKey
from rackspan.cli.rendering import plan_text
from rackspan.cli.rendering.output_formats import Format, PlanFormat
from rackspan.cli.rendering.plan_document import document, print_reassignment, topology_document
from rackspan.cli.rendering.printed_documents import print_document
from rackspan.cli.rendering.stderr_lines import note, print_error, warn
from rackspan.cli.rendering.tables import console
from rackspan.cli.shared.cluster_source import ClusterSource
from rackspan.cli.shared.command_errors import (
    CommandError,
    DetailedExitCode,
    ExitCode,
    detailed_exit_codes,
    ending_with,
)
from rackspan.cli.shared.connection import Connection
from rackspan.cli.shared.creations import created_document, created_markdown, print_created
from rackspan.cli.shared.live_topology import (
    LiveTopology,
    filling_brokers,
    plan_differences,
    refuse_options_of_topology,
    unchanged,
)
from rackspan.cli.shared.manifest_requirements import (
    JudgedFiles,
    one_topology,
    read_manifests,
    refuse_what_the_server_refuses,
)
from rackspan.cli.shared.options import FileCheck, MissingRackPolicy
from rackspan.cli.shared.partition_sizes import measured
from rackspan.cli.shared.plan_request import plan_requested, request_by_options
from rackspan.cli.shared.selection import TopologyOptions
from rackspan.cli.shared.topology_access import topology_key
from rackspan.core.planning import Plan, Problem
from rackspan.core.snapshot import Partitions
from rackspan.core.text import plural
from rackspan.reconcile.dry_run import Judgement, refused_by_kafka
from rackspan.reconcile.failures import Failure

_SENTENCES = 5


def plan(
    *,
    context: typer.Context,
    snapshot: str | None,
    bootstrap_server: str | None,
    command_config: Path | None,
    log_dirs: str | None,
    topology: str | None,
    kubeconfig: Path | None,
    filename: list[str] | None,
    namespace: str | None,
    dry_run: FileCheck,
    topic: str | None,
    replication_factor: list[str] | None,
    partitions: list[str] | None,
    rebalance_too: bool,
    levels: str,
    missing_rack_policy: MissingRackPolicy,
    drain_broker: list[str] | None,
    drain_rack: list[str] | None,
    output: PlanFormat,
    show_all: bool,
    detailed_exitcode: bool,
) -> None:
    """Carry out `rackspan plan` with these options. Raises CommandError."""
    with detailed_exit_codes(asked=detailed_exitcode):
        for option, given in (
            ("--dry-run=server", dry_run is FileCheck.SERVER),
            ("--namespace", namespace is not None),
        ):
            if given and (topology is None or not filename):
                raise CommandError(f"{option} is for --filename with --topology", "name both, or leave it out")
        if topology is not None:
            refuse_options_of_topology(context, "--log-dirs", "--topic", "--replication-factor", "--partitions")
            key = topology_key(topology)
            files = one_topology(read_manifests(filename, namespace or key.namespace), key) if filename else ()
            if dry_run is FileCheck.SERVER:
                refuse_what_the_server_refuses(files, kubeconfig)
            live = LiveTopology.at(topology, kubeconfig, filling_brokers if rebalance_too else unchanged, files)
            changes = _plan_topology(live, output, show_all=show_all)
        else:
            selected = TopologyOptions.of(levels, missing_rack_policy, drain_broker, drain_rack)
            source = ClusterSource(snapshot, bootstrap_server, command_config, log_dirs)
            found = source.read_to_plan()
            found = found if filename else source.with_topics(found, "to plan")
            connection = source.connection
            request, judged = request_by_options(
                source,
                found,
                selected,
                topic,
                replication_factor,
                partitions or (),
                filename,
                None if connection is None else _asking(connection),
            )
            made = plan_requested(request, rebalance_too=rebalance_too)
            if connection is not None and log_dirs is None:
                made = _with_sizes(connection, made)
            changes = _end(made, found.partitions, output, judged, show_all=show_all)
    if detailed_exitcode and changes:
        raise typer.Exit(DetailedExitCode.CHANGES)


def _asking(connection: Connection) -> Callable[[Judgement], Mapping[ObjectKey, Failure]]:
    """Return a function that asks a live cluster which topics and configs in the files it refuses."""
    return lambda made: connection.ask(lambda admin: refused_by_kafka(made, admin))


def _end(
    made: Plan,
    partitions: Partitions,
    output: PlanFormat,
    judged: JudgedFiles,
    extra: Mapping[str, Any] | None = None,
    throttle: int | None = None,
    *,
    show_all: bool,
) -> bool:
    """Print a plan, and return whether it changes anything. Raises typer.Exit if it is not feasible."""
    with ending_with(ExitCode.FINE if made.feasible else ExitCode.BAD_INPUT):
        _print_problems(made.problems, judged)
        match output:
            case PlanFormat.TABLE:
                print_created(console(), judged, show_all=show_all)
                plan_text.print_table(made, throttle, show_all=show_all)
            case PlanFormat.MARKDOWN:
                plan_text.print_markdown(made, throttle, created_markdown(judged), show_all=show_all)
            case PlanFormat.REASSIGNMENT if made.feasible:
                print_reassignment(made, partitions)
            case PlanFormat.REASSIGNMENT:
                pass  # so that no part of the request is executed by mistake
            case _:
                files = created_document(judged) if judged.topics else {}
                print_document({**(extra or {}), **files, **document(made)}, Format(output.value))
    return judged.changes or not made.empty


def _plan_topology(live: LiveTopology, output: PlanFormat, *, show_all: bool) -> bool:
    """Print the operator's plan of a topology, and return whether it changes anything."""
    made = live.plan()
    others = plan_differences(made, {one.topic.key for one in live.files.topics.values()})
    for key, why in list(others.items())[:_SENTENCES]:
        note(f"KafkaTopic {key}: {why}")
    if len(others) > _SENTENCES:
        note(f"and {plural(len(others) - _SENTENCES, 'more KafkaTopic')} like that; -o json lists them all")
    whole = _with_sizes(live.connection, made.whole)
    extra = topology_document(live.stands.state.topology, made, others)
    return _end(whole, made.request.partitions, output, live.files, extra, live.throttle, show_all=show_all)


def _with_sizes(connection: Connection, made: Plan) -> Plan:
    try:
        return measured(connection, made)
    except CommandError as error:
        warn(f"brokers do not report how many bytes it copies: {error}")
        return made


def _print_problems(problems: Sequence[Problem], judged: JudgedFiles) -> None:
    for refused in sorted({one for problem in problems for one in judged.about(problem)}, key=lambda one: one.source):
        print_error(str(refused))
    problems = [one for one in problems if judged.topics.keys().isdisjoint(one.topics)]
    for problem in problems[:_SENTENCES]:
        print_error(str(problem).removesuffix(f": {problem.smallest_change}"), problem.smallest_change)
    if len(problems) > _SENTENCES:
        print_error(f"and {len(problems) - _SENTENCES:,} more like that", "-o json lists them all")

"""`rackspan status`: the state of a topology on one screen, the worst first, and one next step."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from rackspan.api.racktopology import RackTopology
from rackspan.cli.rendering.output_formats import Format
from rackspan.cli.rendering.printed_documents import print_document
from rackspan.cli.rendering.stderr_lines import warn
from rackspan.cli.rendering.tables import console, table
from rackspan.cli.shared.command_errors import ExitCode, ending_with
from rackspan.cli.shared.looking import until
from rackspan.cli.shared.operator_lease import OperatorLease, operator_of
from rackspan.cli.shared.situation import AspectState, Situation, situation
from rackspan.cli.shared.topology_access import ask_topology
from rackspan.reconcile.failures import FailureError

if TYPE_CHECKING:
    from rackspan.kube.topology_edits import TopologyEdits

_CLEAR = "\x1b[H\x1b[2J"
_STYLES = {
    AspectState.FINE: "green",
    AspectState.GOES_ON: "cyan",
    AspectState.WRONG: "bold red",
    AspectState.UNKNOWN: "bold yellow",
}
_CODES = {AspectState.WRONG: ExitCode.OUT_OF_COMPLIANCE, AspectState.UNKNOWN: ExitCode.KAFKA}


def status(*, topology: str | None, kubeconfig: Path | None, watch: bool, output: Format) -> None:
    """Carry out `rackspan status` with these options. Raises CommandError."""
    if watch:
        ask_topology(topology, kubeconfig, lambda edits: _watch(edits, output))
    found = ask_topology(topology, kubeconfig, _seen)
    with ending_with(_CODES.get(found.state, ExitCode.FINE)):
        _print(found, output)


async def _watch(edits: "TopologyEdits", output: Format) -> None:
    """Print the state whenever it has changed, over one connection, until the user stops the command."""
    shown: Situation | None = None

    async def look() -> None:
        nonlocal shown
        found = await _seen(edits)
        if found != shown:
            if output is Format.TABLE and sys.stdout.isatty():
                sys.stdout.write(_CLEAR)
            _print(found, output)
            sys.stdout.flush()
            shown = found

    await until(look, lambda _: False, None)


async def _seen(edits: "TopologyEdits") -> Situation:
    found = await edits.read()
    try:
        topics = await edits.topics()
    except FailureError as error:
        warn(f"KafkaTopics cannot be listed, so that none is named: {error}")
        topics = None
    return situation(found, topics, await edits.reassignments(), await _operator(edits, found))


async def _operator(edits: "TopologyEdits", found: RackTopology) -> OperatorLease | None:
    """Return the Lease of the topology's operator, None if the status does not name it or it cannot be read."""
    try:
        return await operator_of(edits, found)
    except FailureError as error:
        warn(f"whether the operator runs cannot be seen, so all this may be out of date: {error}")
        return None


def _print(found: Situation, output: Format) -> None:
    if output is not Format.TABLE:
        print_document(_document(found), output)
        return
    screen = console()
    of = f" (cluster {found.cluster_id})" if found.cluster_id else ""
    screen.print(f"RackTopology {found.topology}{of}: {found.state.word}")
    rows = table("", "", "")
    rows.show_header = False
    for one in found.aspects:
        rows.add_row(Text(one.state.word, _STYLES[one.state]), one.name, one.message)
    screen.print(rows)
    if found.step is not None:
        screen.print(f"Next: {found.step}", soft_wrap=True)  # it may hold a command to copy


def _document(found: Situation) -> Mapping[str, Any]:
    return {
        "topology": found.topology,
        "clusterId": found.cluster_id,
        "state": found.state.name,
        "next": found.step,
        "aspects": [
            {"name": one.name, "state": one.state.name, "message": one.message, "next": one.step}
            for one in found.aspects
        ],
    }

"""Follows the Reassignments of a topology, until none is under way."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackspan.api.reassignment import Reassignment, ReassignmentState
from rackspan.cli.rendering.event_lines import EventLines
from rackspan.cli.rendering.progress import step
from rackspan.cli.rendering.reassignment_line import advance, document, sentence
from rackspan.cli.shared.command_errors import CommandError, ExitCode
from rackspan.cli.shared.looking import until

if TYPE_CHECKING:
    from rackspan.kube.topology_edits import TopologyEdits


@dataclass(frozen=True, slots=True)
class _Seen:
    running: Reassignment | None
    ended: tuple[Reassignment, ...]


async def follow(edits: "TopologyEdits", lines: EventLines, *, once: bool) -> bool:
    """
    Show the Reassignment that is under way, and those after it, until all have ended; False where there is none.

    Raises CommandError where one of them has not succeeded.
    """
    followed: set[str] = set()
    with step("Reassignment") as bar:

        async def look() -> _Seen:
            found = await edits.reassignments()
            running = next((one for one in found if not one.ended), None)
            followed.update(one.meta.uid for one in found if not one.ended)
            if running is not None:
                advance(bar, running)
                (lines.report if once else lines.repeat)("progress", sentence(running), document(running))
            return _Seen(running, tuple(one for one in found if one.ended and one.meta.uid in followed))

        seen = await until(look, lambda one: once or one.running is None, None)
    for one in seen.ended:
        lines.report("ended", f"{sentence(one)}: {one.status.message or 'no reason is known'}", document(one))
    wrong = [one for one in seen.ended if one.status.state is not ReassignmentState.SUCCEEDED]
    if wrong:
        last = wrong[-1]
        raise CommandError(f"Reassignment {last.key} has ended as {last.status.state}", code=ExitCode.UNFINISHED)
    return bool(followed)

"""The progress of a Reassignment of the operator: for a bar, as a sentence, and as a document."""

from collections.abc import Mapping
from typing import Any

from rackspan.api.codec import encode
from rackspan.api.reassignment import Reassignment
from rackspan.cli.rendering.progress import ProgressStep
from rackspan.cli.rendering.times import utc_time
from rackspan.core.text import plural, size


def sentence(one: Reassignment) -> str:
    """Return a text such as `prod-0123: Running, 3 of 12 moves, 1.0 GiB of 4.0 GiB, 50.0 MiB/s`."""
    status = one.status
    words = [f"{one.meta.name}: {one.state_name}"]
    if one.spec.parts > 1:
        words.append(f"part {one.spec.part} of {one.spec.parts}")
    if status.moves is not None:
        words.append(f"{status.moved or 0:,} of {plural(status.moves, 'move')}")
    if status.removals:
        words.append(plural(status.removals, "removal"))
    if status.bytes:
        words.append(f"{size(status.moved_bytes or 0)} of {size(status.bytes)}")
    if status.copying:
        words.append(f"{status.copying:,} copying")
    if status.rate:
        words.append(f"{size(status.rate)}/s")
    if status.estimated_end is not None:
        words.append(f"ends at about {utc_time(status.estimated_end)}")
    if status.waiting is not None:
        words += [f"{reason.partitions:,} {reason.reason}" for reason in status.waiting.reasons]
    words += [f"failed: {text}" for text in status.failures[:1]]
    return ", ".join(words)


def advance(bar: ProgressStep, one: Reassignment) -> None:
    """Show the progress on a bar, by bytes if they are known, else by moves."""
    status = one.status
    bar.describe(sentence(one))
    if status.bytes:
        bar.advance(status.moved_bytes or 0, status.bytes)
    elif status.moves:
        bar.advance(status.moved or 0, status.moves)


def document(one: Reassignment) -> Mapping[str, Any]:
    """Return the identity and the progress, without the plan and the record."""
    status = {key: value for key, value in encode(one.status).items() if key not in ("record", "conditions")}
    spec = one.spec
    return {"reassignment": str(one.key), "plan": spec.plan_hash, "part": spec.part, "parts": spec.parts, **status}

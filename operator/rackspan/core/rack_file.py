"""The file where brokers and clients find their rack: one line `node rack-id` for each node, sorted by name.

The operator publishes the file as a ConfigMap before pods are scheduled. So a pod starts without waiting and needs no
permission to read nodes. Lines that begin with `#` are comments. Needs only the standard library, see `rack_path`.
"""

from collections.abc import Mapping

from rackspan.core.rack_path import RackPathError, parse_rack
from rackspan.core.text import shown

LARGEST = 1_000_000
"""In bytes. A ConfigMap holds at most 1 MiB: more than 10,000 nodes with names of 60 and racks of 30 characters."""


class RackFileError(ValueError):
    """A text that is not a valid rack file."""


def rack_file(racks: Mapping[str, str], title: str) -> str:
    """Return the text of the file: a comment line with `title`, then the rack id of each node.

    Raises RackFileError if the text would be larger than LARGEST.
    """
    lines = [f"# {shown(title)}", *(f"{node} {racks[node]}" for node in sorted(racks))]
    text = "\n".join(lines) + "\n"
    if len(text.encode()) > LARGEST:
        raise RackFileError(f"the racks of {len(racks):,} nodes take more than {LARGEST:,} bytes")
    return text


def rack_of(text: str, node: str) -> str | None:
    """Return the rack id of one node; None if the file has no line for the node.

    Raises RackFileError with the line number if any line is not a node followed by its rack id.
    """
    found = None
    for number, line in enumerate(text.split("\n"), start=1):
        if not line or line.startswith("#"):
            continue
        name, _, rack = line.partition(" ")
        try:
            parse_rack(rack)
        except RackPathError as error:
            raise RackFileError(f"line {number}: after the node comes its rack id: {error}") from error
        if name == node:
            found = rack
    return found

"""
The file where brokers and clients find their rack: a line `node rack-id` for every node, by name.

The operator publishes it as a ConfigMap before pods are scheduled, so a start waits for nothing and needs no right to
read nodes. Lines that begin with `#` are for people. Only the standard library is imported, see `rack_path`.
"""

from collections.abc import Mapping

from rackspan.core.rack_path import RackPathError, parse_rack
from rackspan.core.text import shown

LARGEST = 1_000_000
"""Bytes; a ConfigMap holds 1 MiB in all, which is more than 10,000 nodes of 60 and racks of 30 characters."""


class RackFileError(ValueError):
    """A text that is no such file."""


def rack_file(racks: Mapping[str, str], title: str) -> str:
    """
    Write the file: rack ids by node, under a `title` of one line.

    Raises RackFileError where it would be larger than LARGEST.
    """
    lines = [f"# {shown(title)}", *(f"{node} {racks[node]}" for node in sorted(racks))]
    text = "\n".join(lines) + "\n"
    if len(text.encode()) > LARGEST:
        raise RackFileError(f"the racks of {len(racks):,} nodes take more than {LARGEST:,} bytes")
    return text


def rack_of(text: str, node: str) -> str | None:
    """
    Read the rack id of one node; None where the file has no line for it.

    Raises RackFileError, naming the line, where any line is no node with its rack id.
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

"""`rackspan rack-id`: the rack id of a node, from the file that the operator publishes.

For the init container of a broker or of a client. It starts as fast as Python, sends no requests, and needs no rights.
So it is separate from the other commands, and imports only the standard library and the modules for rack ids.
"""

import argparse
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rackspan.core.durations import seconds_in
from rackspan.core.rack_file import LARGEST, RackFileError, rack_of
from rackspan.core.text import shown

NAME = "rack-id"
SUMMARY = "Print the rack id of a node, from the file that the operator publishes."

_NOT_FOUND = 1
_NOT_WRITTEN = 74  # EX_IOERR of sysexits.h
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")
_POLL_SECONDS = 0.5
_PRINTED = range(0x21, 0x7F)

_EPILOG = """\
examples:
  rackspan rack-id --nodes-file /etc/rackspan/nodes --node "$NODE_NAME" --wait 60s
  rackspan rack-id --nodes-file nodes --node n1 --format properties >> server.properties
  rackspan rack-id --nodes-file nodes --node n1 --format properties --key client.rack >> client.properties
  rackspan rack-id --nodes-file nodes --node n1 --format env --key CLIENT_RACK > rack.env

exit codes: 0 found; 1 the file or the node's line was not there within --wait; 2 wrong options;
  74 the rack id could not be written
"""


class RackNotFoundError(Exception):
    """The file has no rack id for the node, or cannot be read. The message says what to check."""


def look_up(nodes_file: Path, node: str) -> str:
    """Return the node's rack id. Raises RackNotFoundError."""
    try:
        with nodes_file.open(encoding="utf-8", newline="") as file:
            text = file.read(LARGEST + 1)
        if len(text) > LARGEST:
            raise RackNotFoundError(f"{nodes_file} is larger than {LARGEST:,} bytes: it is not a file of racks")
        found = rack_of(text, node)
    except FileNotFoundError as error:
        raise RackNotFoundError(
            f"there is no {nodes_file}: is the ConfigMap of the RackTopology's racks mounted there?"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise RackNotFoundError(
            f"{nodes_file} cannot be read: {getattr(error, 'strerror', 'it is not UTF-8')}"
        ) from error
    except RackFileError as error:
        raise RackNotFoundError(f"{nodes_file}, {error}") from error
    if found is None:
        raise RackNotFoundError(
            f"{nodes_file} has no rack for node {shown(node)}: does it have the labels of the RackTopology's levels?"
        )
    return found


def look_up_within(nodes_file: Path, node: str, seconds: float, pause: Callable[[float], None] = time.sleep) -> str:
    """Return the node's rack id as soon as the file has it. Raises RackNotFoundError after `seconds`."""
    printed, ends = "", time.monotonic() + seconds
    while True:
        try:
            return look_up(nodes_file, node)
        except RackNotFoundError as error:
            if time.monotonic() >= ends:
                raise
            if str(error) != printed:
                printed = str(error)
                print(f"rackspan: waiting up to {seconds:g} s: {printed}", file=sys.stderr, flush=True)
        pause(_POLL_SECONDS)


def formatted(rack: str, form: str, key: str | None) -> str:
    """Return the line to print: `plain`, for a `properties` file, or as a shell assignment (`env`)."""
    match form:
        case "properties":
            return f"{key or 'broker.rack'}={''.join(map(_property_character, rack))}"
        case "env":
            return f"{key or 'BROKER_RACK'}={_quoted(rack)}"
        case _:
            return rack


def main(arguments: Sequence[str]) -> int:
    """Run the command with these arguments, and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        rack = look_up_within(options.nodes_file, options.node, options.wait)
    except RackNotFoundError as error:
        print(f"rackspan: {error}", file=sys.stderr)
        return _NOT_FOUND
    return _print(formatted(rack, options.format, options.key))


def _print(line: str) -> int:
    """Print the line, and return the exit code. Without the line, a broker would start without a rack."""
    why = "standard output is closed"
    if sys.stdout is not None:
        try:
            print(line, flush=True)
        except OSError as error:
            why = error.strerror or str(error)
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python tries again at exit
        else:
            return 0
    print(f"rackspan: the rack id cannot be written: {why}", file=sys.stderr)
    return _NOT_WRITTEN


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"rackspan {NAME}",
        description=SUMMARY,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--nodes-file", type=Path, required=True, help="the key `nodes` of the ConfigMap, mounted as a file"
    )
    parser.add_argument("--node", type=_node, required=True, help="the node's name: spec.nodeName, by the downward API")
    parser.add_argument(
        "--wait", type=_seconds, default=0, metavar="60s", help="how long to wait for the node's line (default: not)"
    )
    parser.add_argument("--format", choices=("plain", "properties", "env"), default="plain", help="default: plain")
    parser.add_argument(
        "--key", type=_key, help="what comes before the = (default: broker.rack in properties, BROKER_RACK in env)"
    )
    return parser


def _node(text: str) -> str:
    if not text or " " in text or not text.isprintable():
        raise argparse.ArgumentTypeError(f"{shown(text)!r} is not a node name: is NODE_NAME set?")
    return text


def _key(text: str) -> str:
    if not _KEY.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{shown(text)!r} is not a valid key: use letters, digits, dots, dashes and underscores"
        )
    return text


def _seconds(text: str) -> float:
    found = seconds_in(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{shown(text)!r} is not a duration: write 60s, 5m or 1h30m")
    return found


def _quoted(rack: str) -> str:
    """Return the rack in single quotes, for shells and for Kubernetes' fileKeyRef, which accepts no other form."""
    return "'" + rack.replace("'", "'\"'\"'") + "'"


def _property_character(character: str) -> str:
    """Return the character as java.util.Properties reads it in every file encoding."""
    if ord(character) in _PRINTED and character != "\\":
        return character
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))

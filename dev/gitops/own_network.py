"""python own_network.py PORT... -- COMMAND: run a program in a separate network namespace.

The programs of Argo CD serve metrics on all interfaces, and no flag changes this. The namespace only has its own
loopback interface, so the metrics are not reachable from outside. Connections to one of the ports in the namespace are
forwarded to the same port on the loopback of the machine. Root is not needed if users may create namespaces.
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

_LOOPBACK = "127.0.0.1"
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 0x1
_CHUNK = 65_536


def command(ports: Sequence[int], program: Sequence[str]) -> list[str]:
    """Return the command that runs a program in a namespace with these forwarded ports."""
    return [sys.executable, __file__, *map(str, ports), "--", *program]


def main(arguments: list[str]) -> int:
    """Run the program until it ends. Return its exit code."""
    divider = arguments.index("--")
    ports, program = [int(port) for port in arguments[:divider]], arguments[divider + 1 :]
    ours, theirs = socket.socketpair()
    if (child := os.fork()) == 0:
        _enter()
        listeners = [socket.create_server((_LOOPBACK, port)) for port in ports]
        # A socket stays in the namespace of its creation, even if another process accepts its connections.
        socket.send_fds(theirs, [b"ready"], [listener.fileno() for listener in listeners])
        os.execvp(program[0], program)
    theirs.close()
    _, descriptors, _, _ = socket.recv_fds(ours, _CHUNK, len(ports))
    for descriptor, port in zip(descriptors, ports, strict=False):  # empty if the child failed
        threading.Thread(target=_accept, args=(socket.socket(fileno=descriptor), port), daemon=True).start()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _enter() -> None:
    """Move this process to a new network namespace and enable its loopback."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET):
        error = ctypes.get_errno()
        raise OSError(error, f"no network namespace: {os.strerror(error)}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way_in:
        fcntl.ioctl(way_in, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))


def _accept(listener: socket.socket, port: int) -> None:
    while True:
        inside, _ = listener.accept()
        try:
            outside = socket.create_connection((_LOOPBACK, port))
        except OSError:
            inside.close()
            continue
        for pair in ((inside, outside), (outside, inside)):
            threading.Thread(target=_copy, args=pair, daemon=True).start()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(_CHUNK):
            sink.sendall(chunk)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

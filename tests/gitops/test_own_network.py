"""A program in a separate network namespace reaches only the named loopback ports, and is not reachable."""

import socket
import subprocess
import sys

from dev.gitops import own_network
from dev.stack.processes import accepts_connections, free_ports

PROGRAM = """
import socket, sys
named, other, own = map(int, sys.argv[1:])
server = socket.create_server(("0.0.0.0", own))
with socket.create_connection(("127.0.0.1", named)) as connection:
    connection.sendall(b"question")
    connection.shutdown(socket.SHUT_WR)
    print(connection.recv(100).decode())
print(socket.socket().connect_ex(("127.0.0.1", other)) == 0, flush=True)
sys.stdin.read()
sys.exit(3)
"""


def test_program_in_its_own_network_reaches_only_the_named_port_and_is_unreachable():
    named, other, own = free_ports(3)
    program = [sys.executable, "-c", PROGRAM, *map(str, (named, other, own))]
    with socket.create_server(("127.0.0.1", named)) as server, socket.create_server(("127.0.0.1", other)):
        command = own_network.command([named], program)
        running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        connection, _ = server.accept()
        with connection, connection.makefile("rb") as asked:
            assert asked.read() == b"question"
            connection.sendall(b"answer")
        assert running.stdout.readline() == "answer\n"
        assert running.stdout.readline() == "False\n"
        assert not accepts_connections(own)
        running.communicate()
        assert running.returncode == 3

"""An S3 server with a folder as its store, and a faulty one."""

import http.client
import os
import sys

from dev.paths import REPOSITORY
from dev.stack.processes import free_ports
from dev.waiting import eventually
from tests.support.s3_proxy import LEFT

REGION = "eu-central-1"
BUCKET = "audit"
ACCESS, SECRET = "rackspan-tests", "a-secret-of-the-tests"


class S3:
    """The address of a server, and the environment for its clients."""

    def __init__(self, port):
        self.address = f"127.0.0.1:{port}"
        self.endpoint = f"http://{self.address}"

    def environment(self, **changes):
        """Return the environment for delta-rs, updated by `changes`."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": ACCESS,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_EC2_METADATA_DISABLED": "true",
        } | changes

    def get(self, path):
        """Return the response body of an unsigned request."""
        connection = http.client.HTTPConnection(self.address, timeout=5)
        connection.request("GET", path)
        return connection.getresponse().read().decode()


def start_s3(processes, program, folder, name, *options):
    """Start a server for `folder`, whose subfolders are buckets."""
    sidecar = folder.parent / "attributes"  # the file system may not support extended attributes
    sidecar.mkdir(exist_ok=True)
    (port,) = free_ports(1)
    listening = ["--port", f"127.0.0.1:{port}", "--region", REGION]
    command = [program, *listening, *options, "posix", "--sidecar", sidecar, folder]
    return _started(processes, name, command, port, ROOT_ACCESS_KEY=ACCESS, ROOT_SECRET_KEY=SECRET)


def in_trouble(processes, server, name, *, refuse, seconds):
    """Start a proxy of the server that refuses the first writes and delays each response by some seconds."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "tests.support.s3_proxy", port, server.address, refuse, seconds]
    return _started(processes, name, command, port, PYTHONPATH=REPOSITORY)


def left_to_refuse(proxy):
    return int(proxy.get(LEFT))


def _started(processes, name, command, port, **environment):
    given = {key: str(value) for key, value in environment.items()}
    processes.start(name, [str(one) for one in command], env={**os.environ, **given})
    found = S3(port)

    def answers():
        assert processes.ended(name) is None, processes.log(name).read_text()
        return found.get("/") is not None

    eventually(answers, f"{name} to answer", retry_on=(OSError,))
    return found

"""The operator as a process."""

import json
import re
import secrets
import signal
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dev.stack.processes import Processes
from prometheus_client.parser import text_string_to_metric_families
from tests.support.waiting import until

RESYNC_SECONDS = 2


@dataclass(slots=True)
class Operator:
    """One `rackspan operator`: a process that can be stopped, killed and started again under the same name."""

    processes: Processes
    kubeconfig: Path
    flags: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    trusted: str = "*"
    """All namespaces share a worker process for Kafka clients, except in tests of this sharing."""
    name: str = field(default_factory=lambda: f"operator-{secrets.token_hex(3)}")
    _read_from: int = 0  # byte offset of the output since the latest start

    def start(self) -> None:
        """Start the process and wait until it serves its probes and is ready."""
        self.launch()
        self.until_ready()

    def launch(self) -> None:
        """Start the process."""
        path = self.processes.log(self.name)
        self._read_from = path.stat().st_size if path.exists() else 0
        command = [
            str(Path(sys.executable).with_name("rackspan")),
            "operator",
            f"--kubeconfig={self.kubeconfig}",
            f"--resync={RESYNC_SECONDS}",
            "--listen-host=127.0.0.1",
            "--listen-port=0",
            "--log-format=json",
            f"--kafka-trusted-namespace={self.trusted}",
            f"--lease-name={self.name}",
            f"--lease-identity={self.name}",  # after a crash, it regains its Lease at once
            *self.flags,
        ]
        self.processes.start(self.name, command, env=dict(self.environment))

    def until_ready(self) -> None:
        """Wait until the operator serves its probes and is ready."""
        until(self._is_ready, "the operator to be ready")

    def stop(self) -> None:
        """Stop the operator like Kubernetes, by SIGTERM. Fail if the process does not end."""
        self.processes.signal(self.name, signal.SIGTERM)
        until(lambda: not self.running, "the operator to end after SIGTERM")

    def kill(self) -> None:
        """Kill the process, like a crash."""
        self.processes.kill(self.name)

    @property
    def running(self) -> bool:
        return self.processes.pid(self.name) is not None

    @property
    def pid(self) -> int:
        pid = self.processes.pid(self.name)
        assert pid is not None, "the operator is not running"
        return pid

    @property
    def output(self) -> str:
        """The standard output and standard error of all starts."""
        return self.processes.log(self.name).read_text(errors="replace")

    @property
    def log(self) -> list[dict[str, Any]]:
        """The complete log lines since the latest start. Raises ValueError if one is not JSON."""
        written = self._latest().rpartition("\n")[0]
        return [json.loads(line) for line in written.splitlines() if line.strip()]

    @property
    def tracebacks(self) -> list[str]:
        """The lines with a traceback in the output of all starts."""
        return [line for line in self.output.splitlines() if "Traceback" in line]

    def get(self, path: str) -> tuple[int, str]:
        """Return the HTTP status and body of `/metrics`, `/healthz` or `/readyz`."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port()}{path}", timeout=300) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def connected(self) -> socket.socket:
        """Return an open connection to the port of metrics and probes."""
        return socket.create_connection(("127.0.0.1", self._port()))

    def metrics(self) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
        """Return all samples by name, then by sorted labels."""
        found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
        for family in text_string_to_metric_families(self.get("/metrics")[1]):
            for sample in family.samples:
                found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
        return found

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of all samples with this name and these labels, or 0 if there is none."""
        wanted = set(labels.items())
        return sum(value for key, value in self.metrics().get(name, {}).items() if wanted <= set(key))

    def after_passes(self, count: int, topology: str = "") -> None:
        """Wait until the operator has requested topics from Kafka `count` more times.

        With `topology`, as `namespace/name`, wait until it has reconciled all topics of this topology that often. The
        topology must have topics.
        """

        def asked() -> float:
            if topology:
                return self.metric("rackspan_topics_reconciled_total", topology=topology)
            return self.metric("rackspan_kafka_request_seconds_count", operation="describe_topics")

        def over() -> bool:
            each = self.metric("rackspan_topics", topology=topology) if topology else 1
            return each > 0 and asked() >= start + count * each

        start = asked()
        until(over, f"{count} more passes")

    def _latest(self) -> str:
        with self.processes.log(self.name).open("rb") as log:
            log.seek(self._read_from)
            return log.read().decode(errors="replace")

    def _port(self) -> int:
        found = re.search(r"metrics and probes on port (\d+)", self._latest())
        return int(found[1]) if found else 0

    def _is_ready(self) -> bool:
        self.processes.check(self.name)
        try:
            return self._port() > 0 and self.get("/readyz")[0] == 200
        except OSError:
            return False


def samples_of(operator: Operator, label: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Return the samples of one topology and of the operator itself, without histograms."""
    return {
        name: {labels: value for labels, value in found.items() if dict(labels).get("topology", label) == label}
        for name, found in operator.metrics().items()
        if name.startswith("rackspan_") and not name.endswith(("_bucket", "_sum", "_count"))
    }


class Turns:
    """Operators that watch all namespaces of one control plane. Only one runs at a time.

    Two operators would act on the same objects.
    """

    def __init__(self, processes: Processes, kubeconfig: Path) -> None:
        self.processes = processes
        self.kubeconfig = kubeconfig
        self._known: dict[str, Operator] = {}

    def of(self, name: str, *flags: str) -> Operator:
        """Return the running operator of this name, started if necessary. Only its first start uses `flags`."""
        chosen = self._known.setdefault(name, Operator(self.processes, self.kubeconfig, flags, name=name))
        if not chosen.running:
            self.pause()
            chosen.start()
        return chosen

    def pause(self) -> None:
        """Stop the running operator."""
        for operator in self._known.values():
            if operator.running:
                operator.stop()


@contextmanager
def private_operators(turns: Turns) -> Iterator[Callable[..., Operator]]:
    """Yield a factory of operators that end with the context: `factory("--namespace=x", environment={...})`.

    On the shared control plane, they replace the shared operator. With `kubeconfig`, they watch another control plane
    and the shared operator continues.
    """
    started: list[Operator] = []

    def factory(
        *flags: str,
        kubeconfig: Path | None = None,
        environment: Mapping[str, str] | None = None,
        trusted: str = "*",
    ) -> Operator:
        if kubeconfig is None:
            turns.pause()
        operator = Operator(turns.processes, kubeconfig or turns.kubeconfig, flags, environment or {}, trusted)
        started.append(operator)
        operator.start()
        return operator

    try:
        yield factory
    finally:
        for operator in started:
            operator.kill()

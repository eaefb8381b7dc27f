"""Two operators and one Lease: one acts, and who is cut off from the API server leaves Kafka alone."""

import contextlib
import json
import socket
import threading

import pytest
import yaml
from tests.support.operators import Operator
from tests.support.waiting import until


class Wire:
    """Carries connections to an address, until it is cut."""

    def __init__(self, target):
        self._target = target
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._open = []
        self._is_cut = False
        self._lock = threading.Lock()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                with self._lock:
                    if self._is_cut:
                        near.close()
                        continue
                    far = socket.create_connection(self._target)
                    self._open += [near, far]
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    @staticmethod
    def _carry(one, other):
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self):
        """Nothing passes any more."""
        with self._lock:
            self._is_cut = True
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()
            self._open.clear()

    def mend(self):
        """New connections pass."""
        with self._lock:
            self._is_cut = False

    def close(self):
        self.cut()
        self._server.close()


@pytest.fixture
def wired(control_plane, tmp_path):
    """A kubeconfig whose way to the API server can be cut."""
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    (cluster,) = config["clusters"]
    host, port = cluster["cluster"]["server"].removeprefix("https://").split(":")
    wire = Wire((host, int(port)))
    cluster["cluster"]["server"] = f"https://127.0.0.1:{wire.port}"
    path = tmp_path / "wired.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    yield wire, path
    wire.close()


def test_who_is_cut_off_leaves_kafka_alone_and_a_successor_takes_over(
    wired, operator_factory, control_plane, processes, objects, topics, kafka, broker_sites, operator
):
    wire, path = wired
    operator.stop()  # it watches the same objects
    flags = ("--lease-name=pair", "--lease-seconds=12")
    first = operator_factory(*flags, kubeconfig=path)
    second = Operator(processes, control_plane.kubeconfig, flags)
    try:
        objects.create_topology(kafka.bootstrap())
        objects.create_topic("orders", config={"retention.ms": "1000000"})
        objects.until_ready("orders")
        name = objects.kafka_name("orders")

        second.launch()
        words = f"waiting for the Lease, which '{first.name}' holds"
        until(lambda: any(words in line["message"] for line in second.log), "the second to wait")
        status, answer = second.get("/readyz")
        assert (status, json.loads(answer)["waitingFor"]) == (200, first.name), "it stands by"
        assert second.metric("rackspan_lease_held") == 0
        assert second.metric("rackspan_kafka_request_seconds_count") == 0, "it asks Kafka nothing"
        second.kill()

        wire.cut()
        until(lambda: first.metric("rackspan_lease_held") == 0, "the first to be sure no more")
        topics.set_config(name, **{"retention.ms": "2000000"})
        first.after_passes(3)
        assert topics.config(name)["retention.ms"] == "2000000", "the first does not put it back"
        assert first.running

        second.start()
        until(lambda: topics.config(name)["retention.ms"] == "1000000", "the second to put it back")
        wire.mend()
        until(lambda: not first.running, "the first to end, so that it is started anew")
        assert "the Lease is held by" in first.output
        assert second.metric("rackspan_lease_held") == 1
    finally:
        second.kill()

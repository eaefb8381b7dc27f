"""Two operators and one Lease: only the holder acts, and an operator without the API server does not change Kafka."""

import asyncio
import contextlib
import json
import signal
import socket
import threading

import pytest
import yaml
from tests.support.api_proxy import ApiProxy
from tests.support.moves import filled
from tests.support.objects import condition
from tests.support.operators import Operator
from tests.support.waiting import until

from rackspan.api.labels import APPROVE_PLAN

SIZE = 15_000_000
"""Bytes per partition. A throttled broker fetches about 1 MB per 11 seconds, so the copy takes minutes."""


def pair(objects):
    """Return the flags of two operators with one Lease, which no other test uses: its holder would still count."""
    return f"--lease-name=pair-{objects.namespace}", "--lease-seconds=12"


class Wire:
    """A relay of connections to an address that tests can cut."""

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
        """Close all connections and accept no new ones."""
        with self._lock:
            self._is_cut = True
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()
            self._open.clear()

    def fix(self):
        """Accept new connections again."""
        with self._lock:
            self._is_cut = False

    def close(self):
        self.cut()
        self._server.close()


@pytest.fixture
def wired(control_plane, tmp_path):
    """A relay to the API server that tests can cut, and a kubeconfig that uses it."""
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    (cluster,) = config["clusters"]
    host, port = cluster["cluster"]["server"].removeprefix("https://").split(":")
    wire = Wire((host, int(port)))
    cluster["cluster"]["server"] = f"https://127.0.0.1:{wire.port}"
    path = tmp_path / "wired.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    yield wire, path
    wire.close()


def test_operator_without_lease_renewal_stops_changes_and_the_next_one_takes_over(
    wired, operator_factory, control_plane, processes, objects, topics, kafka, broker_sites, operator
):
    wire, path = wired
    operator.stop()  # the shared operator watches the same objects
    first = operator_factory(*pair(objects), kubeconfig=path)
    second = Operator(processes, control_plane.kubeconfig, pair(objects))
    try:
        objects.create_topology(kafka.bootstrap())
        objects.create_topic("orders", config={"retention.ms": "1000000"})
        objects.until_ready("orders")
        name = objects.kafka_name("orders")

        second.launch()
        words = f"waiting for the Lease, which '{first.name}' holds"
        until(lambda: any(words in line["message"] for line in second.log), "the second to wait")
        status, answer = second.get("/readyz")
        assert (status, json.loads(answer)["waitingFor"]) == (200, first.name), (
            "the second operator is not ready as a standby"
        )
        assert second.metric("rackspan_lease_held") == 0
        assert second.metric("rackspan_kafka_request_seconds_count") == 0, (
            "the second operator sent requests to Kafka without the Lease"
        )
        second.kill()

        wire.cut()
        until(lambda: first.metric("rackspan_lease_held") == 0, "the first to be sure no more")
        topics.set_config(name, **{"retention.ms": "2000000"})
        first.after_passes(3, objects.label)
        assert topics.config(name)["retention.ms"] == "2000000", "the first operator reset the config without the Lease"
        assert first.running

        second.start()
        until(lambda: topics.config(name)["retention.ms"] == "1000000", "the second to put it back")
        wire.fix()
        until(lambda: not first.running, "the first to end, so that it is started anew")
        assert "the Lease is held by" in first.output
        until(lambda: second.metric("rackspan_lease_held") == 1, "the second to be sure of its Lease")
    finally:
        second.kill()


class Slow(ApiProxy):
    """A proxy that delays status writes while `holds` is set, until `let_go` is set."""

    def __init__(self, settings):
        super().__init__(settings)
        self.holds = False
        self.held, self.let_go = threading.Event(), asyncio.Event()
        self.written = []
        """The writes that the API server has answered: the holder for the Lease, else the last part of the path."""

    async def refuse(self, request):
        if self.holds and request.method == "PATCH" and request.path.endswith("/status"):
            self.held.set()
            await self.let_go.wait()

    async def answered(self, request):
        if request.method == "PATCH":
            spec = json.loads(await request.text()) if "/leases/" in request.path else {}
            self.written.append(spec["spec"]["holderIdentity"] if spec else request.path.rpartition("/")[2])


@pytest.mark.usefixtures("alone")
def test_terminating_operator_keeps_its_lease_until_its_last_write_is_answered(
    api_client, tmp_path, operator_factory, objects, kafka, broker_sites
):
    with Slow(api_client.configuration) as api:
        path = api.kubeconfig(tmp_path / "slow.kubeconfig")
        own = operator_factory("--lease-seconds=45", f"--namespace={objects.namespace}", kubeconfig=path)
        objects.create_topology(kafka.bootstrap())
        objects.create_topic("orders")
        objects.until_ready("orders")

        api.holds = True
        objects.change_topic("orders", config={"retention.ms": "1000000"})
        assert api.held.wait(300)
        own.processes.signal(own.name, signal.SIGTERM)
        told = len(api.written)
        until(lambda: len(api.written) >= told + 2 or not own.running, "the Lease to be renewed, although it ends")
        api.set(api.let_go)
        until(lambda: not own.running, "the operator to end")
        written = [one for one in api.written[told:] if one in (own.name, "status", "")]
        assert set(written) == {own.name, "status", ""}
        assert written.index("") == len(written) - 1, "the Lease was released before the last write"


def test_plan_cancelled_after_loss_of_its_operator_is_not_restarted_by_the_next_one(
    operator_factory, objects, kafka, broker_sites
):
    first, second = operator_factory(*pair(objects)), operator_factory(*pair(objects))
    objects.create_topology(kafka.bootstrap(), reassignment={"throttle": 20_000})
    objects.create_topic("orders", partitions=2, replicationFactor=2)
    objects.until_ready("orders")
    filled(kafka, objects.kafka_name("orders"), 2, SIZE)
    objects.change_topic("orders", replicationFactor=3)
    objects.until_not_ready("orders", "PlanPending")
    found = objects.until_condition("RackTopology", "kafka", "Reassigned", "False", "PlanPending")
    plan = found["status"]["plan"]["hash"]
    own = objects.topic("orders")["status"]["plan"]["hash"]
    objects.patch("KafkaTopic", "orders", {"metadata": {"annotations": {APPROVE_PLAN: own}}})
    made = until(lambda: objects.read("Reassignment", f"kafka-{plan}"), "the Reassignment")
    first.kill()
    assert second.metric("rackspan_lease_held") == 0

    until(lambda: second.metric("rackspan_lease_held") == 1, "the second to take the Lease")
    objects.patch("Reassignment", f"kafka-{plan}", {"spec": {"cancelled": True}})
    objects.until(
        "Reassignment",
        f"kafka-{plan}",
        lambda one: one.get("status", {}).get("state") == "Cancelled",
        "to be cancelled",
    )
    # The next operator computes the same plan for a newer spec.
    objects.change_topology(reassignment={"throttle": 30_000})
    seen = objects.until_condition("RackTopology", "kafka", "Reassigned", "False", "PlanPending")
    assert seen["status"]["plan"]["hash"] == plan
    assert (
        f"Reassignment kafka-{plan} was to carry it out, and ended before" in condition(seen, "Reassigned")["message"]
    )
    assert APPROVE_PLAN not in objects.topic("orders")["metadata"].get("annotations", {})
    second.after_passes(3, objects.label)
    kept = objects.read("Reassignment", f"kafka-{plan}")
    assert (kept["metadata"]["uid"], kept["status"]["state"]) == (made["metadata"]["uid"], "Cancelled")

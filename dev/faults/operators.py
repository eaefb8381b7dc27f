"""The operator in a fault run. It is killed at its steps and started again until each plan has ended."""

import itertools
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kubernetes import client as kubernetes

from dev.faults.cluster import PARTITIONS, Cluster, FaultError
from dev.faults.kills import Fate, Kills
from dev.faults.lives import Life, Lives
from dev.paths import REPOSITORY
from dev.stack.control_plane import ControlPlane
from dev.stack.kafka_cluster import KafkaCluster
from dev.stack.nodes import BROKER_LABELS, LEVELS, Site, create_sites
from dev.waiting import eventually
from rackspan.api.conditions import READY, ConditionStatus, find_condition
from rackspan.api.kafkatopic import KafkaTopic
from rackspan.api.labels import APPROVE_PLAN
from rackspan.api.racktopology import RackTopology
from rackspan.api.reassignment import Reassignment, ReassignmentState

NAMESPACE, TOPOLOGY, TOPIC = "faults", "main", "operated"
FAST, SLOW = 50_000_000, 150_000
"""Throttles, in bytes per second and broker."""
ASSIGNMENTS = (
    ((0, 1, 2), (1, 2, 3)),
    ((3, 0, 1), (4, 1, 2)),
    ((4, 3, 0, 1), (0, 4, 1, 2)),
)
"""The assignments in turn. Each change copies replicas, whichever replica leads before."""
_GROUP, _VERSION = "rackspan.dev", "v1alpha1"
_LEASE_SECONDS = 15
_MOST_STEPS = 12
"""About half of the steps of a plan, so that each plan is killed a few times, in all its parts."""


class Operator:
    """An operator that is started again whenever it ends, like in Kubernetes. Each start has the next fate."""

    def __init__(self, lives: Lives, arguments: Sequence[str], kills: Counter[str]) -> None:
        self.lives = lives
        self._arguments = list(arguments)
        self._kills = kills
        self._fates: Iterator[Fate] = iter(())
        self._fate = Fate()
        self._life: Life | None = None
        self._began = 0.0

    def meet(self, fates: Iterator[Fate]) -> None:
        """Kill the operator, and use these fates for its next starts. After the last fate, it is not killed."""
        self._fates = fates
        if self._life is not None and self._life.running:
            self._life.kill()

    def tend(self) -> None:
        """Start the operator if it has ended, kill it if its time is up. Raise FaultError after a traceback."""
        life = self._life
        if life is None:
            self._start()
        elif not life.running:
            self._count(life)
            self._start()
        elif self._fate.seconds is not None and time.monotonic() > self._began + self._fate.seconds:
            life.kill()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the operator."""
        if self._life is not None:
            os.kill(self._life.pid, number)

    def end(self) -> None:
        """End the operator and do not start it again."""
        life, self._life = self._life, None
        if life is not None:
            if life.running:
                life.kill()
            life.ended()
        self.lives.close()

    @property
    def running(self) -> bool:
        """Whether the current process runs."""
        return self._life is not None and self._life.running

    @property
    def said(self) -> str:
        """The output of the current process."""
        return self._life.said if self._life is not None else ""

    def _start(self) -> None:
        self._fate = next(self._fates, Fate())
        self._life = self.lives.start(self._arguments, self._fate)
        self._began = time.monotonic()

    def _count(self, life: Life) -> None:
        code = life.ended()
        if code == -signal.SIGKILL:
            self._kills[life.killed_at] += 1
        elif "Traceback" in life.said:
            raise FaultError(f"the operator ended with {code}: {life.said[-3000:]}")


class Operated(Cluster):
    """A cluster whose topics are moved by an operator."""

    def __init__(self, kafka: KafkaCluster, plane: ControlPlane, where: Sequence[Site], directory: Path) -> None:
        super().__init__(kafka)
        self.plane = plane
        self.where = where
        self.kills: Counter[str] = Counter()
        self.moves = 0
        """The number of planned copies of all completed plans."""
        self._directory = directory
        api = plane.api_client()
        self.core = kubernetes.CoreV1Api(api)
        self._objects: Any = kubernetes.CustomObjectsApi(api)
        self._operators: list[Operator] = []
        self._ended: set[str] = set()
        plane.kubectl.apply(REPOSITORY / "crds", arguments=["--server-side"])
        plane.kubectl.wait_until_served()
        plane.kubectl("create", "namespace", NAMESPACE)
        create_sites(self.core, NAMESPACE, where)
        self.operator = self.another("operator")
        self.tended = [self.operator]
        """The operators that `until` starts again if they have ended."""
        self._wishes = itertools.cycle((*ASSIGNMENTS[1:], ASSIGNMENTS[0]))

    def another(self, name: str, lease: str | None = None) -> Operator:
        """Return another operator, with its own Lease unless one is given. It regains its Lease at once."""
        lives = Lives(self._directory / name)
        arguments = (
            *("operator", f"--kubeconfig={self.plane.kubeconfig}", "--resync=2", "--listen-host=127.0.0.1"),
            *("--listen-port=0", "--log-format=text", f"--lease-name={lease or name}", f"--lease-identity={name}"),
            *(f"--lease-seconds={_LEASE_SECONDS}", f"--namespace={NAMESPACE}"),
        )
        operator = Operator(lives, arguments, self.kills)
        self._operators.append(operator)
        return operator

    @property
    def lives(self) -> int:
        """The number of started processes."""
        return sum(operator.lives.count for operator in self._operators)

    def close(self) -> None:
        """End all operators."""
        for operator in self._operators:
            operator.end()

    # -- objects -------------------------------------------------------------------------------------------------------

    def make(self, kind: str, name: str, spec: dict[str, Any]) -> None:
        """Create an object."""
        body = {"apiVersion": f"{_GROUP}/{_VERSION}", "kind": kind, "metadata": {"name": name}, "spec": spec}
        self._objects.create_namespaced_custom_object(_GROUP, _VERSION, NAMESPACE, _plural(kind), body)

    def read(self, kind: str, name: str) -> dict[str, Any]:
        """Return the current object."""
        found: dict[str, Any] = self._objects.get_namespaced_custom_object(
            _GROUP, _VERSION, NAMESPACE, _plural(kind), name
        )
        return found

    def patch(self, kind: str, name: str, change: dict[str, Any]) -> None:
        """Change an object by a merge patch."""
        self._objects.patch_namespaced_custom_object(_GROUP, _VERSION, NAMESPACE, _plural(kind), name, change)

    def delete(self, kind: str, name: str) -> None:
        """Delete an object."""
        self._objects.delete_namespaced_custom_object(_GROUP, _VERSION, NAMESPACE, _plural(kind), name)

    def topology(self) -> RackTopology:
        """Return the RackTopology."""
        return RackTopology.from_object(self.read("RackTopology", TOPOLOGY))

    def is_ready(self, topic: str) -> bool:
        """Return whether a KafkaTopic is Ready for its current spec."""
        found = KafkaTopic.from_object(self.read("KafkaTopic", topic))
        ready = find_condition(found.status.conditions, READY)
        current = found.status.observed_generation == found.meta.generation
        return current and ready is not None and ready.status == ConditionStatus.TRUE

    def reassignments(self) -> list[Reassignment]:
        """Return all Reassignments."""
        found = self._objects.list_namespaced_custom_object(_GROUP, _VERSION, NAMESPACE, "reassignments")
        return [Reassignment.from_object(item) for item in found["items"]]

    # -- plans ---------------------------------------------------------------------------------------------------------

    def until(self, condition: Callable[[], object], what: str) -> Any:
        """Wait for `condition`, and meanwhile start operators again if they have ended."""

        def holds() -> object:
            for operator in self.tended:
                operator.tend()
            return condition()

        try:
            return eventually(holds, what, interval=0.3)
        except TimeoutError as error:
            there = [(one.meta.name, one.status.state, one.status.message) for one in self.reassignments()]
            raise FaultError(f"{error}; {there}; {self.operator.said[-1500:]}") from error

    def begin(self) -> None:
        """Create the objects, and the topic of the traffic."""
        spec = {
            "kafka": {"bootstrapServers": self.kafka.bootstrap()},
            "levels": [{"name": level, "nodeLabel": label} for level, label in LEVELS.items()],
            "brokers": {"podSelector": {"matchLabels": BROKER_LABELS}},
            "reassignment": {"throttle": FAST},
        }
        self.make("RackTopology", TOPOLOGY, spec)
        self.topic(TOPIC, placement={"assignment": [list(row) for row in ASSIGNMENTS[0]]})
        self.until(lambda: len(self.topology().status.brokers) == len(self.where), "the operator to know all brokers")

    def topic(self, name: str, **spec: Any) -> None:
        """Create a managed topic with three replicas and wait until it is Ready."""
        config = {"min.insync.replicas": 2}
        reference = {"name": TOPOLOGY}
        one = {"topologyRef": reference, "partitions": PARTITIONS, "replicationFactor": 3, "config": config, **spec}
        self.make("KafkaTopic", name, one)
        self.until(lambda: self.is_ready(name), f"{name} to be Ready")

    def throttle(self, rate: int) -> None:
        """Set the throttle of all plans, including the running one."""
        self.patch("RackTopology", TOPOLOGY, {"spec": {"reassignment": {"throttle": rate}}})

    def wish(self) -> None:
        """Set the next assignment of the topic of the traffic."""
        rows = [list(row) for row in next(self._wishes)]
        self._assign(rows)

    def wish_for_other_leaders(self) -> None:
        """Set the current replicas, with the last one of each partition as preferred leader."""
        rows = [list(state.replicas) for _, state in sorted(self.states(TOPIC).items())]
        self._assign([[row[-1], *row[:-1]] for row in rows])

    def _assign(self, rows: list[list[int]]) -> None:
        spec = {"replicationFactor": len(rows[0]), "placement": {"assignment": rows}}
        self.patch("KafkaTopic", TOPIC, {"spec": spec})

    def approved(self) -> Reassignment:
        """Approve plans until there is a new Reassignment, and return it."""

        def begun() -> Reassignment | None:
            new = [one for one in self.reassignments() if one.meta.uid not in self._ended]
            if not new:
                self._approve()
            return next(iter(new), None)

        found: Reassignment = self.until(begun, "a Reassignment")
        return found

    def _approve(self) -> None:
        topology = self.topology()
        plan = topology.status.plan
        if plan is not None and topology.meta.annotations.get(APPROVE_PLAN) != plan.hash:
            self.patch("RackTopology", TOPOLOGY, {"metadata": {"annotations": {APPROVE_PLAN: plan.hash}}})

    def settled(self) -> None:
        """Approve plans until all wishes are fulfilled. There may be no plan if nothing is left."""

        def compliant() -> bool:
            self._approve()
            return all(one.ended for one in self.reassignments()) and self.is_ready(TOPIC)

        self.until(compliant, f"{TOPIC} to be Ready")
        self._ended |= {one.meta.uid for one in self.reassignments()}
        self.nothing_left_in_kafka(TOPIC)

    def copying(self) -> Reassignment:
        """Approve a plan, wait until it copies, and return its Reassignment."""
        one = self.approved()
        self.until(lambda: self.now(one).status.copying, f"{one.meta.name} to copy")
        return self.now(one)

    def now(self, one: Reassignment) -> Reassignment:
        """Return the current state of a Reassignment."""
        return Reassignment.from_object(self.read("Reassignment", one.meta.name))

    def taker(self, topic: str) -> int:
        """Return a broker that currently gets a replica of a topic."""
        return min(broker for state in self.states(topic).values() for broker in state.adding)

    def carried_out(self, topic: str = TOPIC) -> None:
        """Approve a plan and wait for its success. Raise FaultError if something is left or the topic is not Ready."""
        one = self.approved()
        self.ended(one, ReassignmentState.SUCCEEDED)
        self.moves += self.now(one).status.moves or 0
        self.until(lambda: self.is_ready(topic), f"{topic} to be Ready")

    def mend(self) -> None:
        """Complete everything that is under way after a failed scene."""
        for other in self._operators[1:]:
            other.end()
        self.tended = [self.operator]
        self.operator.send(signal.SIGCONT)
        self.throttle(FAST)
        self.settled()

    def ended(self, one: Reassignment, *states: ReassignmentState) -> str:
        """Wait until a Reassignment ends in one of these states, with nothing left. Return its last message."""
        self.until(lambda: self.now(one).ended, f"the end of {one.meta.name}")
        now = self.now(one)
        if now.status.state not in states:
            raise FaultError(f"{now.status.state}: {now.status.message}")
        self.until(lambda: not self.read("Reassignment", one.meta.name)["metadata"].get("finalizers"), "no finalizer")
        self._ended.add(one.meta.uid)
        self.nothing_left_in_kafka(TOPIC)
        return now.status.message or ""


def killed(operated: Operated, plan: Kills) -> None:
    """Kill operators during plans, which alternately copy replicas and only change leaders."""
    operated.operator.meet(plan.fates(_MOST_STEPS, seconds=6))
    deadline = time.monotonic() + 60 * plan.minutes
    while (before := operated.kills.total()) < plan.kills and time.monotonic() < deadline:
        operated.wish()
        operated.carried_out()
        operated.wish_for_other_leaders()
        operated.carried_out()
        operated.led_by_preferred(TOPIC)
        if operated.kills.total() == before:
            raise FaultError(
                "two plans were completed without a kill, so the names of the steps do not match the operator"
            )
    operated.operator.meet(iter(()))


def _plural(kind: str) -> str:
    return "racktopologies" if kind == "RackTopology" else f"{kind.lower()}s"

"""Faults while an operator moves replicas, one scene each. A scene returns its outcome."""

import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from dev.faults.cluster import PARTITIONS, FaultError, client
from dev.faults.operators import FAST, NAMESPACE, SLOW, TOPIC, Operated
from dev.stack.control_plane import ControlPlane
from dev.stack.nodes import ZONE_LABEL, relabel_node
from rackspan.api.reassignment import Reassignment, ReassignmentState

_API_SERVER = "kube-apiserver"
_HANGING_SECONDS, _STOPPED_SECONDS = 60, 20
_SLOWER = 20_000
"""Bytes per second. The copy has to take longer than the grace period for changed labels."""


def two_operators(operated: Operated) -> str:
    """A second operator with its own Lease runs by mistake. Both act on the same plan."""
    before = operated.logs_made(TOPIC)
    one = _slow(operated)
    other = operated.another("by-mistake")
    other.tend()
    operated.until(lambda: "metrics and probes" in other.said, "the other operator to start")
    time.sleep(10)
    operated.throttle(FAST)
    operated.carried_out()
    if not other.running:
        raise FaultError(f"the other operator has ended: {other.said[-1500:]}")
    other.end()
    copied, moves = operated.logs_made(TOPIC) - before, operated.now(one).status.moves
    if copied != moves:
        raise FaultError(f"{copied} copies started, {moves} planned")
    return f"completed; {copied} copies started, {moves} planned"


def frozen_operator(operated: Operated) -> str:
    """The operator hangs until another one has taken its Lease and continued, and then resumes."""
    one = _slow(operated)
    operated.operator.send(signal.SIGSTOP)
    other = operated.another("other", lease="operator")
    operated.tended = [other]
    operated.throttle(FAST)
    operated.carried_out()
    operated.operator.send(signal.SIGCONT)
    other.end()
    operated.tended = [operated.operator]
    operated.until(lambda: operated.is_ready(TOPIC), "the first operator to resume")
    return f"the other operator took over the Lease: {operated.now(one).status.message}"


def api_server_hangs(operated: Operated) -> str:
    """The API server hangs for a minute."""
    return _without_api_server(
        operated, ControlPlane.freeze_component, ControlPlane.thaw_component, seconds=_HANGING_SECONDS
    )


def api_server_is_stopped(operated: Operated) -> str:
    """The API server ends and refuses connections. It is back after some seconds."""
    return _without_api_server(
        operated, ControlPlane.stop_component, ControlPlane.start_component, seconds=_STOPPED_SECONDS
    )


def object_is_deleted(operated: Operated) -> str:
    """The Reassignment is deleted during the copy."""
    one = _slow(operated)
    operated.delete("Reassignment", one.meta.name)
    _gone(operated, one)
    _again(operated)
    return "reverted before the object was deleted; a new plan was approved and completed"


def object_is_torn_away(operated: Operated) -> str:
    """The Reassignment is deleted during the copy, and its finalizer is removed by hand."""
    one = _slow(operated)
    operated.patch("Reassignment", one.meta.name, {"metadata": {"finalizers": None}})
    operated.delete("Reassignment", one.meta.name)
    _gone(operated, one)
    _again(operated)
    return "throttles removed; reassignments in progress ended in Kafka; a new plan for the rest was completed"


def node_is_relabelled(operated: Operated) -> str:
    """The node of a broker that gets a replica is relabelled to another zone."""
    one = _slow(operated, _SLOWER)
    taker = operated.taker(TOPIC)
    relabel_node(operated.core, f"node-{taker}", {ZONE_LABEL: "elsewhere"})
    said = operated.ended(one, ReassignmentState.STOPPED)
    relabel_node(operated.core, f"node-{taker}", operated.where[taker].labels)
    _again(operated)
    return f"{said}; the old label was restored, and a new plan was completed"


def topic_is_deleted(operated: Operated) -> str:
    """Another client deletes a topic of the plan in Kafka."""
    topic, one = _raised(operated, "gone")
    admin = operated.kafka.admin()
    admin.delete_topics([topic])[topic].result(60)
    said = operated.ended(one, ReassignmentState.FAILED)
    operated.delete("KafkaTopic", topic)
    if "Gone" not in said:
        raise FaultError(said)
    return f"Failed: {said}"


def topic_is_made_anew(operated: Operated) -> str:
    """The owner deletes the KafkaTopic and its topic, and creates them again with more partitions."""
    topic, one = _raised(operated, "anew", deletionPolicy="Delete")
    operated.delete("KafkaTopic", topic)
    admin = operated.kafka.admin()
    operated.until(lambda: topic not in admin.list_topics(timeout=30).topics, f"{topic} to be deleted in Kafka")
    operated.topic(topic, partitions=PARTITIONS + 1)
    operated.throttle(FAST)
    said = operated.ended(one, ReassignmentState.FAILED, ReassignmentState.STOPPED)
    replicas = [len(state.replicas) for state in operated.states(topic).values()]
    if replicas != [3] * (PARTITIONS + 1):
        raise FaultError(f"replicas per partition of the new topic: {replicas}")
    operated.delete("KafkaTopic", topic)
    return f"{said}; the new topic keeps its replicas"


def objects_are_released(operated: Operated) -> str:
    """The operator ends, `rackspan release` releases its objects, and the operator is installed again."""
    one = _slow(operated)
    operated.tended = []
    operated.operator.send(signal.SIGTERM)
    operated.until(lambda: not operated.operator.running, "the operator to end")
    command = [sys.executable, "-m", "rackspan", "release", f"--namespace={NAMESPACE}"]
    command.append(f"--kubeconfig={operated.plane.kubeconfig}")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or operated.now(one).meta.finalizers:
        raise FaultError(f"{done.stdout}{done.stderr}; finalizers: {operated.now(one).meta.finalizers}")
    operated.nothing_left_in_kafka(TOPIC)
    operated.tended = [operated.operator]
    operated.throttle(FAST)
    operated.carried_out()
    said = operated.now(one).status.message
    return f"{done.stdout.strip()}; copies in progress ended in Kafka; installed again: {said}"


def partitions_are_added(operated: Operated) -> str:
    """Another client adds a partition to a topic of the plan in Kafka."""
    topic, one = _raised(operated, "grows")
    admin = operated.kafka.admin()
    admin.create_partitions([client.NewPartitions(topic, PARTITIONS + 1)])[topic].result(60)
    operated.throttle(FAST)
    said = operated.ended(one, ReassignmentState.SUCCEEDED)
    sizes = [len(state.replicas) for _, state in sorted(operated.states(topic).items())]
    if sizes[:PARTITIONS] != [4] * PARTITIONS:
        raise FaultError(f"replicas per partition: {sizes}")
    operated.delete("KafkaTopic", topic)
    return f"Succeeded: {said}; the new partition is not part of the plan"


def controller_is_killed(operated: Operated) -> str:
    """The active controller is killed during the copy, another one takes over, and the first one comes back."""
    one = _slow(operated)
    first = operated.kafka.active_controller()
    operated.kafka.kill_controller(first)
    operated.throttle(FAST)
    operated.carried_out()
    operated.kafka.resume()
    return f"completed with another controller: {operated.now(one).status.message}"


def disk_is_lost(operated: Operated) -> str:
    """The log directory of a new replica goes offline and is back after the next start of the broker."""
    one = _slow(operated)
    taker = operated.taker(TOPIC)
    disk = operated.disk_of(taker, TOPIC)
    away = disk.with_name(f"{disk.name}.away")
    disk.rename(away)
    disk.write_text("no directory")
    operated.until(lambda: operated.has_lost_disk(taker), "the broker to notice")
    operated.throttle(FAST)
    operated.until(lambda: operated.now(one).ended or operated.now(one).status.waiting, "the plan to wait or end")
    said = operated.now(one).status.message
    operated.kafka.stop_broker(taker)
    disk.unlink()
    away.rename(disk)
    operated.kafka.start_broker(taker)
    operated.carried_out()
    return f"{said}; completed after the disk was back"


def _without_api_server(
    operated: Operated,
    goes: Callable[[ControlPlane, str], None],
    comes_back: Callable[[ControlPlane, str], None],
    *,
    seconds: float,
) -> str:
    """The API server is unavailable during a plan for `seconds`. Return the outcome."""
    one = _slow(operated)
    goes(operated.plane, _API_SERVER)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        operated.operator.tend()
        time.sleep(1)
    comes_back(operated.plane, _API_SERVER)
    operated.throttle(FAST)
    operated.carried_out()
    return f"completed: {operated.now(one).status.message}"


def _slow(operated: Operated, rate: int = SLOW) -> Reassignment:
    """Start a plan that copies for a while, and return its Reassignment."""
    operated.throttle(rate)
    operated.wish()
    return operated.copying()


def _again(operated: Operated) -> None:
    """Complete the rest of a wish."""
    operated.throttle(FAST)
    operated.settled()


def _raised(operated: Operated, name: str, **spec: object) -> tuple[str, Reassignment]:
    """Create a topic and raise its replication factor. Return its name and the Reassignment."""
    topic = f"{name}-{secrets.token_hex(3)}"
    operated.topic(topic, **spec)
    operated.fill(topic, 2_000_000)
    operated.throttle(SLOW)
    operated.patch("KafkaTopic", topic, {"spec": {"replicationFactor": 4}})
    return topic, operated.copying()


def _gone(operated: Operated, one: Reassignment) -> None:
    operated.until(
        lambda: one.meta.uid not in {other.meta.uid for other in operated.reassignments()}, "the deletion of the object"
    )


SCENES: dict[str, Callable[[Operated], str]] = {
    "a second operator with a separate Lease": two_operators,
    "the operator hangs, another one takes over, and it resumes": frozen_operator,
    "the API server hangs for a minute": api_server_hangs,
    "the API server is stopped for 20 seconds": api_server_is_stopped,
    "the Reassignment is deleted": object_is_deleted,
    "the Reassignment is deleted without its finalizer": object_is_torn_away,
    "a node is relabelled": node_is_relabelled,
    "a topic of the plan is deleted in Kafka": topic_is_deleted,
    "the owner deletes a topic of the plan and creates it again": topic_is_made_anew,
    "the operator ends, and `rackspan release` releases all objects": objects_are_released,
    "another client adds a partition": partitions_are_added,
    "the active controller of three is killed": controller_is_killed,
    "the disk of a new replica is lost": disk_is_lost,
}

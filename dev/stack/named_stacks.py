"""Named stacks. Later processes find and end a stack by the records in its directory."""

import json
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kubernetes import client

from dev.paths import state_root
from dev.progress import exclusive, say
from dev.stack import assets, kafka_archive, kafka_distribution
from dev.stack.control_plane import ControlPlane, components
from dev.stack.kafka_cluster import KafkaCluster, RackCommand
from dev.stack.kubectl import Kubectl
from dev.stack.nodes import NINE_BROKERS, Site, create_sites
from dev.stack.processes import Processes

DEFAULT_NAME = "dev"
COMMAND = ".venv/bin/python -m dev"
BROKER_NAMESPACE = "kafka"
_RECORD = "stack.json"


class StackError(RuntimeError):
    """The stack is not in the state that the caller expects."""


@dataclass(frozen=True, slots=True)
class Stack:
    """A running control plane and Kafka cluster, with a node and a pod for each broker in namespace `kafka`."""

    directory: Path
    processes: Processes
    control_plane: ControlPlane
    kafka: KafkaCluster
    sites: tuple[Site, ...]

    @property
    def kubectl(self) -> Kubectl:
        return self.control_plane.kubectl

    @property
    def kubeconfig(self) -> Path:
        return self.control_plane.kubeconfig


def up(
    name: str = DEFAULT_NAME,
    where: Sequence[Site] = NINE_BROKERS,
    *,
    extra: Iterable[str] = (),
) -> Stack:
    """Return the running stack of this name, or start one, which stays until `down`.

    Ended processes of a running stack are started again with their data. Its sites do not change.
    """
    directory = directory_of(name)
    with exclusive(directory.with_name(f".{name}.lock")):
        if (running := find(name)) is not None:
            say(f"stack {name!r} is running already")
            running.control_plane.resume()
            running.kafka.resume()
            return running
        down(name)  # remains of a crash or a restart of the machine
        stack = start(directory, Processes.attached(directory), where, extra=extra)
        stack.processes.stay()
        return stack


def start(
    directory: Path,
    processes: Processes,
    where: Sequence[Site],
    *,
    extra: Iterable[str] = (),
    rack_of: Callable[[Site], str | RackCommand] = lambda site: site.path,
    plugins: Sequence[Path] = (),
    meanwhile: Callable[[ControlPlane], None] = lambda _: None,
) -> Stack:
    """Start a stack in a directory with existing Processes, and wait until all of it serves.

    `extra` names additional Kubernetes programs: 'scheduler' is started, 'kubelet' and 'proxy' are only built.
    `plugins` are jars for brokers. `meanwhile` runs while the brokers start, as soon as the control plane has the nodes
    and the pods of the brokers. A RackCommand of `rack_of` may wait for the results of `meanwhile`.
    """
    extra = tuple(extra)
    started = time.monotonic()
    try:
        binaries = assets.ensure_kubernetes(components(extra))
        distribution = kafka_archive.ensure_archive(kafka_distribution.ensure_distribution()).with_plugins(*plugins)
        say(f"starting a control plane and {len(where)} Kafka brokers")
        with ThreadPoolExecutor(max_workers=2) as side_by_side:
            plane = side_by_side.submit(
                ControlPlane.start, directory / "kubernetes", processes, binaries, scheduler="scheduler" in extra
            )
            racks = {site.broker: rack_of(site) for site in where}
            cluster = side_by_side.submit(KafkaCluster.start, directory / "kafka", processes, distribution, racks)
            try:
                control_plane = plane.result()
                with control_plane.api_client() as api:
                    core = client.CoreV1Api(api)
                    namespace: Any = {"metadata": {"name": BROKER_NAMESPACE}}
                    core.create_namespace(namespace)
                    create_sites(core, BROKER_NAMESPACE, where)
                meanwhile(control_plane)
                stack = Stack(directory, processes, control_plane, cluster.result(), tuple(where))
            except BaseException:
                processes.end(grace=0)  # now, so that the other thread stops waiting
                raise
    except BaseException:
        processes.end(grace=0)
        raise
    (directory / _RECORD).write_text(json.dumps([asdict(site) for site in where]))
    say(f"ready after {time.monotonic() - started:.0f} s")
    return stack


def find(name: str = DEFAULT_NAME) -> Stack | None:
    """Return the stack of this name, or None if it is not running or incomplete."""
    directory = directory_of(name)
    processes = Processes.running(directory)
    distribution = kafka_distribution.find_distribution()
    if processes is None or distribution is None or not (directory / _RECORD).exists():
        return None
    where = tuple(Site(**site) for site in json.loads((directory / _RECORD).read_text()))
    distribution = kafka_archive.ensure_archive(distribution)
    plane = ControlPlane.running(directory / "kubernetes", processes)
    cluster = KafkaCluster.running(directory / "kafka", processes, distribution)
    return Stack(directory, processes, plane, cluster, where)


def attach(name: str = DEFAULT_NAME) -> Stack:
    """Return the running stack of this name. Raise StackError if there is none."""
    stack = find(name)
    if stack is None:
        raise StackError(f"stack {name!r} is not running; start it with `{COMMAND} up --name {name}`")
    return stack


def down(name: str = DEFAULT_NAME) -> bool:
    """End the stack of this name and delete its state. Return whether the stack had any state."""
    directory = directory_of(name)
    if not directory.exists():
        return False
    Processes(directory).end(grace=0)  # without grace, because the data is deleted next
    shutil.rmtree(directory)
    return True


def names() -> list[str]:
    """Return the names of the stacks with state, running or not."""
    return sorted(path.name for path in (state_root() / "stacks").glob("*") if path.is_dir())


def directory_of(name: str) -> Path:
    """Return the directory with the state of the stack: kubeconfig, certificates, logs, data."""
    if not name or Path(name).name != name or name.startswith("."):
        raise StackError(f"not a name for a stack: {name!r}")
    return state_root() / "stacks" / name

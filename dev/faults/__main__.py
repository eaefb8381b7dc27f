"""`make faults`: kill `rackspan apply` and the operator, and break Kafka and Kubernetes, on real brokers with traffic.

Each part executes plans. It first kills its processes (SIGKILL) before or after each kind of step, or at a random time.
Then it plays the scenes, which break something one by one. After each of them, the run checks that no message is lost,
and that no reassignment, throttle or finalizer is left.
"""

import argparse
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from dev.faults import apply, operator_scenes, operators
from dev.faults.bench import Bench
from dev.faults.cluster import PARTITIONS, Cluster, FaultError
from dev.faults.kills import Kills, table
from dev.faults.operators import Operated
from dev.stack.assets import ensure_kubernetes
from dev.stack.control_plane import ControlPlane, components
from dev.stack.kafka_archive import ensure_archive
from dev.stack.kafka_cluster import KafkaCluster
from dev.stack.kafka_distribution import find_distribution
from dev.stack.nodes import sites
from dev.stack.processes import Processes
from dev.traffic import Traffic, TrafficError

T = TypeVar("T", bound=Cluster)
SITES = sites("/eu/a/r1", "/eu/b/r1", "/eu/c/r1", "/eu/d/r1", "/eu/e/r1")
CONTROLLERS = 3
PARTS = ("apply", "operator")
FILLED = 2_000_000
"""Bytes per partition before the scenes, so that copies take a while."""


class Run:
    """The options of a run and the number of its failures."""

    def __init__(self, options: argparse.Namespace, kafka: KafkaCluster) -> None:
        self._options = options
        self._kafka = kafka
        self.failures = 0

    def traffic(self, topic: str) -> Traffic:
        """Return traffic for a topic."""
        return Traffic({**self._kafka.client_config(), "log_level": "0"}, topic, PARTITIONS)

    def kills(self) -> Kills:
        """Return the kills of one part."""
        options = self._options
        return Kills(options.kills, options.minutes, options.first, random.Random(options.seed))

    def play(self, cluster: T, scenes: Mapping[str, Callable[[T], str]], again: Callable[[], object]) -> None:
        """Play the selected scenes. `again` restores the cluster after a failed one."""
        chosen = [name for name in scenes if any(words in name for words in self._options.scene or [""])]
        for name in chosen:
            try:
                outcome = scenes[name](cluster)
            except (FaultError, TimeoutError) as error:
                self.failures += 1
                outcome = f"**{error}**"
                again()
            print(f"| {name} | {outcome} |", flush=True)

    def told(self, what: str, lives: int, traffic: Traffic) -> None:
        """Print the result of the traffic and check it."""
        print(
            f"\n{what} in {lives} processes, {traffic.acknowledged:,} messages acknowledged, "
            f"{traffic.matched:,} of them read at their offsets\n",
            flush=True,
        )
        try:
            traffic.check()
        except TrafficError as error:
            self.failures += 1
            print(f"**{error}**\n", flush=True)


def applied(run: Run, kafka: KafkaCluster, directory: Path) -> None:
    """Run the part of the command."""
    bench = Bench(kafka, apply.TOPIC, directory)
    bench.create(apply.TOPIC)
    with run.traffic(apply.TOPIC) as traffic:
        apply.killed(bench, run.kills())
        print(f"{table(bench.kills)}\n", flush=True)
        bench.fill(apply.TOPIC, FILLED)
        run.play(bench, apply.SCENES, lambda: bench.journal.unlink(missing_ok=True))
    bench.lives.close()
    run.told(f"{sum(bench.kills.values())} kills", bench.lives.count, traffic)


def operated(run: Run, kafka: KafkaCluster, plane: ControlPlane, directory: Path) -> None:
    """Run the part of the operator."""
    cluster = Operated(kafka, plane, SITES, directory)
    cluster.begin()
    with run.traffic(operators.TOPIC) as traffic:
        before = cluster.logs_made(operators.TOPIC)
        operators.killed(cluster, run.kills())
        copied = cluster.logs_made(operators.TOPIC) - before
        print(f"{table(cluster.kills)}\n", flush=True)
        print(f"{cluster.moves} replicas to copy, {copied} copies started\n", flush=True)
        if copied != cluster.moves:
            run.failures += 1
        cluster.fill(operators.TOPIC, FILLED)
        run.play(cluster, operator_scenes.SCENES, cluster.mend)
    cluster.close()
    run.told(f"{sum(cluster.kills.values())} kills", cluster.lives, traffic)


def main() -> int:
    """Run the selected parts and print the results as Markdown."""
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("--part", choices=PARTS, action="append", help="only this part (default: both)")
    parser.add_argument("--kills", type=int, default=100, help="number of kills in each part (default: 100)")
    parser.add_argument("--scene", action="append", metavar="WORDS", help="only scenes with these words in their names")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--minutes", type=float, default=15, help="minutes after which a part stops killing (default: 15)"
    )
    parser.add_argument("--first", type=int, default=0, help="number of the step of the first kill")
    options = parser.parse_args()
    distribution = find_distribution()
    if distribution is None:
        sys.exit("make assets first")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, Processes.attached(Path(folder)) as processes:
        racks = {site.broker: site.path for site in SITES}
        kafka = KafkaCluster.start(
            processes.directory / "kafka",
            processes,
            ensure_archive(distribution),
            racks,
            controllers=CONTROLLERS,
            disks=2,
        )
        run = Run(options, kafka)
        for part in options.part or PARTS:
            print(f"## {part}\n", flush=True)
            if part == "apply":
                applied(run, kafka, processes.directory)
            else:
                programs = ensure_kubernetes(components())
                plane = ControlPlane.start(processes.directory / "kubernetes", processes, programs)
                operated(run, kafka, plane, processes.directory)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(
            f"{time.monotonic() - began:.0f} s, of that CPU {used.ru_utime + used.ru_stime:.0f} s without the servers; "
            f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}"
        )
        processes.end(grace=0)
    return 1 if run.failures else 0


if __name__ == "__main__":
    sys.exit(main())

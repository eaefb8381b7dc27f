"""Compare placers with Kafka's own placer: time, balance and fairness.

    .venv/bin/python benchmarks/placement/run.py [--runs 9] [--partitions 200000] [--brokers 1000]

The placers are MultiLevel, Striped and Kafka's StripedReplicaPlacer. They take turns in one run, so that other load on
the machine affects all of them. The placers of Rackspan run in one process, Kafka's placer in another one. CPU time is
that of the whole process. For Java, it includes garbage collection and compilation. Java is warmed up first, and the
start does not count. Kafka's placer uses random offsets. The placers of Rackspan get another seed in each run.

A run places one topic on an empty cluster. It is measured from the request to the replicas of all partitions. Needs
`mvn`, `javac` and `java`.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import numpy as np

from rackspan.core.compliance import judge
from rackspan.core.placement import ClusterView, Placement, PlacementSpec, Placer
from rackspan.core.placement.multilevel import MultiLevel
from rackspan.core.placement.striped import Striped
from rackspan.core.rack_path import format_rack
from rackspan.core.topology import Broker, RackTree

HERE = Path(__file__).parent
REPLICAS = 3
WARM_UP = 10
HEADINGS = (
    "placer",
    "CPU ms, median (range)",
    "ms on the clock",
    "leaders per broker",
    "replicas per broker",
    "partitions unfair",
    "fewest moves to fix",
)


@dataclass(frozen=True)
class Cluster:
    name: str
    tree: RackTree


@dataclass(frozen=True)
class Took:
    """The seconds of one placement: CPU time, and time on the clock."""

    cpu: float
    clock: float


def clusters(brokers: int) -> list[Cluster]:
    def built(name: str, *widths: int) -> Cluster:
        def path(broker: int) -> tuple[str, ...]:
            steps = []
            for level, width in enumerate(widths):
                steps.append(f"{'dzrhs'[level]}{broker % width}")
                broker //= width
            return tuple(steps)

        levels = ("dc", "zone", "rack", "row", "shelf")[: len(widths)]
        return Cluster(name, RackTree(levels, tuple(Broker(b, path(b)) for b in range(brokers))))

    return [
        built("five levels: 2 x 3 x 4 x 5 x 6", 2, 3, 4, 5, 6),
        built("three levels: 5 x 6 racks x 3 rows", 5, 6, 3),
        built("two levels: 5 x 6 racks", 5, 6),
        built("one level: 3 racks", 3),
        built("one level: 30 racks", 30),
    ]


class KafkaPlacer:
    """The Java program with Kafka's placer: one warm process per cluster."""

    def __init__(self, work: Path, cluster: Cluster, partitions: int) -> None:
        self._placement = work / "placement"
        brokers = work / "brokers"
        brokers.write_text("".join(f"{b.id} {format_rack(b.rack or ())}\n" for b in cluster.tree.brokers))
        command = [
            "java",
            "-cp",
            f"{work / 'classes'}:{work / 'jars'}/*",
            "KafkaPlacer",
            brokers,
            partitions,
            REPLICAS,
            WARM_UP,
        ]
        self._process = subprocess.Popen(
            list(map(str, [*command, self._placement])),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def place(self) -> Took:
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        clock, cpu = (int(nanoseconds) / 1e9 for nanoseconds in self._process.stdout.readline().split())
        return Took(cpu, clock)

    def finish(self) -> Placement:
        self._process.stdin.close()
        self._process.wait(timeout=60)
        return Placement(np.loadtxt(self._placement, dtype=np.int32))


def build(work: Path) -> None:
    """Download Kafka's jars and compile the Java program."""
    copy = f"dependency:copy-dependencies -DoutputDirectory={work / 'jars'}".split()
    subprocess.run(["mvn", "-q", "-B", "-f", HERE / "pom.xml", *copy], check=True, stdout=subprocess.DEVNULL)
    javac = ["javac", "-cp", f"{work / 'jars'}/*", "-d", work / "classes", HERE / "KafkaPlacer.java"]
    subprocess.run(javac, check=True)


def placed(placer: Placer, spec: PlacementSpec, tree: RackTree) -> tuple[Placement, Took]:
    clock, cpu = perf_counter(), process_time()
    placement = placer.place(spec, ClusterView(tree))
    return placement, Took(process_time() - cpu, perf_counter() - clock)


def row(name: str, times: list[Took], placement: Placement, tree: RackTree) -> str:
    held = Counter(placement.matrix.ravel().tolist())
    led = Counter(placement.matrix[:, 0].tolist())

    def spread(counts: Counter[int]) -> str:
        values = [counts[broker.id] for broker in tree.brokers]
        return f"{min(values)} to {max(values)}"

    assessment = judge(tree, placement)
    unfair = ", ".join(f"{level} {count:,}" for level, count in assessment.unfair.items())
    cpu = [took.cpu for took in times]
    shown = f"{median(cpu) * 1e3:.0f} ({min(cpu) * 1e3:.0f} to {max(cpu) * 1e3:.0f})"
    clock = f"{median(took.clock for took in times) * 1e3:.0f}"
    return f"| {name} | {shown} | {clock} | {spread(led)} | {spread(held)} | {unfair} | {assessment.moves:,} |"


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        "?",
    )
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr.splitlines()[0]
    return (
        f"{os.cpu_count()} cores ({model}), {memory:.0f} GiB, load {os.getloadavg()[0]:.1f}; {platform.system()}; "
        f"Python {platform.python_version()}, numpy {np.__version__}; Kafka 4.3.1 on {java}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare placers with Kafka's own placer.")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--partitions", type=int, default=200_000)
    parser.add_argument("--brokers", type=int, default=1000)
    options = parser.parse_args()
    missing = [tool for tool in ("mvn", "javac", "java") if not shutil.which(tool)]
    if missing:
        sys.exit(f"not found: {', '.join(missing)}")
    print(
        f"{options.partitions:,} partitions, RF {REPLICAS}, {options.brokers:,} brokers; {options.runs} runs, medians\n"
    )
    print(f"{machine()}\n")
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        build(work)
        for cluster in clusters(options.brokers):
            kafka = KafkaPlacer(work, cluster, options.partitions)
            ours = {"MultiLevel": MultiLevel(), "Striped": Striped()}
            times: dict[str, list[Took]] = {"MultiLevel": [], "Striped": [], "Kafka": []}
            placements = {}
            for run in range(-1, options.runs):
                took = {"Kafka": kafka.place()}
                for name, placer in ours.items():
                    spec = PlacementSpec(options.partitions, REPLICAS, seed=run + 1)
                    placements[name], took[name] = placed(placer, spec, cluster.tree)
                if run >= 0:
                    for name, one in took.items():
                        times[name].append(one)
            placements["Kafka"] = kafka.finish()
            print(f"{cluster.name}\n")
            print(f"| {' | '.join(HEADINGS)} |\n|{'---|' * len(HEADINGS)}")
            for name, all_times in times.items():
                print(row(name, all_times, placements[name], cluster.tree))
            print()


if __name__ == "__main__":
    main()

"""Compare the assignor of the plug-in with Kafka's own server-side assignors: CPU time and locality.

    .venv/bin/python -m benchmarks assignors [--members 1000] [--partitions 10000] [--forks 3] [--shape NAME] [--save]

Times are CPU milliseconds of the thread that runs the assignor. Each JVM first runs the assignor as a warm-up, so that
Java compiles it, and then `runs` times. The result is the median over all JVMs of the medians per JVM. Groups and
topics are the classes of the broker, on an image of the metadata of a cluster.

`reading` only reads the racks of all partitions, which `uniform` and `range` do not do. It is a lower bound for
rack-aware assignors. `near` is the share of partitions that have a replica in the rack of their reader. `moved` is the
number of partitions whose reader has changed. Only the assignor is measured. A broker also writes the new assignment.
"""

import argparse
from statistics import median

from benchmarks import results
from benchmarks.java import program
from benchmarks.machine import Bystanders, cpu_of_ended, describe

KAFKAS = "org.apache.kafka.coordinator.group.assignor."
ASSIGNORS = {
    "rack-aware": "dev.rackspan.kafka.RackAwareAssignor",
    "reading": "AssignorSpeed$Reading",
    "uniform": f"{KAFKAS}UniformAssignor",
    "range": f"{KAFKAS}RangeAssignor",
}
COLUMNS = (
    ("group", ""),
    ("moment", ""),
    ("rack-aware ms", ".2f"),
    ("of which reading racks", ".2f"),
    ("uniform ms", ".2f"),
    ("range ms", ".2f"),
    ("times uniform", ".1f"),
    ("rack-aware near", ".0%"),
    ("uniform near", ".0%"),
    ("rack-aware moved", ",d"),
    ("uniform moved", ",d"),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks assignors", description="Measure server-side assignors."
    )
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--warm-up", type=float, default=2.0, help="CPU seconds of the warm-up")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--forks", type=int, default=3, help="number of JVMs, one after the other")
    parser.add_argument("--shape", help="measure only this shape")
    parser.add_argument("--save", action="store_true", help="write the result to benchmarks/results")
    options = parser.parse_args()
    print(f"{describe()}; {options.members:,} members, {options.partitions:,} partitions\n")
    rows, conditions = [], []
    with program("AssignorSpeed") as ask:
        shapes = [options.shape] if options.shape else [shape for (shape,) in ask("shapes")]
        for shape in shapes:
            bystanders = Bystanders(cpu_of_ended)
            size = (options.members, options.partitions, options.warm_up, options.runs, shape)
            told = [{name: ask(*size, found) for name, found in ASSIGNORS.items()} for _ in range(options.forks)]
            made = _rows(shape, told, options.partitions)
            rows += made
            conditions += [bystanders.seen()] * len(made)
    result = results.new("assignors", COLUMNS, rows, conditions)
    print(result.table())
    if options.save:
        print(f"written to {results.save(result)}")


def _rows(shape: str, told: list[dict[str, list[list[str]]]], partitions: int) -> list[list[results.Cell]]:
    rows: list[list[results.Cell]] = []
    for at, (moment, *_) in enumerate(told[0]["uniform"]):
        ms = {name: median(float(fork[name][at][1]) for fork in told) for name in ASSIGNORS}
        near = {name: int(told[0][name][at][2]) / partitions for name in ASSIGNORS}
        moved = {name: int(told[0][name][at][3]) for name in ASSIGNORS}
        times = [*ms.values(), ms["rack-aware"] / ms["uniform"]]
        rows.append([shape, moment, *times, near["rack-aware"], near["uniform"], moved["rack-aware"], moved["uniform"]])
    return rows


if __name__ == "__main__":
    main()

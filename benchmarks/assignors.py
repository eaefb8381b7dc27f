"""
What the plug-in's assignor takes, and what it brings, beside Kafka's own server-side assignors.

    .venv/bin/python -m benchmarks assignors [--members 1000] [--partitions 10000] [--forks 3] [--shape NAME] [--save]

CPU time of the thread that assigns, in milliseconds: in each of some JVMs the median of `runs`, after others for Java
to compile; and the median of these. Groups and topics are the broker's own classes on an image of a cluster's metadata.
`reading` asks for the racks of all partitions and does nothing else, which `uniform` and `range` do not: no assignor
that looks at racks takes less. `near` are partitions with a replica in the reader's very rack, `moved` those that have
another reader than before. Nothing is measured but the assignor: a broker also writes what comes of it.
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
    ("of it reading racks", ".2f"),
    ("uniform ms", ".2f"),
    ("range ms", ".2f"),
    ("x uniform", ".1f"),
    ("rack-aware near", ".0%"),
    ("uniform near", ".0%"),
    ("rack-aware moved", ",d"),
    ("uniform moved", ",d"),
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks assignors", description="Server-side assignors.")
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--warm-up", type=float, default=2.0, help="CPU seconds before what counts")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--forks", type=int, default=3, help="JVMs, one after the other")
    parser.add_argument("--shape", help="measure this one only")
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

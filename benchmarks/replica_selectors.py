"""The CPU time of a broker to select the replica for a fetch: with the plug-in, with Kafka's selector, and with none.

    .venv/bin/python -m benchmarks selectors [--forks 5] [--save]

Times are CPU nanoseconds per call of the thread that runs the selector. Each JVM first runs a warm-up, so that Java
compiles the selector, and then `runs` batches of 50,000 calls. The result is the median over all JVMs of the medians
per JVM. A broker calls the selector for each partition that it leads, once per fetch of a consumer with `client.rack`.
"""

import argparse
from statistics import median

from benchmarks import results
from benchmarks.java import program
from benchmarks.machine import Bystanders, cpu_of_ended, describe

SELECTORS = {
    "nearest": "dev.rackspan.kafka.NearestReplicaSelector",
    "Kafka's own": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "none": "SelectorSpeed$None",
}
COLUMNS = (("replicas", ""), *((f"{name} ns", ".0f") for name in SELECTORS))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks selectors", description="Measure replica selectors.")
    parser.add_argument("--warm-up", type=float, default=1.0, help="CPU seconds of the warm-up")
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--forks", type=int, default=5, help="number of JVMs, one after the other")
    parser.add_argument("--save", action="store_true", help="write the result to benchmarks/results")
    options = parser.parse_args()
    print(f"{describe()}\n")
    bystanders = Bystanders(cpu_of_ended)
    with program("SelectorSpeed") as ask:
        told = [
            {name: ask(options.warm_up, options.runs, found) for name, found in SELECTORS.items()}
            for _ in range(options.forks)
        ]
    rows: list[list[results.Cell]] = [
        [case, *(median(float(fork[name][at][1]) for fork in told) for name in SELECTORS)]
        for at, (case, _) in enumerate(told[0]["none"])
    ]
    result = results.new("selectors", COLUMNS, rows, [bystanders.seen()] * len(rows))
    print(result.table())
    if options.save:
        print(f"written to {results.save(result)}")


if __name__ == "__main__":
    main()

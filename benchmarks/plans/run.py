"""Compare plans with the proposals of Kafka's `kafka-reassign-partitions --generate`, and measure the time of plans.

Kafka's tool runs in one warm process. Its Admin client reads a snapshot file, and the benchmark parses the output of
--generate. The proposals are random, so the one with the median number of moves is used. Each measurement of the time
runs in a separate process, which reads the snapshot file first.
"""

import argparse
import os

from benchmarks.machine import describe
from benchmarks.plans import quality, shapes, speed
from benchmarks.plans.kafka_tool import kafka_tool


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks plans", description=__doc__)
    parser.add_argument(
        "part", nargs="?", choices=("quality", "speed", "shapes"), help="only this part (default: the first two)"
    )
    parser.add_argument("--repeat", type=int, default=3, help="number of runs; the result is the median (default: 3)")
    parser.add_argument("--partitions", type=int, default=10_000, help="partitions of the comparison (default: 10000)")
    parser.add_argument("--quick", action="store_true", help="one run, 2,000 partitions, times up to 200,000")
    options = parser.parse_args(arguments)
    repeat, partitions = (1, 2000) if options.quick else (options.repeat, options.partitions)
    if options.part == "shapes":
        shapes.run(tuple(shapes.SHAPES), shapes.MANY[0] if options.quick else shapes.MANY[-2], shapes.PATIENCE)
        return
    print(f"{describe()}; load {os.getloadavg()[0]:.1f}\n", flush=True)
    if options.part != "speed":
        with kafka_tool() as tool:
            print(f"## Quality\n\nKafka {tool.version}; {partitions:,} partitions; medians of {repeat}.\n", flush=True)
            quality.run(tool, partitions, repeat)
    if options.part != "quality":
        print("## Speed\n", flush=True)
        speed.run(repeat, speed.COUNTS[:2] if options.quick else speed.COUNTS)


if __name__ == "__main__":
    main()

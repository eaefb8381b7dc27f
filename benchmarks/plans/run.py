"""Plans: against what Kafka's own `kafka-reassign-partitions --generate` proposes, and how fast they are made.

Kafka's tool runs in one warm process; its Admin answers from a snapshot file, and what is read is what --generate
prints. It draws at random, so the median of its proposals by moves counts. Speed is measured in a process of its own
each time, which reads the snapshot file first.
"""

import argparse
import os

from benchmarks.machine import describe
from benchmarks.plans import quality, shapes, speed
from benchmarks.plans.kafka_tool import kafka_tool


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks plans", description=__doc__)
    parser.add_argument(
        "part", nargs="?", choices=("quality", "speed", "shapes"), help="only this part (default the first two)"
    )
    parser.add_argument("--repeat", type=int, default=3, help="runs, of which the median counts (default 3)")
    parser.add_argument("--partitions", type=int, default=10_000, help="of the clusters compared (default 10000)")
    parser.add_argument("--quick", action="store_true", help="one run, 2,000 partitions, no speed above 200,000")
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

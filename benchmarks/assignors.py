"""
What the plug-in's assignor takes, and what it brings, beside Kafka's own server-side assignors.

    .venv/bin/python -m benchmarks assignors [--members 1000] [--partitions 10000] [--runs 100]

CPU time of the thread that assigns, in milliseconds: the median of `runs`, after others for Java to compile. `near` are
partitions with a replica in the reader's very rack, `moved` those that have another reader than before. Nothing is
measured but the assignor: a broker also writes what comes of it.
"""

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

from dev.stack.kafka_distribution import ensure_distribution
from dev.stack.plugins import compile_java, ensure_plugins

from benchmarks.machine import describe

PROGRAM = Path(__file__).with_name("AssignorSpeed.java")
KAFKAS = "org.apache.kafka.coordinator.group.assignor."
ASSIGNORS = ("dev.rackspan.kafka.RackAwareAssignor", f"{KAFKAS}UniformAssignor", f"{KAFKAS}RangeAssignor")


def main() -> None:
    parser = argparse.ArgumentParser(description="Server-side assignors.")
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=100)
    options = parser.parse_args()
    distribution = ensure_distribution()
    jar = ensure_plugins(distribution)
    print(
        f"{describe()}, load {os.getloadavg()[0]:.1f}; {options.members:,} members, {options.partitions:,} partitions\n"
    )
    print(
        "| group | moment | assignor | ms | near | per member | moved |\n|---|---|---|---:|---:|---|---:|", flush=True
    )
    with tempfile.TemporaryDirectory() as scratch:
        classes = Path(scratch) / "classes"
        compile_java(distribution, [PROGRAM], classes, beside=[jar])
        command = distribution.with_plugins(jar, classes).command(
            "AssignorSpeed",
            *(str(number) for number in (options.members, options.partitions, options.runs)),
            *ASSIGNORS,
            jvm=("-Xmx1g",),
        )
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()

"""Read a live cluster in this process: `python -m benchmarks.scans.live_once SERVERS SLICES`.

It uses the reader of scans. It reads the slices one by one, so that the calls can be counted.
"""

import json
import sys
from collections import Counter
from time import perf_counter

from rackspan.jobs.sources.scanned_cluster import live
from rackspan.kafka.admin import ConfluentAdmin
from rackspan.kafka.command_config import command_properties


def main(servers: str, slices: str) -> None:
    _count_calls()
    started = perf_counter()
    cluster = live("benchmark", command_properties(servers))
    reader = cluster.reader
    parts = reader.slices((), int(slices))
    planned, calls = perf_counter() - started, _calls()
    tasks, partitions = [], 0
    for part in parts:
        started = perf_counter()
        partitions += sum(batch.num_rows for batch in reader.read(part))
        tasks.append(perf_counter() - started)
    result = {
        "planning": planned,
        "tasks": tasks,
        "partitions": partitions,
        "driver_calls": calls,
        "task_calls": _calls() - calls,
    }
    print(json.dumps(result))


_COUNTED: Counter[str] = Counter()


def _calls() -> Counter[str]:
    """Return the number of Admin API calls so far, by method."""
    return Counter(_COUNTED)


def _count_calls() -> None:
    run = ConfluentAdmin._run  # noqa: SLF001

    async def counted(self, call):
        method = getattr(call, "func", call)  # a partial has no name
        _COUNTED[method.__qualname__.split(".")[1]] += 1
        return await run(self, call)

    ConfluentAdmin._run = counted  # noqa: SLF001


if __name__ == "__main__":
    main(*sys.argv[1:])

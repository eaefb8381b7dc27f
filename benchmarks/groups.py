"""The time to find the best assignment of a consumer group, by its number of partitions.

    .venv/bin/python -m benchmarks groups [--partitions 2500 5000 10000 20000] [--members 300]

The groups are difficult on purpose: 30 domains and 200 topics, both of unequal sizes, with RF 3. Each member subscribes
to a random twentieth of the topics. In the chain, member i subscribes to topics i and i + 1, and most partitions
are in topic 0, which only member 0 reads. Times are CPU seconds, medians of three runs.
"""

import argparse
import os
from statistics import median
from time import process_time

import numpy as np

from benchmarks.machine import describe
from rackspan.core.consumers.assignors import Readers, assign_evenly

DOMAINS, TOPICS, REPLICAS, RUNS = 30, 200, 3, 3


def group(members: int, subscriptions: int, partitions: int, without_rack: float) -> Readers:
    chance = np.random.default_rng(1)
    subscribed = chance.random((subscriptions, TOPICS)) < 1 / 20
    subscribed[0] |= ~subscribed.any(axis=0)
    sizes = np.arange(1, DOMAINS + 1) ** 2
    domain = chance.choice(DOMAINS, members, p=sizes / sizes.sum())
    domain[chance.random(members) < without_rack] = -1
    near = np.argsort(chance.random((partitions, DOMAINS)), axis=1) < REPLICAS
    topic = np.sort((TOPICS * chance.random(partitions) ** 2).astype(np.int64))
    return Readers(topic, np.arange(partitions), near, domain, subscribed[np.arange(members) % subscriptions])


def chain(members: int, partitions: int) -> Readers:
    chance = np.random.default_rng(1)
    ahead = np.arange(members + 1) - np.arange(members)[:, None]
    near = np.argsort(chance.random((partitions, DOMAINS)), axis=1) < REPLICAS
    topic = np.maximum(np.arange(partitions) - (partitions - members - 1), 0)
    return Readers(topic, np.arange(partitions), near, np.arange(members) % DOMAINS, (ahead == 0) | (ahead == 1))


def seconds(readers: Readers) -> float:
    times = []
    for _ in range(RUNS):
        start = process_time()
        assign_evenly(readers)
        times.append(process_time() - start)
    return median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the search for best assignments of groups.")
    parser.add_argument("--partitions", type=int, nargs="+", default=[2500, 5000, 10_000, 20_000])
    parser.add_argument("--members", type=int, default=300)
    options = parser.parse_args()
    print(f"{describe()}, load {os.getloadavg()[0]:.1f}; {options.members} members\n")
    shapes = [(20, 0.0), (20, 1.0), (options.members, 0.0), (options.members, 0.1)]
    named = [f"{subscriptions} subscriptions, {lacking:.0%} without rack" for subscriptions, lacking in shapes] + [
        "chain"
    ]
    print(f"| partitions | {' | '.join(named)} |\n|{'---|' * (len(named) + 1)}")
    for partitions in options.partitions:
        took = [seconds(group(options.members, number, partitions, lacking)) for number, lacking in shapes]
        took.append(seconds(chain(options.members, partitions)))
        print(f"| {partitions:,} | {' | '.join(f'{time:.1f}' for time in took)} |", flush=True)


if __name__ == "__main__":
    main()

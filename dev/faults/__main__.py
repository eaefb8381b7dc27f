"""
`make faults`: on real brokers, under traffic, `rackspan apply` is killed at its calls, and Kafka breaks under it.

Each trial of kills is a plan whose process is killed twice, before or after a write of the journal or a call that
changes Kafka, or at any moment, and then carried out to its end. After each nothing may be lost or left over.
"""

import argparse
import contextlib
import itertools
import os
import random
import resource
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka import admin as _admin

from dev.faults.bench import Bench, FaultError
from dev.faults.traffic import Traffic
from dev.stack.kafka_archive import ensure_archive
from dev.stack.kafka_cluster import KafkaCluster
from dev.stack.kafka_distribution import find_distribution
from dev.stack.processes import Processes
from dev.waiting import eventually
from rackspan.core.reassignment import TopicPartition

client: Any = _admin  # its type stubs do not export what its documentation names
RACKS = ["/a", "/b", "/c", "/d", "/e"]
PARTITIONS = 2
TOPIC = "faults"
FAST, SLOW = ("--throttle", "50MB/s"), ("--throttle", "150kB/s")
MOST_CALLS = 22
"""A plan of this size makes about as many calls that can be killed, before and after."""


def create(kafka: KafkaCluster, topic: str) -> None:
    """Create a topic of three replicas that takes writes while two are in sync."""
    rows = [[number, number + 1, number + 2] for number in range(PARTITIONS)]
    new = client.NewTopic(topic, PARTITIONS, replica_assignment=rows, config={"min.insync.replicas": "2"})
    admin = kafka.admin()
    admin.create_topics([new])[topic].result(60)


def fill(kafka: KafkaCluster, topic: str, size: int) -> None:
    """Give each partition some bytes, so that copies take a while under a slow throttle."""
    producer = Producer({**kafka.client_config(), "compression.type": "none", "acks": "all"})
    for partition in range(PARTITIONS):
        for _ in range(size // 50_000):
            producer.produce(topic, secrets.token_bytes(50_000), partition=partition)
    if producer.flush(120):
        raise FaultError("the topic could not be filled")


def wishes(bench: Bench) -> Iterator[list[str]]:
    """One plan after the other that moves replicas of every partition."""
    while True:
        yield ["--replication-factor", f"{TOPIC}=4"]
        leaders = {state.replicas[0] for state in bench.states().values()}
        yield ["--drain-broker", str(min(leaders))]
        yield ["--replication-factor", f"{TOPIC}=3"]


def finish(bench: Bench, wish: Sequence[str], *more: str) -> None:
    """Carry a plan out to its end, and check that all is well."""
    code, said = bench.run(*wish, *FAST, *more)
    if code == 2 and "the plan is" in said:
        # The broker that was asked knows more than the one that was asked first.
        wish = bench.approved(*wish[2 : wish.index("--approve")])
        code, said = bench.run(*wish, *FAST, *more)
    if code:
        raise FaultError(f"exit code {code}: {said[-1500:]}")
    bench.nothing_left_over()
    bench.settled(wish)


def killed(bench: Bench, options: argparse.Namespace, chance: random.Random) -> None:
    """Kill plans at each call in turn, and every fifth time at any moment, until there were enough kills."""
    points = (number % MOST_CALLS for number in itertools.count(options.first))
    deadline = time.monotonic() + 60 * options.minutes
    for one in wishes(bench):
        if sum(bench.kills.values()) >= options.kills or time.monotonic() > deadline:
            break
        wish = bench.approved(*one)
        for _ in range(2):
            if chance.random() < 0.2:
                life = bench.start(*wish, *FAST)
                with contextlib.suppress(TimeoutError, ProcessLookupError):
                    time.sleep(chance.uniform(0, 1.5))
                    life.kill()
                if life.ended() < 0:
                    bench.kills["at any moment"] += 1
            else:
                bench.run(*wish, *FAST, kill_at=next(points))
        if bench.journal.exists() or _left(bench, wish):
            finish(bench, wish)
        else:
            bench.nothing_left_over()


def _left(bench: Bench, wish: Sequence[str]) -> bool:
    """Whether the plan is still to be carried out: its last process may have ended before it could be killed."""
    code, said = bench.run(*wish[: wish.index("--approve")], "--dry-run", "-o", "json")
    return code == 0 and '"partitions":[]' not in said.replace('": [', '":[')


def broker_comes_back(bench: Bench) -> str:
    """A broker that takes a replica is killed in the middle, and comes back."""
    wish = _slow_drain(bench)
    life = bench.start(*wish, *SLOW)
    target = eventually(bench.taker, "a copy under way") - 1
    bench.kafka.kill_broker(target)
    eventually(lambda: "BrokerOffline" in life.said, "word of the broker", timeout=120)
    bench.kafka.start_broker(target)
    if life.ended():
        raise FaultError(life.said[-1500:])
    bench.nothing_left_over()
    bench.settled(wish)
    return "waited with BrokerOffline, then carried out whole"


def broker_stays_away(bench: Bench) -> str:
    """A broker that takes a replica is killed in the middle, and does not come back until all is taken back."""
    wish = _slow_drain(bench)
    life = bench.start(*wish, *SLOW, "--patience", "20")
    target = eventually(bench.taker, "a copy under way") - 1
    bench.kafka.kill_broker(target)
    code = life.ended()
    if code != 4 or "BrokerOffline" not in life.said:
        raise FaultError(f"exit code {code}: {life.said[-1500:]}")
    eventually(lambda: not bench.throttles(), "no throttle on those who live")
    code, said = bench.run("--cancel")
    if code not in (0, 4):
        raise FaultError(f"cancelled: exit code {code}: {said[-1500:]}")
    if any(state.under_way for state in bench.states().values()):
        raise FaultError("a reassignment is left over")
    bench.kafka.start_broker(target)
    if bench.journal.exists():
        code, said = bench.run("--cancel")
        if code:
            raise FaultError(f"cancelled again: exit code {code}: {said[-1500:]}")
    bench.nothing_left_over()
    return "exit code 4, saying BrokerOffline; cancelled; its own throttle cleared once it was back"


def controller_is_killed(bench: Bench) -> str:
    """The controller is killed in the middle and started again."""
    wish = _slow_drain(bench)
    life = bench.start(*wish, *SLOW)
    eventually(bench.taker, "a copy under way")
    bench.kafka.processes.kill(f"{bench.kafka.directory.name}.controller")
    bench.kafka.resume()
    if life.ended():
        raise FaultError(life.said[-1500:])
    bench.nothing_left_over()
    bench.settled(wish)
    return "carried out whole"


def topic_is_deleted(bench: Bench) -> str:
    """A topic of the plan is deleted in the middle."""
    topic = f"gone-{secrets.token_hex(3)}"
    create(bench.kafka, topic)
    fill(bench.kafka, topic, 2_000_000)
    wish = bench.approved("--replication-factor", f"{topic}=4", topic=topic)
    life = bench.start(*wish, *SLOW)
    eventually(bench.taker, "a copy under way")
    admin = bench.kafka.admin()
    admin.delete_topics([topic])[topic].result(60)
    code = life.ended()
    if code != 4 or "Gone" not in life.said:
        raise FaultError(f"exit code {code}: {life.said[-1500:]}")
    bench.nothing_left_over()
    return "exit code 4, saying Gone"


def partitions_are_added(bench: Bench) -> str:
    """Somebody else adds a partition to a topic of the plan."""
    topic = f"grows-{secrets.token_hex(3)}"
    create(bench.kafka, topic)
    fill(bench.kafka, topic, 2_000_000)
    wish = bench.approved("--replication-factor", f"{topic}=4", topic=topic)
    life = bench.start(*wish, *SLOW)
    eventually(bench.taker, "a copy under way")
    admin = bench.kafka.admin()
    admin.create_partitions([client.NewPartitions(topic, PARTITIONS + 1)])[topic].result(60)
    if life.ended():
        raise FaultError(life.said[-1500:])
    bench.nothing_left_over()
    sizes = [len(state.replicas) for _, state in sorted(bench.states(topic).items())]
    if sizes[:PARTITIONS] != [4] * PARTITIONS:
        raise FaultError(f"replicas per partition: {sizes}")
    return "carried out whole; the new partition is nobody's plan"


def throttle_of_one_byte(bench: Bench) -> str:
    """A throttle of 1 byte a second, killed, and gone on with a real one."""
    wish = _slow_drain(bench)
    life = bench.start(*wish, "--throttle", "1B/s")
    eventually(lambda: any(state.under_way for state in bench.states().values()), "a copy under way")
    life.kill()
    if life.ended() < 0:
        bench.kills["at any moment"] += 1
    finish(bench, wish)
    return "killed, gone on with 50 MB/s, carried out whole"


def somebody_else_reassigns(bench: Bench) -> str:
    """Somebody else reassigns a partition of the plan before its turn has come."""
    topic = f"theirs-{secrets.token_hex(3)}"
    create(bench.kafka, topic)
    fill(bench.kafka, topic, 2_000_000)
    wish = bench.approved("--replication-factor", f"{topic}=4", topic=topic)
    life = bench.start(*wish, *SLOW, "--max-concurrent-moves", "1")
    eventually(bench.taker, "a copy under way")
    (number,) = set(range(PARTITIONS)) - bench.begun()
    before = set(bench.states(topic)[TopicPartition(topic, number)].replicas)
    theirs = sorted(set(bench.kafka.racks) - before)[:1] + sorted(before)[:1]
    bench.reassigned_by_somebody_else({TopicPartition(topic, number): theirs})
    code = life.ended()
    if code != 4 or "ChangedByOthers" not in life.said:
        raise FaultError(f"exit code {code}: {life.said[-1500:]}")
    replicas = bench.states(topic)[TopicPartition(topic, number)].replicas
    if list(replicas) != theirs:
        raise FaultError(f"theirs became {replicas}")
    bench.nothing_left_over()
    return "exit code 4, saying ChangedByOthers; theirs is as they wanted it, the rest was carried out"


def _slow_drain(bench: Bench) -> list[str]:
    """A plan that copies for a while."""

    def all_have_three() -> bool:
        return all(len(state.replicas) == 3 for state in bench.states().values())

    if not all_have_three():
        finish(bench, bench.approved("--replication-factor", f"{TOPIC}=3"))
        eventually(all_have_three, "three replicas")
    return bench.approved("--drain-broker", str(min(state.replicas[0] for state in bench.states().values())))


SCENES: dict[str, Callable[[Bench], str]] = {
    "a broker is killed in the middle and comes back": broker_comes_back,
    "a broker is killed in the middle and stays away": broker_stays_away,
    "the controller is killed and started again": controller_is_killed,
    "a topic of the plan is deleted": topic_is_deleted,
    "somebody else adds a partition": partitions_are_added,
    "a throttle of 1 byte/s": throttle_of_one_byte,
    "somebody else reassigns a partition of the plan": somebody_else_reassigns,
}


def main() -> int:
    """Run all of it, and print what came of it as Markdown."""
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=30, help="no further kills after so long")
    parser.add_argument("--first", type=int, default=0, help="number of the call of the first kill")
    parser.add_argument("--no-scenes", action="store_true", help="kills only")
    options = parser.parse_args()
    distribution = find_distribution()
    if distribution is None:
        sys.exit("make assets first")
    began, failures = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder, Processes.attached(Path(folder)) as processes:
        kafka = KafkaCluster.start(processes.directory / "kafka", processes, ensure_archive(distribution), RACKS)
        create(kafka, TOPIC)
        bench = Bench(kafka, TOPIC, processes.directory)
        with Traffic(kafka.client_config(), TOPIC, PARTITIONS) as traffic:
            killed(bench, options, random.Random(options.seed))
            print(f"| killed | times |\n|---|---|\n{_rows(sorted(bench.kills.items()))}\n", flush=True)
            fill(kafka, TOPIC, 2_000_000)
            for name, scene in () if options.no_scenes else SCENES.items():
                try:
                    outcome = scene(bench)
                except (FaultError, TimeoutError) as error:
                    failures += 1
                    outcome = f"**{error}**"
                    bench.journal.unlink(missing_ok=True)
                print(f"| {name} | {outcome} |", flush=True)
        bench.close()
        lost = [*traffic.errors[:5]]
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(
            f"\n{sum(bench.kills.values())} kills in {bench.lives} processes, {traffic.acknowledged:,} messages "
            f"acknowledged, {traffic.matched:,} of them read at their offsets, {len(traffic.errors)} errors; "
            f"{time.monotonic() - began:.0f} s, of that CPU {used.ru_utime + used.ru_stime:.0f} s without the brokers; "
            f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}"
        )
        for one in lost:
            print(f"lost: {one}")
        processes.end(grace=0)
    return 1 if failures or lost or traffic.matched != traffic.acknowledged else 0


def _rows(cells: Sequence[tuple[str, int]]) -> str:
    return "\n".join(f"| {name} | {number} |" for name, number in cells)


if __name__ == "__main__":
    sys.exit(main())

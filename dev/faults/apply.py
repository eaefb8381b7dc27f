"""Scenes for `rackspan apply`: it is killed at its calls, and Kafka breaks during a plan."""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence

from dev.faults.bench import Bench
from dev.faults.cluster import PARTITIONS, FaultError, client
from dev.faults.kills import Kills
from dev.faults.lives import AT_ANY_MOMENT, Life
from dev.waiting import eventually
from rackspan.core.reassignment import TopicPartition

TOPIC = "applied"
FAST, SLOW = ("--throttle", "50MB/s"), ("--throttle", "150kB/s")
MOST_CALLS = 22
"""About the number of steps, before and after calls, in a plan of this size."""


def wishes(bench: Bench) -> Iterator[list[str]]:
    """Yield wishes for ever. Each one moves replicas of every partition or changes the leaders."""
    while True:
        yield ["--replication-factor", f"{TOPIC}=4"]
        yield bench.for_other_leaders()
        leaders = {state.replicas[0] for state in bench.states(TOPIC).values()}
        yield ["--drain-broker", str(min(leaders))]
        yield ["--replication-factor", f"{TOPIC}=3"]


def finish(bench: Bench, wish: Sequence[str], *more: str) -> None:
    """Apply a plan to its end and check the result."""
    code, said = bench.run(*wish, *FAST, *more)
    if code == 2 and "the plan is" in said:
        # The queried broker knows more than the one that was queried for the plan.
        wish = bench.approved(*wish[2 : wish.index("--approve")])
        code, said = bench.run(*wish, *FAST, *more)
    if code:
        raise FaultError(f"exit code {code}: {said[-1500:]}")
    bench.nothing_left_over()
    bench.settled(wish)


def killed(bench: Bench, plan: Kills) -> None:
    """Kill each plan twice until there were enough kills."""
    fates = plan.fates(MOST_CALLS, seconds=1.5)
    deadline = time.monotonic() + 60 * plan.minutes
    for one in wishes(bench):
        if sum(bench.kills.values()) >= plan.kills or time.monotonic() > deadline:
            break
        wish = bench.approved(*one)
        for _ in range(2):
            bench.run(*wish, *FAST, fate=next(fates))
        if bench.journal.exists() or _left(bench, wish):
            finish(bench, wish)
        else:
            bench.nothing_left_over()
        if "--filename" in wish:
            bench.led_by_preferred(TOPIC)


def _left(bench: Bench, wish: Sequence[str]) -> bool:
    """Return whether the plan is incomplete. Its last process may have ended before the kill."""
    code, said = bench.run(*wish[: wish.index("--approve")], "--dry-run", "-o", "json")
    return code == 0 and '"partitions":[]' not in said.replace('": [', '":[')


def broker_comes_back(bench: Bench) -> str:
    """A broker that gets a replica is killed during the copy and comes back."""
    wish = _slow_drain(bench)
    life = bench.start(*wish, *SLOW)
    target = eventually(bench.taker, "a copy under way") - 1
    bench.kafka.kill_broker(target)
    eventually(lambda: "BrokerOffline" in life.said, "the condition of the broker")
    bench.kafka.start_broker(target)
    if life.ended():
        raise FaultError(life.said[-1500:])
    bench.nothing_left_over()
    bench.settled(wish)
    return "waited with BrokerOffline, then completed"


def broker_stays_away(bench: Bench) -> str:
    """A broker that gets a replica is killed during the copy and comes back only after the plan is cancelled."""
    wish = _slow_drain(bench)
    life = bench.start(*wish, *SLOW, "--patience", "20")
    target = eventually(bench.taker, "a copy under way") - 1
    bench.kafka.kill_broker(target)
    code = life.ended()
    if code != 4 or "BrokerOffline" not in life.said:
        raise FaultError(f"exit code {code}: {life.said[-1500:]}")
    eventually(lambda: not bench.throttles(TOPIC), "no throttle on running brokers")
    code, said = bench.run("--cancel", "--patience", "20")
    if code not in (0, 4):
        raise FaultError(f"cancelled: exit code {code}: {said[-1500:]}")
    if any(state.under_way for state in bench.states(TOPIC).values()):
        raise FaultError("a reassignment is left over")
    bench.kafka.start_broker(target)
    if bench.journal.exists():
        code, said = bench.run("--cancel")
        if code:
            raise FaultError(f"cancelled again: exit code {code}: {said[-1500:]}")
    bench.nothing_left_over()
    return "exit code 4 with BrokerOffline; cancelled; the throttle of the broker was removed after its return"


def controller_is_killed(bench: Bench) -> str:
    """The active controller is killed during the copy, another one takes over, and the first one comes back."""
    wish = _slow_drain(bench)
    life = bench.start(*wish, *SLOW)
    eventually(bench.taker, "a copy under way")
    bench.kafka.kill_controller(bench.kafka.active_controller())
    code = life.ended()
    bench.kafka.resume()
    if code:
        raise FaultError(life.said[-1500:])
    bench.nothing_left_over()
    bench.settled(wish)
    return "completed with another controller"


def topic_is_deleted(bench: Bench) -> str:
    """A topic of the plan is deleted during the copy."""
    topic, life = _raised(bench, "gone")
    admin = bench.kafka.admin()
    admin.delete_topics([topic])[topic].result(60)
    code = life.ended()
    if code != 4 or "Gone" not in life.said:
        raise FaultError(f"exit code {code}: {life.said[-1500:]}")
    bench.nothing_left_over()
    return "exit code 4 with Gone"


def partitions_are_added(bench: Bench) -> str:
    """Another client adds a partition to a topic of the plan."""
    topic, life = _raised(bench, "grows")
    admin = bench.kafka.admin()
    admin.create_partitions([client.NewPartitions(topic, PARTITIONS + 1)])[topic].result(60)
    if life.ended():
        raise FaultError(life.said[-1500:])
    bench.nothing_left_over()
    sizes = [len(state.replicas) for _, state in sorted(bench.states(topic).items())]
    if sizes[:PARTITIONS] != [4] * PARTITIONS:
        raise FaultError(f"replicas per partition: {sizes}")
    return "completed; the new partition is not part of the plan"


def throttle_of_one_byte(bench: Bench) -> str:
    """A plan with a throttle of 1 byte per second is killed and continued with a normal throttle."""
    wish = _slow_drain(bench)
    life = bench.start(*wish, "--throttle", "1B/s")
    eventually(lambda: any(state.under_way for state in bench.states(TOPIC).values()), "a copy under way")
    life.kill()
    if life.ended() < 0:
        bench.kills[AT_ANY_MOMENT] += 1
    finish(bench, wish)
    return "killed, continued with 50 MB/s, completed"


def somebody_else_reassigns(bench: Bench) -> str:
    """Another client reassigns a partition of the plan before the plan does."""
    topic, life = _raised(bench, "theirs", "--max-concurrent-moves", "1")
    (number,) = set(range(PARTITIONS)) - bench.begun()
    before = set(bench.states(topic)[TopicPartition(topic, number)].replicas)
    theirs = sorted(set(bench.kafka.racks) - before)[:1] + sorted(before)[:1]
    bench.reassigned_by_somebody_else({TopicPartition(topic, number): theirs})
    code = life.ended()
    if code != 4 or "ChangedByOthers" not in life.said:
        raise FaultError(f"exit code {code}: {life.said[-1500:]}")
    replicas = bench.states(topic)[TopicPartition(topic, number)].replicas
    if list(replicas) != theirs:
        raise FaultError(f"the reassignment of the other client became {replicas}")
    bench.nothing_left_over()
    return "exit code 4 with ChangedByOthers; the other reassignment is unchanged, the rest was completed"


def _raised(bench: Bench, name: str, *more: str) -> tuple[str, Life]:
    """Create a topic and raise its replication factor. Return its name and the process."""
    topic = f"{name}-{secrets.token_hex(3)}"
    bench.create(topic)
    bench.fill(topic, 2_000_000)
    life = bench.start(*bench.approved("--replication-factor", f"{topic}=4", topic=topic), *SLOW, *more)
    eventually(bench.taker, "a copy under way")
    return topic, life


def _slow_drain(bench: Bench) -> list[str]:
    """Return the wish for a drain that copies for a while."""

    def all_have_three() -> bool:
        return all(len(state.replicas) == 3 for state in bench.states(TOPIC).values())

    if not all_have_three():
        finish(bench, bench.approved("--replication-factor", f"{TOPIC}=3"))
        eventually(all_have_three, "three replicas")
    return bench.approved("--drain-broker", str(min(state.replicas[0] for state in bench.states(TOPIC).values())))


SCENES: dict[str, Callable[[Bench], str]] = {
    "a broker is killed during the copy and comes back": broker_comes_back,
    "a broker is killed during the copy and stays offline": broker_stays_away,
    "the active controller of three is killed": controller_is_killed,
    "a topic of the plan is deleted": topic_is_deleted,
    "another client adds a partition": partitions_are_added,
    "a throttle of 1 byte/s": throttle_of_one_byte,
    "another client reassigns a partition of the plan": somebody_else_reassigns,
}

"""What a fault run needs of a cluster and of the command: lives, wishes, and what has to hold after each of them."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dev.stack.kafka_cluster import KafkaCluster
from dev.waiting import eventually
from rackspan.core.reassignment import PartitionState, Setting, SettingKind, TopicPartition
from rackspan.core.reassignment.throttles import FOLLOWERS, LEADERS, RATES
from rackspan.kafka.reassignments import KafkaReassignments


class FaultError(AssertionError):
    """Something is lost, or left over."""


class Life:
    """A process of `rackspan` that runs."""

    def __init__(self, server: "subprocess.Popen[str]", out: Path, killed: Path) -> None:
        self._server = server
        self._out = out
        self._killed = killed
        self.pid = int(self._line())

    def ended(self) -> int:
        """Wait for its end. Gives the exit code, negative for a signal."""
        return int(self._line())

    def kill(self) -> None:
        """End it, if it still lives."""
        os.kill(self.pid, signal.SIGKILL)

    @property
    def said(self) -> str:
        """All that it has printed."""
        return self._out.read_text()

    @property
    def killed_at(self) -> str:
        """The call at which it ended itself."""
        return self._killed.read_text() if self._killed.exists() else "at any moment"

    def _line(self) -> str:
        assert self._server.stdout is not None
        line = self._server.stdout.readline()
        if not line:
            raise FaultError("the process that forks lives has ended")
        return line


class Bench:
    """The command on one topic of a cluster, and what is checked after each trial."""

    def __init__(self, kafka: KafkaCluster, topic: str, directory: Path) -> None:
        self.kafka = kafka
        self.topic = topic
        self.journal = directory / "journal.json"
        self.kills: Counter[str] = Counter()
        self.lives = 0
        self._directory = directory
        self._server = subprocess.Popen(
            [sys.executable, "-m", "dev.faults.victim"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def close(self) -> None:
        """End the process that forks lives."""
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait(30)

    def start(self, *arguments: str, kill_at: int | None = None) -> Life:
        """Start `rackspan apply` with its journal here; `kill_at` is the number of the call at which it ends itself."""
        self.lives += 1
        out, killed = self._directory / "out", self._directory / "killed"
        cluster = ("--bootstrap-server", self.kafka.bootstrap(), "--journal", str(self.journal))
        life = {
            "arguments": ["apply", *cluster, *arguments],
            "kill_at": kill_at,
            "out": str(out),
            "killed": str(killed),
        }
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(life) + "\n")
        self._server.stdin.flush()
        return Life(self._server, out, killed)

    def run(self, *arguments: str, kill_at: int | None = None) -> tuple[int, str]:
        """Let one life end by itself. Gives its exit code and what it said; counts it where it was killed."""
        life = self.start(*arguments, kill_at=kill_at)
        code = life.ended()
        if code == -signal.SIGKILL:
            self.kills[life.killed_at] += 1
        return code, life.said

    def approved(self, *wish: str, topic: str | None = None) -> list[str]:
        """Wishes for a topic, with the approval of the plan of now, once every broker tells the same."""
        wishes = ["--topic", topic or self.topic, *wish]

        def planned() -> str | None:
            code, said = self.run(*wishes, "--dry-run", "-o", "json")
            lines = [line for line in said.splitlines() if line.startswith("{")] or ["{}"]
            try:
                plan = json.loads(said) if said.startswith("{") else json.loads(lines[0])
            except ValueError:
                return None
            return plan["hash"] if code == 0 and plan.get("partitions") else None

        return [*wishes, "--approve", str(eventually(planned, f"a plan for {wishes}", timeout=90))]

    def states(self, topic: str | None = None) -> Mapping[TopicPartition, PartitionState]:
        """A topic's partitions."""
        found: Mapping[TopicPartition, PartitionState] = self._asked(
            lambda admin: admin.partitions([topic or self.topic])
        )
        return found

    def throttles(self) -> Mapping[Setting, Any]:
        """What is set of throttles on the brokers that answer, and on the topic."""
        some = [
            *(Setting(SettingKind.BROKER, str(broker), key) for broker in self.kafka.broker_pids() for key in RATES),
            *(Setting(SettingKind.TOPIC, self.topic, key) for key in (LEADERS, FOLLOWERS)),
        ]
        found = self._asked(lambda admin: admin.settings(some))
        return {one: value for one, value in found.items() if value is not None}

    def reassigned_by_somebody_else(self, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Reassign partitions as another tool does."""
        wanted = {at: tuple(replicas) for at, replicas in targets.items()}
        outcomes = self._asked(lambda admin: admin.alter(wanted))
        if any(outcomes.values()):
            raise FaultError(f"somebody else's reassignment was refused: {outcomes}")

    def taker(self) -> int:
        """One more than the id of a broker that the journal says shall take a replica, 0 while there is none."""
        if not self.journal.exists():
            return 0
        record = json.loads(self.journal.read_text())
        before = {(topic, change[0]): change[1] for topic, some in record["changes"].items() for change in some}
        new = [set(replicas).difference(before[topic, number]) for topic, number, replicas in record["started"]]
        return max((broker + 1 for brokers in new for broker in brokers), default=0)

    def begun(self) -> set[int]:
        """Partitions of which the journal says that a replica list was asked for."""
        return {number for _, number, _ in json.loads(self.journal.read_text())["started"]}

    def nothing_left_over(self) -> None:
        """Raise where a reassignment, a throttle or a journal is left."""
        eventually(lambda: not self._under_way(), "no reassignment under way", timeout=90)
        eventually(lambda: not self.throttles(), "no throttle", timeout=90)
        if self.journal.exists():
            raise FaultError("the journal is still there")

    def settled(self, wish: Sequence[str]) -> None:
        """Raise where the wish has not come true."""
        without = wish[: wish.index("--approve")]

        def done() -> bool:
            code, said = self.run(*without, "--dry-run", "-o", "json")
            return code == 0 and '"partitions": []' in said.replace('"partitions":[]', '"partitions": []')

        eventually(done, f"nothing more to do for {without}", timeout=90)

    def _under_way(self) -> list[TopicPartition]:
        return [at for at, state in self.states().items() if state.under_way]

    def _asked(self, question: Callable[[KafkaReassignments], Any]) -> Any:
        async def asked() -> Any:
            admin = KafkaReassignments(self.kafka.client_config())
            try:
                return await question(admin)
            finally:
                await admin.close()

        return asyncio.run(asked())
